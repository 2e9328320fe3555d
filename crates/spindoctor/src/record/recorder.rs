//! The path of a sample: it is written, checked for stalls, and kept in events.
//!
//! Nothing here waits: slow work is ordered, and comes back as [`Done`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use spindoctor_collect::follow::{Followed, Follower, Restart};
use spindoctor_collect::host::{self, process};
use spindoctor_collect::mysql::Target;
use spindoctor_collect::source::Answer;
use spindoctor_model::{
    Diagnosis, Event, EventHead, Probe, Profile, Reading, RecordedGraph, RecordedSample, Sample, Segment,
    Stall, StallKind, WaitGraph,
};
use spindoctor_record::{Error, Writer, Written};
use spindoctor_rules::wait_graph::{self, Readings};
use spindoctor_stalls::events::{Act, Events};
use spindoctor_stalls::suspicion::{Reason, Suspicion};
use spindoctor_stalls::{StallChange, Stalls};
use tokio::sync::mpsc::UnboundedSender;

use super::gathering::{Gathering, Over, Phase, Wanted};
use super::happened::{Happened, Happenings};
use super::history::Shipped;
use super::lately::Lately;
use super::looker::Look;
use super::question::Question;
use super::run as record_run;
use super::stacks::Stacks;
use super::turns::Turns;
use super::watch::{Most, Sighting, What};
use crate::common::event_window::add_diagnosis;
use crate::common::session::note;

/// So much from before a stall is kept with it.
const BEFORE_S: f64 = 10.0;
/// A look belongs to the probe that gave reason to it: no later than the next one, and what it rests in between.
const LOOKED_WITHIN_S: f64 = 0.15;
/// A graph is of this snapshot and no older one.
const FRESH: Duration = Duration::from_secs(1);

/// Something that was ordered is there.
pub enum Done {
    /// Stacks of an event.
    Stacks { event: u64, phase: Phase, profile: Option<Box<Profile>> },
    /// Who blocked whom at one instant.
    Graph(RecordedGraph),
    /// What the rules say of an event.
    Diagnosed { event: u64, diagnosis: Box<anyhow::Result<Option<Diagnosis>>> },
    /// An event of an instant, about which the server was asked: its diagnosis with the answer, and how long that took.
    Answered { event: Box<Event>, diagnosis: Box<Diagnosis>, took_ms: f64 },
}

/// Writes samples and makes events.
pub struct Recorder {
    writer: Writer,
    stalls: Stalls,
    suspicion: Suspicion,
    events: Events,
    happenings: Happenings,
    segment: Option<Segment>,
    /// When the segment began, by the clock that stacks are known by. The follower's own may be that of the next one
    /// already, while what belongs to this one is still on its way.
    zero: Option<Instant>,
    stacks: Stacks,
    done: UnboundedSender<Done>,
    /// Who is asked about what happened, and how many answers are to come.
    target: Target,
    to_come: usize,
    lately: Lately,
    gathering: Gathering,
    turns: Turns,
    /// The last probe that gave a strong reason to look.
    strong_s: f64,
    now_s: f64,
    totals: Totals,
}

/// What was recorded, for the line at the end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Samples that were written.
    pub samples: u64,
    /// Events.
    pub events: u64,
}

impl Recorder {
    /// Begins.
    pub fn new(
        writer: Writer,
        stalls: Stalls,
        with_stacks: bool,
        target: Target,
        done: UnboundedSender<Done>,
    ) -> Self {
        Self {
            writer,
            stalls,
            suspicion: Suspicion::default(),
            events: Events::default(),
            happenings: Happenings::default(),
            segment: None,
            zero: None,
            stacks: Stacks::new(with_stacks),
            done,
            target,
            to_come: 0,
            lately: Lately::default(),
            gathering: Gathering::default(),
            turns: Turns::default(),
            strong_s: f64::NEG_INFINITY,
            now_s: 0.0,
            totals: Totals::default(),
        }
    }

