//! What a single reading that somebody gave says: how full the redo log was then, and what else says that pages are written too slowly.

use spindoctor_model::number::{bytes, whole, whole_percent};
use spindoctor_model::{Evidence, Finding, Remedy, ServerVersion, Window};

use super::filling::{checkpoint_ages, limit, redo_per_s};
use super::{AT_LIMIT, CAUSE, larger_log_anywhere};
use crate::causes::free_page_wait;
use crate::draft::Draft;
use crate::rank::{NOTE, WARNING_FROM};
use crate::since_start;

/// From this share of the limit on InnoDB flushes everything old at once (15/16 of it, `max_modified_age_sync`), whatever else is read.
const FULL: f64 = 15.0 / 16.0;

/// The page cleaner keeps as many pages free for each instance of the pool as `innodb_lru_scan_depth` says: 1024, of MariaDB 1536. Fewer
/// than these are what is left when it cannot. Chosen.
const FREE_PAGES: f64 = 100.0;

/// A pool of fewer pages may never have more free ones. Chosen.
const POOL_PAGES: f64 = 4_096.0;

/// `innodb_max_dirty_pages_pct` was 75 to MySQL 5.7, and is 90: from there on the page cleaner flushes as hard as it may.
const DIRTY: f64 = 0.75;

/// Waits for a free page since the start that are no chance of a busy hour. Chosen.
const WAITS_FOR_FREE: f64 = 1_000.0;

/// How full the log was, where nothing says how fast it is filled: a warning from 15/16 of the limit on, or where the pool shows that
/// pages are written too slowly, and else a note.
pub(super) fn full(window: &Window) -> Option<Finding> {
    if !window.is_given() || redo_per_s(window).is_ok() {
        return None;
    }
    let (ages, age_by) = checkpoint_ages(window)?;
    let (_, age) = ages.last().copied()?;
    let (limit, limit_by) = limit(window)?;
    let ratio = age / limit;
    // One that would be larger than the whole log is of another server, or of another size of it.
    if !(AT_LIMIT..=OF_ANOTHER_LOG).contains(&ratio) {
        return None;
    }
    let signs = signs(window);
    // The metric is that age itself.
    let full = if limit_by.ends_with("log_max_modified_age_sync") { 1.0 } else { FULL };
    let score = if ratio >= full || !signs.is_empty() { WARNING_FROM } else { NOTE };
    let files = match is_of_one_file(window) {
        true => "",
        false => {
            " How many log files there are was not given, and one is counted: SHOW GLOBAL VARIABLES LIKE 'innodb_log_files_in_group' (2 by \
             default to MySQL 5.7 and MariaDB 10.4)."
        }
    };
    // The log may be twice as large, and then nothing is wrong.
    let score = if files.is_empty() || !signs.is_empty() { score } else { NOTE };
    Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "The redo log is full: {} since the last checkpoint, {} of what is usable",
                bytes(age),
                whole_percent(ratio.min(1.0))
            ),
        )
        .why(format!(
            "From 15/16 of the limit on InnoDB writes all old pages at once, and at the limit each session that changes rows waits for them. One \
             reading says that it was so then, and not for how long.{files}"
        ))
        .evidence(
            Evidence::new("checkpoint age, share of the limit", ratio, "ratio", age_by).expected("< 0.87"),
        )
        .evidence(Evidence::new("limit of the checkpoint age", limit, "bytes", limit_by))
        .evidence_all(signs.into_iter())
        .evidence_if(
            window
                .variable_number("innodb_io_capacity")
                .map(|per_s| Evidence::new("innodb_io_capacity", per_s, "1/s", "SHOW GLOBAL VARIABLES")),
        )
        .remedy(larger_log_anywhere())
        .remedy(pages_sooner(window))
        .explains(&[free_page_wait::CAUSE.name])
        .elsewhere()
        .finding(),
    )
}

