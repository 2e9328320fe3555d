//! How often endless sampling asks each source: one line for each of [`crate::mysql::SOURCES`] and [`crate::host::SOURCES`], in their
//! order.
//!
//! With 1,000 connections to MySQL 9.7, 60 of them at work (1,000 point selects a second in all), the server's sources
//! take 9 ms of its time a second: the threads 4.2 ms, the status 1.8 ms, the waits 42 ms twice a minute, which is 1.4 ms,
//! everything else together less than 1.6 ms. The probe takes 15 ms beside that. These are medians that
//! `cargo run -p spindoctor-collect --example follow_cost -- SOCKET root 60` told on two CPUs that were full of other
//! work, times the periods below.

use super::pace::{Pace, Period};

/// An answer of the server's is dear at ten times what it takes with 1,000 connections, or more, and at a twentieth of the
/// period at most.
const fn server(source: &'static str, period_s: u32, dear_ms: f64, most_rows: usize, longest_s: u32) -> Pace {
    Pace { source, period: Period::Every(period_s), dear_ms, most_rows, longest_s }
}

const fn with(source: &'static str, other: &'static str) -> Pace {
    Pace { source, period: Period::With(other), dear_ms: f64::MAX, most_rows: usize::MAX, longest_s: 0 }
}

/// A source of the host has no rows.
const fn host(source: &'static str, period_s: u32, dear_ms: f64, longest_s: u32) -> Pace {
    Pace { source, period: Period::Every(period_s), dear_ms, most_rows: usize::MAX, longest_s }
}

const fn once(source: &'static str) -> Pace {
    Pace { source, period: Period::Once, dear_ms: f64::MAX, most_rows: usize::MAX, longest_s: 0 }
}

/// The paces of the server's sources and of the host's.
pub const PACES: &[Pace] = &[
    server("SHOW GLOBAL VARIABLES", 60, 100.0, 5_000, 600),
    server("SHOW GLOBAL STATUS", 1, 50.0, 5_000, 4),
    server("performance_schema.threads", 1, 50.0, 2_000, 15),
    server("information_schema.PROCESSLIST", 1, 50.0, 2_000, 15),
    server("information_schema.INNODB_TRX", 1, 50.0, 1_000, 30),
    with("performance_schema.data_lock_waits", "information_schema.INNODB_TRX"),
    with("information_schema.INNODB_LOCKS", "information_schema.INNODB_TRX"),
    server("performance_schema.metadata_locks", 2, 50.0, 1_000, 30),
    server("information_schema.METADATA_LOCK_INFO", 2, 50.0, 2_000, 30),
    server("information_schema.INNODB_METRICS", 2, 50.0, 1_000, 30),
    server("performance_schema.events_statements_summary_by_digest", 30, 200.0, 1_000, 300),
    server("performance_schema.events_waits_summary_global_by_event_name", 30, 500.0, 2_000, 300),
    server("performance_schema.file_summary_by_event_name", 10, 50.0, 1_000, 120),
    server("SHOW ENGINE INNODB STATUS", 20, 100.0, 1_000, 300),
    server("SHOW REPLICA STATUS", 2, 50.0, 100, 30),
    host("/proc/PID/stat", 1, 20.0, 8),
    host("cpu.stat", 1, 20.0, 8),
    host("/proc/stat", 1, 20.0, 8),
    host("/proc/pressure", 1, 20.0, 8),
    host("cpu.pressure", 1, 20.0, 8),
    host("srv_cpu_usage", 5, 20.0, 60),
    host("/proc/diskstats", 1, 20.0, 8),
    host("/proc/meminfo", 5, 20.0, 60),
    host("/proc/PID/task", 30, 60.0, 600),
    host("cpu.max", 10, 20.0, 60),
    once("/proc/cpuinfo"),
    once("/proc/PID/numa_maps"),
    host("/proc/PID/cwd", 60, 20.0, 600),
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
