//! Deadlocks, by what samples hold anyway. Pure.
//!
//! Of rows: InnoDB prints the latest in its status, which is read every 20 s; where its counter grew by more than one since the last
//! one that was kept, the event says how many there were. Of metadata and user locks: the server prints none of them; MySQL from
//! 8.0.18 on counts their errors by number (1213 for metadata, 3058 for user locks), and those of 1213 that InnoDB did not
//! count are theirs. Which statements failed meanwhile its summary by digest says; who was in the ring with them nobody does.

use std::collections::{BTreeMap, VecDeque};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use spindoctor_model::innodb_status::PrintedEvent;
use spindoctor_model::{RecordedSample, ServerVersion, StallKind, number};
use spindoctor_rules::deadlock::Deadlock;

use super::happened::Happened;

/// `ER_LOCK_DEADLOCK`, of rows and of metadata locks; `ER_USER_LOCK_DEADLOCK`.
const OF_LOCKS: u32 = 1213;
const OF_USER_LOCKS: u32 = 3058;

/// The counter of deadlocks of rows: MariaDB's status, MySQL's INNODB_METRICS.
const OF_STATUS: &str = "Innodb_deadlocks";
const OF_METRICS: &str = "lock_deadlocks";

/// Servers' clocks are some quarters of an hour from UTC, wherever they are.
const ZONES_S: f64 = 900.0;

/// The summary by digest is read as often as the errors, at another second of the half minute. So many of its readings reach back
/// over the time in which errors were counted.
const READINGS: usize = 3;
/// Where it does not come in time, nobody waits for it: two of its periods.
const LATE_S: f64 = 60.0;

/// Statements that are named.
const NAMED: usize = 2;
/// Characters of one.
const SHOWN: usize = 160;

/// Watches for deadlocks in one segment.
#[derive(Default)]
pub struct Deadlocks {
    /// True where InnoDB's counter leaves none out (see `deadlock-storm`), so that what else ended with 1213 is known.
    counts_all: bool,
    /// InnoDB's counter as it was read last.
    counted: Option<f64>,
    /// The latest that is printed, once the status was read; and the counter when one was kept last, or the status read first.
    printed: Option<Option<PrintedEvent>>,
    counted_then: Option<f64>,
    /// One that was not kept yet, with the time at which its status was read.
    new: Option<(PrintedEvent, Timestamp)>,
    errors: Option<Errors>,
    /// Errors that grew, of which the others' readings are waited for.
    grown: Option<Grown>,
    /// Errors of each statement so far, in the last readings of the summary.
    failed: VecDeque<BTreeMap<String, u64>>,
}

/// Errors as they were counted at an instant.
#[derive(Debug, Clone, Copy)]
struct Errors {
    at: Timestamp,
    of_locks: u64,
    of_user_locks: u64,
    /// InnoDB's counter as it was read last before.
    counted: Option<f64>,
}

/// Errors between two instants.
#[derive(Debug, Clone, Copy)]
struct Grown {
    first: Errors,
    last: Errors,
    /// InnoDB's counter, read later than the last.
    counted: Option<f64>,
    /// The summary by digest was read later than the last.
    has_statements: bool,
    is_late: bool,
}

impl Grown {
    fn new(first: Errors, last: Errors) -> Self {
        Self { first, last, counted: None, has_statements: false, is_late: false }
    }
}

impl Deadlocks {
    /// Of a server of this version.
    pub fn new(version: Option<ServerVersion>) -> Self {
        let counts_all = version.is_some_and(|version| version.mysql_at_least(8, 0, 18));
        Self { counts_all, ..Self::default() }
    }

