//! Unfinished events: they collect their parts until they are complete. Pure.

use std::fmt;

use jiff::Timestamp;
use spindoctor_collect::follow::Restart;
use spindoctor_model::{Diagnosis, Event, EventHead, Probe, Profile, RecordedGraph, Stall, StallKind};

use super::watch::Most;
use crate::common::event_window::add_diagnosis;
use crate::common::watchpoint::milliseconds;

/// Which stacks of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// From before the stall.
    Before,
    /// From the stall.
    During,
}

/// The events that are not written whole yet.
#[derive(Default)]
pub struct Gathering {
    open: Option<Open>,
    /// Over, and not diagnosed yet.
    closing: Vec<Closing>,
    /// Events that are over, or diagnosed, until somebody asks for them.
    ended: Vec<Over>,
}

/// An event that is over, and not diagnosed yet.
struct Closing {
    event: Event,
    seen_until: Timestamp,
}

/// An event that is over and written, or that is diagnosed while it lasts.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    pub head: EventHead,
    /// Until when it was seen to last: where the recording broke off in it nobody knows its end.
    pub seen_until: Timestamp,
    /// True where it lasts: it will come again when it is over.
    pub lasts: bool,
    /// What the first finding says to do.
    pub remedies: Vec<String>,
}

impl Over {
    fn new(event: &Event, seen_until: Timestamp) -> Self {
        let first = event.diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first());
        let remedies =
            first.map(|finding| finding.remedies.iter().map(|one| one.statement.clone()).collect());
        Self { head: event.head.clone(), seen_until, lasts: false, remedies: remedies.unwrap_or_default() }
    }
}

/// The event that lasts.
struct Open {
    event: Event,
    with_detail: bool,
    /// True where the stacks of the stall were ordered.
    has_stacks: bool,
    /// Why it was opened, and what else the user watches for that was seen in it: each with how much there was at most.
    reasons: Vec<Because>,
}

/// Something that was seen in an event.
struct Because {
    kind: StallKind,
    /// In words, as it was first seen.
    words: String,
    /// How much there was then, and at most; none where nobody counts.
    most: Option<(Most, Most)>,
}

impl Because {
    fn new(stall: &Stall) -> Self {
        Self { kind: stall.kind, words: stall.because.clone(), most: None }
    }

    /// True where it is what this watches for, in words.
    fn is_of(&self, watched: &str) -> bool {
        self.words.strip_prefix(watched).is_some_and(|rest| rest.starts_with(": "))
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        match self.most {
            Some((Most::Threads(first), Most::Threads(most))) if most > first => {
                write!(f, ", {most} at most")
            }
            Some((Most::Took(first), Most::Took(most))) if most > first => {
                write!(f, ", {} at most", milliseconds(most))
            }
            Some((_, Most::Sessions(most))) if most > 1 => write!(f, ", in {most} sessions at most"),
            _ => Ok(()),
        }
    }
}

impl Open {
    /// Why it is an event, in the words that are kept.
    fn reword(&mut self) {
        let words = self.reasons.iter().map(Because::to_string);
        self.event.head.stall.because = words.collect::<Vec<_>>().join("; ");
    }
}

/// The stacks that an event wants: of its stall, from when to when.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    pub event: u64,
    pub from_s: f64,
    /// None where it lasts.
    pub to: Option<Timestamp>,
}

impl Gathering {
    /// An event begins.
    pub fn open(&mut self, event: Event, with_detail: bool) {
        let reasons = vec![Because::new(&event.head.stall)];
        self.open = Some(Open { event, with_detail, has_stacks: false, reasons });
    }

    /// True while an event lasts.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// True while an event waits for its stacks or its diagnosis.
    pub fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The events that ended since this was asked last, and those that were diagnosed while they last.
    pub fn ended(&mut self) -> Vec<Over> {
        std::mem::take(&mut self.ended)
    }

    pub fn probe(&mut self, probe: Probe) {
        if let Some(Open { event, with_detail: true, .. }) = &mut self.open {
            event.probes.push(probe);
        }
    }

