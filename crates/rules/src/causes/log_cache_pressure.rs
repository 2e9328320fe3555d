//! `log-cache-pressure`: logs that nobody reads again hold the memory that the buffer pool, or what is swapped out, could
//! use.

use spindoctor_model::host::MemoryStat;
use spindoctor_model::number::{bytes, whole};
use spindoctor_model::page_cache::PageCache;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use crate::draft::Draft;
use crate::rank::CRITICAL_FROM;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "log-cache-pressure",
    title: "binary, relay or redo logs fill the page cache",
    what: "Binary and relay logs, and the redo log where it is not opened with O_DIRECT, are written through the page cache \
           and stay there: written once, read once by replicas that follow, then never again. The kernel keeps them until \
           memory is short, and then has to choose between them and everything else.",
    why_it_hurts: "Gigabytes hold what nobody reads, on a host whose buffer pool is kept small so that there is room for the \
                   page cache. Pages of tables are read from disk that could be in memory; and where the kernel chooses \
                   wrongly it swaps the server out for a log.",
    evidence: "What the page cache holds of each log file (cachestat, or mincore before Linux 6.5), the host's memory or the \
               control group's limit, what of it is free, pages that InnoDB had to read (Innodb_buffer_pool_reads), pages \
               swapped. It fires where logs hold a twentieth of the memory or more, less is free than they hold, and pages \
               are read from disk or swapped meanwhile. The estimate is their share of the memory; without swapping a warning \
               at most, as no counter shows how many reads a larger buffer pool would save.",
    looks_alike: "Logs in the cache of a host that has memory to spare, or whose data fits into its buffer pool, cost \
                  nothing. Data files in the page cache are another matter: innodb_flush_method is not O_DIRECT, and each \
                  page is in memory twice.",
    remedies: "`spindoctor cache` shows who holds what; `spindoctor cache --evict logs` takes out what nobody will read soon, and \
               with --follow keeps it out. Then give the memory to the buffer pool, step by step. On MariaDB, \
               innodb_log_file_buffering = OFF takes the redo log out of the cache. Shorter binlog_expire_logs_seconds where \
               old logs are kept for nothing.",
    safety: "Nothing is lost: what leaves the cache is on disk, and a replica that comes back after days reads it from there. \
             Binary logs that a connected replica still reads, and relay logs that are not applied, stay. A buffer pool that \
             is too large swaps: raise it in steps and watch.",
    references: &[
        "Domas Mituzas, on logs and memory pressure: nearly 10G consumed by binlogs on conservatively allocated machines",
        "Linux manual: posix_fadvise(2), POSIX_FADV_DONTNEED; cachestat",
        "MySQL Reference Manual: innodb_flush_method, binlog_expire_logs_seconds; MariaDB: innodb_log_file_buffering",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[TimeClass::Read],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// From here on what logs hold would be noticed as buffer pool: a twentieth, as any finding (see [`crate::rank`]). The
/// published case was a seventh.
const SHARE: f64 = 0.05;

/// Pages read from disk a second, below which a larger buffer pool would hardly be noticed: a tenth of what one disk that
/// spins can do. Chosen, not derived.
const READS_PER_S: f64 = 20.0;

/// Pages swapped a second, below which the kernel only puts away what nobody uses. Chosen, not derived.
const SWAPPED_PER_S: f64 = 10.0;

/// Without swapping nobody knows what it costs: a warning, and no more.
const MOST_WITHOUT_SWAPPING: f64 = CRITICAL_FROM * 0.95;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let logs = *window.need(|s| &s.host.page_cache)?;
    let memory = window.need(|s| &s.host.memory)?;
    let reads = window.need_growth("Innodb_buffer_pool_reads")?;
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let (cached, room) = (logs.cached_bytes() as f64, Room::for_page_cache(memory));
    let share = cached / room.bytes.max(1.0);
    let reads_per_s = reads / seconds;
    let swapped_per_s = swapped_per_s(window);
    let swaps = swapped_per_s >= SWAPPED_PER_S;
    if share < SHARE || room.free_bytes >= cached || (reads_per_s < READS_PER_S && !swaps) {
        return Ok(None);
    }
    let score = if swaps { share } else { share.min(MOST_WITHOUT_SWAPPING) };
    let meanwhile = match swaps {
        true => format!("{} pages are swapped each second", whole(swapped_per_s)),
        false => format!("{} pages are read from disk each second", whole(reads_per_s)),
    };
    let pool = window.variable_number("innodb_buffer_pool_size");
    let of =
        |bytes: u64, what: &str| (bytes > 0).then(|| Evidence::new(what, bytes as f64, "bytes", "cachestat"));
    Ok(Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "Logs hold {:.0} % of the memory in the page cache, while {meanwhile}",
                share * 100.0
            ),
        )
        .why(format!(
            "{} is {}, and {} of it is free. Logs hold {} of it, which are written once and hardly read again{}.",
            room.whose,
            bytes(room.bytes),
            bytes(room.free_bytes),
            bytes(cached),
            match pool {
                Some(pool) => format!("; the buffer pool has {}", bytes(pool)),
                None => String::new(),
            }
        ))
        .evidence(
            Evidence::new("logs, of the memory", share, "ratio", "cachestat").expected(format!("< {SHARE}")),
        )
        .evidence_if(of(logs.binlog.cached_bytes, "binary logs in the page cache"))
        .evidence_if(of(logs.relay.cached_bytes, "relay logs in the page cache"))
        .evidence_if(of(logs.redo.cached_bytes, "redo logs in the page cache"))
        .evidence(Evidence::new("memory that is free", room.free_bytes, "bytes", room.source))
        .evidence(
            Evidence::new("pages read from disk", reads_per_s, "1/s", "SHOW GLOBAL STATUS Innodb_buffer_pool_reads")
                .expected(format!("< {READS_PER_S:.0}")),
        )
        .evidence_if(
            (swapped_per_s > 0.0)
                .then(|| Evidence::new("pages swapped", swapped_per_s, "1/s", "/proc/vmstat").expected("0")),
        )
        .remedy(Remedy {
            statement: "spindoctor cache --evict logs --follow".into(),
            why: "Takes out of the page cache what no replica, applier or recovery reads next, and keeps it out.".into(),
            dynamic: true,
            risk: "A replica that comes back after long reads its logs from disk.".into(),
            undo: "End it: what is read and written is cached again.".into(),
        })
        .remedy_if(buffering(window, &logs))
        .remedy_if(pool.map(|pool| larger_pool(pool, cached)))
        .finding(),
    ))
}

