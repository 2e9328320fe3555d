//! Which statements changed: in the stall against the calm before it, and in the hour around it against the same hour a week ago, or
//! a day ago where the recording does not reach back so far. The comparison is that of `workload --diff`.

use std::time::Duration;

use spindoctor_record::Recording;
use spindoctor_record::span::{Span, after, before};
use spindoctor_statements::{Change, Changes, Span as Statements, changes};

use super::scope::Scope;
use crate::workload;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Each second of what is compared is read: a longer time takes too long, and is no stall.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);

/// What a time is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The calm before the stall, or as long a time before a stretch that was asked for.
    Before,
    /// The same time a week before.
    WeekAgo,
    /// The same time a day before.
    DayAgo,
}

impl Against {
    /// As a person reads it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Before => "against the time before it",
            Self::WeekAgo => "against the same time a week ago",
            Self::DayAgo => "against the same time a day ago",
        }
    }

    /// Its word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::WeekAgo => "week_ago",
            Self::DayAgo => "day_ago",
        }
    }
}

/// Two times, compared.
#[derive(Debug, Clone)]
pub struct Compared {
    /// What it is compared with.
    pub against: Against,
    /// The earlier time.
    pub before: Statements,
    /// The time of the report.
    pub after: Statements,
    /// How they differ.
    pub changes: Changes,
}

impl Compared {
    /// The statements that changed, what costs most first.
    pub fn changed(&self) -> impl Iterator<Item = &Change> {
        self.changes.significant()
    }
}

/// Each time that the report is compared with, and the part of the recording that it is then of.
fn pairs(scope: Scope, extent: Span) -> Vec<(Against, Span, Span)> {
    if scope.stall.length() > LONGEST {
        return Vec::new();
    }
    let mut pairs: Vec<(Against, Span, Span)> =
        scope.calm.map(|calm| (Against::Before, calm, scope.stall)).into_iter().collect();
    let around = match HOUR.checked_sub(scope.stall.length()) {
        Some(left) => scope.stall.widened(left / 2).within(extent).unwrap_or(scope.stall),
        None => scope.stall,
    };
    let earlier = |span: Span, by: Duration| Span { from: before(span.from, by), to: before(span.to, by) };
    // The stall's own time must have been recorded on that day, and as much of the hour as was.
    let ago = |days: u32| {
        let by = days * DAY;
        let stall = earlier(scope.stall, by);
        let is_kept = extent.contains(stall.from) && extent.contains(stall.to);
        earlier(around, by).within(extent).filter(|span| is_kept && span.to < around.from)
    };
    let ago = ago(7).map(|span| (Against::WeekAgo, span)).or_else(|| Some((Against::DayAgo, ago(1)?)));
    pairs.extend(ago.map(|(against, span)| (against, span, around)));
    pairs
}

/// What of a recording is compared. A time of which it has no list of threads is left out.
pub fn read(recording: &Recording, name: &str, scope: Scope, extent: Span) -> anyhow::Result<Vec<Compared>> {
    let mut compared = Vec::new();
    for (against, earlier, later) in pairs(scope, extent) {
        let [before, after] =
            [workload::span_of(recording, name, earlier)?, workload::span_of(recording, name, later)?];
        if let (Some(before), Some(after)) = (before, after) {
            let changes = changes(&before, &after);
            compared.push(Compared { against, before, after, changes });
        }
    }
    Ok(compared)
}

/// The earlier time, as a person reads it: from, to.
pub fn earlier(compared: &Compared) -> Option<Span> {
    let from = compared.before.start?;
    Some(Span { from, to: after(from, Duration::try_from_secs_f64(compared.before.seconds).ok()?) })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_782_898_200 + second).unwrap()
    }

    fn compared_times(stall: (i64, i64), since_days: i64) -> Vec<(Against, Span, Span)> {
        let extent = Span::new(at(-since_days * 86_400), at(10_000));
        let stall = Span::new(at(stall.0), at(stall.1));
        pairs(Scope::of_stretch(stall, extent).unwrap(), extent)
    }

    #[test]
    fn a_stall_is_compared_with_the_calm_before_it_and_its_hour_with_the_one_a_week_ago() {
        let week = 7 * 86_400;
        let [calm, ago] = compared_times((5_000, 5_100), 8).try_into().unwrap();
        assert_eq!((calm.0, calm.2), (Against::Before, Span::new(at(5_000), at(5_100))));
        assert_eq!(calm.1, Span::new(at(4_900), at(5_000)));
        assert_eq!((ago.0, ago.2), (Against::WeekAgo, Span::new(at(3_250), at(6_850))));
        assert_eq!(ago.1, Span::new(at(3_250 - week), at(6_850 - week)));
    }

    #[test]
    fn a_recording_of_two_days_has_yesterday_and_one_of_an_hour_has_neither() {
        assert_eq!(compared_times((5_000, 5_100), 2)[1].0, Against::DayAgo);
        assert_eq!(compared_times((5_000, 5_100), 0).len(), 1);
        // Two days are no stall.
        assert_eq!(compared_times((-2 * 86_400, 5_000), 9), []);
    }
}
