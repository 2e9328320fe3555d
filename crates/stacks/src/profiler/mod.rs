//! The profiler: a source, an unwinder, names and meaning, tied together into a profile.
//!
//! In: a process and what is wanted. Out: a [`Profile`]. The caller keeps the clock: it asks for each snapshot.

mod budget;
mod in_order;
mod meaning;
mod process;
mod pthread_self;
mod ring;
mod ring_thread;
mod stack_ends;
mod tables;
mod thread;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use spindoctor_model::stack::{
    Activity, Module, Observation, Profile, ProfiledProcess, SnapshotCost, StackSource,
};

use crate::capture::cpu::{Clock, CpuSampler};
use crate::capture::{self, Capture, CpuSamples, RawStack, RawThread};
use crate::classify::FrameStates;
use crate::error::{Error, Result};
use crate::futex_waits::{FutexWaits, Waiter, WaitingFrame, futex_waits};
use crate::module::Modules;
use budget::Budget;
use in_order::InOrder;
use meaning::Meaning;
use process::ProcessTimes;
pub use ring::{Ring, RingOptions};
pub use ring_thread::{RingCost, RingThread};
use tables::Keeping;
use thread::{Last, Thread, futex_of};

/// CPU samples of each CPU a second, beside snapshots: enough to tell 2 % of a CPU within 10 s, and not in step
/// with timers that tick in tens.
const CPU_HZ: f64 = 99.0;

/// How often CPU samples are read: their buffers hold three times as long.
const READING: Duration = Duration::from_millis(100);

/// What the profiler may take of the CPUs where nobody says otherwise, in percent for each snapshot a second that is asked
/// for: who asks for ten times as many accepts ten times the cost. Chosen, not derived. A busy server loses more than
/// that, as its caches are used as well: `throughput` in BENCHMARKS.md.
const CPU_PERCENT_PER_HZ: f64 = 0.02;

/// And at least this much, and at most that.
const CPU_PERCENT: RangeInclusive<f64> = 0.25..=3.0;

/// What the profiler may take of the CPUs where nobody says otherwise, in percent.
pub fn usual_most_cpu_percent(hz: f64) -> f64 {
    (CPU_PERCENT_PER_HZ * hz).clamp(*CPU_PERCENT.start(), *CPU_PERCENT.end())
}

/// How many stacks are remembered beyond four times those in use, before the tables are made anew. A profiler that
/// waits for its trigger for days must not grow.
const SPARE_STACKS: usize = 20_000;

/// Most observations that are kept, of 24 bytes each. Where there are more, every second snapshot is left out, and from
/// then on only half as many are taken.
const MOST_OBSERVATIONS: usize = 1 << 20;

/// Most stacks, of about half a KiB each; where there are more, the same.
const MOST_STACKS: usize = 100_000;

/// Readings after which a thread is forgotten of which no CPU sample came.
const LONGEST_UNSEEN: u64 = 100;

/// Snapshots that may miss a thread before it is forgotten: a walk of the kernel's ends early where threads end.
const MISSED: u64 = 2;

/// For how long a thread's name is believed that was read for a CPU sample.
const NAME_LASTS_NS: u64 = 1_000_000_000;

/// What a profiler is asked for.
#[derive(Debug, Clone)]
pub struct ProfilerOptions {
    /// Which source; the best that works where none is named. [`StackSource::Cpu`] takes no snapshots: each
    /// observation is a CPU sample.
    pub source: Option<StackSource>,
    /// Beside snapshots: CPU samples too, for the stacks of running threads and for the spin share. Where they
    /// cannot be had, a note of the profile says why.
    pub cpu: bool,
    /// So many of them, of each CPU a second.
    pub cpu_hz: f64,
    /// Snapshots a second, or CPU samples of each CPU a second.
    pub hz: f64,
    /// Fewer snapshots are taken where the profiler would take more than this part of what all CPUs of the machine have,
    /// in percent. CPU samples are not bounded: they cost alike on any machine.
    pub most_cpu_percent: f64,
    /// Only this thread's CPU samples, `hz` in each second that it runs; with [`StackSource::Cpu`].
    pub thread: Option<u32>,
    /// Keep only this much of the past until [`Profiler::keep_all`]: for a trigger that is waited for.
    pub keep: Option<Duration>,
    /// Frames that mean a state in this program: a function's name, and the state of a thread that is blocked below it.
    pub frames: &'static FrameStates,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self {
            source: None,
            cpu: true,
            cpu_hz: CPU_HZ,
            hz: 10.0,
            most_cpu_percent: usual_most_cpu_percent(10.0),
            thread: None,
            keep: None,
            frames: &[],
        }
    }
}