    /// Takes what was sampled. Why to look at locks now, where it is time to.
    pub fn take(&mut self, followed: Followed, follower: &Follower) -> Result<Option<Reason>, Error> {
        match followed {
            Followed::Segment(segment) => self.begin(segment, follower)?,
            Followed::Restart(restart) => self.restarted(&restart)?,
            Followed::Sample(sample) => self.sample(*sample, follower)?,
            Followed::Overdue(asked_s) => self.overdue(asked_s)?,
            Followed::Probe(probe) => return self.probe(probe, follower),
            Followed::Gap(gap) => {
                if gap.to.is_none() {
                    self.events.nobody_knows_who_is_back(true);
                }
                self.written(|writer| writer.write_gap(&gap))?;
            }
            Followed::Note(what) => note(&what.to_string()),
            // The loop that records ends with it.
            Followed::Refused(_) => {}
        }
        Ok(None)
    }

    fn begin(&mut self, segment: Segment, follower: &Follower) -> Result<(), Error> {
        let acts = self.events.end_segment(self.now_s);
        self.act(acts)?;
        let id = self.writer.begin_segment(segment.began, segment.server.clone());
        let segment = Segment { id, ..segment };
        self.zero = follower.instant_of(0.0);
        self.stalls.begin_segment(&segment);
        self.happenings.begin_segment(&segment);
        self.suspicion = Suspicion::default();
        self.lately = Lately::default();
        (self.turns, self.strong_s, self.now_s) = (Turns::default(), f64::NEG_INFINITY, 0.0);
        self.stacks.follow(segment.server.pid);
        self.segment = Some(segment);
        Ok(())
    }

    /// The server was restarted: an event of its own, or what the one that lasts is.
    fn restarted(&mut self, restart: &Restart) -> Result<(), Error> {
        note(&restart.to_string());
        let acts = self.events.end_segment(self.now_s);
        if self.gathering.restarted(restart) {
            let over_s = acts.iter().find_map(|act| match act {
                Act::Close { ended_s } => *ended_s,
                _ => None,
            });
            // The probe may have been answered before anybody could ask which process that is.
            let first = over_s.map_or(restart.back, |over_s| self.wall(over_s).min(restart.back));
            return self.close_at(Some(first));
        }
        self.act(acts)?;
        let Some(segment) = &self.segment else { return Ok(()) };
        let began_s = restart.gone.duration_since(segment.began).as_secs_f64().max(0.0);
        let stall = Stall {
            kind: StallKind::Restarted,
            because: restart.to_string(),
            began_s,
            seen_s: restart.back.duration_since(segment.began).as_secs_f64(),
        };
        let (segment, began) = (segment.id, self.wall(began_s));
        let id = self.writer.new_event();
        let head = EventHead { id, segment, began, ended: Some(restart.back), stall, ..EventHead::default() };
        self.totals.events += 1;
        self.gathering.whole(&head);
        self.written(|writer| writer.write_event(Event { head, ..Event::default() })).map(drop)
    }

    fn sample(&mut self, mut sample: RecordedSample, follower: &Follower) -> Result<(), Error> {
        if let Some(segment) = &self.segment {
            sample.segment = segment.id;
        }
        self.now_s = self.now_s.max(sample.sample.at_s);
        if sample.sample.server.status.value().is_some() {
            self.events.nobody_knows_who_is_back(false);
        }
        for why in self.stalls.never_hold(&sample) {
            note(&why);
        }
        let mut changes = self.stalls.sample(&sample);
        changes.extend(self.runnable());
        let happened = self.happenings.look(&sample);
        let is_written = self.written(|writer| writer.write_sample(sample))?;
        self.totals.samples += u64::from(is_written);
        if let Some((snapshots, took_ms)) = self.stacks.cost() {
            self.writer.add_cost("stacks", snapshots, took_ms);
        }
        self.step(&changes, follower)?;
        for happened in happened {
            self.happened(happened)?;
        }
        for (watched, sessions) in self.stalls.sessions() {
            self.gathering.most(&watched, Most::Sessions(sessions));
        }
        Ok(())
    }

