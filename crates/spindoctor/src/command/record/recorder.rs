//! What becomes of what is sampled: it is written, looked at for stalls, and kept as events.
//!
//! Nothing here waits: what takes time is ordered, and comes back as [`Done`].

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use spindoctor_collect::follow::{Followed, Follower};
use spindoctor_model::{
    Diagnosis, Event, EventHead, HostSample, Probe, Profile, RecordedGraph, RecordedSample, Sample, Segment,
    Stall, WaitGraph,
};
use spindoctor_record::stall::events::{Act, DETAIL_FOR_S, Events};
use spindoctor_record::stall::suspicion::Suspicion;
use spindoctor_record::stall::{StallChange, Stalls};
use spindoctor_record::{Error, Writer, Written};
use spindoctor_rules::wait_graph::{self, Readings};
use spindoctor_stacks::{RingOptions, RingThread};
use tokio::sync::mpsc::UnboundedSender;

use super::looker::Look;
use crate::command::live::note;

/// So much from before a stall is kept with it.
const BEFORE_S: f64 = 10.0;
/// Snapshots a second in a stall.
const HURRY_HZ: f64 = 10.0;
/// How often locks are looked at in a stall, and suspected ones are looked into.
const LOOK_EVERY_S: f64 = 0.5;
/// A graph is of this snapshot and no older one.
const FRESH: Duration = Duration::from_secs(1);

/// Something that was ordered is there.
pub(super) enum Done {
    /// Stacks of an event.
    Stacks { event: u64, phase: Phase, profile: Box<Profile> },
    /// Who held up whom at one instant.
    Graph(RecordedGraph),
    /// What the rules say of an event.
    Diagnosed { event: u64, diagnosis: Box<anyhow::Result<Option<Diagnosis>>> },
}

/// Which stacks of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// From before the stall.
    Before,
    /// From the stall.
    During,
}

/// Writes samples and makes events.
pub(super) struct Recorder {
    writer: Writer,
    stalls: Stalls,
    suspicion: Suspicion,
    events: Events,
    segment: Option<Segment>,
    stacks: Option<Stacks>,
    /// False where the user wants no stacks.
    with_stacks: bool,
    done: UnboundedSender<Done>,
    probes: VecDeque<Probe>,
    /// Looks that belong to no event yet.
    looks: VecDeque<RecordedSample>,
    graphs: VecDeque<RecordedGraph>,
    looked_s: f64,
    now_s: f64,
    open: Option<Open>,
    closing: Vec<Event>,
    /// Events that are over, until somebody asks for them.
    ended: Vec<EventHead>,
    samples: u64,
    told: Told,
}

struct Stacks {
    pid: u32,
    ring: RingThread,
    /// What it had cost when that was told the last time.
    told: (u64, u64),
}

/// The event that is open.
struct Open {
    event: Event,
    with_detail: bool,
    /// True where the stacks of the stall were ordered.
    has_stacks: bool,
}

/// What was recorded, for the line at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// Samples that were written.
    pub(super) samples: u64,
    /// Events.
    pub(super) events: u64,
}

impl Recorder {
    /// Begins.
    pub(super) fn new(
        writer: Writer,
        stalls: Stalls,
        with_stacks: bool,
        done: UnboundedSender<Done>,
    ) -> Self {
        Self {
            writer,
            stalls,
            suspicion: Suspicion::default(),
            events: Events::default(),
            segment: None,
            stacks: None,
            with_stacks,
            done,
            probes: VecDeque::new(),
            looks: VecDeque::new(),
            graphs: VecDeque::new(),
            looked_s: f64::NEG_INFINITY,
            now_s: 0.0,
            open: None,
            closing: Vec::new(),
            ended: Vec::new(),
            samples: 0,
            told: Told::default(),
        }
    }

    /// Takes what was sampled. True where it is time to look at locks.
    pub(super) fn take(&mut self, followed: Followed, follower: &Follower) -> Result<bool, Error> {
        match followed {
            Followed::Segment(segment) => self.begin(segment, follower)?,
            Followed::Sample(sample) => self.sample(*sample, follower)?,
            Followed::Probe(probe) => return self.probe(probe, follower),
            Followed::Gap(gap) => self.written(|writer| writer.write_gap(&gap))?,
            Followed::Note(what) => note(&what.to_string()),
        }
        Ok(false)
    }

