//! The clock of a segment: readings of the monotonic clock as seconds and as wall time. Pure.
//!
//! Within a segment times are counted by the monotonic clock alone; the wall clock is read at its beginning and then
//! only compared. The kernel slews both alike, so what sets them apart is a step, or a machine that was suspended.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

/// A step of the wall clock beyond this begins a new segment: below it a sample cannot be distinguished from its
/// neighbour.
const LARGEST_STEP: SignedDuration = SignedDuration::from_secs(1);

/// When a segment began, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentClock {
    pub(super) segment: u64,
    pub(super) began: Timestamp,
    pub(super) origin: Instant,
}

impl SegmentClock {
    /// Seconds from its beginning; below 0 for what was before.
    pub(super) fn at_s(&self, instant: Instant) -> f64 {
        match instant.checked_duration_since(self.origin) {
            Some(after) => after.as_secs_f64(),
            None => -(self.origin - instant).as_secs_f64(),
        }
    }

    /// The wall time of an instant, as the clock went when the segment began.
    pub(super) fn at(&self, instant: Instant) -> Timestamp {
        let after = SignedDuration::try_from_secs_f64(self.at_s(instant)).unwrap_or_default();
        self.began.checked_add(after).unwrap_or(self.began)
    }

    /// By how much the wall clock was set since the segment began, where that is more than a second; above zero where
    /// it was set forward, or where the machine was suspended.
    pub(super) fn step(&self, wall: Timestamp, monotonic: Instant) -> Option<SignedDuration> {
        let step = wall.duration_since(self.at(monotonic));
        (step.abs() > LARGEST_STEP).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn clock() -> SegmentClock {
        SegmentClock { segment: 1, began: Timestamp::UNIX_EPOCH, origin: Instant::now() }
    }

    #[test]
    fn times_count_from_the_segments_beginning_in_both_directions() {
        let clock = clock();
        let later = clock.origin + Duration::from_millis(2500);
        assert_eq!((clock.at_s(later), clock.at_s(clock.origin)), (2.5, 0.0));
        assert_eq!(clock.at(later), Timestamp::from_millisecond(2500).unwrap());
        let of_later = SegmentClock { origin: later, ..clock };
        assert_eq!(of_later.at_s(clock.origin), -2.5);
    }

    #[test]
    fn a_wall_clock_that_was_set_by_more_than_a_second_is_seen_in_either_direction() {
        let clock = clock();
        let after = |seconds: f64| clock.origin + Duration::from_secs_f64(seconds);
        let wall = |seconds: f64| clock.began + SignedDuration::from_secs_f64(seconds);
        assert_eq!(clock.step(wall(3600.0), after(3600.0)), None);
        assert_eq!(clock.step(wall(60.9), after(60.0)), None);
        assert_eq!(clock.step(wall(65.0), after(60.0)), Some(SignedDuration::from_secs(5)));
        assert_eq!(clock.step(wall(0.0), after(60.0)), Some(SignedDuration::from_secs(-60)));
    }

    #[test]
    fn small_steps_add_up() {
        let clock = clock();
        let after = clock.origin + Duration::from_secs(60);
        assert!(clock.step(clock.began + SignedDuration::from_millis(61_800), after).is_some());
    }
}