    /// Who waits for whom, which may come some time after it was so.
    pub fn graph(&mut self, graph: &RecordedGraph) {
        if let Some(Open { event, with_detail: true, .. }) = &mut self.open {
            event.graphs.push(graph.clone());
        } else if let Some(closing) = self.closing.iter_mut().find(|closing| closing.seen_until >= graph.at) {
            closing.event.graphs.push(graph.clone());
        }
    }

    /// The stacks of the stall are wanted now: once for each event with detail.
    pub fn wants_stacks(&mut self) -> Option<Wanted> {
        let open = self.open.as_mut().filter(|open| open.with_detail)?;
        let is_first = !std::mem::replace(&mut open.has_stacks, true);
        let EventHead { id, stall, ended, .. } = &open.event.head;
        is_first.then_some(Wanted { event: *id, from_s: stall.began_s, to: *ended })
    }

    /// Another stall is in the event: of each kind that the user watches for the first is named. False where it is one
    /// more of such a kind.
    pub fn takes_in(&mut self, stall: &Stall) -> bool {
        let is_watched = stall.kind.is_of_function() || stall.kind == StallKind::StatementRan;
        let Some(open) = self.open.as_mut().filter(|_| is_watched) else { return true };
        if open.reasons.iter().any(|known| known.kind == stall.kind) {
            return false;
        }
        open.reasons.push(Because::new(stall));
        open.reword();
        true
    }

    /// A watchpoint sees something, in these words: the event that lasts names each one, whatever else is seen in it.
    pub fn began(&mut self, kind: StallKind, watched: &str, because: String, most: Most) {
        if let Some(open) = &mut self.open
            && !open.reasons.iter().any(|known| known.is_of(watched))
        {
            open.reasons.push(Because { kind, words: because, most: None });
        }
        self.most(watched, most);
    }

    /// Of something that the user watches for there was so much in the event that lasts.
    pub fn most(&mut self, watched: &str, most: Most) {
        let Some(open) = &mut self.open else { return };
        if let Some(known) = open.reasons.iter_mut().find(|known| known.is_of(watched)) {
            known.most = Some(known.most.map_or((most, most), |(first, before)| (first, before.and(most))));
            open.reword();
        }
    }

    /// The event that lasts turns out to be of this stall. The event as it is now, to be written.
    pub fn becomes(&mut self, stall: Stall) -> Option<Event> {
        let open = self.open.as_mut()?;
        open.reasons = vec![Because::new(&stall)];
        open.event.head.stall = stall;
        Some(Event { head: open.event.head.clone(), ..Event::default() })
    }

    /// The server was restarted: the event that lasts is one of that where it began with the server's end. Says so.
    pub fn restarted(&mut self, restart: &Restart) -> bool {
        let Some(open) = &mut self.open else { return false };
        let head = &mut open.event.head;
        if head.stall.kind != StallKind::ServerGone
            && !(head.stall.kind == StallKind::NoAnswer && head.began >= restart.gone)
        {
            return false;
        }
        (head.stall.kind, head.stall.because) = (StallKind::Restarted, restart.to_string());
        open.reasons = vec![Because::new(&head.stall)];
        true
    }

    /// An event that is over and has all that belongs to it.
    pub fn whole(&mut self, head: &EventHead) {
        let seen_until = head.ended.unwrap_or(head.began);
        self.ended.push(Over { head: head.clone(), seen_until, lasts: false, remedies: Vec::new() });
    }

    /// What happened at an instant: it is said, and no time counts as stalled.
    pub fn happened(&mut self, event: &Event) {
        self.ended.push(Over::new(event, event.head.began));
    }

