//! Statements that walk over deleted rows that purge may not take away yet. No counter has these rows: InnoDB counts what it hands on.

use spindoctor_model::number::whole;
use spindoctor_model::stack::Observation;
use spindoctor_model::{Evidence, Profile, Window};

use super::views::Oldest;
use super::{ENOUGH_SAMPLES, OLD_VERSIONS, OLDER_THAN_WORK_S, oldest};
use crate::below::Below;
use crate::time_model::tables;

/// Functions that look for the next row that a statement may see (row0sel.cc): the second one up to MySQL 5.6 and MariaDB 10.1.
const SEARCH: &[&str] = &["row_search_mvcc", "row_search_for_mysql"];

/// Callers whose rows no counter has, deleted or not: COUNT(*) of a whole table (MySQL 5.7), CHECK TABLE, the memcached plugin.
const UNCOUNTED: &[&str] = &[
    "row_scan_index_for_mysql",
    "row_check_index",
    "ha_innobase::records",
    "ha_innobase::check",
    "ib_cursor_",
];

/// Beginnings of functions in which the search passes over rows for another reason: conditions on the index, and rows that others lock.
const PASSED_OVER: &[&str] = &[
    "row_search_idx_cond_check",
    "innobase_index_cond",
    "handler_index_cond_check",
    "handler_rowid_filter_check",
    "Item_",
    "Arg_comparator::",
    "lock_clust_rec_read_check_and_lock",
    "lock_sec_rec_read_check_and_lock",
    "lock_rec_lock",
    "sel_set_rec_lock",
];

/// Beginnings of functions in which one row that is handed on may cost as much: long columns, pages that are read or unpacked.
const OF_ONE_ROW: &[&str] = &[
    "row_sel_store_",
    "lob::read",
    "btr_copy_externally_stored_field",
    "btr_rec_copy_externally_stored_field",
    "buf_read_page",
    "buf_zip_decompress",
];

/// From this part of the server's CPU samples on, 0 to 1, the walk is worth a finding. Chosen.
const WALKS: f64 = 0.20;

/// From here on rows are passed over that no counter has, microseconds of CPU for each row that was read: an ordinary row takes about
/// one. By judgement; six sessions that polled a queue of 400,000 deleted rows took 560.
const US_PER_ROW: f64 = 50.0;

/// From this part of the search on, 0 to 1, what passes rows over is another reason. Chosen: a cheap condition is a quarter of it.
const OTHER_REASON: f64 = 0.10;

/// Rows that the server asked its engines for, and on MariaDB those that a condition on the index was tried on.
const ASKED_FOR: &[&str] = &[
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_deleted",
    "Handler_read_rnd_next",
    "Handler_icp_attempts",
];

/// The walk over deleted rows, where it is worth a finding.
pub(super) struct Deleted {
    /// Part of the server's CPU samples, 0 to 1.
    share: f64,
    /// Part of those of statements, 0 to 1.
    pub(super) of_statements: f64,
    us_per_row: f64,
    rows_per_s: f64,
}

impl Deleted {
    /// None where no transaction is old enough to keep rows.
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let oldest = oldest(window, OLDER_THAN_WORK_S)?;
        let profile = window.profile.value()?;
        let samples = profile.samples();
        let holder = thread_os_id(window, &oldest);
        let count = |stacks: &Below| {
            let such = |one: &&Observation| {
                stacks.has(one) && one.spin.is_none() && !is_run_by(profile, one, holder)
            };
            samples.iter().filter(such).count() as f64
        };
        let searching = count(&Below::such(profile, is_search));
        let passed_over =
            count(&Below::such(profile, |names| is_search(names) && is_within(names, PASSED_OVER)));
        let walking = count(&Below::such(profile, is_walk));
        let statements = count(&Below::new(profile, tables::STATEMENT));
        let share = walking / (samples.len() as f64).max(1.0);
        let rows_per_s = rows_per_s(window)?;
        let cpus = share * profile.process_cpu_us as f64 / 1e6 / profile.seconds.max(1.0);
        let us_per_row = cpus * 1e6 / rows_per_s;
        let fires = samples.len() >= ENOUGH_SAMPLES
            && share >= WALKS
            && passed_over < OTHER_REASON * searching
            && us_per_row >= US_PER_ROW;
        let of_statements = walking / statements.max(walking).max(1.0);
        fires.then_some(Self { share, of_statements, us_per_row, rows_per_s })
    }

    pub(super) fn headline(&self, oldest: &Oldest<'_>) -> String {
        let (keeps, us) = (oldest.view_keeps(), whole(self.us_per_row));
        format!("Statements walk over deleted rows that {keeps}: {us} us of CPU for each row read")
    }

    pub(super) fn evidence(&self) -> [Evidence; 3] {
        let both = "CPU samples, SHOW GLOBAL STATUS";
        [
            Evidence::new("CPU that looks for the next row", self.share, "ratio", "CPU samples")
                .expected(format!("< {:.0} %", WALKS * 100.0)),
            Evidence::new("that CPU for each row read", self.us_per_row, "us", both)
                .expected(format!("< {US_PER_ROW:.0} us")),
            Evidence::new("rows read", self.rows_per_s, "1/s", "SHOW GLOBAL STATUS"),
        ]
    }
}

/// The thread that serves a transaction's connection: what it walks over itself is no harm that it does to others.
fn thread_os_id(window: &Window, oldest: &Oldest<'_>) -> Option<u64> {
    let id = oldest.open.connection_id?;
    let threads = window.latest(|s| &s.server.threads)?;
    threads.iter().find(|thread| thread.connection_id == Some(id))?.thread_os_id
}

