//! Guard rails: limits that a block must not exceed on a server, checked once per second while it runs.
//!
//! In: readings of the baseline, then a reading per second. Out: a [`Trip`] with its numbers, at once. Each limit is
//! the baseline's own worst second times a factor, because no absolute number fits every server. Pure.

use std::fmt;

use spindoctor_model::number::bytes;

use crate::measure::{Counters, Rates};

/// A second whose 95th percentile is beyond this multiple of the baseline's worst, and ...
const P95_FACTOR: f64 = 3.0;
/// ... that much slower, milliseconds, counts against the block: a rise from 0.2 to 0.7 ms is for the trial to judge, and nobody's
/// outage. 5 ms is what one more write to a spinning disk costs a statement.
const P95_LEAST_RISE_MS: f64 = 5.0;
/// Of the statements, as many more may fail than in the baseline's worst second: a deadlock now and then is no harm.
const ERROR_SHARE: f64 = 0.01;
/// Running threads beyond this multiple of the baseline's highest, and ...
const RUNNING_FACTOR: f64 = 3.0;
/// ... so many more: a pile-up of a handful comes and goes on a healthy server.
const RUNNING_LEAST_RISE: f64 = 32.0;
/// A replica may fall so many seconds further behind: one long transaction of the source is within it.
const BEHIND_RISE_S: f64 = 10.0;
/// What must stay free of the disk with the data: the last twentieth is kept for root by ext4, and MySQL stops when there is none.
const DISK_KEPT_FREE: f64 = 0.05;
/// A second with less than this share of the baseline's slowest second is a collapse, not a slow setting: the worst mis-set spin
/// that was measured (a published table, 1,024 threads) leaves a quarter.
const COLLAPSE_SHARE: f64 = 0.1;
/// One such second may be a checkpoint or a stolen CPU; as many in a row are not.
const SECONDS_IN_A_ROW: u32 = 2;

/// Which rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rail {
    /// 95th percentile of a statement's time.
    P95,
    /// Statements that fail.
    Errors,
    /// Statements that run at once.
    ThreadsRunning,
    /// Statements a second: next to none are left.
    Collapse,
    /// How far this replica is behind.
    ReplicationLag,
    /// Free space of the disk with the data.
    Disk,
    /// Bytes of all undo tablespaces, where some were made.
    Undo,
    /// How long the server does not answer what is watched.
    Silence,
}

/// A rail that was hit, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trip {
    /// Which.
    pub rail: Rail,
    /// What was read.
    pub reading: f64,
    /// What it may be.
    pub limit: f64,
    /// The baseline's worst.
    pub baseline: f64,
}

/// The limits of one server under its load.
#[derive(Debug, Clone, PartialEq)]
pub struct Rails {
    p95_ms: Option<Limit>,
    errors_per_s: Option<f64>,
    threads_running: Limit,
    throughput_per_s: Limit,
    behind_s: Option<Limit>,
    disk_free_bytes: Option<Limit>,
    undo_bytes: Option<Limit>,
    /// Bad seconds so far without a good one between: of p95, running threads, collapse, errors.
    in_a_row: [u32; 4],
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Limit {
    limit: f64,
    baseline: f64,
}

impl Rails {
    /// The limits, from seconds of the server as it was. None where there is no second to go by.
    pub fn from_baseline(baseline: &[(Counters, Rates)]) -> Option<Self> {
        let (last, _) = baseline.last()?;
        let highest = |pick: &dyn Fn(&(Counters, Rates)) -> Option<f64>| {
            baseline.iter().filter_map(pick).filter(|reading| reading.is_finite()).reduce(f64::max)
        };
        let beyond = |factor: f64, least_rise: f64| {
            move |baseline: f64| Limit { limit: (baseline * factor).max(baseline + least_rise), baseline }
        };
        let slowest = baseline.iter().map(|(_, rates)| rates.throughput_per_s).reduce(f64::min)?;
        let disk = last.disk_free_bytes.zip(last.disk_bytes).map(|(free, all)| {
            let free = free as f64;
            // A disk that is nearly full already may lose half of what is left.
            Limit { limit: (all as f64 * DISK_KEPT_FREE).min(free / 2.0), baseline: free }
        });
        Some(Self {
            p95_ms: highest(&|(_, rates)| rates.p95_ms).map(beyond(P95_FACTOR, P95_LEAST_RISE_MS)),
            errors_per_s: highest(&|(_, rates)| rates.errors_per_s),
            threads_running: highest(&|(counters, _)| Some(counters.threads_running))
                .map(beyond(RUNNING_FACTOR, RUNNING_LEAST_RISE))?,
            throughput_per_s: Limit { limit: slowest * COLLAPSE_SHARE, baseline: slowest },
            behind_s: last.behind_s.map(|behind| Limit { limit: behind + BEHIND_RISE_S, baseline: behind }),
            disk_free_bytes: disk,
            undo_bytes: None,
            in_a_row: [0; 4],
        })
    }