    /// Takes what a sample has.
    pub fn read(&mut self, recorded: &RecordedSample) {
        let server = &recorded.sample.server;
        let of_status = server.status.value().and_then(|status| status.number(OF_STATUS));
        let of_metrics = || {
            let metric = server.innodb_metrics.value()?.get(OF_METRICS)?;
            metric.enabled.then_some(metric.count)
        };
        let counted = of_status.or_else(of_metrics);
        if let Some(status) = server.innodb_status.value() {
            self.printed(status.latest_deadlock.as_ref(), recorded.at);
        }
        if let Some(grown) = &mut self.grown {
            grown.counted = grown.counted.or(counted);
            grown.has_statements |= server.digests.value().is_some();
            grown.is_late |= recorded.at.duration_since(grown.last.at).as_secs_f64() > LATE_S;
        }
        if let Some(digests) = server.digests.value() {
            let failed = digests.iter().filter_map(|digest| {
                let errors = digest.errors.filter(|errors| *errors > 0)?;
                Some((spindoctor_sql::server_digest(&digest.text).to_owned(), errors))
            });
            self.failed.push_back(failed.collect());
            if self.failed.len() > READINGS {
                self.failed.pop_front();
            }
        }
        if let Some(by_number) = server.errors.value().and_then(|errors| errors.by_number.as_ref()) {
            let raised = |of: u32| by_number.iter().find(|error| error.number == of).map_or(0, |e| e.raised);
            let (of_locks, of_user_locks) = (raised(OF_LOCKS), raised(OF_USER_LOCKS));
            // In the first sample both are read within milliseconds, and nothing was read before.
            let counted = self.counted.or(counted);
            let last = Errors { at: recorded.at, of_locks, of_user_locks, counted };
            let has_grown = |first: &Errors| first.of_locks < of_locks || first.of_user_locks < of_user_locks;
            // Where those before are still looked into, what came since belongs to them.
            let first = self.grown.take().map(|grown| grown.first).or(self.errors.filter(has_grown));
            self.grown = first.map(|first| Grown::new(first, last));
            self.errors = Some(last);
        }
        self.counted = counted.or(self.counted);
    }

    fn printed(&mut self, latest: Option<&PrintedEvent>, at: Timestamp) {
        match &self.printed {
            // It is older than this recorder.
            None => self.counted_then = self.counted,
            Some(known) if known.as_ref() != latest => {
                if let Some(latest) = latest {
                    self.new = Some((latest.clone(), at));
                }
            }
            Some(_) => return,
        }
        self.printed = Some(latest.cloned());
    }

    /// A deadlock of rows that was not said yet.
    pub fn of_rows(&mut self) -> Option<Happened> {
        let (printed, read_at) = self.new.take()?;
        let since = std::mem::replace(&mut self.counted_then, self.counted);
        let deadlock = Deadlock::from_printed(&printed);
        let began = deadlock.at.map_or(read_at, |at| instant(at, read_at));
        let all = self.counted.zip(since).map_or(1.0, |(now, then)| now - then);
        let what = match all {
            all if all >= 2.0 => {
                format!("{}, the last", number::counted(all as u64, "deadlock", "deadlocks"))
            }
            _ => "a deadlock".to_owned(),
        };
        let because = match deadlock.parties[..] {
            [] => format!("{what}: InnoDB prints nothing more of it"),
            _ => format!("{what}: {deadlock}"),
        };
        // InnoDB prints whole seconds.
        let ended = began + SignedDuration::from_secs(1);
        Some(Happened { kind: StallKind::Deadlock, began, ended, because, diagnosis: None, question: None })
    }

    /// Deadlocks of metadata or user locks that were not said yet.
    pub fn of_metadata(&mut self) -> Option<Happened> {
        let is_known = |grown: &mut Grown| {
            let counts = grown.counted.is_some() || grown.last.of_locks == grown.first.of_locks;
            grown.is_late || (counts && grown.has_statements)
        };
        let Grown { first, last, counted, .. } = self.grown.take_if(is_known)?;
        let grown = |of: fn(&Errors) -> u64| of(&last).saturating_sub(of(&first));
        // InnoDB's growth is of a longer time: what is left over is certain.
        let of_rows = counted.zip(first.counted).map(|(now, then)| (now - then).max(0.0));
        let of_tables = of_rows
            .filter(|_| self.counts_all)
            .map_or(0, |of_rows| grown(|errors| errors.of_locks).saturating_sub(of_rows.ceil() as u64));
        let of_users = grown(|errors| errors.of_user_locks);
        // One ring of metadata locks raises its error twice (seen on 9.7.4): how many there were is not known.
        let of_what = match (of_tables, of_users) {
            (0, 0) => return None,
            (_, 0) => "metadata locks",
            (0, _) => "user locks",
            _ => "metadata and of user locks",
        };
        let statements = match self.failing() {
            failing if failing.is_empty() => String::new(),
            failing => format!("; statements that ended with an error meanwhile: {}", failing.join(" and ")),
        };
        let because = format!(
            "a deadlock of {of_what}, or more than one (errors {OF_LOCKS} and {OF_USER_LOCKS} that are none of InnoDB's): the server \
             does not say who was in the ring{statements}"
        );
        Some(Happened {
            kind: StallKind::Deadlock,
            began: first.at,
            ended: last.at,
            because,
            diagnosis: None,
            question: None,
        })
    }

