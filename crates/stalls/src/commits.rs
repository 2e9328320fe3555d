//! [`StallKind::CommitsStopped`](spindoctor_model::StallKind): commits stop while threads run, even if they still read.
//! Where the counter of commits includes read-only transactions, the detector checks whether nothing is written to the
//! redo log.
//!
//! A probe that reads the server's memory has no counter of commits, but the end of the redo log. The samples have both, once
//! a second: from them commits are seen that stop for seconds while something else goes on to write.

use spindoctor_model::RecordedSample;
use spindoctor_model::mysql::STATUS_READ_WITHIN_S;

use super::Sight;
use super::collapse::Collapse;
use super::interval::Interval;
use super::threads_running::Crowd;

/// The names of the counter.
const COMMITS: [&str; 2] = ["no commit", "commits"];
/// Samples that are further apart are no interval: something was missed. Half a second is what a sample may be late.
const MOST_APART_S: f64 = STATUS_READ_WITHIN_S as f64 + 0.5;

/// Watches how many transactions were committed, and how much they wrote.
#[derive(Debug)]
pub(super) struct Commits {
    commits: Collapse,
    redo: Collapse,
    /// The samples' counter, where the probes have none.
    sampled: Collapse,
    before: Option<Point>,
    are_probed: bool,
}

/// The samples' counter at one instant.
#[derive(Debug, Clone, Copy)]
struct Point {
    at_s: f64,
    commits: f64,
    running: Option<f64>,
}

impl Commits {
    pub(super) fn new() -> Self {
        let redo = ["nothing was written to the redo log", "blocks of redo log"];
        Self {
            commits: Collapse::new(COMMITS),
            redo: Collapse::new(redo),
            sampled: Collapse::slow(COMMITS),
            before: None,
            are_probed: false,
        }
    }

    /// `crowd`: how many threads run at its end.
    pub(super) fn look(&mut self, interval: Option<&Interval>, crowd: Crowd) -> Option<Sight> {
        if let Some(interval) = interval {
            self.are_probed = interval.commits.is_some();
        }
        let commits = self.commits.look_at(interval, |interval| interval.commits, crowd);
        let redo = self.redo.look_at(interval, |interval| interval.redo_blocks, crowd);
        commits.or(redo)
    }

    /// What was seen in samples, as long as it lasts.
    pub(super) fn sampled(&mut self) -> Option<Sight> {
        self.sampled.look_at(None, |_| None, Crowd::Usual)
    }

    /// What a sample's status says, where the probes do not say it.
    pub(super) fn sample(&mut self, sample: &RecordedSample) -> Option<Sight> {
        let (at_s, status) = sample.sample.server.status.timed()?;
        let number = |name: &str| status.number(name);
        // The one that runs SHOW GLOBAL STATUS is spindoctor's.
        let running = number("Threads_running").map(|running| (running - 1.0).max(0.0));
        let now = Point { at_s, commits: number("Handler_commit")?, running };
        let before = self.before.replace(now)?;
        let length_s = now.at_s - before.at_s;
        let grown = now.commits - before.commits;
        if self.are_probed || grown < 0.0 || length_s <= 0.0 || length_s > MOST_APART_S {
            return None;
        }
        let interval = Interval {
            from_s: before.at_s,
            to_s: now.at_s,
            counted_s: length_s,
            every_s: length_s.min(1.0),
            questions: None,
            commits: Some(grown),
            redo_blocks: None,
            // At its beginning, a second ago, others may have run.
            running: [now.running; 2],
            late: false,
        };
        self.sampled.look_at(Some(&interval), |interval| interval.commits, Crowd::Usual)
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn sample(second: u32, commits: u32, running: u32) -> RecordedSample {
        let at_s = f64::from(second);
        let pairs = [("Handler_commit", commits), ("Threads_running", running + 1)];
        let value = NamedValues::from_iter(pairs.map(|(name, value)| (name, value.to_string())));
        let mut sample = Sample { at_s, ..Sample::default() };
        sample.server.status = Reading::Available { at_s, took_ms: 1.0, value };
        RecordedSample { sample, ..RecordedSample::default() }
    }

    fn run(stops: u32, for_s: u32, running: u32) -> Vec<u32> {
        run_at_pace(1, stops, for_s, running)
    }

    /// Ten minutes with some hundred commits a second, and from a second on none for so many; a sample every `pace_s`.
    fn run_at_pace(pace_s: u32, stops: u32, for_s: u32, running: u32) -> Vec<u32> {
        let (mut commits, mut count, mut seen) = (Commits::new(), 0, Vec::new());
        for second in 0..600 {
            let is_stopped = (stops..stops + for_s).contains(&second);
            count += if is_stopped { 0 } else { 300 + second * 37 % 100 };
            let now_running = if is_stopped { running } else { 4 + second % 3 };
            if second % pace_s == 0 && commits.sample(&sample(second, count, now_running)).is_some() {
                seen.push(second);
            }
        }
        seen
    }

    #[test]
    fn commits_that_stop_for_seconds_are_seen_in_samples_where_somebody_waits() {
        let seen = run(400, 4, 12);
        assert!(seen.first().is_some_and(|first| (400..=402).contains(first)), "{seen:?}");
        assert!(seen.last().is_some_and(|last| *last <= 406), "{seen:?}");
        assert_eq!(run(400, 4, 0), Vec::<u32>::new(), "the load went away");
        assert_eq!(run(700, 0, 0), Vec::<u32>::new());
        assert_eq!(run(20, 4, 12), Vec::<u32>::new(), "nobody knows yet what is usual");
    }

    #[test]
    fn commits_that_stop_for_long_are_seen_however_rarely_the_counters_are_read() {
        for pace_s in 2..=STATUS_READ_WITHIN_S {
            let seen = run_at_pace(pace_s, 400, 3 * pace_s, 12);
            assert!(
                seen.first().is_some_and(|first| (400..=400 + 2 * pace_s).contains(first)),
                "{pace_s}: {seen:?}"
            );
            assert_eq!(
                run_at_pace(pace_s, 400, 3 * pace_s, 0),
                Vec::<u32>::new(),
                "{pace_s}: the load went away"
            );
        }
    }

    #[test]
    fn samples_are_not_looked_at_where_the_probes_have_the_counter() {
        let mut commits = Commits::new();
        let interval = Interval {
            from_s: 0.0,
            to_s: 0.1,
            counted_s: 0.1,
            every_s: 0.1,
            questions: None,
            commits: Some(10.0),
            redo_blocks: None,
            running: [None; 2],
            late: false,
        };
        commits.look(Some(&interval), Crowd::Usual);
        for second in 0..200 {
            let count = second.min(150) * 300;
            assert!(commits.sample(&sample(second, count, 9)).is_none(), "{second}");
        }
    }
}