/// The memory that the server and its files share.
struct Room {
    bytes: f64,
    free_bytes: f64,
    whose: &'static str,
    source: &'static str,
}

impl Room {
    /// Of the control group where it limits memory: it is charged for the page cache, too.
    fn for_page_cache(memory: &MemoryStat) -> Self {
        match (memory.cgroup_limit_bytes, memory.cgroup_used_bytes) {
            (Some(limit), Some(used)) => Self {
                bytes: limit as f64,
                free_bytes: limit.saturating_sub(used) as f64,
                whose: "The memory limit of the server's control group",
                source: "memory.max, memory.current",
            },
            _ => Self {
                bytes: memory.total_bytes as f64,
                // What is available without giving up page cache.
                free_bytes: memory.available_bytes.saturating_sub(memory.cached_bytes) as f64,
                whose: "The host's memory",
                source: "/proc/meminfo",
            },
        }
    }
}

/// Pages that the host swapped in and out.
fn swapped_per_s(window: &Window) -> f64 {
    let Some(change) = window.change(|s| &s.host.memory) else { return 0.0 };
    let pages = |memory: &MemoryStat| memory.swap_in_pages + memory.swap_out_pages;
    pages(change.last).saturating_sub(pages(change.first)) as f64 / change.seconds.max(f64::MIN_POSITIVE)
}

/// MariaDB's redo log leaves the page cache by a switch.
fn buffering(window: &Window, logs: &PageCache) -> Option<Remedy> {
    let is_on =
        window.variable("innodb_log_file_buffering").is_some_and(|value| value.eq_ignore_ascii_case("ON"));
    (is_on && logs.redo.cached_bytes > 0).then(|| Remedy {
        statement: "SET GLOBAL innodb_log_file_buffering = OFF".into(),
        why: "The redo log is then written around the page cache.".into(),
        dynamic: true,
        risk: "Where many transactions share a sync, writes of the log may take longer.".into(),
        undo: "SET GLOBAL innodb_log_file_buffering = ON".into(),
    })
}