    /// Something happened at an instant: an event beside the one that may last.
    fn happened(&mut self, happened: Happened) -> Result<(), Error> {
        let Happened { kind, began, ended, because, diagnosis, question } = happened;
        let Some(segment) = &self.segment else { return Ok(()) };
        let since_s = |at: Timestamp| at.duration_since(segment.began).as_secs_f64();
        let stall = Stall { kind, because, began_s: since_s(began), seen_s: self.now_s };
        let (id, segment, ended) = (self.writer.new_event(), segment.id, Some(ended));
        let head = EventHead { id, segment, began, ended, stall, ..EventHead::default() };
        note(&format!("event {id}: {}", head.stall.because));
        let mut event = Event { head, ..Event::default() };
        add_diagnosis(&mut event, diagnosis);
        self.totals.events += 1;
        let Some(question) = question else { return self.whole(event) };
        // The recorder may be killed before the answer is there.
        self.written(|writer| writer.write_event(event.clone()))?;
        self.ask(event, *question);
        Ok(())
    }

    /// Asks the server about an event. It is whole when the answer is there, or the reason why there is none.
    fn ask(&mut self, event: Event, question: Question) {
        self.to_come += 1;
        let (target, done) = (self.target.clone(), self.done.clone());
        tokio::spawn(async move {
            let (diagnosis, took_ms) = question.answered(&target).await;
            let (event, diagnosis) = (Box::new(event), Box::new(diagnosis));
            let _sent = done.send(Done::Answered { event, diagnosis, took_ms });
        });
    }

    /// Keeps an event of an instant, of which nothing more will be known.
    fn whole(&mut self, event: Event) -> Result<(), Error> {
        if !event.head.headline.is_empty() {
            note(&format!("event {}: {}", event.head.id, event.head.headline));
        }
        self.gathering.happened(&event);
        self.written(|writer| writer.write_event(event)).map(drop)
    }

    /// Takes what a watchpoint saw in a function of the server. Why to look at locks now, where it is time to.
    pub fn watched(&mut self, seen: Sighting, follower: &Follower) -> Result<Option<Reason>, Error> {
        let Sighting { place, kind, watched, at, what } = seen;
        let Some(zero) = self.zero else { return Ok(None) };
        let at_s = at.saturating_duration_since(zero).as_secs_f64();
        self.now_s = self.now_s.max(zero.elapsed().as_secs_f64());
        match what {
            What::Began(because, most) => {
                // Before all else: threads move on.
                self.stacks.snapshot();
                let changes = self.stalls.function(kind, place, self.now_s, Some((at_s, because.clone())));
                self.step(&changes, follower)?;
                self.gathering.began(kind, &watched, because, most);
                let is_time = self.turns.take(self.now_s, Some(Reason::Strong));
                return Ok(is_time.then_some(Reason::Strong));
            }
            What::Grew(most) => self.gathering.most(&watched, most),
            What::Over(most) => {
                self.gathering.most(&watched, most);
                let changes = self.stalls.function(kind, place, at_s, None);
                self.step(&changes, follower)?;
            }
        }
        Ok(None)
    }

    /// What something cost that is not the recorder's own.
    pub fn add_cost(&mut self, source: &str, asked: u64, took_ms: f64) {
        self.writer.add_cost(source, asked, took_ms);
    }

    /// How many threads want a CPU, by the last snapshot.
    fn runnable(&mut self) -> Vec<StallChange> {
        let (Some((at, threads)), Some(zero)) = (self.stacks.runnable(), self.zero) else {
            return Vec::new();
        };
        // One that was taken before this segment belongs to another.
        at.checked_duration_since(zero)
            .map_or_else(Vec::new, |after| self.stalls.runnable(after.as_secs_f64(), threads))
    }

