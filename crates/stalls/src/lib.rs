//! Finding stalls: from probes and samples in order of time to stalls that open and are over. Pure.
//!
//! Each kind of [`StallKind`] has a detector in a file of its own. With each reading a detector says whether it sees
//! its kind of stall and since when; [`Stalls`] asks all detectors and returns what changed. Nothing has to be set:
//! usual values are learnt from the server itself, by ranks (median, scatter around it), and outside stalls. [`events`]
//! decides what opens an event and which of its data are kept.
//!
//! `cargo run -p spindoctor-stalls --example stalls` prints false alarms and misses over hours of simulated load.
//!
//! # A stall's trip
//!
//! ```text
//! probe (10 Hz), sample (1 Hz) -> detectors -> stall -> event -> what the recorder does
//! ```
//!
//! 1. **A detector says whether it sees its kind of stall, and since when.** `crates/stalls/src` has one file
//!    per `StallKind`, each fed with `Probe`s or `RecordedSample`s in order of time, pure. Nothing has to be set: the
//!    usual value is the median of the last minute or minutes, noise is the scatter around it, and both are learnt
//!    outside stalls only. `collapse.rs` is the core of two: it adds up the time in which a counter grew less than just
//!    before, until that time is more than noise and habit explain. A `Baseline` that outlives the recorder holds the
//!    usual number of running threads for each hour of the week; one hour moves it by a quarter at most.
//!    `lock_waits.rs` is fed with snapshots of the locks too. Conditions of `--when` are in `condition.rs` and `when.rs`; `stacks
//!    --when` and `--when-stalled` use the first. What watchpoints in functions see comes from outside
//!    (`record/watch.rs` of the program).
//! 2. **`Stalls` asks them all** and returns what changed: opened, with the time of the beginning, or over.
//! 3. **`events.rs` makes events of stalls**: which stalls belong together, when an event closes, how long detail is
//!    kept, and for how many events per day. It returns orders (`Act`), and does nothing itself.
//! 4. **`record/recorder.rs` of the program does it**: it writes, and orders the slow work (stacks of the ring, a
//!    snapshot of locks, the diagnosis), which comes back later. A stall of 200 ms is over before it is certain, so a
//!    snapshot is taken with each unusual probe: `suspicion.rs` says how strong the reason is, `turns.rs` when a
//!    snapshot is allowed. `lately.rs` holds the last seconds that belong to no event yet, and `gathering.rs` collects
//!    each event until it is complete. These three are pure.
//! 5. **The rules are given the stall and nothing else** (`event_window.rs`): its samples, its stacks, and the last values
//!    of readings that are taken once per minute. Samples from the normal time around it would make it look like half a
//!    stall. A stall shorter than three samples is diagnosed with the samples around it too; its snapshots show who
//!    waited in it, and its probes how long it lasted.
//!
//! `crates/stalls/tests/stalls/simulator.rs` has hours of load of several shapes, with noise, and stalls whose beginning is
//! known; `cargo run -p spindoctor-stalls --example stalls` prints false alarms and misses. `crates/lab/src/injection.rs` makes
//! stalls of a given length on a real server.

mod asked;
mod baseline;
mod checkpoint_age;
mod collapse;
mod commits;
pub mod condition;
mod connections_fail;
pub mod events;
mod functions;
mod interval;
mod lock_waits;
mod no_answer;
mod probe_slow;
mod recent;
mod run_queue;
mod running;
mod server_gone;
pub mod suspicion;
mod threads_running;
mod throughput;
pub mod when;

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::{Probe, RecordedSample, Segment, Stall, StallKind};

pub use baseline::Baseline;

use asked::Asked;
use checkpoint_age::CheckpointAge;
use commits::Commits;
use connections_fail::ConnectionsFail;
use functions::Functions;
use interval::Intervals;
use lock_waits::LockWaits;
use no_answer::NoAnswer;
use probe_slow::ProbeSlow;
use run_queue::RunQueue;
use running::Running;
use server_gone::ServerGone;
use threads_running::{Crowd, ThreadsRunning};
use throughput::Throughput;
use when::When;

/// Commits go on so soon after all other statements do.
const COMMITS_FOLLOW_S: f64 = 0.5;
/// And in samples it is known so long after: two of them must show it.
const SAMPLES_FOLLOW_S: f64 = 4.0;

/// What changed with a reading.
#[derive(Debug, Clone, PartialEq)]
pub enum StallChange {
    /// A stall was seen.
    Opened(Stall),
    /// The stall of this kind is over; when, in seconds from the start of the segment.
    Over(StallKind, f64),
}

