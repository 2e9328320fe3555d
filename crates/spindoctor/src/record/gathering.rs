//! Unfinished events: they collect their parts until they are complete. Pure.

use jiff::Timestamp;
use spindoctor_collect::follow::Restart;
use spindoctor_model::{Diagnosis, Event, EventHead, Probe, Profile, RecordedGraph, Stall, StallKind};

use crate::common::event_window::add_diagnosis;

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
        self.open = Some(Open { event, with_detail, has_stacks: false });
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

    /// The event that lasts turns out to be of this stall. The event as it is now, to be written.
    pub fn becomes(&mut self, stall: Stall) -> Option<Event> {
        let open = self.open.as_mut()?;
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
        true
    }

    /// An event that is over and has all that belongs to it.
    pub fn whole(&mut self, head: &EventHead) {
        let seen_until = head.ended.unwrap_or(head.began);
        self.ended.push(Over { head: head.clone(), seen_until, lasts: false, remedies: Vec::new() });
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