    fn probe(&mut self, probe: Probe, follower: &Follower) -> Result<Option<Reason>, Error> {
        self.now_s = self.now_s.max(probe.at_s + probe.took_ms / 1e3);
        self.writer.add_cost("probe", 1, probe.took_ms);
        self.lately.probe(probe, self.now_s - BEFORE_S - 2.0);
        self.gathering.probe(probe);
        let reason = self.suspicion.look(&probe);
        if reason == Some(Reason::Strong) {
            self.strong_s = self.now_s;
        }
        let changes = self.stalls.probe(&probe);
        self.step(&changes, follower)?;
        let is_wanted = reason.is_some() || self.events.has_detail();
        if !is_wanted || !self.turns.take(self.now_s, reason) {
            return Ok(None);
        }
        self.stacks.snapshot();
        // A stall that is known, and in which nothing stands out now.
        Ok(Some(reason.unwrap_or(Reason::Weak)))
    }

    /// The server blocks even the probe: what holds it is looked at from outside.
    fn overdue(&mut self, asked_s: f64) -> Result<(), Error> {
        let Some(zero) = self.zero else { return Ok(()) };
        if self.turns.take(asked_s, Some(Reason::Strong)) {
            self.stacks.snapshot();
        }
        // A line of /proc costs next to nothing, and nothing else shows a process that is stopped for a moment.
        let Some(segment) = &self.segment else { return Ok(()) };
        let Some(pid) = segment.server.pid else { return Ok(()) };
        let at_s = zero.elapsed().as_secs_f64();
        let mut sample = Sample { at_s, ..Sample::default() };
        let now = || Answer { at_s, took_ms: 0.0 };
        (process::SOURCE.read)(&host::Target::live(pid), &mut sample.host, &now);
        self.keep_look(RecordedSample { at: self.wall(at_s), segment: segment.id, sample })
    }

    /// Keeps what was seen between the samples of each second, where it belongs to an event or may yet.
    fn keep_look(&mut self, look: RecordedSample) -> Result<(), Error> {
        if self.gathering.is_open() {
            self.written(|writer| writer.write_look(look))?;
            return Ok(());
        }
        self.lately.look(look, self.wall(self.now_s - BEFORE_S));
        Ok(())
    }

    fn step(&mut self, changes: &[StallChange], follower: &Follower) -> Result<(), Error> {
        let acts = self.events.step(self.now_s, changes, !self.stalls.lasting().is_empty());
        follower.hurry(self.events.has_detail());
        self.act(acts)
    }

    fn act(&mut self, acts: Vec<Act>) -> Result<(), Error> {
        let closes = acts.iter().any(|act| matches!(act, Act::Close { .. }));
        for act in acts {
            match act {
                Act::Open { stall, with_detail } => self.open(stall, with_detail)?,
                Act::TakeIn(stall) => {
                    if self.gathering.takes_in(&stall) {
                        note(&format!("still: {}", stall.because));
                    }
                }
                Act::Becomes(stall) => {
                    note(&format!("still: {}", stall.because));
                    if let Some(event) = self.gathering.becomes(stall) {
                        self.written(|writer| writer.write_event(event))?;
                    }
                }
                // The stacks of an event that closes end with its stall, and not now.
                Act::EndDetail if closes => {}
                Act::EndDetail => {
                    let wanted = self.gathering.wants_stacks();
                    self.order_stacks(wanted);
                }
                Act::Close { ended_s } => self.close(ended_s)?,
            }
        }
        Ok(())
    }

    /// When a time of the segment was, by the clock of the stacks; none before the first segment.
    fn instant(&self, at_s: f64) -> Option<Instant> {
        self.zero?.checked_add(Duration::try_from_secs_f64(at_s.max(0.0)).ok()?)
    }

    /// When a time of the segment was, by the wall clock.
    fn wall(&self, at_s: f64) -> Timestamp {
        let began = self.segment.as_ref().map_or(Timestamp::UNIX_EPOCH, |segment| segment.began);
        began + SignedDuration::from_secs_f64(at_s)
    }

