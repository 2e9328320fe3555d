//! From stalls to events: which stalls are one event, how long it lasts, and how much of it is kept. Pure.
//!
//! An event opens with a stall, includes stalls that follow within five seconds, and closes five seconds after the end
//! of the last one. A stall of an hour is one event. Repeated stalls make an event of five minutes, and then the next
//! event. A stall that begins when another has lasted longer than that also starts a new event: it may have another
//! cause.
//!
//! What is seen in a function of the server (`--when-inside`, `--when-slower`) begins and is over at instants that are known,
//! and each of them was asked for: one that begins a second after all other stalls is an event of its own, and an event of
//! nothing else closes after a second, while there is room for detail of a next one.
//!
//! A hiccup seconds before a stall is not part of it: diagnosed together, each would look like half a stall. So where
//! the second stall lasts far longer than the first, the first closes as an event of its own, and the second is the
//! next event.
//!
//! Whether a lost server was restarted is known only when the process that answers is known. On a busy host the probe's
//! connection may be answered long before that: so an event of a lost server stays open until then
//! ([`Events::nobody_knows_who_is_back`]), but its end is the time of the first answer.
//!
//! The detail of events (stacks at the raised rate, wait graphs) is bounded: thirty seconds per event at most, sixty
//! events at once, and room for one more every six minutes. That is 300 events in the worst day. An event beyond that
//! is kept as a head only: when, how long and why.

use spindoctor_model::{Stall, StallKind};

use super::StallChange;

/// An event closes so long after its last stall; a stall that comes sooner belongs to it.
pub const CLOSES_AFTER_S: f64 = 5.0;
/// The same of an event in which functions alone were seen; and what is seen in a function so long after the last stall is
/// the next event.
pub const OF_FUNCTIONS_CLOSES_AFTER_S: f64 = 1.0;
/// An event includes following stalls for so long.
pub const TAKES_IN_FOR_S: f64 = 300.0;
/// A stall that begins so long after the last one was over,
const APART_S: f64 = 0.5;
/// that has lasted for so long,
const OUTGROWS_S: f64 = 2.0;
/// and for so many times as long as all before it in the event, is the next event.
const OUTGROWS_TIMES: f64 = 4.0;
/// The detail of one event is kept for so long.
pub const DETAIL_FOR_S: f64 = 30.0;
/// So many events in a row are kept with detail: an afternoon of trouble.
pub const DETAILED_AT_ONCE: f64 = 60.0;
/// And so many more an hour.
pub const DETAILED_PER_HOUR: f64 = 10.0;

/// What the recorder is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Open an event. With detail: write what was kept from before it, raise the rate of the snapshots, take wait graphs.
    Open {
        /// The stall that opened it.
        stall: Stall,
        /// False where only its head is kept.
        with_detail: bool,
    },
    /// Another stall belongs to the open event.
    TakeIn(Stall),
    /// The open event turns out to be this: what opened it began when the server ended.
    Becomes(Stall),
    /// Go back to the usual rate of snapshots: there is detail enough.
    EndDetail,
    /// Close the event: let the rules look at it, write it.
    Close {
        /// When its last stall was over, seconds from the start of the segment; none where the recording broke off in it.
        ended_s: Option<f64>,
    },
}

/// Makes events of stalls.
#[derive(Debug)]
pub struct Events {
    open: Option<Open>,
    /// Events that may be kept with detail now.
    room: f64,
    /// When that was computed.
    room_s: f64,
    /// It is not known which process answers.
    is_unknown: bool,
}

#[derive(Debug)]
struct Open {
    opened_s: f64,
    /// When the stall that opened it began.
    first_s: f64,
    /// It is of a server that is gone.
    is_of_gone: bool,
    /// Functions alone were seen in it.
    is_of_functions: bool,
    has_detail: bool,
    /// The latest instant with a stall.
    stalled_s: f64,
    /// Since then no stall has lasted.
    is_calm: bool,
    /// When the stalls that follow each other without a pause began.
    began_s: f64,
    /// What was in the event before those; none where nothing was.
    before: Option<Before>,
}

