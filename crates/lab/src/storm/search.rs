//! The search for the highest rate that is sustained, and what broke beyond it. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

/// So large a part of the clients must be served in time.
const SERVED_RATIO: f64 = 0.99;
/// The search ends where what is sustained and what is not are this near.
const NEAR: f64 = 1.1;
/// No search goes beyond this rate, connections a second: one accepting thread takes some ten microseconds for each.
const HIGHEST: f64 = 64_000.0;
/// Nor below this.
const LOWEST: f64 = 1.0;
/// The accepting thread is the limit from this part of the time on.
const BUSY_RATIO: f64 = 0.9;
/// The CPUs are the limit where less than this part of them is idle.
const IDLE_RATIO: f64 = 0.05;
/// A round that misses by less may have been spoilt by something else on the machine, for a tenth of its time or so.
const NEARLY_RATIO: f64 = 0.9;

/// Clients at one rate for some seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Round {
    /// Connections a second that were asked for.
    pub rate: f64,
    /// For how long.
    pub seconds: f64,
    /// Clients that came.
    pub due: u64,
    /// Those that were served in time.
    pub in_time: u64,
    /// From the instant at which a client was due until it was served, of half of those that were served, milliseconds.
    pub p50_ms: f64,
    /// The same of 99 in 100.
    pub p99_ms: f64,
    /// Clients that were not served at all, by what they saw.
    pub failures: BTreeMap<Failure, u64>,
    /// Threads that the server made, a second.
    pub threads_created_per_s: f64,
    /// Share of the time in which the accepting thread ran or waited for a CPU.
    pub accept_busy_ratio: f64,
    /// Share of the time in which the clients' one thread ran or waited for a CPU.
    pub clients_busy_ratio: f64,
    /// Share of the machine's CPU time that the clients took.
    pub clients_cpu_ratio: f64,
    /// Share of the machine's CPU time that was idle.
    pub idle_cpu_ratio: f64,
}

/// What a client saw that was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// The listening socket's queue was full.
    QueueFull,
    /// Too many connections (error 1040).
    TooManyConnections,
    /// The server could make no thread (error 1135).
    NoThread,
    /// The server hung up on it.
    Reset,
    /// It waited for longer than it had patience.
    TimedOut,
    /// The client's machine had no room for it.
    NoRoomForClient,
    /// Anything else.
    Other,
}

/// What breaks first when more clients come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaks {
    /// Clients are sent away: max_connections.
    MaxConnections,
    /// Clients find the listening socket's queue full: back_log.
    BackLog,
    /// The server can make no more threads.
    Threads,
    /// The server hangs up.
    Resets,
    /// The accepting thread has no time left.
    AcceptingThread,
    /// The machine's CPUs have none.
    Cpus,
    /// The clients themselves could not come fast enough: nothing is said of the server.
    Clients,
    /// Connections take too long, for a reason that these numbers do not show.
    Latency,
}

impl Breaks {
    /// In a few words, with the number of the server's error where it has one.
    pub fn text(self) -> &'static str {
        match self {
            Self::MaxConnections => "max_connections (error 1040)",
            Self::BackLog => "back_log: the queue is full",
            Self::Threads => "new threads (error 1135)",
            Self::Resets => "the server hangs up",
            Self::AcceptingThread => "the accepting thread's time",
            Self::Cpus => "the CPUs' time",
            Self::Clients => "the clients' own CPU",
            Self::Latency => "time to be served",
        }
    }
}

impl Failure {
    /// What became of so many clients: `were refused: too many connections (error 1040)`.
    pub fn text(self) -> &'static str {
        match self {
            Self::QueueFull => "found the listening socket's queue full",
            Self::TooManyConnections => "were refused: too many connections (error 1040)",
            Self::NoThread => "were refused: the server could not create a thread (error 1135)",
            Self::Reset => "were hung up on",
            Self::TimedOut => "gave up after a second",
            Self::NoRoomForClient => "had no room beside 4,000 others that waited",
            Self::Other => "failed otherwise",
        }
    }
}

impl Round {
    /// True where nearly all were served in time.
    pub fn is_sustained(&self) -> bool {
        self.in_time as f64 >= SERVED_RATIO * self.due as f64
    }

    /// True where it missed so narrowly that another look is worth its time.
    pub(super) fn nearly_is(&self) -> bool {
        !self.is_sustained() && self.in_time as f64 >= NEARLY_RATIO * self.due as f64
    }

    /// Clients that were served, and too late.
    pub fn late(&self) -> u64 {
        self.due.saturating_sub(self.in_time).saturating_sub(self.failures.values().sum())
    }

    fn failed(&self, failure: Failure) -> u64 {
        self.failures.get(&failure).copied().unwrap_or(0)
    }
}

/// What broke in a round that was not sustained: the error that clients got, else who had no time.
///
/// A queue that is full has a reason: where the CPUs or the accepting thread have no time left, it is that, and not the
/// queue's length. Clients that have no time left themselves while CPUs are idle say nothing of the server; those without
/// room beside thousands that wait say that these are served late.
pub fn breaks_first(round: &Round) -> Breaks {
    let is_many = |failure| round.failed(failure) as f64 > (1.0 - SERVED_RATIO) / 2.0 * round.due as f64;
    if is_many(Failure::TooManyConnections) {
        Breaks::MaxConnections
    } else if is_many(Failure::NoThread) {
        Breaks::Threads
    } else if round.idle_cpu_ratio < IDLE_RATIO {
        Breaks::Cpus
    } else if round.clients_busy_ratio >= BUSY_RATIO {
        Breaks::Clients
    } else if round.accept_busy_ratio >= BUSY_RATIO {
        Breaks::AcceptingThread
    } else if is_many(Failure::QueueFull) {
        Breaks::BackLog
    } else if is_many(Failure::Reset) {
        Breaks::Resets
    } else {
        Breaks::Latency
    }
}