/// A stall, as its detector sees it for as long as it lasts.
#[derive(Debug, Clone, PartialEq)]
struct Sight {
    began_s: f64,
    because: String,
}

/// All detectors.
#[derive(Debug)]
pub struct Stalls {
    began: Timestamp,
    intervals: Intervals,
    throughput: Throughput,
    commits: Commits,
    /// Until then commits stop because all statements did.
    all_stopped_until_s: f64,
    probe_slow: ProbeSlow,
    no_answer: NoAnswer,
    threads_running: ThreadsRunning,
    run_queue: RunQueue,
    checkpoint_age: CheckpointAge,
    connections_fail: ConnectionsFail,
    server_gone: ServerGone,
    lock_waits: LockWaits,
    asked: Asked,
    running: Running,
    functions: Functions,
    lasting: Vec<Stall>,
}

impl Stalls {
    /// With what was learnt before, and with what the user asked for.
    pub fn new(baseline: Baseline, conditions: Vec<When>) -> Self {
        let (mut of_numbers, mut of_statements) = (Vec::new(), Vec::new());
        for condition in conditions {
            match condition {
                When::Number(condition) => of_numbers.push(condition),
                When::Statement(condition) => of_statements.push(condition),
            }
        }
        Self {
            began: Timestamp::UNIX_EPOCH,
            intervals: Intervals::new(),
            throughput: Throughput::new(),
            commits: Commits::new(),
            all_stopped_until_s: 0.0,
            probe_slow: ProbeSlow::new(),
            no_answer: NoAnswer::default(),
            threads_running: ThreadsRunning::new(baseline),
            run_queue: RunQueue::new(),
            checkpoint_age: CheckpointAge::new(),
            connections_fail: ConnectionsFail::new(),
            server_gone: ServerGone::default(),
            lock_waits: LockWaits::new(),
            asked: Asked::new(of_numbers),
            running: Running::new(of_statements),
            functions: Functions::default(),
            lasting: Vec::new(),
        }
    }

    /// From here on readings are of this segment. Stalls that last are forgotten; what is usual at this hour is not.
    pub fn begin_segment(&mut self, segment: &Segment) {
        self.began = segment.began;
        self.intervals = Intervals::new();
        self.throughput = Throughput::new();
        self.commits = Commits::new();
        self.all_stopped_until_s = 0.0;
        self.probe_slow = ProbeSlow::new();
        self.no_answer = NoAnswer::default();
        self.threads_running.begin_segment();
        self.run_queue = RunQueue::new();
        self.checkpoint_age = CheckpointAge::for_version(segment.server.version);
        self.connections_fail = ConnectionsFail::new();
        self.server_gone = ServerGone::default();
        self.lock_waits = LockWaits::new();
        self.asked.begin_segment();
        self.running.begin_segment();
        self.functions = Functions::default();
        self.lasting.clear();
    }

    /// What this probe changes.
    pub fn probe(&mut self, probe: &Probe) -> Vec<StallChange> {
        let now_s = probe.at_s + probe.took_ms / 1e3;
        let mut changes = Vec::new();
        let interval = self.intervals.next(probe);
        let crowd = probe.threads_running.map_or(Crowd::Usual, |running| self.threads_running.crowd(running));
        let collapsed = self.throughput.look(probe, interval.as_ref(), crowd);
        let stopped = self.commits.look(interval.as_ref(), crowd);
        let stopped = self.unless_all_stopped(stopped, collapsed.is_some(), now_s);
        let stopped =
            stopped.or_else(|| self.commits.sampled().filter(|_| self.lasts(StallKind::CommitsStopped)));
        for (kind, sight) in [
            (StallKind::ThroughputCollapsed, collapsed),
            (StallKind::CommitsStopped, stopped),
            (StallKind::NoAnswer, self.no_answer.look(probe)),
            (StallKind::ServerGone, self.server_gone.look(probe)),
            (StallKind::ConnectionsFail, self.connections_fail.look(probe)),
            (StallKind::CheckpointAge, self.checkpoint_age.look(probe)),
            (StallKind::ProbeSlow, self.probe_slow.look(probe)),
            (StallKind::LockWaits, self.lock_waits.probe(probe)),
            (StallKind::Asked, self.asked.look(probe)),
        ] {
            self.note(kind, sight, now_s, &mut changes);
        }
        let at = self.began + SignedDuration::from_secs_f64(probe.at_s);
        let others = self.lasting.iter().any(|stall| stall.kind != StallKind::ThreadsRunning);
        let sight = self.threads_running.look(at, probe, others).map(|sight| self.run_queue.since(sight));
        let sight = sight.or_else(|| self.run_queue.lasts(now_s));
        self.note(StallKind::ThreadsRunning, sight, now_s, &mut changes);
        changes
    }

