//! The times of an incident in its recording: the stall, the baseline before it, and the timeline.

use std::time::Duration;

use jiff::Timestamp;

use spindoctor_model::{EventHead, Segment};

use spindoctor_record::span::{Ends, LONGEST_OPEN, Span, after, before, segment_span};

/// The calm before a stall is at most this long: long enough for rates that chance does not decide, short enough that
/// the load was the same.
const LONGEST_CALM: Duration = Duration::from_secs(120);

/// Shorter than two samples apart there is nothing to compare with.
const SHORTEST_CALM: Duration = Duration::from_secs(2);

/// Between calm and stall: the second in which the stall began belongs to no part.
const BETWEEN: Duration = Duration::from_secs(1);

/// A stretch that the user names is compared with one as long before it, within these bounds.
const CALM_OF_STRETCH: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(600));

/// How much is drawn before a stall, in lengths of the stall, and within which bounds: the recorder keeps ten seconds of
/// probes from before it.
const DRAWN_BEFORE: (u32, Duration, Duration) = (5, Duration::from_secs(10), Duration::from_secs(120));

/// How much is drawn after it.
const DRAWN_AFTER: (u32, Duration, Duration) = (2, Duration::from_secs(5), Duration::from_secs(60));

/// The times that an incident is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// What is shown.
    pub stall: Span,
    /// What it is compared with; none where nothing came before it.
    pub calm: Option<Span>,
    /// What the timeline shows.
    pub shown: Span,
    /// False where nobody saw the end.
    pub is_over: bool,
    /// True where the user named the stretch, and no event gave it.
    pub is_asked: bool,
}

impl Scope {
    /// The times of an event of a recording that reaches from here to there.
    pub fn of_event(
        head: &EventHead,
        events: &[EventHead],
        segments: &[Segment],
        ends: &Ends,
        extent: Span,
    ) -> Self {
        let home = segment_span(segments, head.segment, extent);
        let until = ends.until(head).unwrap_or(extent.to);
        let ended = head.ended.unwrap_or_else(|| until.min(after(head.began, LONGEST_OPEN)));
        let stall = Span::new(head.began, ended);
        // Another stall is no calm, nor is another process of the server.
        let others = events.iter().filter(|other| {
            other.id != head.id && other.began < head.began && !other.stall.kind.is_of_an_instant()
        });
        let other = others.map(|other| other.ended.unwrap_or(other.began)).max();
        let since = home.from.max(other.map_or(home.from, |ended| after(ended, BETWEEN)));
        let calm = calm(since, before(stall.from, LONGEST_CALM), before(stall.from, BETWEEN));
        let of = |(times, least, most): (u32, Duration, Duration)| {
            stall.length().saturating_mul(times).clamp(least, most)
        };
        let shown = Span { from: before(stall.from, of(DRAWN_BEFORE)), to: after(stall.to, of(DRAWN_AFTER)) };
        Self {
            stall,
            calm,
            shown: shown.within(extent).unwrap_or(shown),
            is_over: head.ended.is_some(),
            is_asked: false,
        }
    }

    /// The times of a stretch that the user named; none where the recording has nothing of it.
    pub fn of_stretch(asked: Span, extent: Span) -> Option<Self> {
        let stall = asked.within(extent)?;
        let length = stall.length().clamp(CALM_OF_STRETCH.0, CALM_OF_STRETCH.1);
        let calm = calm(extent.from, before(stall.from, length), stall.from);
        Some(Self { stall, calm, shown: stall, is_over: true, is_asked: true })
    }
}

