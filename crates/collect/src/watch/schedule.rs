//! When samples are due: at fixed instants from the start, whatever the ones before took.

use std::time::Duration;

use crate::source::Cadence;

/// Which sample of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    First,
    Middle,
    Last,
}

impl Part {
    /// Whether a source of this cadence is due in it.
    pub(super) fn asks(self, cadence: Cadence) -> bool {
        match cadence {
            Cadence::EverySample => true,
            Cadence::Ends => self != Self::Middle,
            Cadence::Once => self == Self::First,
        }
    }
}

/// Periods of a window below which its samples stay on the grid: squeezed into less than four fifths of a period, two readings are too
/// near each other for rates (`EARLY` of the model's window).
const LEAST_SQUEEZED: u128 = 4;

/// The instants of a window's samples, counted from its start.
///
/// They are as far apart as another sample in the window makes them: eleven steps of 0.91 s in ten seconds, and not ten of a second. Jobs
/// of servers begin at whole seconds. Lists that are a second apart meet one that runs each third second for a moment at the same phase
/// each time, and so always or never; with steps that divide no whole second the lists of a window meet every phase once. All steps
/// are the same, so that order, rates and the shares that are counted in lists are as they were; a jitter would leave gaps of more
/// than a second, in which no list is near a snapshot of stacks. The recorder keeps its own grid, of whole seconds (`follow/clock.rs`):
/// its file and its charts are made of them.
///
/// In a window of a few periods sample k is due at k times the period; the last at the end, whether or not that is on the grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    step: Duration,
    duration: Duration,
    last: usize,
}

impl Schedule {
    /// A sample each period, or a little earlier, and one at the end; at least two in all.
    pub(super) fn new(duration: Duration, every: Duration) -> Self {
        let every = every.max(Duration::from_millis(10));
        let periods = duration.as_nanos() / every.as_nanos();
        if periods >= LEAST_SQUEEZED {
            let last = usize::try_from(periods).unwrap_or(usize::MAX - 1) + 1;
            return Self { step: duration.div_f64(last as f64), duration, last };
        }
        // A grid point so near the end that there is no time between the two is left out.
        let whole = duration.as_nanos().saturating_sub(1) / every.as_nanos();
        Self { step: every, duration, last: usize::try_from(whole).unwrap_or(usize::MAX - 1) + 1 }
    }

    /// Number of the last sample; the first is 0.
    pub(super) fn last(self) -> usize {
        self.last
    }

    /// Which one sample k is.
    pub(super) fn part(self, k: usize) -> Part {
        match k {
            0 => Part::First,
            _ if k == self.last => Part::Last,
            _ => Part::Middle,
        }
    }

    /// When sample k is due.
    pub(super) fn due(self, k: usize) -> Duration {
        if k >= self.last { self.duration } else { self.step * u32::try_from(k).unwrap_or(u32::MAX) }
    }

    /// The last sample that is due until so long after the start.
    pub(super) fn latest(self, elapsed: Duration) -> usize {
        (1..=self.last).take_while(|&k| self.due(k) <= elapsed).last().unwrap_or(0)
    }

    /// The sample to take after `k` when `now` has come: those that are past already are left out,
    /// but never the last.
    pub(super) fn next(self, k: usize, now: Duration) -> usize {
        (k + 1..self.last).find(|&next| self.due(next) >= now).unwrap_or(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn ten_seconds_are_twelve_samples_as_far_apart_as_each_other() {
        let schedule = Schedule::new(S(10), S(1));
        assert_eq!((schedule.last(), schedule.due(0), schedule.due(11)), (11, S(0), S(10)));
        let steps: Vec<Duration> = (1..=11).map(|k| schedule.due(k) - schedule.due(k - 1)).collect();
        let step = Duration::from_millis(909);
        assert!(steps.iter().all(|one| *one >= step && *one < step + Duration::from_millis(1)), "{steps:?}");
    }

    /// Of what runs for a fifth of a second each so many seconds, whenever it begins, a window meets as much as there is, a list more
    /// or less. A grid of seconds meets nothing of it, or all.
    #[test]
    fn what_runs_at_whole_seconds_is_met_as_often_as_it_runs() {
        const RUNS: u64 = 200;
        for seconds in [10, 30, 60] {
            let schedule = Schedule::new(S(seconds), S(1));
            for period in [1_000, 2_000, 3_000, 5_000] {
                for begins in (0..period).step_by(50) {
                    let is_met = |k: &usize| {
                        let at = schedule.due(*k).as_millis() as u64;
                        (at + period - begins) % period < RUNS
                    };
                    let met = (0..schedule.last()).filter(is_met).count() as f64;
                    let expected = schedule.last() as f64 * RUNS as f64 / period as f64;
                    let what = format!(
                        "{met} of {expected:.1} in {seconds} s, each {period} ms from {begins} ms on"
                    );
                    assert!((met - expected).abs() <= 1.5, "{what}");
                }
            }
        }
    }

    #[test]
    fn the_last_sample_is_at_the_end_even_off_the_grid() {
        let schedule = Schedule::new(Duration::from_millis(2500), S(1));
        assert_eq!((schedule.last(), schedule.due(3)), (3, Duration::from_millis(2500)));
        let short = Schedule::new(Duration::from_millis(300), S(1));
        assert_eq!((short.last(), short.due(1)), (1, Duration::from_millis(300)));
        assert_eq!(Schedule::new(Duration::ZERO, S(1)).last(), 1);
    }

    #[test]
    fn a_slow_sample_costs_those_it_covers_and_shifts_none() {
        let schedule = Schedule::new(S(10), S(1));
        assert_eq!(schedule.next(0, Duration::from_millis(200)), 1);
        assert_eq!(schedule.next(2, Duration::from_millis(4700)), 6);
        assert_eq!(schedule.next(2, S(30)), 11);
        assert_eq!(schedule.next(10, Duration::from_millis(9100)), 11);
    }
}