    /// Statements whose errors grew in the last readings of the summary, most errors first.
    fn failing(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.failed.front(), self.failed.back()) else { return Vec::new() };
        let mut failing: Vec<(u64, &String)> = last
            .iter()
            .map(|(text, errors)| (errors.saturating_sub(first.get(text).copied().unwrap_or(0)), text))
            .filter(|(grown, text)| *grown > 0 && !text.is_empty())
            .collect();
        failing.sort_by(|a, b| b.cmp(a));
        failing.iter().take(NAMED).map(|(_, text)| text.chars().take(SHOWN).collect()).collect()
    }
}

/// When that was: of the server's clock its zone is not known, but that it is whole quarters of an hour from ours, and that it was
/// read minutes later at most.
fn instant(printed: DateTime, read_at: Timestamp) -> Timestamp {
    let Ok(as_utc) = TimeZone::UTC.to_timestamp(printed) else { return read_at };
    let ahead_s = as_utc.duration_since(read_at).as_secs_f64();
    let zone_s = (ahead_s / ZONES_S).round() * ZONES_S;
    (as_utc - SignedDuration::from_secs_f64(zone_s)).min(read_at)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::{ErrorCount, ErrorSummary, InnodbMetric, StatementDigest};
    use spindoctor_model::{InnodbStatus, Reading};

    use super::*;

    fn at(second: f64) -> Timestamp {
        "2026-11-29T04:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs_f64(second)
    }

    fn sample(second: f64) -> RecordedSample {
        RecordedSample { at: at(second), ..RecordedSample::default() }
    }

    fn reading<T>(value: T) -> Reading<T> {
        Reading::Available { at_s: 0.0, took_ms: 1.0, value }
    }

    fn counted(second: f64, deadlocks: u32) -> RecordedSample {
        let mut sample = sample(second);
        let metric = InnodbMetric { count: deadlocks.into(), enabled: true };
        sample.sample.server.innodb_metrics = reading([(OF_METRICS.to_owned(), metric)].into());
        sample
    }

    /// The status, whose clock is two hours ahead.
    fn status(second: f64, latest: Option<(&str, &str)>) -> RecordedSample {
        let mut sample = sample(second);
        let latest_deadlock = latest.map(|(time, victim)| PrintedEvent {
            time: time.into(),
            text: format!(
                "*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 0 sec\nMySQL thread id 12, OS thread handle 1, query id 5 localhost app \
                 updating\nUPDATE stock SET n = 'secret'\n*** (2) TRANSACTION:\nTRANSACTION 8, ACTIVE 0 sec\nMySQL thread id 13, OS \
                 thread handle 1, query id 6 localhost app updating\nDELETE FROM stock WHERE id = 4711\n*** WE ROLL BACK TRANSACTION \
                 ({victim})\n"
            ),
            cut: false,
        });
        sample.sample.server.innodb_status =
            reading(InnodbStatus { latest_deadlock, ..InnodbStatus::default() });
        sample
    }

    fn errors(second: f64, of_locks: u64, of_user_locks: u64) -> RecordedSample {
        let mut sample = sample(second);
        let of = |number, raised| ErrorCount { number, raised, ..ErrorCount::default() };
        let by_number = Some(vec![of(1062, 5), of(OF_LOCKS, of_locks), of(OF_USER_LOCKS, of_user_locks)]);
        sample.sample.server.errors = reading(ErrorSummary { by_number, ..ErrorSummary::default() });
        sample
    }

    fn digests(second: f64, failed: u64) -> RecordedSample {
        let mut sample = sample(second);
        let digest = |text: &str, errors| StatementDigest {
            text: text.into(),
            errors: Some(errors),
            ..StatementDigest::default()
        };
        sample.sample.server.digests = reading(vec![
            digest("ALTER TABLE `t` ADD COLUMN ( `c` INTEGER )", failed),
            digest("SELECT ?", 0),
        ]);
        sample
    }

    fn mysql() -> Deadlocks {
        Deadlocks::new(ServerVersion::parse("9.7.4", ""))
    }

    #[test]
    fn a_deadlock_is_said_once_at_its_second_with_both_statements_and_no_literal() {
        let mut deadlocks = mysql();
        let old = Some(("2026-11-29 01:00:00 0x7f", "1"));
        deadlocks.read(&status(0.0, old));
        assert_eq!(deadlocks.of_rows(), None, "it is older than the recorder");
        deadlocks.read(&counted(18.0, 3));
        deadlocks.read(&status(20.0, Some(("2026-11-29 06:00:13 0x7f", "2"))));
        let happened = deadlocks.of_rows().unwrap();
        assert_eq!((happened.began, happened.ended), (at(13.0), at(14.0)));
        assert_eq!(
            happened.because,
            "a deadlock: connection 12 (UPDATE stock SET n = ?) was in it; connection 13 (DELETE FROM stock WHERE id = ?) was rolled \
             back"
        );
        deadlocks.read(&status(40.0, Some(("2026-11-29 06:00:13 0x7f", "2"))));
        assert_eq!(deadlocks.of_rows(), None);
        // Of several the server prints the last; and the same statements in another second are another deadlock.
        deadlocks.read(&counted(58.0, 7));
        deadlocks.read(&status(60.0, Some(("2026-11-29 06:00:59 0x7f", "2"))));
        assert!(deadlocks.of_rows().unwrap().because.starts_with("4 deadlocks, the last: "));
    }

    #[test]
    fn the_first_deadlock_of_a_server_is_one_too() {
        let mut deadlocks = mysql();
        deadlocks.read(&status(0.0, None));
        deadlocks.read(&status(20.0, Some(("261129  6:00:13", "1"))));
        assert_eq!(deadlocks.of_rows().map(|happened| happened.began), Some(at(13.0)));
    }

    #[test]
    fn errors_1213_that_innodb_did_not_count_are_of_metadata_locks() {
        let mut deadlocks = mysql();
        for sample in
            [counted(0.0, 5), errors(1.0, 50, 0), digests(5.0, 2), counted(30.0, 6), errors(31.0, 53, 0)]
        {
            deadlocks.read(&sample);
            assert_eq!(deadlocks.of_metadata(), None);
        }
        // One more of InnoDB's happened meanwhile, or just before the errors were read.
        deadlocks.read(&counted(32.0, 7));
        assert_eq!(deadlocks.of_metadata(), None, "the statements are waited for");
        deadlocks.read(&digests(35.0, 4));
        let happened = deadlocks.of_metadata().unwrap();
        assert_eq!((happened.began, happened.ended), (at(1.0), at(31.0)));
        assert!(happened.because.starts_with("a deadlock of metadata locks"), "{}", happened.because);
        assert!(
            happened.because.ends_with("ALTER TABLE `t` ADD COLUMN ( `c` INTEGER )"),
            "{}",
            happened.because
        );
        assert_eq!(deadlocks.of_metadata(), None);
    }

    #[test]
    fn the_first_sample_has_both_counts() {
        let mut deadlocks = mysql();
        let mut first = errors(0.0, 50, 0);
        first.sample.server.innodb_metrics = counted(0.0, 5).sample.server.innodb_metrics;
        for sample in [first, errors(20.0, 52, 0), counted(22.0, 6), digests(25.0, 0)] {
            deadlocks.read(&sample);
        }
        assert!(deadlocks.of_metadata().unwrap().because.starts_with("a deadlock of metadata locks"));
    }

    #[test]
    fn what_innodb_counts_is_of_rows_and_a_version_that_leaves_some_out_says_nothing() {
        let run = |version: &str, counted_after: u32| {
            let mut deadlocks = Deadlocks::new(ServerVersion::parse(version, ""));
            for sample in
                [counted(0.0, 5), errors(1.0, 50, 0), errors(31.0, 53, 0), counted(32.0, counted_after)]
            {
                deadlocks.read(&sample);
            }
            deadlocks.read(&sample(92.0));
            deadlocks.of_metadata().is_some()
        };
        assert!(!run("9.7.4", 8), "three of InnoDB's");
        assert!(run("9.7.4", 5), "without a summary of statements, too, but later");
        assert!(!run("8.0.15", 5));
    }

    #[test]
    fn user_locks_have_an_error_of_their_own() {
        let mut deadlocks = mysql();
        for sample in [errors(1.0, 0, 0), errors(31.0, 0, 2), digests(35.0, 0)] {
            deadlocks.read(&sample);
        }
        assert!(deadlocks.of_metadata().unwrap().because.starts_with("a deadlock of user locks"));
    }

    #[test]
    fn a_zone_of_half_hours_and_a_clock_that_is_a_little_ahead_are_understood() {
        let printed = |text: &str| text.parse::<DateTime>().unwrap();
        assert_eq!(instant(printed("2026-11-29T09:30:05"), at(20.0)), at(5.0));
        assert_eq!(instant(printed("2026-11-28T23:59:50"), at(3.0)), at(-10.0));
        assert_eq!(instant(printed("2026-11-29T04:00:04"), at(3.0)), at(3.0));
    }
}