fn calm(since: Timestamp, from: Timestamp, to: Timestamp) -> Option<Span> {
    let from = from.max(since);
    (from <= to).then_some(Span { from, to }).filter(|calm| calm.length() >= SHORTEST_CALM)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Stall;

    use spindoctor_record::Stretch;

    use spindoctor_model::StallKind;
    use spindoctor_record::span::worst_event;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_782_898_200 + second).unwrap()
    }

    fn event(id: u64, began: i64, ended: Option<i64>, kind: StallKind) -> EventHead {
        EventHead {
            id,
            segment: 1,
            began: at(began),
            ended: ended.map(at),
            stall: Stall { kind, ..Stall::default() },
            ..EventHead::default()
        }
    }

    const EXTENT: (i64, i64) = (0, 10_000);

    fn extent() -> Span {
        Span::new(at(EXTENT.0), at(EXTENT.1))
    }

    fn segments() -> Vec<Segment> {
        [(1, 0), (2, 9_000)]
            .map(|(id, began)| Segment { id, began: at(began), ..Segment::default() })
            .to_vec()
    }

    /// The first segment has samples until half an hour before the second: the recorder was ended.
    fn ends() -> Ends {
        let stretch = |segment, first, last| Stretch { segment, first: at(first), last: at(last) };
        Ends::of_segments(&segments(), &[stretch(1, 0, 7_200), stretch(2, 9_000, 10_000)])
    }

    #[test]
    fn the_calm_ends_before_the_stall_and_begins_after_the_one_before() {
        let events = [
            event(1, 950, Some(960), StallKind::CommitsStopped),
            event(2, 1_000, Some(1_002), StallKind::CommitsStopped),
        ];
        let scope = Scope::of_event(&events[1], &events, &segments(), &ends(), extent());
        assert_eq!(scope.calm, Some(Span::new(at(961), at(999))));
        assert_eq!(scope.shown, Span::new(at(990), at(1_007)));
        let first = Scope::of_event(&events[0], &events, &segments(), &ends(), extent());
        assert_eq!(first.calm, Some(Span::new(at(830), at(949))));
    }

    #[test]
    fn a_stall_at_the_very_beginning_has_no_calm() {
        let events = [event(1, 1, Some(5), StallKind::NoAnswer)];
        let scope = Scope::of_event(&events[0], &events, &segments(), &ends(), extent());
        assert_eq!(scope.calm, None);
        assert_eq!(scope.shown.from, at(0));
    }

    #[test]
    fn a_stall_without_an_end_is_shown_for_ten_minutes_or_to_the_end_of_its_segment() {
        let long = [event(1, 100, None, StallKind::NoAnswer)];
        assert_eq!(Scope::of_event(&long[0], &long, &segments(), &ends(), extent()).stall.to, at(700));
        let late = [event(1, 7_190, None, StallKind::NoAnswer)];
        let scope = Scope::of_event(&late[0], &late, &segments(), &ends(), extent());
        assert_eq!((scope.stall.to, scope.is_over), (at(7_200), false));
    }

    #[test]
    fn a_stretch_is_compared_with_one_as_long_before_it() {
        let scope = Scope::of_stretch(Span::new(at(600), at(700)), extent()).unwrap();
        assert_eq!(scope.calm, Some(Span::new(at(500), at(600))));
        assert_eq!(Scope::of_stretch(Span::new(at(20_000), at(20_100)), extent()), None);
        let first = Scope::of_stretch(Span::new(at(-50), at(30)), extent()).unwrap();
        assert_eq!((first.stall.from, first.calm), (at(0), None));
    }

    #[test]
    fn the_worst_event_is_the_longest_in_which_clients_stood_still() {
        let events = [
            event(1, 100, Some(5_000), StallKind::CheckpointAge),
            event(2, 200, Some(203), StallKind::CommitsStopped),
            event(3, 300, Some(309), StallKind::NoAnswer),
            event(4, 400, Some(409), StallKind::ThroughputCollapsed),
        ];
        assert_eq!(worst_event(events.iter(), &ends(), extent()).unwrap().id, 4);
        assert_eq!(worst_event(events[..1].iter(), &ends(), extent()).unwrap().id, 1);
        assert_eq!(worst_event([].iter(), &ends(), extent()), None);
    }

    #[test]
    fn an_event_that_its_segment_broke_off_in_lasted_no_longer_than_the_segment() {
        let broken_off = event(1, 7_190, None, StallKind::NoAnswer);
        assert_eq!(ends().until(&broken_off), Some(at(7_200)));
        let lasts = EventHead { segment: 2, ..event(2, 9_500, None, StallKind::NoAnswer) };
        assert_eq!(ends().until(&lasts), None);
        let seen = event(3, 300, Some(390), StallKind::NoAnswer);
        assert_eq!(ends().until(&seen), Some(at(390)));
        let stretch = |from, to| Span::new(at(from), at(to));
        let meets = |head: &EventHead, span: Span| span.meets_event(head, &ends());
        assert!(meets(&broken_off, stretch(7_195, 7_300)) && !meets(&broken_off, stretch(8_000, 9_900)));
        assert!(meets(&lasts, stretch(9_900, 10_000)) && meets(&lasts, stretch(9_400, 9_500)));
        let events = [broken_off.clone(), seen];
        assert_eq!(
            worst_event(events.iter(), &ends(), extent()).unwrap().id,
            3,
            "it lasted ten seconds, not 2,810"
        );
        let events = [broken_off, lasts];
        assert_eq!(worst_event(events.iter(), &ends(), extent()).unwrap().id, 2);
    }

    #[test]
    fn an_event_whose_samples_are_gone_lasted_until_the_next_segment_or_ten_minutes() {
        let unsampled = Ends::of_segments(&segments(), &[]);
        assert_eq!(unsampled.until(&event(1, 8_990, None, StallKind::NoAnswer)), Some(at(9_000)));
        assert_eq!(unsampled.until(&event(1, 100, None, StallKind::NoAnswer)), Some(at(700)));
        let first = EventHead { segment: 0, ..event(1, 100, None, StallKind::NoAnswer) };
        assert_eq!(unsampled.until(&first), Some(at(700)), "its segment is gone, too");
        // It was seen after the last sample.
        assert_eq!(ends().until(&event(1, 7_201, None, StallKind::NoAnswer)), Some(at(7_201)));
    }
}