    /// Sets the limit of [`Rail::Undo`]: all undo together may take `budget_bytes` more than `bytes_before`.
    pub(crate) fn guard_undo(&mut self, bytes_before: u64, budget_bytes: u64) {
        let baseline = bytes_before as f64;
        self.undo_bytes = Some(Limit { limit: baseline + budget_bytes as f64, baseline });
    }

    /// Looks at one second. A rail that one bad second does not prove is hit by the second in a row.
    pub fn check(&mut self, counters: &Counters, rates: &Rates) -> Option<Trip> {
        let (at_once, in_doubt) = self.beyond(counters, rates);
        for (count, trip) in self.in_a_row.iter_mut().zip(&in_doubt) {
            *count = if trip.is_some() { *count + 1 } else { 0 };
        }
        let proven =
            in_doubt.into_iter().zip(&self.in_a_row).filter(|(_, count)| **count >= SECONDS_IN_A_ROW);
        at_once.into_iter().chain(proven.map(|(trip, _)| trip)).flatten().next()
    }

    /// True where this second alone would not count against a block.
    pub fn is_within(&self, counters: &Counters, rates: &Rates) -> bool {
        let (at_once, in_doubt) = self.beyond(counters, rates);
        at_once.into_iter().chain(in_doubt).flatten().next().is_none()
    }

    /// The rails that one reading proves, and those that need more.
    fn beyond(&self, counters: &Counters, rates: &Rates) -> ([Option<Trip>; 3], [Option<Trip>; 4]) {
        let hit = |rail: Rail, reading: Option<f64>, limit: Option<Limit>| {
            let (reading, Limit { limit, baseline }) = (reading?, limit?);
            let is_beyond = match rail {
                Rail::Collapse | Rail::Disk => reading < limit,
                Rail::P95
                | Rail::Errors
                | Rail::ThreadsRunning
                | Rail::ReplicationLag
                | Rail::Undo
                | Rail::Silence => reading > limit,
            };
            is_beyond.then_some(Trip { rail, reading, limit, baseline })
        };
        let errors = self.errors_per_s.map(|worst| Limit {
            limit: worst + (rates.throughput_per_s * ERROR_SHARE).max(1.0),
            baseline: worst,
        });
        let disk_free = counters.disk_free_bytes.map(|free| free as f64);
        (
            [
                hit(Rail::ReplicationLag, counters.behind_s, self.behind_s),
                hit(Rail::Disk, disk_free, self.disk_free_bytes),
                hit(Rail::Undo, counters.undo_bytes.map(|undo| undo as f64), self.undo_bytes),
            ],
            [
                hit(Rail::P95, rates.p95_ms, self.p95_ms),
                hit(Rail::ThreadsRunning, Some(counters.threads_running), Some(self.threads_running)),
                hit(Rail::Collapse, Some(rates.throughput_per_s), Some(self.throughput_per_s)),
                hit(Rail::Errors, rates.errors_per_s, errors),
            ],
        )
    }

    /// Forgets bad seconds: a new block begins.
    pub fn begin(&mut self) {
        self.in_a_row = [0; 4];
    }