    fn open(&mut self, stall: Stall, with_detail: bool) -> Result<(), Error> {
        let head = EventHead {
            id: self.writer.new_event(),
            segment: self.segment.as_ref().map_or(0, |segment| segment.id),
            began: self.wall(stall.began_s),
            stall,
            ..EventHead::default()
        };
        note(&format!("event {}: {}", head.id, head.stall.because));
        self.totals.events += 1;
        let began_s = head.stall.began_s;
        let mut event = Event { head, ..Event::default() };
        self.written(|writer| writer.write_event(event.clone()))?;
        if with_detail {
            event.probes = self.lately.probes_since(began_s - BEFORE_S);
            event.graphs = self.lately.graphs();
            for look in self.lately.take_looks() {
                self.written(|writer| writer.write_look(look))?;
            }
            self.stacks.hurry();
            let (from, to) = (self.instant(began_s - BEFORE_S), self.instant(began_s));
            self.order(event.head.id, Phase::Before, from, to);
        }
        self.gathering.open(event, with_detail);
        Ok(())
    }

    /// Has the stacks of a stall handed over: until now, where it lasts.
    fn order_stacks(&self, wanted: Option<Wanted>) {
        let (Some(Wanted { event, from_s, to }), Some(segment)) = (wanted, &self.segment) else { return };
        let to = match to {
            Some(to) => self.instant(to.duration_since(segment.began).as_secs_f64()),
            None => Some(Instant::now()),
        };
        self.order(event, Phase::During, self.instant(from_s), to);
    }

    fn order(&self, event: u64, phase: Phase, from: Option<Instant>, to: Option<Instant>) {
        let done = self.done.clone();
        self.stacks.profile(from, to, move |profile| {
            let _sent = done.send(Done::Stacks { event, phase, profile: profile.map(Box::new) });
        });
    }

    fn close(&mut self, ended_s: Option<f64>) -> Result<(), Error> {
        self.close_at(ended_s.map(|ended_s| self.wall(ended_s)))
    }

    fn close_at(&mut self, ended: Option<Timestamp>) -> Result<(), Error> {
        let (wanted, whole) = self.gathering.close(ended, self.wall(self.now_s));
        self.order_stacks(wanted);
        match whole {
            Some(event) => self.written(|writer| writer.write_event(event)).map(drop),
            None => Ok(()),
        }
    }

    /// Takes what the looker saw.
    pub fn looked(&mut self, look: Look, follower: &Follower) -> Result<(), Error> {
        let (Some(segment), Some(zero)) = (&self.segment, self.zero) else { return Ok(()) };
        let since_zero_s = |instant: Instant| match instant.checked_duration_since(zero) {
            Some(after) => after.as_secs_f64(),
            None => -zero.duration_since(instant).as_secs_f64(),
        };
        self.writer.add_cost("locks", 1, look.took.as_secs_f64() * 1e3);
        let (begun, version) = (look.begun, look.version);
        let (at_s, clock_s) = (since_zero_s(begun), since_zero_s(look.clock));
        let at = self.wall(at_s);
        let mut recorded = RecordedSample { at, segment: segment.id, sample: look.sample(at_s, clock_s) };
        let is_for_reason = (0.0..=LOOKED_WITHIN_S).contains(&(at_s - self.strong_s));
        let changes = if is_for_reason { self.stalls.look(&recorded) } else { Vec::new() };
        let (done, server) = (self.done.clone(), recorded.sample.server.clone());
        let from = begun.checked_sub(FRESH).unwrap_or(begun);
        self.stacks.profile(Some(from), Some(Instant::now()), move |profile| {
            let readings =
                Readings { version: Some(version), server: &server, again: None, profile: profile.as_ref() };
            // This is the thread of the ring, which must go on whatever is wrong with what was read.
            let graph = catch_unwind(AssertUnwindSafe(|| wait_graph::build(&readings))).unwrap_or_default();
            let _sent = done.send(Done::Graph(RecordedGraph { at, graph }));
        });
        // Of each second's list the sampler leaves its own sessions out.
        if let Reading::Available { value: threads, .. } = &mut recorded.sample.server.threads {
            threads.retain(|thread| !thread.connection_id.is_some_and(|id| follower.is_own(id)));
        }
        self.keep_look(recorded)?;
        self.step(&changes, follower)
    }

