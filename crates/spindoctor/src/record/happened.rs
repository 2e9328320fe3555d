//! What happens at an instant and stops nobody, and is an event of its own whatever else lasts: deadlocks, and statements whose
//! plan changed. Pure.

use jiff::Timestamp;
use spindoctor_model::{Diagnosis, RecordedSample, Segment, StallKind};

use super::deadlocks::Deadlocks;
use super::plans::Plans;
use super::question::Question;

/// Events of an instant that are kept in a row,
const AT_ONCE: f64 = 60.0;
/// and so many more an hour, as of stalls with detail (`spindoctor_stalls::events`).
const PER_HOUR: f64 = 10.0;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    pub kind: StallKind,
    /// It happened between these two.
    pub began: Timestamp,
    pub ended: Timestamp,
    /// In words.
    pub because: String,
    /// What the rules say of it; none where there is no more to say than the words.
    pub diagnosis: Option<Diagnosis>,
    /// What the server is asked about it.
    pub question: Option<Box<Question>>,
}

/// Looks for all that happens at an instant.
#[derive(Default)]
pub struct Happenings {
    deadlocks: Deadlocks,
    plans: Plans,
    room: Room,
}

impl Happenings {
    /// From here on samples are of this segment.
    pub fn begin_segment(&mut self, segment: &Segment) {
        self.deadlocks = Deadlocks::new(segment.server.version);
        self.plans.begin_segment(segment);
    }

    /// What this sample shows. Where more happened than there is room for, the next that is kept counts the others.
    pub fn look(&mut self, sample: &RecordedSample) -> Vec<Happened> {
        self.deadlocks.read(sample);
        self.plans.read(sample);
        let mut happened = Vec::new();
        if self.room.is_free(sample.at) {
            let found = [self.deadlocks.of_rows(), self.deadlocks.of_metadata(), self.plans.changed()];
            happened.extend(found.into_iter().flatten());
        }
        self.room.take(happened.len());
        happened
    }
}

/// How many events may be kept.
#[derive(Debug)]
struct Room {
    left: f64,
    at: Timestamp,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: AT_ONCE, at: Timestamp::UNIX_EPOCH }
    }
}

impl Room {
    fn is_free(&mut self, now: Timestamp) -> bool {
        let hours = now.duration_since(self.at).as_secs_f64().max(0.0) / 3_600.0;
        (self.left, self.at) = ((self.left + hours * PER_HOUR).min(AT_ONCE), now);
        self.left >= 1.0
    }

    fn take(&mut self, events: usize) {
        self.left -= events as f64;
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_storm_fills_the_room_and_an_hour_gives_some_of_it_back() {
        let mut room = Room::default();
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(490_000);
        let mut kept = 0;
        while room.is_free(now) {
            room.take(1);
            kept += 1;
        }
        assert_eq!(kept, 60);
        assert!(!room.is_free(now + SignedDuration::from_mins(5)));
        let later = now + SignedDuration::from_mins(65);
        kept = 0;
        while room.is_free(later) {
            room.take(1);
            kept += 1;
        }
        assert_eq!(kept, 10);
    }
}