/// What one [`Profiler::snapshot`] brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Taken {
    /// A snapshot, or a reading of CPU samples, at this cost.
    Snapshot(SnapshotCost),
    /// The process ended: the profile has what was seen until then.
    ProcessGone,
}

/// A profile in the making.
pub struct Profiler {
    options: ProfilerOptions,
    process: ProfiledProcess,
    source: StackSource,
    capture: Option<Box<dyn Capture>>,
    sampler: Option<CpuSampler>,
    notes: Vec<String>,
    meaning: Meaning,
    taken: VecDeque<Snapshot>,
    /// CPU samples that were read since the last snapshot.
    waiting: Vec<Observation>,
    lost: u64,
    threads: InOrder<Thread>,
    /// Snapshots, or readings of CPU samples, so far.
    turn: u64,
    /// Of how many CPU samples one is kept.
    sample_every: u64,
    samples: u64,
    begun: Instant,
    begun_at: Timestamp,
    ended: Duration,
    times: ProcessTimes,
    futex_waits: FutexWaits,
    budget: Budget,
    gone: bool,
}

/// A snapshot that was taken.
#[derive(Debug, Clone, Default)]
struct Snapshot {
    cost: SnapshotCost,
    observations: Vec<Observation>,
    cpu_samples: Vec<Observation>,
}

