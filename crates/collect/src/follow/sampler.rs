//! The sampler: keeps the grid of a second, says who has a turn, reads the host, and puts samples together.
//!
//! A sample waits for the server's answers until the next one is due. What comes later stands in the sample that is
//! current then, with the time of its own answer.

use std::convert::Infallible;
use std::pin::pin;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{
    Gap, NoSession, Reading, RecordedSample, Sample, Segment, ServerIdentity, ServerSample, Unavailable,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::backoff::Reconnect;
use super::clock::SegmentClock;
use super::identity::Identity;
use super::note::Note;
use super::pace::Paced;
use super::probe::Prober;
use super::restart::{Process, Restart};
use super::server::{Asked, Reply, Request};
use super::shared::{Shared, Stopped};
use super::sources::{GivenUp, ServerSource, due_sources, rests, turns};
use super::{FollowOptions, Followed, server};
use crate::mysql::ConnectError;
use crate::mysql::logins::Again;
use crate::round::{Came, Taken};
use crate::server_host::ServerHost;
use crate::{host, mysql};

/// From one sample to the next.
const GRID: Duration = Duration::from_secs(1);

/// When to try again where the server's connections are used up. That costs the server a line of text, without a login.
const FULL_AGAIN: Duration = Duration::from_secs(1);

/// Samples that were missed beyond this many are a gap: this program did not run.
const MISSED_SAMPLES: u64 = 5;

/// How often a host that cannot be read says why, seconds.
const HOST_REASON_S: u64 = 10;

/// So far away is what does not come: credentials that are not tried again.
const NEVER: Duration = Duration::from_hours(24 * 365 * 10);

/// A source that the server refused for good is asked again after so many seconds: somebody may have granted the right.
const ASKED_AGAIN_S: u64 = 600;

/// Keeps the grid.
pub(super) struct Sampler {
    shared: Shared,
    options: FollowOptions,
    clock: SegmentClock,
    /// Seconds of the grid since sampling began, over all segments; those that were missed count.
    second: u64,
    /// The first second of the segment.
    first_second: u64,
    host: ServerHost,
    /// How many sessions the server has, as it said last.
    sessions: usize,
    /// For each of [`mysql::SOURCES`].
    server_sources: Vec<ServerSource>,
    /// For each of [`host::SOURCES`].
    host_sources: Vec<Paced>,
    state: State,
    /// A session counts as one that answers when it has outlived a round of questions.
    reconnect: Reconnect,
    /// Why there is no session, where there is none.
    away_because: String,
    no_session: Option<NoSession>,
    /// Who answered last.
    identity: Option<Identity>,
    /// The last sample that held an answer of the server.
    last_answered: Timestamp,
    gap: Option<Gap>,
    requests: Sender<Request>,
    replies: Receiver<Reply>,
}

/// What the server's half does.
#[derive(Clone, Copy)]
enum State {
    /// There is no session; it is tried again then.
    Away { again: Instant },
    /// It connects.
    Connecting,
    /// It waits for questions.
    Ready,
    /// It asks; the times of the answers count from then.
    Asking { origin: Instant },
}

/// Samples until the caller is gone or says so.
pub(super) async fn run(shared: Shared, options: FollowOptions, prober: Option<Prober>) {
    let (requests, requested) = channel(1);
    let (replied, replies) = channel(1);
    let mut asking = pin!(server::run(shared.clone(), requested, replied));
    let patience = shared.door.target().limits.query;
    {
        let mut sampler = Sampler::new(shared.clone(), options, requests, replies);
        tokio::select! {
            () = &mut asking => return,
            Err(Stopped) = sampler.sample_for_ever(prober) => {}
            () = shared.stopped() => {}
        }
    }
    // Nobody sends it requests any more: it says goodbye, where the server lets it.
    let _in_time = tokio::time::timeout(patience, asking).await;
}

impl Sampler {
    fn new(
        shared: Shared,
        options: FollowOptions,
        requests: Sender<Request>,
        replies: Receiver<Reply>,
    ) -> Self {
        let mut paced =
            options.paces.iter().enumerate().map(|(place, &(name, pace))| Paced::new(name, pace, place));
        let server_sources = paced.by_ref().take(mysql::SOURCES.len());
        let server_sources = server_sources.map(|paced| ServerSource { paced, given_up: None }).collect();
        let host_sources = paced.collect();
        let (origin, began) = (Instant::now(), Timestamp::now());
        Self {
            clock: SegmentClock { segment: options.first_segment, began, origin },
            second: 0,
            first_second: 0,
            host: find_host(&options, &shared),
            sessions: 0,
            server_sources,
            host_sources,
            state: State::Away { again: origin },
            reconnect: Reconnect::default(),
            away_because: "the server has not answered yet".to_owned(),
            no_session: None,
            identity: None,
            last_answered: began,
            gap: None,
            requests,
            replies,
            shared,
            options,
        }
    }

    async fn sample_for_ever(&mut self, prober: Option<Prober>) -> Result<Infallible, Stopped> {
        // A server that is well answers at once: then the first segment is known to be its own.
        self.connect().await?;
        match self.reply_until(Instant::now() + GRID).await? {
            Some(Reply::Connected { identity, notes }) => {
                self.enter(*identity, false);
                self.begin(self.options.first_segment, 0).await?;
                self.tell_connected(notes).await?;
            }
            Some(Reply::NotConnected(error)) => {
                self.no_session = error.as_no_session();
                self.begin(self.options.first_segment, 0).await?;
                self.not_connected(error).await?;
            }
            Some(Reply::Asked(_)) | None => self.begin(self.options.first_segment, 0).await?,
        }
        if let Some(prober) = prober {
            prober.start();
        }
        loop {
            tokio::time::sleep_until(self.due(self.second).into()).await;
            self.sample().await?;
            self.advance().await?;
        }
    }

    /// When a second of the grid begins.
    fn due(&self, second: u64) -> Instant {
        self.clock.origin + GRID * u32::try_from(second.saturating_sub(self.first_second)).unwrap_or(u32::MAX)
    }

    /// Takes the sample that is due now.
    async fn sample(&mut self) -> Result<(), Stopped> {
        if let Some(step) = self.clock.step(Timestamp::now(), Instant::now()) {
            self.clock_was_set(step).await?;
        }
        let begun = Instant::now();
        let due = due_sources(&self.server_sources, self.second, self.shared.is_hurry());
        self.request(&due).await?;
        let mut sample = Sample { at_s: self.clock.at_s(begun), ..Sample::default() };
        self.read_host(&mut sample).await?;
        let mut back = None;
        if matches!(self.state, State::Asking { .. } | State::Connecting) {
            match self.reply_until(self.due(self.second + 1)).await? {
                Some(Reply::Asked(asked)) => {
                    sample.server = self.asked(*asked, self.clock.at(begun)).await?;
                }
                Some(Reply::Connected { identity, notes }) => back = Some((identity, notes)),
                Some(Reply::NotConnected(error)) => self.not_connected(error).await?,
                None => {}
            }
        }
        self.fail_due(&due, &mut sample.server);
        self.host.rename(&mut sample.server.threads);
        if let Reading::Available { value: threads, .. } = &mut sample.server.threads {
            threads.retain(|thread| !thread.connection_id.is_some_and(|id| self.shared.is_own(id)));
        }
        let recorded = RecordedSample { at: self.clock.at(begun), segment: self.clock.segment, sample };
        self.shared.send(Followed::Sample(Box::new(recorded))).await?;
        match self.shared.take_left_out() {
            0 => {}
            probes => self.note(Note::Behind { probes }).await?,
        }
        match back {
            Some((identity, notes)) => self.back(*identity, notes).await,
            None => Ok(()),
        }
    }

    /// Goes on to the next second of the grid that has not passed.
    async fn advance(&mut self) -> Result<(), Stopped> {
        // A sample that begins less than half a second late is not missed.
        let passed = (self.clock.origin.elapsed() + GRID / 2).as_secs() / GRID.as_secs();
        let next = (self.first_second + passed).max(self.second + 1);
        if next - self.second > MISSED_SAMPLES {
            let gap = Gap {
                from: self.clock.at(self.due(self.second)),
                to: Some(self.clock.at(self.due(next))),
                because: "spindoctor itself was stopped, or could not store what it had read".to_owned(),
            };
            self.shared.send(Followed::Gap(gap)).await?;
        }
        self.second = next;
        Ok(())
    }

    /// Has the server's half do what is to be done now, where it is free.
    async fn request(&mut self, due: &[bool]) -> Result<(), Stopped> {
        match self.state {
            State::Away { again } if again <= Instant::now() => self.connect().await?,
            State::Ready => {
                let has_turn = turns(&self.server_sources, self.second, due);
                let origin = self.clock.origin;
                self.state = State::Asking { origin };
                self.requests.send(Request::Ask { has_turn, origin }).await.map_err(|_| Stopped)?;
            }
            // What is due now will be asked when it has answered.
            State::Asking { .. } => return Ok(()),
            State::Away { .. } | State::Connecting => {}
        }
        for (source, _) in self.server_sources.iter_mut().zip(due).filter(|(_, due)| **due) {
            source.paced.had_turn(self.second);
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), Stopped> {
        self.state = State::Connecting;
        self.requests.send(Request::Connect).await.map_err(|_| Stopped)
    }

    /// What the server's half replies, if it does before then.
    async fn reply_until(&mut self, then: Instant) -> Result<Option<Reply>, Stopped> {
        match tokio::time::timeout_at(then.into(), self.replies.recv()).await {
            Ok(reply) => reply.ok_or(Stopped).map(Some),
            Err(_) => Ok(None),
        }
    }

    async fn read_host(&mut self, sample: &mut Sample) -> Result<(), Stopped> {
        if let Some(unavailable) = self.host.unavailable() {
            if (self.second - self.first_second).is_multiple_of(HOST_REASON_S) {
                sample.host = unavailable;
            }
            return Ok(());
        }
        for (place, source) in host::SOURCES.iter().enumerate() {
            let paced = &mut self.host_sources[place];
            if !paced.is_due(self.second, false) {
                continue;
            }
            paced.had_turn(self.second);
            let asked = Instant::now();
            self.host.read(source, self.clock.origin, &mut sample.host);
            let taken = Taken { took: asked.elapsed(), rows: 0, in_time: true };
            let change = paced.took(taken, self.sessions, false);
            self.shared.costs.count(source.name, taken.took, taken.rows);
            if let Some(change) = change {
                self.shared.costs.set_period(source.name, change.period_s.into());
                self.note(Note::Pace(change)).await?;
            }
        }
        Ok(())
    }

    /// What the server answered, as the sample is to have it that was begun then.
    async fn asked(&mut self, asked: Asked, begun: Timestamp) -> Result<ServerSample, Stopped> {
        let Asked { mut sample, came, lost } = asked;
        if let State::Asking { origin } = self.state {
            // It was asked in the segment before, where the clock was set since.
            sample.shift(self.clock.at_s(origin));
        }
        self.state = State::Ready;
        if let Some(sessions) = sample.status.value().and_then(|status| status.number("Threads_connected")) {
            self.sessions = sessions as usize;
        }
        let mut has_answer = false;
        for (place, came) in came {
            let name = mysql::SOURCES[place].name;
            let source = &mut self.server_sources[place];
            match came {
                Came::Taken(taken) => {
                    source.given_up = None;
                    if taken.in_time {
                        (self.last_answered, has_answer) = (begun, true);
                    }
                    let change = source.paced.took(taken, self.sessions, self.shared.is_hurry());
                    self.shared.costs.count(name, taken.took, taken.rows);
                    if let Some(change) = change {
                        self.shared.costs.set_period(name, change.period_s.into());
                        self.note(Note::Pace(change)).await?;
                    }
                }
                Came::NoAnswer(waited) => self.had_no_answer(place, waited).await?,
                Came::Failed(_) | Came::NotAsked => {}
                Came::GivenUp(why) => {
                    let until = why.as_ref().map_or(u64::MAX, |_| self.second + ASKED_AGAIN_S);
                    source.given_up = Some(GivenUp { why, until });
                    source.paced.answered();
                }
            }
        }
        match lost {
            Some(because) => {
                self.state = State::Away { again: Instant::now() + self.reconnect.failed() };
                self.away_because.clone_from(&because);
                self.note(Note::Lost { because: because.clone() }).await?;
                self.open_gap(because).await?;
            }
            None if has_answer => self.reconnect.answered(),
            None => {}
        }
        Ok(sample)
    }

    /// A session was lost over a source: where that is so again and again, the source rests.
    async fn had_no_answer(&mut self, place: usize, waited: Duration) -> Result<(), Stopped> {
        let name = mysql::SOURCES[place].name;
        self.shared.costs.count(name, waited, 0);
        let paced = &mut self.server_sources[place].paced;
        let Some(rest_s) = paced.had_no_answer() else { return Ok(()) };
        let times = paced.unanswered();
        let until = self.second + u64::from(rest_s);
        let why = Some(rests(waited, times, self.clock.at(self.due(until))));
        self.server_sources[place].given_up = Some(GivenUp { why, until });
        let again_in = Duration::from_secs(rest_s.into());
        self.note(Note::Rests { source: name, waited, times, again_in }).await
    }

    /// Says of each source that was due and has no answer why that is.
    fn fail_due(&self, due: &[bool], sample: &mut ServerSample) {
        let away = match self.state {
            State::Ready => None,
            State::Asking { .. } => Some("the server has not answered yet"),
            State::Away { .. } | State::Connecting => Some(self.away_because.as_str()),
        };
        let given_up = |place: usize| self.server_sources[place].given_up(self.second);
        for (place, source) in mysql::SOURCES.iter().enumerate().filter(|(place, _)| due[*place]) {
            let given_up = given_up(place).or_else(|| given_up(self.server_sources[place].goes_with()?));
            match (given_up, away) {
                (Some(GivenUp { why: Some(why), .. }), _) => source.fail(why.clone(), sample),
                (None, Some(away)) => source.fail(Unavailable::because(away), sample),
                _ => {}
            }
        }
    }

    async fn not_connected(&mut self, error: ConnectError) -> Result<(), Stopped> {
        let logins = &self.shared.door.target().logins;
        let again_in = match logins.again() {
            // It answers, and at once: a place is free again at any moment, and taken by the next who asks.
            None if matches!(error, ConnectError::TooManyConnections { .. }) => Some(FULL_AGAIN),
            None => Some(self.reconnect.failed()),
            Some(_) if !logins.has_worked() => {
                self.shared.send(Followed::Refused(error)).await?;
                return Err(Stopped);
            }
            Some(Again::In(wait)) => Some(wait),
            Some(Again::Never) => None,
        };
        self.state = State::Away { again: Instant::now() + again_in.unwrap_or(NEVER) };
        self.no_session = error.as_no_session();
        let because = error.to_string();
        // Said once, not every half minute for as long as it lasts; and that it is the last try.
        if self.away_because != because || again_in.is_none() {
            self.away_because.clone_from(&because);
            self.note(Note::NotConnected { error, again_in }).await?;
        }
        self.open_gap(because).await
    }

    async fn open_gap(&mut self, because: String) -> Result<(), Stopped> {
        if self.gap.is_some() {
            return Ok(());
        }
        let gap = Gap { from: self.last_answered, to: None, because };
        self.gap = Some(gap.clone());
        self.shared.send(Followed::Gap(gap)).await
    }

    /// There is a session, with the same server process as the one before or with another.
    fn enter(&mut self, identity: Identity, is_same: bool) {
        self.state = State::Ready;
        self.no_session = None;
        self.identity = Some(identity);
        for source in &mut self.server_sources {
            source.enter(self.second + 1, is_same);
        }
    }

    /// The server is back: it, or another.
    async fn back(&mut self, identity: Identity, notes: Vec<String>) -> Result<(), Stopped> {
        let host = find_host(&self.options, &self.shared);
        let restarted = self.identity.as_ref().and_then(|before| {
            let other = host.is_other(&self.host).then_some("the server was restarted");
            identity.differs_from(before).or(other)
        });
        let is_same = self.identity.is_some() && restarted.is_none() && host.is_same(&self.host);
        let restart = restarted.map(|what| Restart {
            what,
            before: process(&self.host, self.identity.as_ref()),
            now: process(&host, Some(&identity)),
            gone: self.last_answered,
            back: Timestamp::now(),
        });
        self.host = host;
        self.enter(identity, is_same);
        if let Some(gap) = self.gap.take() {
            let because = restarted.map_or(gap.because, str::to_owned);
            let next = self.clock.at(if is_same { self.due(self.second + 1) } else { Instant::now() });
            let gap = Gap { to: Some(next), because, ..gap };
            self.shared.send(Followed::Gap(gap)).await?;
        }
        if let Some(restart) = restart {
            self.shared.send(Followed::Restart(restart)).await?;
        }
        if !is_same {
            self.begin(self.clock.segment + 1, self.second + 1).await?;
        }
        self.tell_connected(notes).await
    }

    async fn tell_connected(&mut self, notes: Vec<String>) -> Result<(), Stopped> {
        let Some(identity) = &self.identity else { return Ok(()) };
        let version = identity.version.map_or_else(|| identity.version_text.clone(), |v| v.to_string());
        let server = format!("{version} on {}", identity.hostname);
        self.note(Note::Connected { server, notes }).await
    }

    async fn clock_was_set(&mut self, step: SignedDuration) -> Result<(), Stopped> {
        let last = self.clock.at(self.due(self.second.saturating_sub(1).max(self.first_second)));
        let note = Note::ClockSet { by_s: step.as_secs_f64() };
        if step > SignedDuration::ZERO {
            let gap = Gap { from: last, to: Some(Timestamp::now()), because: note.to_string() };
            self.shared.send(Followed::Gap(gap)).await?;
        }
        self.note(note).await?;
        self.begin(self.clock.segment + 1, self.second).await
    }

    /// Begins a segment now, with the sample of this second of the grid.
    async fn begin(&mut self, segment: u64, first_second: u64) -> Result<(), Stopped> {
        let began = Timestamp::now();
        self.clock = SegmentClock { segment, began, origin: Instant::now() };
        self.first_second = first_second;
        let sources = self.server_sources.iter_mut().map(|source| &mut source.paced);
        sources.chain(&mut self.host_sources).for_each(|paced| paced.begin(first_second));
        let (pid, no_pid) = match self.host.pid() {
            Ok(pid) => (Some(pid), None),
            Err(why) => (None, Some(why)),
        };
        let mut server = ServerIdentity {
            address: self.shared.door.target().address(),
            pid,
            no_pid,
            no_session: self.no_session.clone(),
            ..ServerIdentity::default()
        };
        if let Some(identity) = &self.identity {
            server.version = identity.version;
            server.version_text.clone_from(&identity.version_text);
            server.hostname.clone_from(&identity.hostname);
            server.uptime_s = identity.uptime_now_s();
            server.own_connection_id = Some(identity.connection_id);
        }
        let written_by = env!("CARGO_PKG_VERSION").to_owned();
        let segment = Segment { id: segment, began, server, written_by };
        self.shared.begin(self.clock, segment).await
    }

    async fn note(&self, note: Note) -> Result<(), Stopped> {
        self.shared.send(Followed::Note(note)).await
    }
}

/// The server's process, as far as it is on this host.
fn find_host(options: &FollowOptions, shared: &Shared) -> ServerHost {
    let host = ServerHost::find(&options.host, shared.door.target(), &options.proc, &options.sys);
    shared.set_process(host.target());
    host
}

/// What is known of a server's process.
fn process(host: &ServerHost, identity: Option<&Identity>) -> Process {
    Process { pid: host.pid().ok(), started: identity.and_then(Identity::started_at) }
}