/// The limit is four fifths of the files of MySQL to 8.0.29 and of MariaDB, and a little more of a later capacity: no age is beyond the
/// whole of it.
const OF_ANOTHER_LOG: f64 = 1.3;

/// True where the size of the log is known whole: by the server's own limit, by its capacity, or by the number of files.
fn is_of_one_file(window: &Window) -> bool {
    let by_files = limit(window).is_some_and(|(_, by)| by.contains("innodb_log_file_size"));
    let version = window.server.version;
    !by_files
        || window.variable_number("innodb_log_files_in_group").is_some()
        || version.is_some_and(|version| version.mariadb_at_least(10, 5, 0))
}

/// True for a server that frees pages ahead of need (innodb_lru_scan_depth, MySQL 5.6.3). Of an older one the list of free pages is empty as
/// a rule, once the pool is full.
fn keeps_pages_free(window: &Window) -> bool {
    let keeps =
        |version: ServerVersion| version.mysql_at_least(5, 6, 3) || version.mariadb_at_least(10, 0, 0);
    window.server.version.is_none_or(keeps)
}

/// What else says that pages are written too slowly.
fn signs(window: &Window) -> Vec<Evidence> {
    let pool = window.latest(|sample| &sample.server.innodb_status).map(|status| &status.buffer_pool);
    let (text, status) = ("SHOW ENGINE INNODB STATUS", "SHOW GLOBAL STATUS");
    let of_pool = |count: Option<u64>, name: &str| {
        count.map(|count| (count as f64, text)).or_else(|| Some((window.status(name)?, status)))
    };
    let all = of_pool(pool.and_then(|pool| pool.pages), "Innodb_buffer_pool_pages_total")
        .map(|(pages, _)| pages)
        .filter(|&pages| pages > 0.0);
    let free = of_pool(pool.and_then(|pool| pool.free_pages), "Innodb_buffer_pool_pages_free")
        .filter(|&(free, _)| free < FREE_PAGES && all.is_none_or(|all| all >= POOL_PAGES))
        .filter(|_| keeps_pages_free(window))
        .map(|(free, by)| {
            Evidence::new("free pages of the pool", free, "", by).expected(format!(">= {FREE_PAGES:.0}"))
        });
    let dirty = of_pool(pool.and_then(|pool| pool.dirty_pages), "Innodb_buffer_pool_pages_dirty")
        .and_then(|(dirty, by)| Some((dirty / all?, by)))
        .filter(|&(ratio, _)| ratio >= DIRTY)
        .map(|(ratio, by)| {
            Evidence::new("dirty pages of the pool", ratio, "ratio", by).expected(format!("< {DIRTY}"))
        });
    let waiting = pool
        .map(|pool| pool.pending_lru_writes.unwrap_or(0) + pool.pending_single_page_writes.unwrap_or(0))
        .filter(|&writes| writes > 0)
        .map(|writes| Evidence::new("pages being written to get free ones", writes as f64, "", text));
    let waited = window
        .status("Innodb_buffer_pool_wait_free")
        .filter(|&waits| waits >= WAITS_FOR_FREE)
        .map(|waits| Evidence::new("waits for a free page since the start", whole(waits), "", status));
    [free, dirty, waiting, waited].into_iter().flatten().collect()
}

/// What lets the background flush sooner, where the disk has room.
fn pages_sooner(window: &Window) -> Remedy {
    let now = window.variable_number("innodb_io_capacity");
    let now = now.map_or_else(String::new, |per_s| format!(" (now {per_s:.0})"));
    since_start::look(
        format!(
            "SHOW ENGINE INNODB STATUS\\G twice, ten seconds apart, iostat -x 1 beside it; where the disk idles, a larger innodb_io_capacity{now} \
             and innodb_io_capacity_max"
        ),
        "Two readings say how fast the log is filled. The page cleaner writes no more pages a second than innodb_io_capacity allows until the \
         log is nearly full; where the disk is busy all the time, it is the limit.",
    )
}
