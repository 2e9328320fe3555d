//! When samples are due: on a fixed grid from the start, whatever the ones before took.

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

/// The instants of a window's samples, counted from its start.
///
/// Sample k is due at k times the period; the last at the end, whether or not that is on the grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    every: Duration,
    duration: Duration,
    last: usize,
}

impl Schedule {
    /// A sample each period and one at the end; at least two in all.
    pub(super) fn new(duration: Duration, every: Duration) -> Self {
        // A grid point so near the end that there is no time between the two is left out.
        let every = every.max(Duration::from_millis(10));
        let whole = duration.as_nanos().saturating_sub(1) / every.as_nanos();
        Self { every, duration, last: usize::try_from(whole).unwrap_or(usize::MAX - 1) + 1 }
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
        if k >= self.last { self.duration } else { self.every * u32::try_from(k).unwrap_or(u32::MAX) }
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
    fn ten_seconds_are_eleven_samples() {
        let schedule = Schedule::new(S(10), S(1));
        assert_eq!(
            (schedule.last(), schedule.due(0), schedule.due(3), schedule.due(10)),
            (10, S(0), S(3), S(10))
        );
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
        assert_eq!(schedule.next(2, Duration::from_millis(4700)), 5);
        assert_eq!(schedule.next(2, S(30)), 10);
        assert_eq!(schedule.next(9, Duration::from_millis(9100)), 10);
    }
}
