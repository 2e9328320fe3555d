//! A profile of a live process: the profiler on this thread, the server's session on another, so that neither waits
//! for the other.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::bail;
use spindoctor_collect::priority::Ahead;
use spindoctor_collect::{ground, host};
use spindoctor_model::Profile;
use spindoctor_model::stack::{CycleCount, StackSource};
use spindoctor_profile::By;
use spindoctor_stacks::capture::counts::CycleCounter;
use spindoctor_stacks::profiler::usual_most_cpu_percent;
use spindoctor_stacks::{Profiler, ProfilerOptions, Taken};

use super::args::{Source, Stacks};
use super::server::{Event, Server, Wanted};
use super::trigger::Trigger;
use super::watchpoints::Watchpoints;
use crate::common::progress::Progress;
use crate::common::session::{note, process, target};
use crate::common::watchpoint::Watchpoint;
use spindoctor_page::number;

/// Snapshots a second where nobody says otherwise: ten show a stall of a second in detail and cost next to nothing.
const HZ: f64 = 10.0;
/// CPU samples a second: not in step with timers that tick in tens or hundreds, as `perf record -F 99` has it.
const CPU_HZ: f64 = 99.0;
/// Beside snapshots as many CPU samples of each CPU a second, within these bounds: thirty show 5 % of a CPU within 10
/// s, and none of the bounds is in step with such timers. Beside ten snapshots a hundred samples cost a server that is
/// as busy as it can be as much again (`throughput` in BENCHMARKS.md); for that reason no more than half of [`CPU_HZ`]
/// beside a hundred, chosen, not derived.
const CPU_HZ_BESIDE: RangeInclusive<f64> = 29.0..=49.0;
/// Between two looks at what the server's thread has to say.
const NAP: Duration = Duration::from_millis(150);
/// An answer to "what do the threads do" that comes later than this after the snapshot is not about that instant. A
/// server that is not stalled needs some milliseconds.
const ANSWER_WITHIN: Duration = Duration::from_millis(50);
/// How long a single snapshot waits for the session and its answer.
const ANSWER_ONCE_WITHIN: Duration = Duration::from_millis(500);
/// How often the server is asked where nothing on the screen rests on the answer.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Looks at the process that the flags lead to, until the time is over, it ends, or Ctrl-C.
pub fn profile(asked: &Stacks) -> anyhow::Result<Profile> {
    let _ahead = Ahead::of_others();
    if asked.connection.remote {
        bail!("stacks are read where the server runs: run spindoctor there, without --remote");
    }
    if asked.once && matches!(asked.source, Some(Source::Cpu)) {
        bail!("--once is for snapshots; CPU samples need time: --cpu --duration 2s");
    }
    let trigger = Trigger::new(asked.when.clone(), asked.when_stalled);
    let watched: Vec<Watchpoint> = asked.when_inside.iter().chain(&asked.when_slower).cloned().collect();
    let is_watching = !watched.is_empty();
    let waits = is_watching || !trigger.is_empty();
    let target = target(&asked.connection)?;
    let (pid, wrong_server) = process(&asked.connection, &target)?;

    // Before the samples: it keeps CPUs of the server's busy for a moment.
    let machine = (!asked.once).then(|| ground::machine(&host::Target::live(pid)));
    let mut profiler = Profiler::start(pid, options(asked, waits))?;
    let mut server = Server::start(Wanted {
        target: wrong_server.is_none().then_some(target),
        process: host::Target::live(pid),
        trigger,
    })?;
    let watchpoints = Watchpoints::arm(pid, &watched, server.teller())?;

    let bar = Progress::new(asked.duration).counting("snapshot", "snapshots");
    let mut taking = Taking {
        asked,
        pid,
        is_watching,
        profiler: &mut profiler,
        server: &mut server,
        bar,
        run: Run::new(asked, waits),
        counted: Counting::default(),
        notes: wrong_server.into_iter().collect(),
    };
    if taking.run.fired.is_some() && !asked.once {
        taking.counted.begin(pid, taking.server);
    }
    if waits {
        note(&format!("waiting for {}; Ctrl-C ends it", waited_for(asked)));
    }
    let is_gone = taking.snapshots()?;
    let Taking { bar, run, counted, mut notes, .. } = taking;
    drop(bar);
    if waits && run.fired.is_none() {
        match is_gone {
            true => bail!("process {pid} ended before the trigger fired"),
            false => bail!("interrupted before the trigger fired"),
        }
    }
    let (cycles, not_counted) = counted.end();
    let mut profile = profiler.finish();
    let text = server.end();
    profile.machine = machine.unwrap_or_else(|| ground::machine(&host::Target::live(pid)));
    profile.work = text.work;
    (profile.cycles, profile.not_counted) = (cycles, not_counted);
    profile.process.server = text.server;
    profile.server_queries = text.cost.queries;
    profile.server_busy_ms = text.cost.busy_ms;
    notes.extend(run.missed_text(&profile));
    notes.extend(watchpoints.end());
    profile.notes.extend(notes);
    if profile.observations.is_empty() && profile.snapshots.is_empty() {
        bail!("process {pid} ended before there was a snapshot");
    }
    Ok(profile)
}