fn is_run_by(profile: &Profile, sample: &Observation, os_id: Option<u64>) -> bool {
    let thread = profile.threads.get(sample.thread as usize);
    thread.is_some_and(|thread| os_id == Some(u64::from(thread.tid)))
}

/// True of a stack in a search whose rows are counted where they are handed on.
fn is_search(names: &[&str]) -> bool {
    names.iter().any(|name| SEARCH.contains(name)) && !names.iter().any(|name| begins(name, UNCOUNTED))
}

/// True of a search that is not at work on one row, nor builds its old version: that is counted for itself.
fn is_walk(names: &[&str]) -> bool {
    is_search(names)
        && ![PASSED_OVER, OF_ONE_ROW, OLD_VERSIONS].iter().any(|functions| is_within(names, functions))
}

/// True where what the search called, innermost first, begins so: conditions that stand around it, as of a subquery, are none of its own.
fn is_within(names: &[&str], functions: &[&str]) -> bool {
    names.iter().take_while(|name| !SEARCH.contains(name)).any(|name| begins(name, functions))
}

fn begins(name: &str, functions: &[&str]) -> bool {
    functions.iter().any(|function| name.starts_with(function))
}

/// Rows read, each second: what the server asked for or what InnoDB handed on, whichever is more, and one in the window at least. None
/// where a counter went back.
fn rows_per_s(window: &Window) -> Option<f64> {
    let seconds = window.change(|s| &s.server.status)?.seconds;
    window.status("Handler_read_rnd_next")?;
    let growth = |name: &&str| window.status(name).map(|_| window.status_growth(name));
    let asked_for: f64 = ASKED_FOR.iter().filter_map(growth).sum::<Option<f64>>()?;
    let handed_on = window.status_growth("Innodb_rows_read").unwrap_or(0.0);
    Some(asked_for.max(handed_on).max(1.0) / seconds.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;
    use spindoctor_model::stack::ProfiledThread;

    use super::super::{Outcome, evaluate};
    use super::*;
    use crate::testing::{Build, answer, session, transaction};

    const WALK: &[&str] =
        &["rec_get_offsets", "row_search_mvcc", "ha_innobase::index_read", "dispatch_command"];

    /// Eight sessions at work, nine tenths of their CPU (1.44 of 1.6 CPUs) in these frames, and a transaction of that age.
    fn polled(frames: &[&str], rows_per_s: f64, age_s: f64) -> Window {
        Build::busy("9.7.4")
            .metric("trx_rseg_history_len", 47.0, 0.0)
            .counter("Innodb_rows_read", rows_per_s)
            .counter("Handler_read_rnd_next", 100.0)
            .sessions(|_| {
                let poll = "SELECT id FROM queue ORDER BY id LIMIT 1";
                let works = (20..28).map(|id| session(id, "Query", "executing", poll));
                works.chain([session(12, "Sleep", "", "")]).collect()
            })
            .running(1_000, 0.9, frames)
            .each(move |at_s, server, _| {
                server.transactions = answer(at_s, vec![transaction(12, "RUNNING", age_s)]);
            })
            .window()
    }

    #[test]
    fn a_walk_over_deleted_rows_names_who_keeps_them() {
        let Outcome::Fired(finding) = evaluate(&polled(WALK, 1_000.0, 14.0)) else { panic!() };
        let headline =
            "Statements walk over deleted rows that the read view of connection 12 most likely keeps: 14";
        assert!(finding.headline.starts_with(headline), "{}", finding.headline);
        assert!(finding.headline.ends_with(" us of CPU for each row read"), "{}", finding.headline);
        assert!(finding.remedies[0].statement.contains("KILL 12"), "{:?}", finding.remedies);
        assert!(finding.why.contains("(connection 12)"), "{}", finding.why);
        assert_eq!(finding.explains, ["cpu-saturated"]);
        // Before MySQL 5.7 the search has another name; a condition around it is none on the index.
        for frames in [
            &["row_search_for_mysql", "ha_innobase::index_read", "dispatch_command"][..],
            &["row_search_mvcc", "Item_singlerow_subselect::val_int", "dispatch_command"],
        ] {
            assert!(matches!(evaluate(&polled(frames, 1_000.0, 14.0)), Outcome::Fired(_)), "{frames:?}");
        }
    }

    #[test]
    fn big_scans_and_deleted_rows_that_nobody_keeps_are_clear() {
        // One microsecond for each row; and no transaction that is older than a statement.
        for (rows_per_s, age_s) in [(1.44e6, 14.0), (1_000.0, 1.0)] {
            assert_eq!(evaluate(&polled(WALK, rows_per_s, age_s)), Outcome::Clear, "{rows_per_s} {age_s}");
        }
    }

    #[test]
    fn rows_that_are_passed_over_for_another_reason_or_that_are_long_are_clear() {
        for inner in [
            &["Item_func_regexp_like::val_int", "innobase_index_cond", "row_search_mvcc"][..],
            &["row_search_idx_cond_check", "row_search_mvcc"],
            &["lock_clust_rec_read_check_and_lock", "row_search_mvcc"],
            &["row_sel_store_mysql_rec", "row_search_mvcc"],
            &["row_search_mvcc", "row_scan_index_for_mysql", "ha_innobase::records"],
        ] {
            let frames = [inner, &["dispatch_command"]].concat();
            assert_eq!(evaluate(&polled(&frames, 1_000.0, 14.0)), Outcome::Clear, "{inner:?}");
        }
    }

    #[test]
    fn what_the_old_transaction_walks_over_itself_is_not_counted() {
        let mut window = polled(WALK, 1_000.0, 14.0);
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        profile.threads = vec![ProfiledThread { tid: 4_012, ..ProfiledThread::default() }];
        assert_eq!(evaluate(&window), Outcome::Clear);
    }
}