/// Half of what the logs hold: the rest stays for what is written next.
fn larger_pool(pool: f64, cached: f64) -> Remedy {
    const CHUNK: f64 = 128.0 * 1024.0 * 1024.0;
    let more = ((pool + cached / 2.0) / CHUNK).floor() * CHUNK;
    Remedy {
        statement: format!("SET GLOBAL innodb_buffer_pool_size = {:.0}", more.max(pool)),
        why: "Half of what the logs held, once they are kept out.".into(),
        dynamic: true,
        risk: "Without keeping the logs out the host may swap.".into(),
        undo: format!("SET GLOBAL innodb_buffer_pool_size = {pool:.0}"),
    }
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::Build;

    const GIB: u64 = 1 << 30;

    fn reading(reads_per_s: f64) -> Build {
        Build::busy("8.0.36").counter("Innodb_buffer_pool_reads", reads_per_s)
    }

    pub(crate) fn fires() -> Window {
        reading(300.0).logs_cached(10 * GIB, GIB).variable("innodb_buffer_pool_size", "42949672960").window()
    }

    /// As much of it in the page cache, and memory to spare.
    pub(crate) fn near_miss() -> Window {
        reading(300.0).logs_cached(10 * GIB, 12 * GIB).window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36")
            .each(|_, _, host| host.page_cache = spindoctor_model::Reading::NotAsked)
            .window()
    }

    fn finding(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_share_of_the_memory_is_shown_and_half_of_it_is_offered_to_the_buffer_pool() {
        let finding = finding(&fires());
        assert!(finding.headline.starts_with("Logs hold 16 % of the memory"), "{}", finding.headline);
        assert!(finding.score < CRITICAL_FROM, "{}", finding.score);
        // 45 GiB in chunks of 128 MiB.
        assert_eq!(finding.remedies[1].statement, "SET GLOBAL innodb_buffer_pool_size = 48318382080");
    }

    #[test]
    fn a_server_whose_data_fits_into_its_buffer_pool_is_clear() {
        assert_eq!(evaluate(&reading(5.0).logs_cached(10 * GIB, GIB).window()), Outcome::Clear);
    }

    #[test]
    fn swapping_makes_it_as_grave_as_the_share_is() {
        let window = reading(0.0)
            .logs_cached(20 * GIB, GIB)
            .each(|at_s, _, host| {
                if let spindoctor_model::Reading::Available { value: memory, .. } = &mut host.memory {
                    memory.swap_out_pages = (at_s * 500.0) as u64;
                }
            })
            .window();
        let finding = finding(&window);
        assert!(
            finding.score > CRITICAL_FROM && finding.headline.contains("500 pages are swapped"),
            "{finding:?}"
        );
    }

    #[test]
    fn in_a_control_group_its_limit_counts() {
        let window = reading(300.0)
            .logs_cached(GIB, 40 * GIB)
            .each(|_, _, host| {
                if let spindoctor_model::Reading::Available { value: memory, .. } = &mut host.memory {
                    (memory.cgroup_limit_bytes, memory.cgroup_used_bytes) =
                        (Some(4 * GIB), Some(4 * GIB - 4096));
                }
            })
            .window();
        let finding = finding(&window);
        assert!(
            finding.headline.starts_with("Logs hold 25 %") && finding.why.contains("control group"),
            "{finding:?}"
        );
    }

    #[test]
    fn mariadbs_redo_log_leaves_by_a_switch() {
        let window = Build::busy("10.11.19-MariaDB")
            .counter("Innodb_buffer_pool_reads", 300.0)
            .logs_cached(10 * GIB, GIB)
            .variable("innodb_log_file_buffering", "ON")
            .each(|_, _, host| {
                if let spindoctor_model::Reading::Available { value: logs, .. } = &mut host.page_cache {
                    logs.redo.cached_bytes = GIB;
                }
            })
            .window();
        assert_eq!(finding(&window).remedies[1].statement, "SET GLOBAL innodb_log_file_buffering = OFF");
    }
}
