//! A restart of the server: which process there was, which there is, and when nobody answered.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A server process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Process {
    /// Its id, where it is on this host.
    pub pid: Option<u32>,
    /// When it started, by its own uptime.
    pub started: Option<Timestamp>,
}

/// Another server process answers than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// What is other: `the server was restarted`, `another server answers`.
    pub what: &'static str,
    /// The process of before.
    pub before: Process,
    /// The process that answers now.
    pub now: Process,
    /// The last answer of the one before.
    pub gone: Timestamp,
    /// The first answer of the one now.
    pub back: Timestamp,
}

impl fmt::Display for Restart {
    /// In one sentence. Nothing here reads the error log, so nobody knows whether it crashed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, before, now, gone, back } = self;
        write!(f, "{what}: {before} answered until {}, {now} answers since {}; ", time(*gone), time(*back))?;
        write!(f, "whether it crashed or was shut down is unknown, the error log was not read")
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("a process of unknown id")?,
        }
        match self.started {
            Some(started) => write!(f, " (started {} UTC)", started.strftime("%Y-%m-%d %H:%M:%S")),
            None => f.write_str(" (its start is unknown)"),
        }
    }
}

fn time(at: Timestamp) -> String {
    let at = at.to_zoned(TimeZone::UTC);
    format!("{} UTC", at.strftime("%H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_shown_with_both_processes_and_both_times() {
        let at = |second: i64| Timestamp::from_second(1_782_900_000 + second).unwrap();
        let before = Process { pid: Some(4310), started: Some(at(-86_400)) };
        let now = Process { pid: Some(5120), started: Some(at(9)) };
        let restart = Restart { what: "the server was restarted", before, now, gone: at(5), back: at(12) };
        assert_eq!(
            restart.to_string(),
            "the server was restarted: process 4310 (started 2026-06-30 10:00:00 UTC) answered until 10:00:05 UTC, \
             process 5120 (started 2026-07-01 10:00:09 UTC) answers since 10:00:12 UTC; whether it crashed or was shut \
             down is unknown, the error log was not read"
        );
    }
}