impl Profiler {
    /// Gets ready to look at a process; with CPU samples, they are taken from now on.
    ///
    /// # Errors
    /// No such process, or no source can be used.
    pub fn start(pid: u32, options: ProfilerOptions) -> Result<Self> {
        let times = ProcessTimes::begin(pid)?;
        let modules = Modules::of(pid)?;
        let mut notes = Vec::new();
        let (mut capture, mut sampler) = (None, None);
        let source = if options.source == Some(StackSource::Cpu) {
            sampler = Some(match options.thread {
                Some(tid) => CpuSampler::start_on_thread(pid, tid, options.hz)?,
                None => CpuSampler::start(pid, options.hz)?,
            });
            StackSource::Cpu
        } else {
            let (opened, passed_over) = capture::open(pid, options.source)?;
            notes.extend(passed_over);
            if options.cpu {
                match CpuSampler::start(pid, options.cpu_hz) {
                    Ok(started) => sampler = Some(started),
                    Err(error) => {
                        notes.push(format!("no spin share and no stacks of running threads: {error}"));
                    }
                }
            }
            let source = opened.source();
            capture = Some(opened);
            source
        };
        if sampler.as_ref().is_some_and(|sampler| sampler.clock() == Clock::Timer) {
            notes.push("no hardware cycles here: a timer on each CPU takes the CPU samples".to_owned());
        }
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            budget: Budget::of(options.most_cpu_percent, cpus),
            process: process::describe(pid),
            source,
            capture,
            sampler,
            notes,
            meaning: Meaning::of(modules, options.frames),
            options,
            taken: VecDeque::new(),
            waiting: Vec::new(),
            lost: 0,
            threads: InOrder::default(),
            turn: 0,
            sample_every: 1,
            samples: 0,
            begun: Instant::now(),
            begun_at: Timestamp::now(),
            ended: Duration::ZERO,
            times,
            futex_waits: FutexWaits::default(),
            gone: false,
        })
    }

    /// Which source is used.
    pub fn source(&self) -> StackSource {
        self.source
    }

    /// For how long to wait between two snapshots: as was asked for, or longer where they cost too much. CPU samples are
    /// buffered: they are read ten times a second.
    pub fn interval(&self) -> Duration {
        if self.source == StackSource::Cpu {
            return READING;
        }
        let asked = Duration::try_from_secs_f64(1.0 / self.options.hz).unwrap_or(READING);
        asked.max(self.budget.wait())
    }

    /// Sleeps until then, and keeps reading the CPU samples, whose buffers hold them for a third of a second only.
    pub fn rest(&mut self, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(READING));
            if self.capture.is_some() && left > READING {
                self.read_cpu();
            }
        }
    }

    /// Looks at every thread once, or reads the CPU samples since the last time.
    ///
    /// # Errors
    /// Nothing of the process may be read any more.
    pub fn snapshot(&mut self) -> Result<Taken> {
        if self.gone {
            return Ok(Taken::ProcessGone);
        }
        // What it hands over lies in its own memory: the profiler does without it meanwhile.
        let mut capture = self.capture.take();
        let taken = self.snapshot_of(capture.as_mut());
        self.capture = capture;
        taken
    }

    fn snapshot_of(&mut self, capture: Option<&mut Box<dyn Capture>>) -> Result<Taken> {
        let begun = Instant::now();
        let mut cost = SnapshotCost { at_us: micros(self.begun.elapsed()), ..SnapshotCost::default() };
        let mut observations = Vec::new();
        self.turn += 1;
        self.meaning.forget_old_code();
        let reading = self.read_cpu();
        if let Some(capture) = capture {
            observations.reserve_exact(self.threads.len());
            let now_ns = monotonic_ns();
            let looked = capture.look(&mut |thread, bytes| {
                cost.unmoved += u32::from(matches!(thread.stack, RawStack::Unmoved));
                cost.stopped += u32::from(!thread.stopped.is_zero());
                cost.stopped_us += micros(thread.stopped);
                self.observe(thread, bytes, now_ns, &mut observations);
            });
            let looked = match looked {
                Ok(looked) => looked,
                Err(Error::NoProcess(_)) => return Ok(self.process_gone()),
                Err(error) => return Err(error),
            };
            cost.capture_us = micros(looked.took);
            cost.dropped = looked.dropped;
            self.meaning.stack_ends.tell(capture.as_mut());
            if self.threads.len() > observations.len() {
                let turn = self.turn;
                self.threads.retain(|thread| turn - thread.turn <= MISSED);
            }
        } else {
            cost.capture_us = micros(reading);
            observations = std::mem::take(&mut self.waiting);
            let turn = self.turn;
            self.threads.retain(|thread| turn - thread.turn < LONGEST_UNSEEN);
            if !self.times.update() {
                return Ok(self.process_gone());
            }
        }
        cost.threads = u32::try_from(observations.len()).unwrap_or(u32::MAX);
        cost.dropped =
            cost.dropped.saturating_add(u32::try_from(std::mem::take(&mut self.lost)).unwrap_or(u32::MAX));
        cost.snapshot_us = micros(begun.elapsed());
        self.ended = self.begun.elapsed();
        self.taken.push_back(Snapshot { cost, observations, cpu_samples: std::mem::take(&mut self.waiting) });
        self.drop_old();
        self.budget.pay(process::thread_cpu(), self.ended);
        Ok(Taken::Snapshot(cost))
    }

    fn process_gone(&mut self) -> Taken {
        self.gone = true;
        self.notes.push(format!(
            "process {} ended after {:.1} s: the profile has what was seen until then",
            self.process.pid,
            self.begun.elapsed().as_secs_f64()
        ));
        if !self.waiting.is_empty() {
            let cpu_samples = std::mem::take(&mut self.waiting);
            let cost = SnapshotCost { at_us: micros(self.begun.elapsed()), ..SnapshotCost::default() };
            let (observations, cpu_samples) = match self.source {
                StackSource::Cpu => (cpu_samples, Vec::new()),
                _ => (Vec::new(), cpu_samples),
            };
            self.taken.push_back(Snapshot { cost, observations, cpu_samples });
        }
        Taken::ProcessGone
    }

    /// Adds what a thread does to a snapshot; where it is in it already, this is newer.
    fn observe(&mut self, raw: &RawThread, stacks: &[u8], now_ns: u64, observations: &mut Vec<Observation>) {
        let turn = self.turn;
        let (observation, thread) = self.observation(raw, stacks, now_ns);
        match thread.observed {
            Some((last, place)) if last == turn => observations[place] = observation,
            _ => {
                thread.observed = Some((turn, observations.len()));
                observations.push(observation);
            }
        }
    }

    fn observation(&mut self, raw: &RawThread, stacks: &[u8], now_ns: u64) -> (Observation, &mut Thread) {
        let Self { threads, meaning, turn, options, .. } = self;
        // For so long a CPU sample of a thread tells where it runs now: two turns of the sampling, so that one may be missed.
        let fresh_ns = (2e9 / options.cpu_hz) as u64;
        let thread = Thread::seen(threads, &mut meaning.tables, raw.tid, &raw.name, *turn);
        let since = Duration::from_nanos(now_ns.saturating_sub(thread.named_ns));
        thread.named_ns = now_ns;
        thread.thread_pointer = raw.thread_pointer.or(thread.thread_pointer);
        if let (RawStack::Unmoved, Some(last)) = (&raw.stack, &mut thread.last) {
            thread.off_cpu = raw.off_cpu.or(thread.off_cpu.map(|off_cpu| off_cpu + since));
            if last.letter != raw.state {
                // Woken, or frozen where it sleeps: it has not run, and is in the same system call.
                let now = RawThread {
                    state: raw.state,
                    wait_channel: raw.wait_channel.clone(),
                    syscall: last.syscall,
                    arguments: last.arguments,
                    ..RawThread::default()
                };
                last.letter = raw.state;
                last.state = meaning.state(&now, last.stack);
                last.futex = futex_of(&now);
            }
            let Last { stack, state, .. } = *last;
            let observation = Observation { thread: thread.place, stack, state, ..Observation::default() };
            return (observation, thread);
        }
        thread.off_cpu = raw.off_cpu;
        let mut observation = Observation { thread: thread.place, ..Observation::default() };
        observation.stack = match (&raw.stack, &raw.registers) {
            (RawStack::Copied { start, bytes, whole }, Some(registers)) => {
                let copied = &stacks[bytes.clone()];
                meaning.user_stack(registers, *start, copied, *whole, raw.thread_pointer)
            }
            (RawStack::Copied { .. } | RawStack::Unmoved, _) => meaning.no_stack("its registers are unknown"),
            // Where a running thread runs: by its last CPU sample.
            (RawStack::None, ..) if raw.on_cpu => match thread.ran {
                Some((at_ns, sampled)) if now_ns.saturating_sub(at_ns) <= fresh_ns => {
                    observation.spin = sampled.spin;
                    sampled.stack
                }
                _ => meaning.no_stack("it was on a CPU, and no CPU sample of it was at hand"),
            },
            (RawStack::None, ..) => meaning.no_stack("the source has none of such threads"),
            (RawStack::Unreadable(why), ..) => meaning.no_stack(why),
        };
        observation.state = meaning.state(raw, observation.stack);
        thread.last = Some(Last {
            stack: observation.stack,
            state: observation.state,
            futex: futex_of(raw),
            letter: raw.state,
            syscall: raw.syscall,
            arguments: raw.arguments,
        });
        (observation, thread)
    }

    /// Reads the CPU samples; how long that took, without unwinding.
    fn read_cpu(&mut self) -> Duration {
        let Self { sampler, threads, meaning, turn, source, .. } = self;
        let Some(sampler) = sampler else { return Duration::ZERO };
        let begun = Instant::now();
        let CpuSamples { samples, stacks, lost } = sampler.read();
        let took = begun.elapsed();
        self.lost += lost;
        for sample in samples {
            self.samples += 1;
            let is_kept = self.samples.is_multiple_of(self.sample_every);
            if !is_kept && *source == StackSource::Cpu {
                continue;
            }
            let known = threads.get(sample.tid).filter(|known| sample.at_ns < known.named_ns + NAME_LASTS_NS);
            // No name means that it is known.
            let name = match known {
                Some(_) => String::new(),
                None => process::thread_name(meaning.modules.pid(), sample.tid),
            };
            let is_named = known.is_none();
            let thread = Thread::seen(threads, &mut meaning.tables, sample.tid, &name, *turn);
            if is_named {
                thread.named_ns = sample.at_ns;
            }
            let observation = Observation { thread: thread.place, ..meaning.cpu_sample(sample, stacks) };
            thread.ran = Some((sample.at_ns, observation));
            if is_kept {
                self.waiting.push(observation);
            }
        }
        took
    }

    /// Says what the threads of the last snapshot did for their clients.
    pub fn set_activities(&mut self, of: &dyn Fn(u32) -> Option<Activity>) {
        let tables = &mut self.meaning.tables;
        let Some(snapshot) = self.taken.back_mut() else { return };
        let mut known: FxHashMap<u32, Option<u32>> = FxHashMap::default();
        for observation in snapshot.observations.iter_mut().chain(&mut snapshot.cpu_samples) {
            observation.activity = *known.entry(observation.thread).or_insert_with(|| {
                let activity = of(tables.threads.get(observation.thread).tid)?;
                Some(tables.activities.place(activity))
            });
        }
    }

    /// Reads who holds the locks of the C library that the threads of the last snapshot wait for. The profile has it from
    /// then on, until it is read again.
    pub fn read_futex_waits(&mut self) -> &FutexWaits {
        let Meaning { tables, modules, .. } = &self.meaning;
        let observations = self.taken.back().map_or(&[][..], |snapshot| &snapshot.observations);
        let waiters: Vec<Waiter<'_>> = observations
            .iter()
            .filter_map(|observation| {
                let frames = tables.stacks.get(observation.stack).frames.iter().map(|&frame| {
                    let frame = tables.frames.get(frame);
                    let module = frame.module.and_then(|module| modules.module(module));
                    WaitingFrame { name: &frame.name, module: module.map_or("", |module| module.base_name()) }
                });
                let tid = tables.threads.get(observation.thread).tid;
                let thread = self.threads.get(tid)?;
                Some(Waiter {
                    tid,
                    futex: thread.last?.futex?,
                    waited: thread.off_cpu,
                    frames: frames.collect(),
                })
            })
            .collect();
        self.futex_waits = futex_waits(self.process.pid, &waiters);
        &self.futex_waits
    }

    /// From now on nothing is dropped: the trigger fired.
    pub fn keep_all(&mut self) {
        self.options.keep = None;
    }

    fn drop_old(&mut self) {
        if let Some(keep) = self.options.keep {
            let oldest = micros(self.begun.elapsed().saturating_sub(keep));
            while self.taken.front().is_some_and(|snapshot| snapshot.cost.at_us < oldest) {
                self.taken.pop_front();
            }
            if self.meaning.tables.stacks.len() > SPARE_STACKS + 4 * self.kept() {
                self.compact();
            }
        }
        if self.kept() > MOST_OBSERVATIONS || self.meaning.tables.stacks.len() > MOST_STACKS {
            self.thin_out();
            self.compact();
        }
    }

    /// Observations and CPU samples that are kept.
    fn kept(&self) -> usize {
        self.taken.iter().map(|one| one.observations.len() + one.cpu_samples.len()).sum()
    }

    /// Leaves out every second snapshot, and its CPU samples; what was lost and stopped stays counted. From now on
    /// half as many are taken.
    fn thin_out(&mut self) {
        let mut kept = VecDeque::with_capacity(self.taken.len().div_ceil(2));
        let mut left_out: Option<Snapshot> = None;
        for mut snapshot in std::mem::take(&mut self.taken) {
            match left_out.take() {
                Some(before) => {
                    snapshot.cost.dropped = snapshot.cost.dropped.saturating_add(before.cost.dropped);
                    snapshot.cost.stopped += before.cost.stopped;
                    snapshot.cost.stopped_us += before.cost.stopped_us;
                    kept.push_back(snapshot);
                }
                None => left_out = Some(snapshot),
            }
        }
        kept.extend(left_out);
        self.taken = kept;
        self.options.hz /= 2.0;
        self.sample_every *= 2;
        let note = "a long profile: to save memory, only one in ";
        self.notes.retain(|old| !old.starts_with(note));
        self.notes.push(format!("{note}{} snapshots is in it", self.sample_every));
    }

    /// Forgets stacks that no kept snapshot has.
    fn compact(&mut self) {
        let mut keeping = Keeping::of(&self.meaning.tables);
        for snapshot in &mut self.taken {
            for observation in snapshot.observations.iter_mut().chain(&mut snapshot.cpu_samples) {
                keeping.observation(observation);
            }
        }
        for observation in &mut self.waiting {
            keeping.observation(observation);
        }
        for thread in self.threads.values_mut() {
            keeping.thread(&mut thread.place);
            if let Some(last) = &mut thread.last {
                keeping.stack(&mut last.stack);
            }
            if let Some((_, observation)) = &mut thread.ran {
                keeping.observation(observation);
            }
        }
        let tables = keeping.done();
        self.meaning.replace_tables(tables);
    }

    /// The profile so far.
    pub fn profile(&mut self) -> Profile {
        self.profile_of(self.taken.clone())
    }

    /// The profile.
    pub fn finish(mut self) -> Profile {
        let taken = std::mem::take(&mut self.taken);
        self.profile_of(taken)
    }

    fn profile_of(&mut self, taken: VecDeque<Snapshot>) -> Profile {
        self.times.update();
        let mut snapshots = Vec::with_capacity(taken.len());
        let (mut observations, mut cpu_samples) = (Vec::new(), Vec::new());
        // A ring begins with what was kept, not with when it was started.
        let first_us = taken.front().map_or(0, |snapshot| snapshot.cost.at_us);
        let mut keeping = Keeping::of(&self.meaning.tables);
        for (place, mut snapshot) in taken.into_iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX);
            snapshots.push(SnapshotCost { at_us: snapshot.cost.at_us - first_us, ..snapshot.cost });
            for observation in snapshot.observations.iter_mut().chain(&mut snapshot.cpu_samples) {
                keeping.observation(observation);
                observation.snapshot = place;
            }
            observations.append(&mut snapshot.observations);
            cpu_samples.append(&mut snapshot.cpu_samples);
        }
        let tables = keeping.done();
        let mut modules = self.meaning.modules.described();
        let mut frames = tables.frames.list().to_vec();
        if frames.iter().any(|frame| frame.kernel) {
            let kernel = u32::try_from(modules.len()).ok();
            modules.push(Module { path: "[kernel]".to_owned(), build_id: None });
            for frame in frames.iter_mut().filter(|frame| frame.kernel) {
                frame.module = kernel;
            }
        }
        let mut notes = self.notes.clone();
        notes.extend(self.meaning.modules.notes());
        notes.extend(self.meaning.names.notes());
        notes.extend(self.futex_waits.note.clone());
        notes.extend(self.budget.note(self.options.hz));
        let below = pthread_self::below_thread_pointer(&mut self.meaning.modules);
        let mut threads = tables.threads.list().to_vec();
        for thread in &mut threads {
            let Some(known) = self.threads.get(thread.tid) else { continue };
            thread.thread_pointer = known.thread_pointer.and_then(|pointer| pointer.checked_sub(below?));
            thread.off_cpu_us = known.off_cpu.map(micros);
        }
        let since = Duration::from_micros(first_us);
        Profile {
            process: self.process.clone(),
            source: self.source,
            start: self.begun_at + since,
            seconds: self.ended.saturating_sub(since).as_secs_f64(),
            hz: self.options.hz,
            threads,
            activities: tables.activities.list().to_vec(),
            modules,
            frames,
            stacks: tables.stacks.list().to_vec(),
            snapshots,
            observations,
            cpu_samples,
            futex_waits: self.futex_waits.waits.clone(),
            futex_moved_on: self.futex_waits.moved_on,
            own_cpu_us: self.times.own_us(),
            process_cpu_us: self.times.process_us(),
            notes,
            ..Profile::default()
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of this process, by a source that needs no rights.
    fn profiler() -> Profiler {
        let options = ProfilerOptions {
            source: Some(StackSource::Procfs),
            cpu: false,
            hz: 100.0,
            most_cpu_percent: 100.0,
            ..ProfilerOptions::default()
        };
        Profiler::start(std::process::id(), options).unwrap()
    }

    #[test]
    fn a_long_profile_is_thinned_out_and_what_was_lost_stays_counted() {
        let mut profiler = profiler();
        for _ in 0..5 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        for snapshot in &mut profiler.taken {
            snapshot.cost.dropped = 1;
        }
        profiler.thin_out();
        profiler.compact();
        assert_eq!(profiler.interval(), Duration::from_millis(20));
        assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        profiler.thin_out();
        profiler.compact();

        let profile = profiler.finish();
        assert_eq!(profile.snapshots.len(), 2);
        assert_eq!(profile.snapshots.iter().map(|cost| cost.dropped).sum::<u32>(), 5);
        assert_eq!(profile.hz, 25.0);
        let told: Vec<&String> =
            profile.notes.iter().filter(|note| note.contains("a long profile")).collect();
        assert_eq!(told, ["a long profile: to save memory, only one in 4 snapshots is in it"]);
        for observation in &profile.observations {
            let stack = &profile.stacks[observation.stack as usize];
            assert!(stack.frames.iter().all(|&frame| (frame as usize) < profile.frames.len()));
            assert!((observation.snapshot as usize) < profile.snapshots.len());
        }
        let seen: Vec<usize> =
            (0..2).map(|at| profile.observations.iter().filter(|one| one.snapshot == at).count()).collect();
        assert_eq!(seen, profile.snapshots.iter().map(|cost| cost.threads as usize).collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_keeps_the_newest_and_begins_with_the_oldest_it_kept() {
        let mut profiler = profiler();
        profiler.options.keep = Some(Duration::from_secs(3600));
        for _ in 0..3 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        profiler.options.keep = Some(Duration::ZERO);
        profiler.drop_old();
        profiler.keep_all();
        for _ in 0..2 {
            assert!(matches!(profiler.snapshot().unwrap(), Taken::Snapshot(_)));
        }
        let profile = profiler.finish();
        assert_eq!(profile.snapshots.len(), 2);
        assert_eq!(profile.snapshots[0].at_us, 0);
    }
}
