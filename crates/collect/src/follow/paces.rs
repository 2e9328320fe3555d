//! How often endless sampling asks each source: one line for each of [`crate::mysql::SOURCES`] and [`crate::host::SOURCES`], in their
//! order.
//!
//! What they cost the server with 1,000 connections, ms of its CPU time each (MySQL 9.7, medians on two CPUs that had other
//! work; `cargo run -p spindoctor-collect --example follow_cost -- SOCKET root 60` tells them anew): the threads 2.1, the
//! status 2.0, the waits 12 where sessions have done little and 42 where they have done much, InnoDB's metrics 0.9, its
//! text 0.5, the log files 0.4. Times the periods below that is 6 to 7 ms a second; the probe takes 6 beside it. MariaDB's
//! process list takes 5.0.

use super::pace::{Pace, Period};

/// A source of the server's is dear where it would take more than this part of one of its CPUs.
const SERVER_SHARE: f64 = 1.0 / 20.0;
/// And in any case where an answer takes half of the second after which a sample is sent without it.
const LONGEST_ANSWER_MS: f64 = 500.0;
/// A source of the host takes this program's own time, of which it may have half: the recorder is to take 1 % of a core.
const HOST_SHARE: f64 = 0.005;
/// It is timed by the clock: what waits for a CPU now and then, some milliseconds each time, is not dear for that.
const HOST_LEAST_MS: f64 = 20.0;
/// Rows that a source may have for each second of its period: to read and to write 1,000 threads takes the recorder some
/// 3 ms, and a fifth of what it may take is for them. With a thousand connections they are listed every two seconds; in a
/// stall every second, whatever they are.
const ROWS_PER_S: usize = 600;

/// `longest_s`: how old its answers may become before nobody can use them; and so long it rests at first where sessions are
/// lost over it.
const fn server(source: &'static str, period_s: u32, longest_s: u32) -> Pace {
    let share_ms = period_s as f64 * 1e3 * SERVER_SHARE;
    let dear_ms = if share_ms < LONGEST_ANSWER_MS { share_ms } else { LONGEST_ANSWER_MS };
    Pace {
        source,
        period: Period::Every(period_s),
        dear_ms,
        rows_per_s: ROWS_PER_S,
        longest_s,
        instead_of: None,
        hurries: false,
    }
}

/// One that stands in for another.
const fn instead_of(other: &'static str, pace: Pace) -> Pace {
    Pace { instead_of: Some(other), ..pace }
}

/// One that a stall's cause is told by.
const fn hurrying(source: &'static str, period_s: u32, longest_s: u32) -> Pace {
    Pace { hurries: true, ..server(source, period_s, longest_s) }
}

/// It rests as the transactions do, with which both of these go.
const fn with(source: &'static str, other: &'static str) -> Pace {
    Pace {
        source,
        period: Period::With(other),
        dear_ms: f64::MAX,
        rows_per_s: usize::MAX,
        longest_s: 30,
        instead_of: None,
        hurries: false,
    }
}

/// A source of the host has no rows.
const fn host(source: &'static str, period_s: u32, longest_s: u32) -> Pace {
    let share_ms = period_s as f64 * 1e3 * HOST_SHARE;
    let dear_ms = if share_ms > HOST_LEAST_MS { share_ms } else { HOST_LEAST_MS };
    Pace {
        source,
        period: Period::Every(period_s),
        dear_ms,
        rows_per_s: usize::MAX,
        longest_s,
        instead_of: None,
        hurries: false,
    }
}

const fn once(source: &'static str) -> Pace {
    Pace {
        source,
        period: Period::Once,
        dear_ms: f64::MAX,
        rows_per_s: usize::MAX,
        longest_s: 0,
        instead_of: None,
        hurries: false,
    }
}

/// The paces of the server's sources and of the host's.
pub const PACES: &[Pace] = &[
    server("SHOW GLOBAL VARIABLES", 60, 600),
    hurrying("SHOW GLOBAL STATUS", 1, 4),
    hurrying("performance_schema.threads", 1, 15),
    instead_of("performance_schema.threads", hurrying("information_schema.PROCESSLIST", 1, 15)),
    server("information_schema.INNODB_TRX", 1, 30),
    with("performance_schema.data_lock_waits", "information_schema.INNODB_TRX"),
    with("information_schema.INNODB_LOCKS", "information_schema.INNODB_TRX"),
    server("performance_schema.metadata_locks", 2, 30),
    instead_of("performance_schema.metadata_locks", server("information_schema.METADATA_LOCK_INFO", 2, 30)),
    server("information_schema.INNODB_METRICS", 2, 30),
    server("performance_schema.events_statements_summary_by_digest", 30, 300),
    server("performance_schema.events_waits_summary_global_by_event_name", 30, 300),
    server("performance_schema.file_summary_by_event_name", 10, 120),
    server("performance_schema.accounts", 30, 300),
    instead_of("performance_schema.accounts", server("information_schema.USER_STATISTICS", 30, 300)),
    server("SHOW ENGINE INNODB STATUS", 20, 300),
    server("SHOW REPLICA STATUS", 2, 30),
    host("/proc/PID/stat", 1, 8),
    host("cpu.stat", 1, 8),
    host("/proc/stat", 1, 8),
    host("/proc/pressure", 1, 8),
    host("cpu.pressure", 1, 8),
    host("srv_cpu_usage", 5, 60),
    host("/proc/diskstats", 1, 8),
    host("/proc/PID/net", 1, 8),
    host("/proc/meminfo", 5, 60),
    host("/proc/PID/task", 30, 600),
    host("cpu.max", 10, 60),
    once("/proc/cpuinfo"),
    once("/proc/PID/numa_maps"),
    host("/proc/PID/cwd", 60, 600),
    host("cachestat", 60, 600),
    once("pause"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{host, mysql};

    #[test]
    fn every_source_has_its_pace_in_the_order_of_the_lists() {
        let sources = mysql::SOURCES.iter().map(|source| source.name);
        let names: Vec<&str> = sources.chain(host::SOURCES.iter().map(|source| source.name)).collect();
        assert_eq!(PACES.iter().map(|pace| pace.source).collect::<Vec<_>>(), names);
    }

    #[test]
    fn what_goes_with_another_source_stands_behind_it_and_no_bound_is_below_a_period() {
        for (place, pace) in PACES.iter().enumerate() {
            if let Some(other) = pace.instead_of {
                assert!(PACES[..place].iter().any(|pace| pace.source == other), "{pace:?}");
            }
            match pace.period {
                Period::With(other) => {
                    assert!(PACES[..place].iter().any(|pace| pace.source == other), "{pace:?}");
                }
                Period::Every(seconds) => assert!(pace.longest_s >= seconds && seconds > 0, "{pace:?}"),
                Period::Once => {}
            }
        }
    }
}