    fn begin(&mut self, segment: Segment, follower: &Follower) -> Result<(), Error> {
        let acts = self.events.end_segment(self.now_s);
        self.act(acts, follower)?;
        let id = self.writer.begin_segment(segment.began, segment.server.clone());
        let segment = Segment { id, ..segment };
        self.stalls.begin_segment(&segment);
        self.suspicion = Suspicion::default();
        self.probes.clear();
        self.looks.clear();
        self.graphs.clear();
        (self.looked_s, self.now_s) = (f64::NEG_INFINITY, 0.0);
        self.look_at(segment.server.pid);
        self.segment = Some(segment);
        Ok(())
    }

    /// Has the stacks of this process taken, and of no other.
    fn look_at(&mut self, pid: Option<u32>) {
        if self.stacks.as_ref().is_some_and(|stacks| Some(stacks.pid) == pid && !stacks.ring.has_ended()) {
            return;
        }
        self.stacks = None;
        let (Some(pid), true) = (pid, self.with_stacks) else { return };
        let options = RingOptions { frames: spindoctor_rules::FRAME_STATES, ..RingOptions::default() };
        match RingThread::start(pid, options) {
            Ok(ring) => self.stacks = Some(Stacks { pid, ring, told: (0, 0) }),
            Err(error) => note(&format!("no stacks are kept: {error}")),
        }
    }

    fn sample(&mut self, mut sample: RecordedSample, follower: &Follower) -> Result<(), Error> {
        if let Some(segment) = &self.segment {
            sample.segment = segment.id;
        }
        self.now_s = self.now_s.max(sample.sample.at_s);
        for why in self.stalls.never_hold(&sample) {
            note(&why);
        }
        let changes = self.stalls.sample(&sample);
        self.written(|writer| writer.write_sample(sample))?;
        self.told.samples += 1;
        self.samples += 1;
        if let Some(stacks) = &mut self.stacks {
            let cost = stacks.ring.cost();
            let (snapshots, own_cpu_us) = stacks.told;
            let took_ms = cost.own_cpu_us.saturating_sub(own_cpu_us) as f64 / 1e3;
            self.writer.add_cost("stacks", cost.snapshots.saturating_sub(snapshots), took_ms);
            stacks.told = (cost.snapshots, cost.own_cpu_us);
        }
        self.step(&changes, follower)
    }