    /// The event is over, or the recording broke off in it. Its stacks, where they are wanted; the event itself where
    /// nothing more belongs to it, to be written.
    pub fn close(&mut self, ended: Option<Timestamp>, now: Timestamp) -> (Option<Wanted>, Option<Event>) {
        let seen_until = ended.unwrap_or(now);
        if let Some(open) = &mut self.open {
            open.event.head.ended = ended;
        }
        let wanted = self.wants_stacks();
        let Some(Open { event, with_detail, .. }) = self.open.take() else { return (None, None) };
        if with_detail {
            self.closing.push(Closing { event, seen_until });
            return (wanted, None);
        }
        self.ended.push(Over::new(&event, seen_until));
        (wanted, Some(event))
    }

    /// Stacks that were wanted. The event is given back where it has all that a diagnosis needs.
    pub fn stacks(&mut self, id: u64, phase: Phase, profile: Option<Profile>) -> Option<Event> {
        let open = self.open.iter_mut().map(|open| &mut open.event);
        let closing = self.closing.iter_mut().map(|closing| &mut closing.event);
        let event = closing.chain(open).find(|event| event.head.id == id)?;
        match phase {
            Phase::Before => {
                event.before = profile;
                None
            }
            Phase::During => {
                event.during = profile;
                Some(event.clone())
            }
        }
    }