/// Stalls of an event that were over for a while when others began.
#[derive(Debug)]
struct Before {
    /// How long they lasted together.
    lasted_s: f64,
    /// When the last of them was over.
    until_s: f64,
    /// The one that came next.
    next: Stall,
}

impl Open {
    fn with(stall: &Stall, now_s: f64, has_detail: bool) -> Self {
        Self {
            opened_s: now_s,
            first_s: stall.began_s,
            is_of_gone: stall.kind == StallKind::ServerGone,
            is_of_functions: stall.kind.is_of_function(),
            has_detail,
            stalled_s: stall.seen_s,
            is_calm: false,
            began_s: stall.began_s,
            before: None,
        }
    }

    fn take_in(&mut self, stall: &Stall) {
        if self.is_calm && stall.began_s - self.stalled_s >= APART_S {
            let earlier_s = self.before.as_ref().map_or(0.0, |before| before.lasted_s);
            let lasted_s = earlier_s + self.stalled_s - self.began_s;
            self.before = Some(Before { lasted_s, until_s: self.stalled_s, next: stall.clone() });
            self.began_s = stall.began_s;
        }
        self.is_calm = false;
        self.is_of_functions &= stall.kind.is_of_function();
        self.stalled_s = self.stalled_s.max(stall.seen_s);
    }

    /// What lasts now, where that is far longer than what was before it.
    fn outgrown(&self, now_s: f64) -> Option<&Before> {
        let lasts_s = now_s - self.began_s;
        self.before
            .as_ref()
            .filter(|before| lasts_s >= OUTGROWS_S && lasts_s >= OUTGROWS_TIMES * before.lasted_s)
    }
}

impl Default for Events {
    fn default() -> Self {
        Self { open: None, room: DETAILED_AT_ONCE, room_s: 0.0, is_unknown: false }
    }
}

impl Events {
    /// From now on it is not known which process answers, or it is again.
    pub fn nobody_knows_who_is_back(&mut self, is_so: bool) {
        self.is_unknown = is_so;
    }