/// Doubles until a rate is too high, then halves the distance, by ratio.
#[derive(Debug)]
pub(super) struct Search {
    next: Option<f64>,
    sustained: Option<f64>,
    broken: Option<f64>,
    is_of_one: bool,
}

impl Search {
    pub(super) fn from(rate: f64) -> Self {
        Self { next: Some(rate), sustained: None, broken: None, is_of_one: false }
    }

    /// Of one rate alone.
    pub(super) fn of_one(rate: f64) -> Self {
        Self { is_of_one: true, ..Self::from(rate) }
    }

    /// The rate to try next; none where enough is known.
    pub(super) fn next_rate(&self) -> Option<f64> {
        self.next
    }

    /// Whether that rate was sustained.
    pub(super) fn record(&mut self, rate: f64, is_sustained: bool) {
        match is_sustained {
            true => self.sustained = Some(self.sustained.map_or(rate, |best| best.max(rate))),
            false => self.broken = Some(self.broken.map_or(rate, |worst| worst.min(rate))),
        }
        let next = match (self.sustained, self.broken) {
            _ if self.is_of_one => None,
            (Some(sustained), Some(broken)) => {
                (broken > sustained * NEAR).then(|| (sustained * broken).sqrt().round())
            }
            (Some(sustained), None) => Some(sustained * 2.0),
            (None, Some(broken)) => Some(broken / 2.0),
            (None, None) => None,
        };
        self.next = next.filter(|rate| (LOWEST..=HIGHEST).contains(rate));
    }

    pub(super) fn sustained(&self) -> Option<f64> {
        self.sustained
    }

    pub(super) fn broken(&self) -> Option<f64> {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(limit: f64, first: f64) -> (Option<f64>, Option<f64>, usize) {
        let mut search = Search::from(first);
        let mut rounds = 0;
        while let Some(rate) = search.next_rate() {
            rounds += 1;
            assert!(rounds < 40, "the search does not end");
            search.record(rate, rate <= limit);
        }
        (search.sustained(), search.broken(), rounds)
    }

    #[test]
    fn the_highest_rate_is_found_to_a_tenth_in_few_rounds() {
        for limit in [90.0, 250.0, 3_333.0, 47_000.0] {
            let (sustained, broken, rounds) = found(limit, 250.0);
            let (sustained, broken) = (sustained.unwrap(), broken.unwrap());
            assert!(
                sustained <= limit && limit < broken && broken <= sustained * NEAR,
                "{limit}: {sustained}"
            );
            assert!(rounds <= 14, "{limit}: {rounds} rounds");
        }
    }

    #[test]
    fn a_server_without_a_limit_or_without_any_room_ends_the_search() {
        assert_eq!(found(f64::INFINITY, 250.0).1, None);
        assert_eq!(found(0.0, 250.0).0, None);
        let mut one = Search::of_one(500.0);
        one.record(500.0, true);
        assert_eq!((one.next_rate(), one.sustained()), (None, Some(500.0)));
    }

    fn round(failures: &[(Failure, u64)]) -> Round {
        Round {
            rate: 1_000.0,
            due: 2_000,
            in_time: 1_500,
            failures: failures.iter().copied().collect(),
            accept_busy_ratio: 0.3,
            idle_cpu_ratio: 0.4,
            ..Round::default()
        }
    }

    #[test]
    fn what_broke_is_what_the_clients_saw_else_who_had_no_time() {
        assert_eq!(breaks_first(&round(&[(Failure::TooManyConnections, 400)])), Breaks::MaxConnections);
        assert_eq!(
            breaks_first(&round(&[(Failure::QueueFull, 400), (Failure::TimedOut, 900)])),
            Breaks::BackLog
        );
        assert_eq!(breaks_first(&round(&[(Failure::TimedOut, 500)])), Breaks::Latency);
        assert_eq!(breaks_first(&round(&[(Failure::NoRoomForClient, 400)])), Breaks::Latency);
        let saturated = Round { idle_cpu_ratio: 0.01, accept_busy_ratio: 0.95, ..round(&[]) };
        assert_eq!(breaks_first(&saturated), Breaks::Cpus, "a server without CPU is not the limit itself");
        let busy = Round { accept_busy_ratio: 0.95, ..round(&[(Failure::QueueFull, 3)]) };
        assert_eq!(breaks_first(&busy), Breaks::AcceptingThread);
        let slow_clients = Round { clients_busy_ratio: 0.97, ..busy };
        assert_eq!(breaks_first(&slow_clients), Breaks::Clients, "a late client cannot judge the server");
        assert_eq!(breaks_first(&round(&[(Failure::Reset, 100)])), Breaks::Resets);
        assert_eq!(breaks_first(&round(&[(Failure::NoThread, 100)])), Breaks::Threads);
    }

    #[test]
    fn one_client_in_a_hundred_may_be_late() {
        assert!(Round { due: 1_000, in_time: 990, ..Round::default() }.is_sustained());
        assert!(!Round { due: 1_000, in_time: 989, ..Round::default() }.is_sustained());
    }

    #[test]
    fn a_near_miss_is_tried_again_and_who_was_served_late_is_counted() {
        let near = Round {
            due: 1_000,
            in_time: 950,
            failures: [(Failure::TimedOut, 20)].into(),
            ..Round::default()
        };
        assert!(near.nearly_is());
        assert_eq!(near.late(), 30);
        assert!(!Round { in_time: 800, ..near.clone() }.nearly_is());
        assert!(!Round { in_time: 1_000, ..near }.nearly_is());
    }
}