    fn probe(&mut self, probe: Probe, follower: &Follower) -> Result<bool, Error> {
        self.now_s = self.now_s.max(probe.at_s + probe.took_ms / 1e3);
        self.writer.add_cost("probe", 1, probe.took_ms);
        self.probes.push_back(probe);
        let horizon_s = self.now_s - BEFORE_S - 2.0;
        while self.probes.front().is_some_and(|probe| probe.at_s < horizon_s) {
            self.probes.pop_front();
        }
        if let Some(Open { event, with_detail: true, .. }) = &mut self.open {
            event.probes.push(probe);
        }
        let is_suspicious = self.suspicion.look(&probe);
        let changes = self.stalls.probe(&probe);
        self.step(&changes, follower)?;
        let is_due = is_suspicious || self.events.has_detail();
        if is_due && self.now_s - self.looked_s >= LOOK_EVERY_S {
            self.looked_s = self.now_s;
            if let Some(stacks) = &self.stacks {
                stacks.ring.snapshot(true);
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn step(&mut self, changes: &[StallChange], follower: &Follower) -> Result<(), Error> {
        let acts = self.events.step(self.now_s, changes, !self.stalls.lasting().is_empty());
        self.act(acts, follower)
    }

    fn act(&mut self, acts: Vec<Act>, follower: &Follower) -> Result<(), Error> {
        for act in acts {
            match act {
                Act::Open { stall, with_detail } => self.open(stall, with_detail, follower)?,
                Act::TakeIn(stall) => note(&format!("still: {}", stall.because)),
                Act::EndDetail => self.order_stacks(follower),
                Act::Close { ended_s } => self.close(ended_s, follower)?,
            }
        }
        Ok(())
    }

    /// When a time of the segment was, by the wall clock.
    fn wall(&self, at_s: f64) -> Timestamp {
        let began = self.segment.as_ref().map_or(Timestamp::UNIX_EPOCH, |segment| segment.began);
        began + SignedDuration::from_secs_f64(at_s)
    }

    fn open(&mut self, stall: Stall, with_detail: bool, follower: &Follower) -> Result<(), Error> {
        let head = EventHead {
            id: self.writer.new_event(),
            segment: self.segment.as_ref().map_or(0, |segment| segment.id),
            began: self.wall(stall.began_s),
            stall,
            ..EventHead::default()
        };
        note(&format!("event {}: {}", head.id, head.stall.because));
        self.told.events += 1;
        let began_s = head.stall.began_s;
        let mut event = Event { head, ..Event::default() };
        self.written(|writer| writer.write_event(event.clone()))?;
        if with_detail {
            event.probes =
                self.probes.iter().filter(|probe| probe.at_s >= began_s - BEFORE_S).copied().collect();
            event.graphs = self.graphs.iter().cloned().collect();
            for look in std::mem::take(&mut self.looks) {
                self.written(|writer| writer.write_sample(look))?;
            }
            if let Some(stacks) = &self.stacks {
                stacks.ring.hurry(HURRY_HZ, Duration::from_secs_f64(DETAIL_FOR_S));
            }
            self.order(event.head.id, Phase::Before, began_s - BEFORE_S, Some(began_s), follower);
        }
        self.open = Some(Open { event, with_detail, has_stacks: false });
        Ok(())
    }

    /// Has the stacks of the stall handed over, once.
    fn order_stacks(&mut self, follower: &Follower) {
        let Some(open) = &mut self.open else { return };
        if open.with_detail && !std::mem::replace(&mut open.has_stacks, true) {
            let (id, stall) = (open.event.head.id, &open.event.head.stall);
            let (began_s, until_s) = (stall.began_s, self.stalled_until_s());
            self.order(id, Phase::During, began_s, until_s, follower);
        }
    }

    /// Until when the stacks are those of the stall: now, where it lasts.
    fn stalled_until_s(&self) -> Option<f64> {
        let ended = self.open.as_ref()?.event.head.ended?;
        let began = self.segment.as_ref()?.began;
        Some(ended.duration_since(began).as_secs_f64())
    }

    fn order(&self, event: u64, phase: Phase, from_s: f64, to_s: Option<f64>, follower: &Follower) {
        let from = follower.instant_of(from_s.max(0.0));
        let to = to_s.map_or(Some(Instant::now()), |to_s| follower.instant_of(to_s));
        let (Some(stacks), Some(from), Some(to)) = (&self.stacks, from, to) else {
            let profile = Box::default();
            let _heard = self.done.send(Done::Stacks { event, phase, profile });
            return;
        };
        let done = self.done.clone();
        stacks.ring.profile(from, to, move |profile| {
            let _heard = done.send(Done::Stacks { event, phase, profile: Box::new(profile) });
        });
    }

    fn close(&mut self, ended_s: Option<f64>, follower: &Follower) -> Result<(), Error> {
        let ended = ended_s.map(|ended_s| self.wall(ended_s));
        if let Some(open) = &mut self.open {
            open.event.head.ended = ended;
        }
        self.order_stacks(follower);
        let Some(open) = self.open.take() else { return Ok(()) };
        match open.with_detail {
            true => self.closing.push(open.event),
            false => {
                self.ended.push(open.event.head.clone());
                self.written(|writer| writer.write_event(open.event))?;
            }
        }
        Ok(())
    }

    /// Takes what the looker saw.
    pub(super) fn looked(&mut self, look: Look, follower: &Follower) -> Result<(), Error> {
        let (Some(segment), Some(zero)) = (&self.segment, follower.instant_of(0.0)) else { return Ok(()) };
        let since_zero_s = |instant: Instant| match instant.checked_duration_since(zero) {
            Some(after) => after.as_secs_f64(),
            None => -zero.duration_since(instant).as_secs_f64(),
        };
        let Look { clock, begun, took, version, mut server } = look;
        self.writer.add_cost("locks", 1, took.as_secs_f64() * 1e3);
        server.shift(since_zero_s(clock));
        let at_s = since_zero_s(begun);
        let at = self.wall(at_s);
        let (done, of_graph) = (self.done.clone(), server.clone());
        let graph = move |profile: Option<&Profile>| {
            let thread_pointers: Vec<(u64, u64)> = profile
                .into_iter()
                .flat_map(|profile| &profile.threads)
                .filter_map(|thread| Some((thread.tid.into(), thread.thread_pointer?)))
                .collect();
            let graph = wait_graph::build(&Readings {
                version: Some(version),
                server: &of_graph,
                again: None,
                profile,
                futex_waits: profile.map_or(&[], |profile| &profile.futex_waits),
                thread_pointers: &thread_pointers,
            });
            let _heard = done.send(Done::Graph(RecordedGraph { at, graph }));
        };
        match &self.stacks {
            Some(stacks) => {
                let from = begun.checked_sub(FRESH).unwrap_or(begun);
                stacks.ring.profile(from, Instant::now(), move |profile| graph(Some(&profile)));
            }
            None => graph(None),
        }
        let sample = Sample { at_s, server, host: HostSample::default() };
        let recorded = RecordedSample { at, segment: segment.id, sample };
        match self.open.is_some() {
            true => self.written(|writer| writer.write_sample(recorded))?,
            false => {
                self.looks.push_back(recorded);
                let horizon = self.wall(self.now_s - BEFORE_S);
                self.looks.retain(|look| look.at >= horizon);
            }
        }
        Ok(())
    }

    /// Takes what was ordered. An event that has all it needs is given back, to be diagnosed.
    pub(super) fn done(&mut self, done: Done) -> Result<Option<Event>, Error> {
        match done {
            Done::Graph(graph) => self.graph(graph),
            Done::Stacks { event: id, phase, profile } => {
                let profile = (!profile.snapshots.is_empty()).then_some(*profile);
                let closing = self.closing.iter_mut();
                let open = self.open.iter_mut().map(|open| &mut open.event);
                let Some(event) = closing.chain(open).find(|event| event.head.id == id) else {
                    return Ok(None);
                };
                match phase {
                    Phase::Before => event.before = profile,
                    Phase::During => {
                        event.during = profile;
                        return Ok(Some(event.clone()));
                    }
                }
            }
            Done::Diagnosed { event: id, diagnosis } => self.diagnosed(id, *diagnosis)?,
        }
        Ok(None)
    }

    fn graph(&mut self, graph: RecordedGraph) {
        if graph.graph == WaitGraph::default() {
            return;
        }
        if let Some(Open { event, with_detail: true, .. }) = &mut self.open {
            event.graphs.push(graph.clone());
        } else if let Some(event) = self.closing.iter_mut().find(|event| event.head.ended >= Some(graph.at)) {
            event.graphs.push(graph.clone());
        }
        let horizon = self.wall(self.now_s - BEFORE_S);
        self.graphs.retain(|graph| graph.at >= horizon);
        self.graphs.push_back(graph);
    }

    fn diagnosed(&mut self, id: u64, diagnosis: anyhow::Result<Option<Diagnosis>>) -> Result<(), Error> {
        let diagnosis = diagnosis.unwrap_or_else(|why| {
            note(&format!("event {id} has no diagnosis: {why:#}"));
            None
        });
        let with = |event: &mut Event| {
            if let Some(first) = diagnosis.as_ref().and_then(|diagnosis| diagnosis.findings.first()) {
                event.head.cause = Some(first.cause.clone());
                event.head.headline.clone_from(&first.headline);
                note(&format!("event {id}: {}", first.headline));
            }
            event.diagnosis = diagnosis.clone();
        };
        if let Some(open) = self.open.as_mut().filter(|open| open.event.head.id == id) {
            with(&mut open.event);
            // Its end and what belongs to it until then are written when it closes.
            open.with_detail = false;
            let event = open.event.clone();
            return self.written(|writer| writer.write_event(event));
        }
        let Some(at) = self.closing.iter().position(|event| event.head.id == id) else { return Ok(()) };
        let mut event = self.closing.remove(at);
        with(&mut event);
        self.ended.push(event.head.clone());
        self.written(|writer| writer.write_event(event))
    }

    /// The events that ended since this was asked last.
    pub(super) fn ended(&mut self) -> Vec<EventHead> {
        std::mem::take(&mut self.ended)
    }

    /// Closes what is open, as the recording ends here.
    pub(super) fn end(&mut self, follower: &Follower) -> Result<(), Error> {
        let acts = self.events.end_segment(self.now_s);
        self.act(acts, follower)
    }

    /// True while an event waits for its stacks or its diagnosis.
    pub(super) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// What was recorded so far.
    pub(super) fn told(&self) -> Told {
        self.told
    }

    /// The recording.
    pub(super) fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Saves what is usual on this server, so that the next recorder need not learn it anew.
    pub(super) fn remember(&mut self) -> Result<(), Error> {
        let usual = serde_json::to_string(self.stalls.baseline()).unwrap_or_default();
        self.written(|writer| writer.remember(super::USUAL, &usual))
    }

    /// Writes, and tells where there is no room, or room again.
    fn written(&mut self, write: impl FnOnce(&mut Writer) -> Result<Written, Error>) -> Result<(), Error> {
        match write(&mut self.writer)? {
            Written::Done | Written::Dropped => {}
            Written::Again => note("there is room again: the recording goes on"),
            Written::Stopped(no_room) => note(&format!("nothing is recorded for now: {no_room}")),
        }
        Ok(())
    }
}