/// Snapshots that are being taken, and what goes on meanwhile.
struct Taking<'a> {
    asked: &'a Stacks,
    pid: u32,
    is_watching: bool,
    profiler: &'a mut Profiler,
    server: &'a mut Server,
    bar: Progress,
    run: Run,
    counted: Counting,
    notes: Vec<String>,
}

impl Taking<'_> {
    /// Takes snapshots until the run is over; true where the process is gone.
    fn snapshots(&mut self) -> anyhow::Result<bool> {
        let once = self.asked.once;
        let mut known = None;
        if once && self.server.answers() {
            // There is no second look: the one snapshot follows the answer at once.
            self.server.ask();
            known = self.server.answer(Instant::now() + ANSWER_ONCE_WITHIN);
        }
        while !self.run.is_over() {
            let begun = Instant::now();
            let ask = !once && self.server.answers() && self.run.is_to_ask(begun);
            if ask {
                self.server.ask();
            }
            if matches!(self.profiler.snapshot()?, Taken::ProcessGone) {
                return Ok(true);
            }
            self.run.taken += 1;
            if ask {
                known = self.server.answer(begun + ANSWER_WITHIN);
            }
            if let Some(activities) = known.take() {
                self.profiler.set_activities(&|tid| activities.get(&tid).cloned());
            }
            self.run.next_due(self.profiler.interval());
            self.rest()?;
        }
        Ok(false)
    }

    /// Until the next snapshot is due: handles what happens, shows the progress, and keeps reading the CPU samples.
    fn rest(&mut self) -> anyhow::Result<()> {
        let mut happened: Option<Event> = None;
        loop {
            while let Some(event) = happened.take().or_else(|| self.server.events().next()) {
                self.handle(event)?;
            }
            if let Some(elapsed) = self.run.elapsed() {
                self.bar.show(elapsed, self.run.taken);
            }
            let now = Instant::now();
            if now >= self.run.due || self.run.is_over() {
                return Ok(());
            }
            let until = self.run.due.min(now + NAP);
            match self.is_watching && self.run.fired.is_none() {
                // The snapshot is to be taken at the instant that a watchpoint reports.
                true => happened = self.server.event(until - now),
                false => self.profiler.rest(until),
            }
        }
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Interrupted => self.run.interrupted = true,
            Event::Fired(why) => {
                if self.run.fire() {
                    self.counted.begin(self.pid, self.server);
                    self.profiler.keep_all();
                    self.bar.clear();
                    note(&format!("triggered: {why}"));
                    self.notes.push(format!(
                        "triggered by {why}, {:.1} s after it began to wait",
                        self.run.waited_s()
                    ));
                }
            }
            Event::NeverFires(why) => bail!("the trigger cannot fire: {why}"),
            Event::Note(what) => {
                self.bar.clear();
                note(&what);
                self.notes.push(what);
            }
        }
        Ok(())
    }
}

/// What is counted beside the samples: the server's statements, and the cycles of its CPUs.
#[derive(Default)]
struct Counting {
    cycles: Option<spindoctor_stacks::Result<CycleCounter>>,
}

impl Counting {
    /// From now on.
    fn begin(&mut self, pid: u32, server: &Server) {
        server.count_from_now();
        self.cycles = Some(CycleCounter::start(pid));
    }

