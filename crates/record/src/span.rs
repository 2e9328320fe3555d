//! Times of a recording: stretches, and until when its events lasted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::{EventHead, Gap, Segment, StallKind};

use crate::Stretch;

/// A stall that nobody saw the end of is reported up to this long.
pub const LONGEST_OPEN: Duration = Duration::from_secs(600);

/// A recording keeps times to the millisecond: the next sample begins no earlier.
pub const ONE_MORE: Duration = Duration::from_millis(1);

/// So much of a recording is held in memory at once: samples of a large server take a hundred kilobytes each.
pub const AT_ONCE: Duration = Duration::from_secs(300);

/// From one instant to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first instant.
    pub from: Timestamp,
    /// The last; not before the first.
    pub to: Timestamp,
}

impl Span {
    /// From one instant to another; where they are the wrong way round, nothing but the first.
    pub fn new(from: Timestamp, to: Timestamp) -> Self {
        Self { from, to: to.max(from) }
    }

    /// How long it is.
    pub fn length(self) -> Duration {
        Duration::try_from(self.to.duration_since(self.from)).unwrap_or_default()
    }

    /// The same in seconds.
    pub fn seconds(self) -> f64 {
        self.length().as_secs_f64()
    }

    /// Seconds from its beginning to an instant; negative before it.
    pub fn offset_s(self, at: Timestamp) -> f64 {
        at.duration_since(self.from).as_secs_f64()
    }

    /// True for an instant within it.
    pub fn contains(self, at: Timestamp) -> bool {
        self.from <= at && at <= self.to
    }

    /// What of it lies in another; none where nothing does.
    pub fn within(self, other: Self) -> Option<Self> {
        let (from, to) = (self.from.max(other.from), self.to.min(other.to));
        (from <= to).then_some(Self { from, to })
    }

    /// Widened at both ends.
    pub fn widened(self, by: Duration) -> Self {
        Self { from: before(self.from, by), to: after(self.to, by) }
    }

    /// True where a gap has some of it. One that is open goes on to the end of the recording.
    pub fn meets_gap(self, gap: &Gap) -> bool {
        gap.from <= self.to && gap.to.is_none_or(|to| to >= self.from)
    }

    /// True where an event has some of it.
    pub fn meets_event(self, head: &EventHead, ends: &Ends) -> bool {
        head.began <= self.to && ends.until(head).is_none_or(|until| until >= self.from)
    }
}

/// Where the segments of a recording broke off. Nobody saw the end of an event that was open then: the server or the
/// recorder ended in it, or the clock was set. That its end is not known is no reason to take it to last until today.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ends {
    /// By segment: its last sample.
    sampled: BTreeMap<u64, Timestamp>,
    /// By segment that is over: when the one after it began.
    followed: BTreeMap<u64, Timestamp>,
    /// The last segment: an event in it may last still.
    last: u64,
}

impl Ends {
    /// Of all segments of a recording, in order, and of what it has of each.
    pub fn of_segments(segments: &[Segment], stretches: &[Stretch]) -> Self {
        let followed = segments.iter().zip(segments.iter().skip(1));
        Self {
            sampled: stretches.iter().map(|stretch| (stretch.segment, stretch.last)).collect(),
            followed: followed.map(|(segment, next)| (segment.id, next.began)).collect(),
            last: segments.last().map_or(0, |segment| segment.id),
        }
    }

    /// Until when an event lasted, as far as anybody knows: its end, else the last sample of its segment; none where it
    /// may last still. Where retention took the samples, it lasted until the next segment at most.
    pub fn until(&self, head: &EventHead) -> Option<Timestamp> {
        if head.ended.is_some() || head.segment >= self.last {
            return head.ended;
        }
        let longest = after(head.began, LONGEST_OPEN);
        let followed = || self.followed.get(&head.segment).map_or(longest, |next| longest.min(*next));
        let until = self.sampled.get(&head.segment).copied().unwrap_or_else(followed);
        Some(until.max(head.began))
    }
}

/// The event that is looked at where the user named none: the longest of those in which clients were stopped, else the longest
/// of those that only warn, else what happened at an instant; the latest of equals.
pub fn worst_event<'a>(
    events: impl Iterator<Item = &'a EventHead>,
    ends: &Ends,
    extent: Span,
) -> Option<&'a EventHead> {
    let length = |head: &EventHead| Span::new(head.began, ends.until(head).unwrap_or(extent.to)).length();
    events.max_by_key(|head| {
        let kind = head.stall.kind;
        (has_stopped(kind), !kind.is_of_an_instant(), length(head), head.began)
    })
}

/// True for the kinds in which clients get nothing, or next to nothing, done.
fn has_stopped(kind: StallKind) -> bool {
    match kind {
        StallKind::ThroughputCollapsed
        | StallKind::CommitsStopped
        | StallKind::NoAnswer
        | StallKind::ConnectionsFail
        | StallKind::ServerGone
        | StallKind::Restarted
        | StallKind::LockWaits => true,
        StallKind::ProbeSlow
        | StallKind::ThreadsRunning
        | StallKind::CheckpointAge
        | StallKind::Asked
        | StallKind::InsideFunction
        | StallKind::SlowFunction
        | StallKind::StatementRan
        | StallKind::Deadlock
        | StallKind::PlanChanged => false,
    }
}

/// From the beginning of a segment to the beginning of the next.
pub fn segment_span(segments: &[Segment], id: u64, extent: Span) -> Span {
    let began = segments.iter().find(|segment| segment.id == id).map_or(extent.from, |segment| segment.began);
    let next = segments.iter().map(|segment| segment.began).filter(|next| *next > began).min();
    Span::new(began, next.unwrap_or(extent.to))
}

/// So much earlier, or the earliest time there is.
pub fn before(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_sub(by).unwrap_or(Timestamp::MIN)
}

/// So much later, or the latest time there is.
pub fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}