    /// What this sample changes.
    pub fn sample(&mut self, sample: &RecordedSample) -> Vec<StallChange> {
        let now_s = sample.sample.at_s;
        let mut changes = Vec::new();
        self.checkpoint_age.learn(&sample.sample.server);
        let sight = self.connections_fail.count(sample);
        self.note(StallKind::ConnectionsFail, sight, now_s, &mut changes);
        let sight = self.asked.count(sample);
        self.note(StallKind::Asked, sight, now_s, &mut changes);
        let sight = self.running.count(sample);
        self.note(StallKind::StatementRan, sight, now_s, &mut changes);
        let sight = self.lock_waits.sample(sample);
        self.note(StallKind::LockWaits, sight, now_s, &mut changes);
        let stopped = self.commits.sample(sample);
        let all_stopped = now_s <= self.all_stopped_until_s + SAMPLES_FOLLOW_S;
        // That it is over the next probe says.
        if let Some(sight) = stopped.filter(|_| !all_stopped || self.lasts(StallKind::CommitsStopped)) {
            self.note(StallKind::CommitsStopped, Some(sight), now_s, &mut changes);
        }
        changes
    }

    /// What a look at the locks changes that was taken for a strong reason ([`suspicion`]).
    pub fn look(&mut self, look: &RecordedSample) -> Vec<StallChange> {
        let mut changes = Vec::new();
        let sight = self.lock_waits.look(look);
        self.note(StallKind::LockWaits, sight, look.sample.at_s, &mut changes);
        changes
    }

    /// What a snapshot of the stacks changes in which so many threads of the server ran or waited for a CPU.
    pub fn runnable(&mut self, at_s: f64, threads: u32) -> Vec<StallChange> {
        let mut changes = Vec::new();
        // When it is over is known with the next probe, which knows of those that the server counts.
        if let Some(sight) = self.run_queue.look(at_s, threads) {
            self.note(StallKind::ThreadsRunning, Some(sight), at_s, &mut changes);
        }
        changes
    }

    /// What a watchpoint in a function of the server changes: it sees what it waits for, since then and in those words, or
    /// sees it no more. Watchpoints have numbers of their own.
    pub fn function(
        &mut self,
        kind: StallKind,
        watchpoint: usize,
        now_s: f64,
        seen: Option<(f64, String)>,
    ) -> Vec<StallChange> {
        let mut changes = Vec::new();
        let sight = self.functions.look(kind, watchpoint, seen);
        self.note(kind, sight, now_s, &mut changes);
        changes
    }

    /// Each condition on statements that holds, as it is written, and how many sessions run such a statement.
    pub fn sessions(&self) -> impl Iterator<Item = (String, u64)> {
        self.running.sessions()
    }

    /// What was asked for and can never hold, as this sample shows: each with the reason, once.
    pub fn never_hold(&mut self, sample: &RecordedSample) -> Vec<String> {
        self.asked.never_hold(sample)
    }

    /// The stalls that last, in the order in which they were seen.
    pub fn lasting(&self) -> &[Stall] {
        &self.lasting
    }

    /// How many threads usually run, as far as it was learnt: to be saved now and then, and given to [`Stalls::new`].
    pub fn baseline(&self) -> &Baseline {
        self.threads_running.baseline()
    }

    /// Where all statements stop commits stop too: that is one stall, of the throughput; and where that was no stall, the
    /// commits' is none. Commits that are known to have stopped alone are their own stall until they go on.
    fn unless_all_stopped(&mut self, stopped: Option<Sight>, collapsed: bool, now_s: f64) -> Option<Sight> {
        if collapsed || self.throughput.is_unsure() {
            self.all_stopped_until_s = now_s + COMMITS_FOLLOW_S;
        }
        let is_known = self.lasts(StallKind::CommitsStopped);
        stopped.filter(|_| is_known || now_s > self.all_stopped_until_s)
    }

    fn lasts(&self, kind: StallKind) -> bool {
        self.lasting.iter().any(|stall| stall.kind == kind)
    }

    fn note(&mut self, kind: StallKind, sight: Option<Sight>, now_s: f64, changes: &mut Vec<StallChange>) {
        let known = self.lasting.iter().position(|stall| stall.kind == kind);
        match (known, sight) {
            (None, Some(Sight { began_s, because })) => {
                let stall = Stall { kind, because, began_s, seen_s: now_s.max(began_s) };
                self.lasting.push(stall.clone());
                changes.push(StallChange::Opened(stall));
            }
            (Some(at), None) => {
                self.lasting.remove(at);
                changes.push(StallChange::Over(kind, now_s));
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
    }
}
