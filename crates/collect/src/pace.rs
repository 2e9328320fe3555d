//! How often sources are read in continuous sampling: each says so itself, in its `SOURCE`.
//!
//! Their cost for a server with 1,000 connections, in ms of its CPU time each (MySQL 9.7, medians on two CPUs that had
//! other work; `cargo run -p spindoctor-collect --example follow_cost -- SOCKET root 60` measures them again): the
//! threads 2.1, the status 2.0, the waits 12 where sessions have done little and 42 where they have done much, InnoDB's
//! metrics 0.9, its text 0.5, the log files 0.4. With the periods below, the sum is 6 to 7 ms per second; the probe
//! takes 6 beside it. MariaDB's process list takes 5.0.

use spindoctor_model::host::COUNTERS_READ_WITHIN_S;

use crate::{host, mysql};

/// A source of the server is expensive where it would take more than this part of one of its CPUs.
const SERVER_SHARE: f64 = 1.0 / 20.0;
/// And in any case where an answer takes half of the second after which a sample is sent without it.
const LONGEST_ANSWER_MS: f64 = 500.0;
/// A source of the host takes this program's own time, of which it may have half: the recorder is to take 1 % of a core.
const HOST_SHARE: f64 = 0.005;
/// It is timed by the clock: what waits for a CPU now and then, some milliseconds each time, does not make it
/// expensive.
const HOST_LEAST_MS: f64 = 20.0;
/// Rows that a source may have for each second of its period: to read and to write 1,000 threads takes the recorder some
/// 3 ms, and a fifth of what it may take is for them. With a thousand connections they are listed every two seconds; in a
/// stall every second, whatever they are.
const ROWS_PER_S: usize = 600;

/// Sessions that a source may have the server add up for each second of its period, where it adds them up: `SHOW GLOBAL STATUS` takes
/// 1.6 ms of the server's CPU with 1,000 sessions and 4.1 ms with 5,000 (MySQL 9.7; `BENCHMARKS.md`, recorder-connections), so it
/// takes no more than 0.3 % of a core however many there are.
const SESSIONS_PER_S: usize = 3_000;
/// Of a source of half a minute that adds them up for each of hundreds of events: 24 ms with 1,000 sessions, 95 ms with 5,000.
const SESSIONS_PER_30_S: usize = 1_500;

/// How often a source is asked where nothing is wrong, and what makes it slow itself down.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// How often it is asked.
    pub period: Period,
    /// An answer that takes longer is expensive, milliseconds.
    pub expensive_ms: f64,
    /// So is one with more rows, for each second from one question to the next: what reading and keeping them takes of
    /// this program's own time stays the same.
    pub rows_per_s: usize,
    /// And one for which the server adds up more sessions than these, for each second from one question to the next.
    pub sessions_per_s: usize,
    /// The longest period that it slows itself down to, seconds.
    pub longest_s: u32,
    /// It has what this other source has, where that one has no answer: it is asked when that one had its turn and did
    /// not answer, and at its own period where that one is given up.
    pub instead_of: Option<&'static str>,
    /// In a hurry it is asked at its usual period however expensive it has become, as long as it answers in time: no
    /// cause is found without it.
    pub hurries: bool,
}

/// How often a source is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Every so many seconds; at least 1.
    Every(u32),
    /// Whenever this other source was asked: it means nothing without that one's answer in the same sample.
    With(&'static str),
    /// In the first sample of a segment: it does not change.
    Once,
    /// Not at all: it is read at the ends of a window alone.
    Never,
}

impl Pace {
    /// A source of the server, every so many seconds. `longest_s` is how old its answers may become before nobody can use them;
    /// and so long it rests at first where sessions are lost over it.
    pub(crate) const fn server(period_s: u32, longest_s: u32) -> Self {
        let share_ms = period_s as f64 * 1e3 * SERVER_SHARE;
        let expensive_ms = if share_ms < LONGEST_ANSWER_MS { share_ms } else { LONGEST_ANSWER_MS };
        Self {
            period: Period::Every(period_s),
            expensive_ms,
            rows_per_s: ROWS_PER_S,
            sessions_per_s: usize::MAX,
            longest_s,
            instead_of: None,
            hurries: false,
        }
    }

    /// A source of the host, which has no rows.
    pub(crate) const fn host(period_s: u32, longest_s: u32) -> Self {
        let share_ms = period_s as f64 * 1e3 * HOST_SHARE;
        let expensive_ms = if share_ms > HOST_LEAST_MS { share_ms } else { HOST_LEAST_MS };
        Self { expensive_ms, rows_per_s: usize::MAX, ..Self::server(period_s, longest_s) }
    }

    /// Counters of the host or of the server's process, every second.
    pub(crate) const fn of_counters() -> Self {
        Self::host(1, COUNTERS_READ_WITHIN_S)
    }

    /// One that goes with another source, and rests as the transactions do.
    pub(crate) const fn with(other: &'static str) -> Self {
        Self {
            period: Period::With(other),
            expensive_ms: f64::MAX,
            rows_per_s: usize::MAX,
            ..Self::server(1, 30)
        }
    }

    /// One that is read once.
    pub(crate) const fn once() -> Self {
        Self { period: Period::Once, expensive_ms: f64::MAX, rows_per_s: usize::MAX, ..Self::server(1, 0) }
    }

    /// One that is read in windows alone.
    pub(crate) const fn never() -> Self {
        Self { period: Period::Never, ..Self::once() }
    }

    /// The same for a source that stands in for another one.
    pub(crate) const fn instead_of(self, other: &'static str) -> Self {
        Self { instead_of: Some(other), ..self }
    }

    /// The same for a source for which the server adds up what each session has counted.
    pub(crate) const fn adding_up_sessions(self) -> Self {
        Self { sessions_per_s: SESSIONS_PER_S, ..self }
    }

    /// The same for one for which it adds that up for each of hundreds of events.
    pub(crate) const fn adding_up_events(self) -> Self {
        Self { sessions_per_s: SESSIONS_PER_30_S / 30, ..self }
    }

    /// The same for a source without which the cause of a stall is not found.
    pub(crate) const fn hurrying(self) -> Self {
        Self { hurries: true, ..self }
    }
}

/// The name and the pace of each source: those of [`mysql::SOURCES`], then those of [`host::SOURCES`].
pub fn paces() -> impl Iterator<Item = (&'static str, Pace)> {
    let of_server = mysql::SOURCES.iter().map(|source| (source.name, source.pace));
    of_server.chain(host::SOURCES.iter().map(|source| (source.name, source.pace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_another_source_stands_behind_it_and_no_bound_is_below_a_period() {
        let mut before: Vec<&str> = Vec::new();
        for (name, pace) in paces() {
            if let Some(other) = pace.instead_of {
                assert!(before.contains(&other), "{name}: {pace:?}");
            }
            match pace.period {
                Period::With(other) => assert!(before.contains(&other), "{name}: {pace:?}"),
                Period::Every(seconds) => {
                    assert!(pace.longest_s >= seconds && seconds > 0, "{name}: {pace:?}");
                }
                Period::Once | Period::Never => {}
            }
            before.push(name);
        }
    }
}