    /// True while an event is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// True while detail is kept: the rate of snapshots is raised.
    pub fn has_detail(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.has_detail)
    }

    /// What is to be done after a probe or a sample: what it changed, and whether a stall lasts. Times are seconds from the
    /// start of the segment, and grow.
    pub fn step(&mut self, now_s: f64, changes: &[StallChange], a_stall_lasts: bool) -> Vec<Act> {
        let mut acts = Vec::new();
        for change in changes {
            match change {
                StallChange::Opened(stall) => self.take(now_s, stall, &mut acts),
                StallChange::Over(_, over_s) => {
                    if let Some(open) = &mut self.open {
                        open.stalled_s = open.stalled_s.max(*over_s);
                    }
                }
            }
        }
        self.make_room(now_s);
        let Some(open) = &mut self.open else { return acts };
        open.is_calm = !a_stall_lasts;
        if a_stall_lasts {
            open.stalled_s = open.stalled_s.max(now_s);
            if let Some(Before { until_s, next, .. }) = open.outgrown(now_s) {
                let (until_s, next) = (*until_s, next.clone());
                self.close(Some(until_s), &mut acts);
                self.open(&next, now_s, &mut acts);
                return acts;
            }
        }
        if open.has_detail && now_s - open.opened_s >= DETAIL_FOR_S {
            open.has_detail = false;
            acts.push(Act::EndDetail);
        }
        let waits = open.is_of_gone && self.is_unknown && now_s - open.stalled_s < TAKES_IN_FOR_S;
        let closes_after_s = match open.is_of_functions && self.room >= 1.0 {
            true => OF_FUNCTIONS_CLOSES_AFTER_S,
            false => CLOSES_AFTER_S,
        };
        if now_s - open.stalled_s >= closes_after_s && !waits {
            let ended_s = Some(open.stalled_s);
            self.close(ended_s, &mut acts);
        }
        acts
    }

    /// The segment ends: a stall that lasts is closed without an end, one that was over ends when it was. Times of the next segment
    /// begin at 0.
    pub fn end_segment(&mut self, now_s: f64) -> Vec<Act> {
        let mut acts = Vec::new();
        self.make_room(now_s);
        (self.room_s, self.is_unknown) = (0.0, false);
        let ended_s = self.open.as_ref().filter(|open| open.is_calm).map(|open| open.stalled_s);
        self.close(ended_s, &mut acts);
        acts
    }

    fn take(&mut self, now_s: f64, stall: &Stall, acts: &mut Vec<Act>) {
        if let Some(open) = &mut self.open {
            // A connection that is closed, or an answer that does not come, may be the first that is seen of a server that ends.
            if stall.kind == StallKind::ServerGone && open.first_s >= stall.began_s {
                open.take_in(stall);
                open.is_of_gone = true;
                if std::mem::take(&mut open.has_detail) {
                    acts.push(Act::EndDetail);
                }
                acts.push(Act::Becomes(stall.clone()));
                return;
            }
            // The end of a server is an event of its own, whatever came before it.
            let is_apart = stall.kind.is_of_function()
                && open.is_calm
                && stall.began_s - open.stalled_s >= OF_FUNCTIONS_CLOSES_AFTER_S
                && self.room >= 1.0;
            if now_s - open.opened_s < TAKES_IN_FOR_S && stall.kind != StallKind::ServerGone && !is_apart {
                open.take_in(stall);
                acts.push(Act::TakeIn(stall.clone()));
                return;
            }
            let ended_s = Some(open.stalled_s);
            self.close(ended_s, acts);
        }
        self.open(stall, now_s, acts);
    }

    fn open(&mut self, stall: &Stall, now_s: f64, acts: &mut Vec<Act>) {
        self.make_room(now_s);
        // A process that is gone has no stacks and no locks.
        let with_detail = self.room >= 1.0 && !stall.kind.is_restart();
        if with_detail {
            self.room -= 1.0;
        }
        self.open = Some(Open::with(stall, now_s, with_detail));
        acts.push(Act::Open { stall: stall.clone(), with_detail });
    }

    fn close(&mut self, ended_s: Option<f64>, acts: &mut Vec<Act>) {
        let Some(open) = self.open.take() else { return };
        if open.has_detail {
            acts.push(Act::EndDetail);
        }
        acts.push(Act::Close { ended_s });
    }

    fn make_room(&mut self, now_s: f64) {
        let more = (now_s - self.room_s).max(0.0) / 3_600.0 * DETAILED_PER_HOUR;
        self.room = (self.room + more).min(DETAILED_AT_ONCE);
        self.room_s = now_s;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stall(began_s: f64) -> Stall {
        Stall { began_s, seen_s: began_s + 0.2, ..Stall::default() }
    }

    fn opened(began_s: f64) -> [StallChange; 1] {
        [StallChange::Opened(stall(began_s))]
    }

    fn over(at_s: f64) -> [StallChange; 1] {
        [StallChange::Over(StallKind::ThroughputCollapsed, at_s)]
    }

    #[test]
    fn a_stall_that_was_over_before_the_recording_ended_does_not_last_until_then() {
        let mut events = Events::default();
        events.step(1.0, &opened(0.8), true);
        events.step(2.5, &over(2.4), false);
        // Calm for two seconds: too short for the event to close.
        events.step(4.5, &[], false);
        assert_eq!(events.end_segment(4.6), [Act::EndDetail, Act::Close { ended_s: Some(2.4) }]);
    }

    #[test]
    fn pile_ups_in_a_function_are_events_of_their_own_while_there_is_room_for_their_detail() {
        let in_function = |began_s| Stall { kind: StallKind::InsideFunction, ..stall(began_s) };
        let mut events = Events::default();
        let (mut opened, mut detailed) = (0, 0);
        // One every two seconds, of 0.3 s each.
        for tenth in 0..2_400 {
            let now_s = f64::from(tenth) / 10.0;
            let changes = match tenth % 20 {
                0 => vec![StallChange::Opened(in_function(now_s))],
                3 => vec![StallChange::Over(StallKind::InsideFunction, now_s)],
                _ => Vec::new(),
            };
            for act in events.step(now_s, &changes, tenth % 20 < 3) {
                if let Act::Open { with_detail, .. } = act {
                    (opened, detailed) = (opened + 1, detailed + u32::from(with_detail));
                }
            }
        }
        // The sixtieth uses up the room: from there on they are one event.
        assert_eq!((opened, detailed), (60, 60));

        let mut mixed = Events::default();
        mixed.step(1.0, &[StallChange::Opened(in_function(1.0))], true);
        mixed.step(1.2, &[StallChange::Opened(stall(1.1))], true);
        mixed.step(1.5, &over(1.4), false);
        assert_eq!(mixed.step(3.0, &[], false), [], "another stall is in it: it is one as any other");
        let next = [StallChange::Opened(in_function(3.2))];
        let acts = mixed.step(3.2, &next, true);
        assert_eq!(acts[1], Act::Close { ended_s: Some(1.4) });
        assert!(matches!(acts[2], Act::Open { with_detail: true, .. }), "{acts:?}");
    }

    #[test]
    fn an_event_of_a_server_that_is_gone_waits_until_it_is_known_who_is_back() {
        let gone = Stall { kind: StallKind::ServerGone, ..stall(2.0) };
        let opened = [StallChange::Opened(gone)];
        let over = [StallChange::Over(StallKind::ServerGone, 3.0)];
        let mut events = Events::default();
        events.nobody_knows_who_is_back(true);
        events.step(2.2, &opened, true);
        // The probe is answered at 3 s; who answers is known at 12 s.
        events.step(3.0, &over, false);
        assert_eq!(events.step(12.0, &[], false), []);
        assert_eq!(
            events.end_segment(12.0),
            [Act::Close { ended_s: Some(3.0) }],
            "it ended with the first answer"
        );
        // The same process answers: there was no restart.
        events.nobody_knows_who_is_back(true);
        events.step(2.2, &opened, true);
        events.step(3.0, &over, false);
        events.nobody_knows_who_is_back(false);
        assert_eq!(events.step(12.0, &[], false), [Act::Close { ended_s: Some(3.0) }]);
        // Nobody gets in any more.
        events.nobody_knows_who_is_back(true);
        events.step(102.2, &opened, true);
        events.step(103.0, &[StallChange::Over(StallKind::ServerGone, 103.0)], false);
        assert_eq!(events.step(402.0, &[], false), []);
        assert_eq!(events.step(403.0, &[], false), [Act::Close { ended_s: Some(103.0) }]);
        // Other events close as ever.
        events.step(501.0, &[StallChange::Opened(stall(500.8))], true);
        events.step(501.2, &[StallChange::Over(StallKind::ThroughputCollapsed, 501.1)], false);
        assert_eq!(events.step(506.2, &[], false).last(), Some(&Act::Close { ended_s: Some(501.1) }));
    }

    #[test]
    fn a_server_that_goes_is_an_event_of_its_own_without_detail() {
        let mut events = Events::default();
        events.step(1.0, &opened(0.8), true);
        let gone = Stall { kind: StallKind::ServerGone, ..stall(2.0) };
        let acts = events.step(2.2, &[StallChange::Opened(gone.clone())], true);
        let opens = Act::Open { stall: gone, with_detail: false };
        assert_eq!(acts, [Act::EndDetail, Act::Close { ended_s: Some(1.0) }, opens]);
    }

    #[test]
    fn what_began_with_the_end_of_a_server_becomes_the_event_of_that() {
        let mut events = Events::default();
        let silent = Stall { kind: StallKind::NoAnswer, ..stall(2.0) };
        events.step(2.2, &[StallChange::Opened(silent)], true);
        let gone = Stall { kind: StallKind::ServerGone, ..stall(2.0) };
        let changes = [StallChange::Over(StallKind::NoAnswer, 3.0), StallChange::Opened(gone.clone())];
        assert_eq!(events.step(3.0, &changes, true), [Act::EndDetail, Act::Becomes(gone)]);
        // It waits for who is back, as any event of a server that is gone.
        events.nobody_knows_who_is_back(true);
        events.step(4.0, &[StallChange::Over(StallKind::ServerGone, 4.0)], false);
        assert_eq!(events.step(12.0, &[], false), []);
        assert_eq!(events.end_segment(12.0), [Act::Close { ended_s: Some(4.0) }]);
    }

    #[test]
    fn an_event_closes_some_seconds_after_its_stall_and_ends_when_the_stall_did() {
        let mut events = Events::default();
        let opens = Act::Open { stall: stall(10.0), with_detail: true };
        assert_eq!(events.step(10.2, &opened(10.0), true), [opens]);
        assert_eq!(events.step(10.3, &over(10.3), false), []);
        assert!(events.has_detail());
        assert_eq!(events.step(15.2, &[], false), []);
        let closes = [Act::EndDetail, Act::Close { ended_s: Some(10.3) }];
        assert_eq!(events.step(15.3, &[], false), closes);
        assert!(!events.is_open());
    }

    #[test]
    fn a_stall_that_follows_belongs_to_the_event() {
        let mut events = Events::default();
        events.step(10.2, &opened(10.0), true);
        events.step(10.3, &over(10.3), false);
        assert_eq!(events.step(14.2, &opened(14.0), true), [Act::TakeIn(stall(14.0))]);
        assert_eq!(events.step(15.5, &[], true), []);
    }

    #[test]
    fn a_hiccup_before_a_stall_is_an_event_of_its_own_once_the_stall_has_outgrown_it() {
        let mut events = Events::default();
        events.step(10.2, &opened(10.0), true);
        events.step(10.3, &over(10.3), false);
        assert_eq!(events.step(14.2, &opened(14.0), true), [Act::TakeIn(stall(14.0))]);
        assert_eq!(events.step(15.9, &[], true), []);
        let opens = Act::Open { stall: stall(14.0), with_detail: true };
        let closes = Act::Close { ended_s: Some(10.3) };
        assert_eq!(events.step(16.0, &[], true), [Act::EndDetail, closes, opens]);
        assert_eq!(events.step(20.0, &over(20.0), false), []);
        assert_eq!(events.step(25.0, &[], false), [Act::EndDetail, Act::Close { ended_s: Some(20.0) }]);
    }

    #[test]
    fn a_stall_that_is_interrupted_and_one_that_is_no_longer_than_the_last_are_one_event() {
        for (again_s, lasts_s) in [(12.2, 9.0), (14.0, 7.9)] {
            let mut events = Events::default();
            events.step(10.2, &opened(10.0), true);
            events.step(12.0, &over(12.0), false);
            let mut acts = events.step(again_s + 0.2, &opened(again_s), true);
            acts.extend(events.step(again_s + lasts_s, &[], true));
            assert_eq!(acts, [Act::TakeIn(stall(again_s))]);
        }
    }

    #[test]
    fn a_stall_of_an_hour_is_one_event_with_thirty_seconds_of_detail() {
        let mut events = Events::default();
        let mut acts = events.step(0.2, &opened(0.0), true);
        for tenth in 3..36_000 {
            acts.extend(events.step(f64::from(tenth) / 10.0, &[], true));
        }
        acts.extend(events.step(3600.0, &over(3600.0), false));
        acts.extend(events.step(3605.0, &[], false));
        let opens = Act::Open { stall: stall(0.0), with_detail: true };
        assert_eq!(acts, [opens, Act::EndDetail, Act::Close { ended_s: Some(3600.0) }]);
    }

    #[test]
    fn a_stall_in_one_that_has_lasted_for_hours_is_an_event_of_its_own_with_detail() {
        let mut events = Events::default();
        events.step(0.2, &opened(0.0), true);
        for second in 1..7200 {
            events.step(f64::from(second), &[], true);
        }
        let other = stall(7200.0);
        let acts = events.step(7200.2, &[StallChange::Opened(other.clone())], true);
        let opens = Act::Open { stall: other, with_detail: true };
        assert_eq!(acts, [Act::Close { ended_s: Some(7199.0) }, opens]);
        // When it is over, what lasted before it lasts still.
        assert_eq!(events.step(7203.0, &over(7203.0), true), []);
        assert!(events.is_open());
    }

    #[test]
    fn a_segment_that_ends_closes_the_event_without_an_end() {
        let mut events = Events::default();
        events.step(10.2, &opened(10.0), true);
        assert_eq!(events.end_segment(11.0), [Act::EndDetail, Act::Close { ended_s: None }]);
        assert_eq!(events.end_segment(12.0), []);
    }

    /// Stalls of 300 ms, one every so many seconds of a day: events, and those with detail.
    fn day_of_trouble(every_s: u32) -> (usize, usize) {
        let (mut events, mut all, mut detailed) = (Events::default(), 0, 0);
        for second in (0..86_400).filter(|second| second % every_s == 0) {
            let began_s = f64::from(second);
            let mut acts = events.step(began_s + 0.2, &opened(began_s), true);
            acts.extend(events.step(began_s + 0.3, &over(began_s + 0.3), false));
            acts.extend(events.step(began_s + 5.4, &[], false));
            for act in acts {
                if let Act::Open { with_detail, .. } = act {
                    all += 1;
                    detailed += usize::from(with_detail);
                }
            }
        }
        (all, detailed)
    }

    #[test]
    fn a_day_of_trouble_does_not_fill_the_disk() {
        let (all, detailed) = day_of_trouble(10);
        assert_eq!(all, 8_640);
        assert!((295..=300).contains(&detailed), "{detailed}");
        let (all, detailed) = day_of_trouble(3_600);
        assert_eq!((all, detailed), (24, 24));
    }

    proptest! {
        #[test]
        fn whatever_comes_each_event_is_closed_once_and_ends_its_detail(
            steps in prop::collection::vec((0.05_f64..20.0, any::<bool>(), any::<bool>()), 1..200)
        ) {
            let (mut events, mut now_s, mut lasts) = (Events::default(), 0.0, false);
            let (mut open, mut detail) = (false, false);
            for (after_s, starts, ends) in steps {
                now_s += after_s;
                let mut changes = Vec::new();
                if ends && lasts {
                    changes.extend(over(now_s));
                    lasts = false;
                }
                if starts {
                    changes.extend(opened(now_s - 0.2));
                    lasts = true;
                }
                for act in events.step(now_s, &changes, lasts) {
                    match act {
                        Act::Open { with_detail, .. } => {
                            prop_assert!(!open);
                            (open, detail) = (true, with_detail);
                        }
                        Act::TakeIn(_) | Act::Becomes(_) => prop_assert!(open),
                        Act::EndDetail => prop_assert!(std::mem::replace(&mut detail, false)),
                        Act::Close { ended_s } => {
                            prop_assert!(std::mem::replace(&mut open, false) && !detail);
                            prop_assert!(ended_s.is_some_and(|ended_s| ended_s <= now_s));
                        }
                    }
                }
                prop_assert_eq!((events.is_open(), events.has_detail()), (open, detail));
            }
        }
    }
}
