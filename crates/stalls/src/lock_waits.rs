//! [`StallKind::LockWaits`](spindoctor_model::StallKind): most sessions at work wait for locks in a snapshot of them.
//!
//! A stall of 200 ms loses one interval between two probes, in which some six clients wait for a tenth of a second:
//! noise does the same now and then, so counters alone cannot show it. Sessions that wait for a lock are no noise. The
//! usual number comes from the samples of each second, which are no more likely to meet a stall than any other moment.

use std::collections::BTreeSet;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{Probe, RecordedSample, ServerSample};

use super::Sight;
use super::recent::Recent;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 300.0;
/// And from this many samples at least: ten seconds.
const ENOUGH_SAMPLES: usize = 10;
/// The most of the usual ones: sessions wait for hot rows in more than 3 of 100 seconds.
const USUAL_QUANTILE: f64 = 0.97;
/// A stall has so many times the usual number of waiting sessions, and so many more: two waiting clients are normal
/// (`row-lock-pileup`).
const TIMES_USUAL: f64 = 2.0;
const MORE_THAN_USUAL: f64 = 3.0;
/// And this share of those at work: a lock that blocks a few of many sessions is not a stall of the server.
const OF_THOSE_AT_WORK: f64 = 0.5;
/// The stall is over where no more than this share of the waiting sessions still wait, or of the sessions at work still
/// run.
const OVER_RATIO: f64 = 0.5;
/// A state that lasts that long is the usual one.
const NEW_USUAL_AFTER_S: f64 = 600.0;

/// Watches who waits for locks.
#[derive(Debug)]
pub(super) struct LockWaits {
    usual: Recent,
    /// The last probes: when they were answered, and how many threads ran.
    before: [Option<(f64, f64)>; 2],
    seen: Option<SeenStall>,
}

#[derive(Debug)]
struct SeenStall {
    sight: Sight,
    counted: Counted,
}

/// Sessions at one instant.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    at_work: f64,
    waiting: f64,
}

impl LockWaits {
    pub(super) fn new() -> Self {
        Self { usual: Recent::over(USUAL_OVER_S), before: [None; 2], seen: None }
    }

    /// A probe: it says when a stall begins and when it is over.
    pub(super) fn probe(&mut self, probe: &Probe) -> Option<Sight> {
        let done_s = probe.at_s + probe.took_ms / 1e3;
        if let Some(running) = probe.threads_running.map(|running| running as f64) {
            let is_over = |seen: &SeenStall| running <= OVER_RATIO * seen.counted.at_work;
            if self.seen.as_ref().is_some_and(is_over) {
                self.seen = None;
            }
            self.before = [self.before[1], Some((done_s, running))];
        }
        self.sight()
    }

    /// A sample of the second: the usual number comes from it.
    pub(super) fn sample(&mut self, recorded: &RecordedSample) -> Option<Sight> {
        let now_s = recorded.sample.at_s;
        if self.seen.as_ref().is_some_and(|seen| now_s - seen.sight.began_s >= NEW_USUAL_AFTER_S) {
            self.seen = None;
            self.usual = Recent::over(USUAL_OVER_S);
        }
        if let Some(counted) = count(&recorded.sample.server) {
            self.end(counted);
            if self.seen.is_none() {
                self.usual.push(now_s, counted.waiting);
            }
        }
        self.sight()
    }

    /// A look at the locks, which was taken because a probe gave reason to.
    pub(super) fn look(&mut self, recorded: &RecordedSample) -> Option<Sight> {
        let Some(counted) = count(&recorded.sample.server) else { return self.sight() };
        self.end(counted);
        if let (None, Some(usual)) = (&self.seen, self.usual())
            && counted.waiting >= TIMES_USUAL * usual + MORE_THAN_USUAL
            && counted.waiting >= OF_THOSE_AT_WORK * counted.at_work
        {
            let Counted { at_work, waiting } = counted;
            let because = format!(
                "{waiting:.0} of {at_work:.0} sessions at work wait for locks; lately it was {usual:.0} at most"
            );
            let sight = Sight { began_s: self.began_s(recorded.sample.at_s, at_work), because };
            self.seen = Some(SeenStall { sight, counted });
        }
        self.sight()
    }

    fn usual(&self) -> Option<f64> {
        (self.usual.len() >= ENOUGH_SAMPLES).then(|| self.usual.quantile(USUAL_QUANTILE)).flatten()
    }

    fn end(&mut self, now: Counted) {
        if self.seen.as_ref().is_some_and(|seen| now.waiting <= OVER_RATIO * seen.counted.waiting) {
            self.seen = None;
        }
    }

    /// After the last probe in which most of those who stand now did not yet.
    fn began_s(&self, at_s: f64, at_work: f64) -> f64 {
        let calm = self.before.iter().rev().flatten().find(|(_, running)| *running <= OVER_RATIO * at_work);
        let earliest = self.before.iter().flatten().next();
        calm.or(earliest).map_or(at_s, |&(done_s, _)| done_s.min(at_s))
    }

    fn sight(&self) -> Option<Sight> {
        self.seen.as_ref().map(|seen| seen.sight.clone())
    }
}