    /// What is watched, with its limit, for the report.
    pub fn descriptions(&self) -> Vec<String> {
        let mut watched = Vec::new();
        if let Some(p95) = self.p95_ms {
            watched.push(format!("p95 up to {:.1} ms", p95.limit));
        }
        if let Some(errors) = self.errors_per_s {
            // Shown to a tenth.
            let anyway = match errors {
                errors if errors < 0.05 => String::new(),
                errors => format!(" besides the {errors:.1} a second that fail anyway"),
            };
            watched.push(format!("at most {:.0} % of the statements failing{anyway}", ERROR_SHARE * 100.0));
        }
        watched.push(format!("{:.0} statements at once at most", self.threads_running.limit));
        watched.push(format!("no fewer than {:.0} statements a second", self.throughput_per_s.limit));
        if let Some(behind) = self.behind_s {
            watched.push(format!("{:.0} s behind the source at most", behind.limit));
        }
        if let Some(disk) = self.disk_free_bytes {
            watched.push(format!("{} of the disk left free", bytes(disk.limit)));
        }
        if let Some(undo) = self.undo_bytes {
            watched.push(format!("{} of undo at most", bytes(undo.limit)));
        }
        watched
    }
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reading, limit, baseline, rail } = self;
        match rail {
            Rail::P95 => write!(
                f,
                "95 % of the statements took up to {reading:.1} ms; the rail is {limit:.1} ms, {P95_FACTOR} times the worst second before ({baseline:.1} ms)"
            ),
            Rail::Errors => write!(
                f,
                "{reading:.1} statements a second failed; the rail is {limit:.1}, 1 % of all more than in the worst second before ({baseline:.1})"
            ),
            Rail::ThreadsRunning => write!(
                f,
                "{reading:.0} statements ran at once; the rail is {limit:.0}, {RUNNING_FACTOR} times the most before ({baseline:.0})"
            ),
            Rail::Collapse => write!(
                f,
                "{reading:.0} statements a second were left; the rail is {limit:.0}, a tenth of the slowest second before ({baseline:.0})"
            ),
            Rail::ReplicationLag => write!(
                f,
                "this replica is {reading:.0} s behind; the rail is {limit:.0} s, {BEHIND_RISE_S} s more than before ({baseline:.0} s)"
            ),
            Rail::Silence => write!(
                f,
                "the server did not answer for {reading:.1} s; the rail is {limit:.1} s (it answered within {baseline:.1} s before)"
            ),
            Rail::Undo => write!(
                f,
                "the undo tablespaces take {}; the rail is {}, a quarter of what was free more than before ({}): a long transaction keeps them from being truncated",
                bytes(*reading),
                bytes(*limit),
                bytes(*baseline)
            ),
            Rail::Disk => write!(
                f,
                "{} of the disk with the data are free; the rail is {}, {:.0} % of the disk",
                bytes(*reading),
                bytes(*limit),
                DISK_KEPT_FREE * 100.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn second(throughput_per_s: f64, p95_ms: f64) -> (Counters, Rates) {
        let counters = Counters {
            at: Instant::now(),
            uptime_s: 1_000,
            statements: 0.0,
            commits: 0.0,
            threads_running: 20.0,
            connections: 64.0,
            errors: Some(0.0),
            cpu_us: Some(0.0),
            histogram: None,
            behind_s: Some(2.0),
            disk_free_bytes: Some(100 << 30),
            disk_bytes: Some(200 << 30),
            undo_bytes: Some(3 << 30),
            segments: None,
            served: None,
            loops: None,
        };
        let rates = Rates {
            seconds: 1.0,
            throughput_per_s,
            p95_ms: Some(p95_ms),
            cpu_us_per_query: Some(100.0),
            errors_per_s: Some(0.0),
            loop_ns: None,
            ..Rates::default()
        };
        (counters, rates)
    }

    fn rails() -> Rails {
        Rails::from_baseline(&[second(1_000.0, 8.0), second(1_200.0, 10.0)]).unwrap()
    }

    fn hit(change: impl Fn(&mut Counters, &mut Rates)) -> Option<Rail> {
        let mut rails = rails();
        let (mut counters, mut rates) = second(1_000.0, 9.0);
        change(&mut counters, &mut rates);
        let first = rails.check(&counters, &rates);
        first.or_else(|| rails.check(&counters, &rates)).map(|trip| trip.rail)
    }

    #[test]
    fn each_rail_is_hit_by_its_own_reading_and_not_just_before() {
        assert_eq!(hit(|_, _| ()), None);
        assert_eq!(hit(|_, rates| rates.p95_ms = Some(30.0)), None);
        assert_eq!(hit(|_, rates| rates.p95_ms = Some(30.1)), Some(Rail::P95));
        assert_eq!(hit(|_, rates| rates.errors_per_s = Some(10.0)), None);
        assert_eq!(hit(|_, rates| rates.errors_per_s = Some(10.1)), Some(Rail::Errors));
        assert_eq!(hit(|counters, _| counters.threads_running = 60.0), None);
        assert_eq!(hit(|counters, _| counters.threads_running = 61.0), Some(Rail::ThreadsRunning));
        assert_eq!(hit(|_, rates| rates.throughput_per_s = 100.0), None);
        assert_eq!(hit(|_, rates| rates.throughput_per_s = 99.0), Some(Rail::Collapse));
        assert_eq!(hit(|counters, _| counters.behind_s = Some(12.0)), None);
        assert_eq!(hit(|counters, _| counters.behind_s = Some(13.0)), Some(Rail::ReplicationLag));
        assert_eq!(hit(|counters, _| counters.disk_free_bytes = Some(10 << 30)), None);
        assert_eq!(hit(|counters, _| counters.disk_free_bytes = Some(9 << 30)), Some(Rail::Disk));
    }

    #[test]
    fn one_bad_second_between_good_ones_hits_no_rail() {
        let (good, bad) = (second(1_000.0, 9.0), second(1_000.0, 300.0));
        let mut rails = rails();
        for (counters, rates) in [&bad, &good, &bad, &good, &bad] {
            assert_eq!(rails.check(counters, rates), None);
        }
        let (counters, rates) = &bad;
        let trip = rails.check(counters, rates).unwrap();
        assert_eq!(trip.rail, Rail::P95);
        assert!(trip.to_string().contains("300.0 ms") && trip.to_string().contains("30.0 ms"), "{trip}");
    }

    #[test]
    fn undo_that_outgrows_its_budget_hits_its_rail_at_once() {
        let mut rails = rails();
        let (mut counters, rates) = second(1_000.0, 9.0);
        counters.undo_bytes = Some(900 << 30);
        // Where none was made nobody asks.
        assert_eq!(rails.check(&counters, &rates), None);
        rails.guard_undo(3 << 30, 1 << 30);
        counters.undo_bytes = Some(4 << 30);
        assert_eq!(rails.check(&counters, &rates), None);
        counters.undo_bytes = Some((4 << 30) + 1);
        let trip = rails.check(&counters, &rates).unwrap();
        assert_eq!(trip.rail, Rail::Undo);
        assert!(trip.to_string().contains("take 4 GiB") && trip.to_string().contains("(3 GiB)"), "{trip}");
        assert!(rails.descriptions().iter().any(|what| what == "4 GiB of undo at most"));
    }

    #[test]
    fn what_is_not_read_hits_nothing() {
        let (mut counters, mut rates) = second(1_000.0, 9.0);
        (counters.behind_s, counters.disk_free_bytes) = (None, None);
        (rates.p95_ms, rates.errors_per_s) = (None, None);
        let mut rails = Rails::from_baseline(&[(counters.clone(), rates)]).unwrap();
        let (worse, worse_rates) = second(1_000.0, 9_000.0);
        assert_eq!(rails.check(&worse, &worse_rates), None);
        assert_eq!(rails.check(&worse, &worse_rates), None);
        assert_eq!(Rails::from_baseline(&[]), None);
    }
}