    /// Takes what was ordered. An event that has all it needs is given back, to be diagnosed.
    pub fn done(&mut self, done: Done) -> Result<Option<Event>, Error> {
        match done {
            Done::Graph(graph) => self.graph(graph),
            Done::Stacks { event, phase, profile } => {
                return Ok(self.gathering.stacks(event, phase, profile.map(|profile| *profile)));
            }
            Done::Diagnosed { event, diagnosis } => self.diagnosed(event, *diagnosis)?,
            Done::Answered { mut event, diagnosis, took_ms } => {
                self.to_come = self.to_come.saturating_sub(1);
                self.writer.add_cost("plan", 1, took_ms);
                add_diagnosis(&mut event, Some(*diagnosis));
                self.whole(*event)?;
            }
        }
        Ok(None)
    }

    fn graph(&mut self, graph: RecordedGraph) {
        if graph.graph == WaitGraph::default() {
            return;
        }
        self.gathering.graph(&graph);
        self.lately.graph(graph, self.wall(self.now_s - BEFORE_S));
    }

    fn diagnosed(&mut self, id: u64, diagnosis: anyhow::Result<Option<Diagnosis>>) -> Result<(), Error> {
        let diagnosis = diagnosis.unwrap_or_else(|why| {
            note(&format!("event {id} has no diagnosis: {why:#}"));
            None
        });
        let now = self.wall(self.now_s);
        let Some(event) = self.gathering.diagnosed(id, diagnosis, now) else { return Ok(()) };
        if !event.head.headline.is_empty() {
            note(&format!("event {id}: {}", event.head.headline));
        }
        self.written(|writer| writer.write_event(event)).map(drop)
    }

    /// True where the recording is no longer at its path.
    pub fn is_elsewhere(&self) -> bool {
        self.writer.is_elsewhere()
    }

    /// The events that ended since this was asked last, and those that were diagnosed while they last.
    pub fn ended(&mut self) -> Vec<Over> {
        self.gathering.ended()
    }

    /// Closes what is open, as the recording ends here.
    pub fn end(&mut self) -> Result<(), Error> {
        let acts = self.events.end_segment(self.now_s);
        self.act(acts)
    }

    /// True while an event waits for its stacks, its diagnosis or an answer.
    pub fn is_closing(&self) -> bool {
        self.gathering.is_closing() || self.to_come > 0
    }

    /// What was recorded so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The recording.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Saves what is usual on this server, so that the next recorder need not learn it again.
    pub fn remember(&mut self) -> Result<(), Error> {
        let usual = serde_json::to_string(self.stalls.baseline()).unwrap_or_default();
        self.written(|writer| writer.remember(record_run::USUAL, &usual)).map(drop)
    }

    /// Saves how far files have what is recorded, so that the next recorder goes on from there.
    pub fn shipped(&mut self, place: &str, shipped: &Shipped) -> Result<(), Error> {
        let Shipped::Written { position, .. } = shipped else { return Ok(()) };
        let position = serde_json::to_string(position).unwrap_or_default();
        self.written(|writer| writer.remember(place, &position)).map(drop)
    }

    /// Writes, and reports where there is no room, or room again. False where it is not in the file.
    fn written(&mut self, write: impl FnOnce(&mut Writer) -> Result<Written, Error>) -> Result<bool, Error> {
        match write(&mut self.writer)? {
            Written::Done => return Ok(true),
            Written::Dropped => {}
            Written::Again => {
                note("there is room again: the recording goes on");
                return Ok(true);
            }
            Written::Stopped(no_room) => note(&format!("nothing is recorded for now: {no_room}")),
        }
        Ok(false)
    }
}