/// Sessions at work, and those of them that wait for a lock; none where nothing lists them.
fn count(server: &ServerSample) -> Option<Counted> {
    let threads = server.threads.value()?;
    let at_work = threads.iter().filter(|thread| thread.is_at_work());
    let (mut all, mut by_state) = (0, 0);
    for thread in at_work {
        all += 1;
        by_state += usize::from(waits(thread));
    }
    let rows = server.row_lock_waits.value().into_iter().flatten();
    let for_rows = rows.map(|wait| wait.waiting_transaction.as_str()).collect::<BTreeSet<_>>().len();
    let waiting = by_state + for_rows;
    Some(Counted { at_work: all.max(waiting) as f64, waiting: waiting as f64 })
}

/// True for a session in a state of waiting for a table's, schema's or the server's lock: `Waiting for table metadata
/// lock`, `Waiting for global read lock`, `Waiting for backup lock`, `Waiting for table level lock`, `Waiting for table
/// flush`. Locks that the application itself names (`User lock`) do not count.
fn waits(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    state.starts_with("waiting for ") && (state.ends_with(" lock") || state.ends_with(" table flush"))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::RowLockWait;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    const METADATA: &str = "Waiting for table metadata lock";

    /// So many sessions in each of these states; and so many transactions wait for rows.
    fn recorded(at_s: f64, states: &[(&str, usize)], for_rows: usize) -> RecordedSample {
        let session = |state: &str| ServerThread {
            is_connection: true,
            state: state.to_owned(),
            command: "Execute".to_owned(),
            ..ServerThread::default()
        };
        let threads = states.iter().flat_map(|&(state, count)| vec![session(state); count]).collect();
        let wait = |at: usize| RowLockWait { waiting_transaction: at.to_string(), ..RowLockWait::default() };
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.threads = Reading::Available { at_s, took_ms: 1.0, value: threads };
        let value = (0..for_rows).map(wait).collect();
        sample.server.row_lock_waits = Reading::Available { at_s, took_ms: 1.0, value };
        RecordedSample { sample, ..RecordedSample::default() }
    }

    fn probe(at_s: f64, running: u64) -> Probe {
        Probe { at_s, took_ms: 1.0, answered: true, threads_running: Some(running), ..Probe::default() }
    }

    /// A minute in which so many wait for rows each second.
    fn after_a_minute(for_rows: usize) -> LockWaits {
        let mut waits = LockWaits::new();
        for second in 0..60 {
            assert_eq!(waits.sample(&recorded(f64::from(second), &[("updating", 8)], for_rows)), None);
        }
        waits
    }

    /// Of a recording of MySQL 9.7 under 60 transactions a second: 200 ms of LOCK TABLES that no counter shows, as one
    /// interval alone was lost.
    #[test]
    fn a_lock_that_most_wait_for_is_a_stall_from_the_calm_probe_to_the_next_one() {
        let mut waits = after_a_minute(0);
        waits.probe(&probe(60.0, 2));
        waits.probe(&probe(60.1, 8));
        let seen = waits.look(&recorded(60.104, &[(METADATA, 7), ("closing tables", 1)], 0)).unwrap();
        assert!((seen.began_s - 60.001).abs() < 1e-9, "{}", seen.began_s);
        assert_eq!(seen.because, "7 of 8 sessions at work wait for locks; lately it was 0 at most");
        assert_eq!(waits.probe(&probe(60.2, 5)), Some(seen));
        assert_eq!(waits.probe(&probe(60.3, 4)), None);
    }

    #[test]
    fn two_that_meet_and_a_few_of_many_are_none() {
        let mut waits = after_a_minute(0);
        assert_eq!(waits.look(&recorded(60.1, &[(METADATA, 2)], 0)), None);
        assert_eq!(waits.look(&recorded(60.2, &[(METADATA, 5), ("Sending data", 6)], 0)), None);
        assert_eq!(waits.look(&recorded(60.3, &[("User lock", 5)], 0)), None);
        assert!(waits.look(&recorded(60.4, &[("updating", 3)], 3)).is_some());
    }

    #[test]
    fn rows_that_are_always_waited_for_are_none_and_nothing_is_reported_before_it_is_known() {
        let mut waits = after_a_minute(4);
        assert_eq!(waits.look(&recorded(60.1, &[("updating", 10)], 10)), None);
        assert!(waits.look(&recorded(60.2, &[("updating", 11)], 11)).is_some());
        assert_eq!(LockWaits::new().look(&recorded(0.1, &[(METADATA, 9)], 0)), None);
    }

    #[test]
    fn one_that_lasts_is_over_when_few_still_wait_whatever_else_runs() {
        let mut waits = after_a_minute(0);
        assert!(waits.look(&recorded(60.1, &[(METADATA, 8)], 0)).is_some());
        for second in 61..90 {
            assert!(waits.sample(&recorded(f64::from(second), &[(METADATA, 12)], 0)).is_some());
        }
        assert_eq!(waits.sample(&recorded(90.0, &[(METADATA, 4), ("executing", 20)], 0)), None);
    }
}