    /// The cycles so far, or why they are not known; neither where they were not to be counted.
    fn end(self) -> (Option<CycleCount>, Option<String>) {
        match self.cycles.map(|counter| counter.and_then(|counter| counter.read())) {
            None => (None, None),
            Some(Ok(cycles)) => (Some(cycles), None),
            Some(Err(why)) => (None, Some(why.to_string())),
        }
    }
}

fn options(asked: &Stacks, waits: bool) -> ProfilerOptions {
    let source = match asked.source {
        _ if asked.cpu => Some(StackSource::Cpu),
        None => None,
        Some(Source::Bpf) => Some(StackSource::Bpf),
        Some(Source::Procfs) => Some(StackSource::Procfs),
        Some(Source::Ptrace) => Some(StackSource::Ptrace),
        Some(Source::Cpu) => Some(StackSource::Cpu),
    };
    let hz = asked.hz.unwrap_or(if source == Some(StackSource::Cpu) { CPU_HZ } else { HZ });
    ProfilerOptions {
        source,
        cpu: !asked.once,
        cpu_hz: hz.clamp(*CPU_HZ_BESIDE.start(), *CPU_HZ_BESIDE.end()),
        hz,
        most_cpu_percent: asked.max_cpu.unwrap_or_else(|| usual_most_cpu_percent(hz)),
        thread: None,
        keep: waits.then_some(asked.before),
        code: true,
        frames: spindoctor_rules::FRAME_STATES,
    }
}

fn waited_for(asked: &Stacks) -> String {
    let mut waited: Vec<String> = asked.when.iter().map(ToString::to_string).collect();
    if asked.when_stalled {
        waited.push("statements or commits that stop".to_owned());
    }
    waited.extend(asked.when_inside.iter().chain(&asked.when_slower).map(ToString::to_string));
    waited.join(", or ")
}

/// Where the run stands.
struct Run {
    duration: Duration,
    once: bool,
    began: Instant,
    /// When the trigger fired; the beginning, where none is waited for.
    fired: Option<Instant>,
    due: Instant,
    asked_last: Option<Instant>,
    ask_always: bool,
    taken: usize,
    missed: u64,
    interrupted: bool,
}

impl Run {
    fn new(asked: &Stacks, waits: bool) -> Self {
        let now = Instant::now();
        Self {
            duration: asked.duration,
            once: asked.once,
            began: now,
            fired: (!waits).then_some(now),
            due: now,
            asked_last: None,
            // What a saved profile will be grouped by is not known yet.
            ask_always: !matches!(asked.by, By::Thread) || asked.save.is_some(),
            taken: 0,
            missed: 0,
            interrupted: false,
        }
    }

    fn is_over(&self) -> bool {
        self.interrupted
            || (self.once && self.taken > 0)
            || self.elapsed().is_some_and(|elapsed| elapsed >= self.duration)
    }

    /// Since the trigger fired.
    fn elapsed(&self) -> Option<Duration> {
        Some(self.fired?.elapsed())
    }

    fn waited_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// The trigger fired; true where it is the first time.
    fn fire(&mut self) -> bool {
        let first = self.fired.is_none();
        let now = *self.fired.get_or_insert_with(Instant::now);
        if first {
            self.due = now;
        }
        first
    }

    fn is_to_ask(&mut self, now: Instant) -> bool {
        let is_due = self.ask_always || self.asked_last.is_none_or(|last| now >= last + ASK_EVERY);
        if is_due {
            self.asked_last = Some(now);
        }
        is_due
    }

    /// When the next snapshot is due. Those that were missed are not caught up on: they are counted.
    fn next_due(&mut self, interval: Duration) {
        if self.taken == 1 {
            // The first one reads symbols; it makes nothing late.
            self.due = Instant::now();
        }
        self.due += interval;
        let late = Instant::now().saturating_duration_since(self.due);
        let missed = late.as_nanos() / interval.as_nanos().max(1);
        self.missed += missed as u64;
        self.due += interval * u32::try_from(missed).unwrap_or(u32::MAX);
    }

    fn missed_text(&self, profile: &Profile) -> Option<String> {
        (self.missed > 0 && profile.source != StackSource::Cpu).then(|| {
            let snapshots = number::counted(self.missed, "snapshot was", "snapshots were");
            format!("{snapshots} not taken: the one before took too long; ask for fewer with --hz")
        })
    }
}