    /// What the rules say of an event; it is given back, to be written.
    pub fn diagnosed(&mut self, id: u64, diagnosis: Option<Diagnosis>, now: Timestamp) -> Option<Event> {
        if let Some(open) = self.open.as_mut().filter(|open| open.event.head.id == id) {
            add_diagnosis(&mut open.event, diagnosis);
            // Its end and what belongs to it until then are written when it closes.
            open.with_detail = false;
            self.ended.push(Over { lasts: true, ..Over::new(&open.event, now) });
            return Some(open.event.clone());
        }
        let at = self.closing.iter().position(|closing| closing.event.head.id == id)?;
        let Closing { mut event, seen_until } = self.closing.remove(at);
        add_diagnosis(&mut event, diagnosis);
        self.ended.push(Over::new(&event, seen_until));
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;
    use spindoctor_model::{Finding, Sample, Severity, Window};

    use super::*;

    fn event(id: u64) -> Event {
        let stall = Stall { began_s: 5.0, ..Stall::default() };
        Event { head: EventHead { id, stall, ..EventHead::default() }, ..Event::default() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    fn finding() -> Diagnosis {
        let window = Window { samples: vec![Sample::default()], ..Window::default() };
        let finding = Finding {
            cause: "row-lock-pileup".into(),
            severity: Severity::Critical,
            score: 0.9,
            headline: "Sixteen sessions wait for one row".into(),
            evidence: Vec::new(),
            why: String::new(),
            remedies: Vec::new(),
            root: None,
            explains: Vec::new(),
            is_elsewhere: false,
            references: Vec::new(),
        };
        Diagnosis { findings: vec![finding], ..spindoctor_rules::diagnose(&window) }
    }

    #[test]
    fn the_stacks_of_a_stall_end_with_it_and_its_event_is_written_when_it_is_diagnosed() {
        let mut gathering = Gathering::default();
        gathering.open(event(1), true);
        gathering.probe(Probe::default());
        let wanted = Wanted { event: 1, from_s: 5.0, to: Some(at(8)) };
        assert_eq!(gathering.close(Some(at(8)), at(13)), (Some(wanted), None));
        assert!(gathering.is_closing() && !gathering.is_open());
        let graph = |second| RecordedGraph { at: at(second), ..RecordedGraph::default() };
        gathering.graph(&graph(7));
        gathering.graph(&graph(9));
        assert_eq!(gathering.stacks(1, Phase::Before, Some(Profile::default())), None);
        let whole = gathering.stacks(1, Phase::During, None).unwrap();
        assert_eq!((whole.probes.len(), whole.graphs.len(), whole.before.is_some()), (1, 1, true));
        let written = gathering.diagnosed(1, Some(finding()), at(14)).unwrap();
        assert_eq!(written.head.cause.as_deref(), Some("row-lock-pileup"));
        assert_eq!(gathering.ended(), [Over::new(&written, at(8))]);
        assert!(!gathering.is_closing());
    }

    #[test]
    fn a_long_one_is_diagnosed_while_it_lasts_and_written_again_when_it_ends() {
        let mut gathering = Gathering::default();
        gathering.open(event(2), true);
        assert_eq!(gathering.wants_stacks().map(|wanted| wanted.to), Some(None));
        assert_eq!(gathering.wants_stacks(), None, "once");
        assert!(gathering.diagnosed(2, Some(finding()), at(30)).is_some());
        let lasts = gathering.ended();
        assert!(lasts.len() == 1 && lasts[0].lasts && lasts[0].seen_until == at(30));
        let (wanted, written) = gathering.close(Some(at(90)), at(95));
        assert_eq!(wanted, None);
        let head = written.unwrap().head;
        assert_eq!((head.cause.as_deref(), head.ended), (Some("row-lock-pileup"), Some(at(90))));
        assert!(gathering.ended().iter().all(|over| !over.lasts));
    }

    #[test]
    fn an_event_names_what_is_watched_for_once_with_how_much_there_was_at_most() {
        let inside = |because: &str| Stall {
            kind: StallKind::InsideFunction,
            because: because.into(),
            ..Stall::default()
        };
        let threads = Most::Threads;
        let mut gathering = Gathering::default();
        gathering.most("more than 20 threads in f", threads(9));
        let mut waits = event(4);
        waits.head.stall.because = "39 of 40 sessions at work wait for locks".into();
        gathering.open(waits, false);
        assert!(gathering.takes_in(&inside("more than 20 threads in f: 21 at once")));
        gathering.most("more than 20 threads in f", threads(21));
        gathering.most("more than 20 threads in f", threads(45));
        assert!(!gathering.takes_in(&inside("more than 20 threads in f: 30 at once")));
        gathering.most("more than 20 threads in f", threads(30));
        gathering.most("more than 20 threads in g", threads(99));
        assert!(gathering.takes_in(&Stall { because: "commits stopped".into(), ..Stall::default() }));
        let (_, written) = gathering.close(Some(at(8)), at(13));
        assert_eq!(
            written.unwrap().head.stall.because,
            "39 of 40 sessions at work wait for locks; more than 20 threads in f: 21 at once, 45 at most"
        );

        // Two functions that are watched in the same way.
        let (f, g) = ("more than 20 threads in f", "more than 3 threads in g");
        let mut piled = event(6);
        piled.head.stall = inside("more than 20 threads in f: 21 at once");
        gathering.open(piled, false);
        gathering.began(StallKind::InsideFunction, f, format!("{f}: 21 at once"), threads(21));
        gathering.began(StallKind::InsideFunction, g, format!("{g}: 4 at once"), threads(4));
        gathering.began(StallKind::InsideFunction, g, format!("{g}: 5 at once"), threads(5));
        let (_, written) = gathering.close(Some(at(8)), at(13));
        assert_eq!(
            written.unwrap().head.stall.because,
            "more than 20 threads in f: 21 at once; more than 3 threads in g: 4 at once, 5 at most"
        );

        let mut slow = event(5);
        slow.head.stall = inside("a thread in f for 100 ms: thread 7 for 134 ms");
        gathering.open(slow, false);
        for ms in [134, 310, 120] {
            gathering.most("a thread in f for 100 ms", Most::Took(Duration::from_millis(ms)));
        }
        let (_, written) = gathering.close(Some(at(8)), at(13));
        let because = written.unwrap().head.stall.because;
        assert_eq!(because, "a thread in f for 100 ms: thread 7 for 134 ms, 310 ms at most");
    }

    #[test]
    fn of_an_event_without_detail_the_head_alone_is_kept() {
        let mut gathering = Gathering::default();
        gathering.open(event(3), false);
        gathering.probe(Probe::default());
        let (wanted, written) = gathering.close(None, at(30));
        assert_eq!((wanted, written), (None, Some(event(3))));
        let ended = gathering.ended();
        assert_eq!((ended[0].head.ended, ended[0].seen_until), (None, at(30)));
        assert_eq!(gathering.stacks(3, Phase::During, None), None);
    }
}
