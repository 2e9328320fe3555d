//! The profiler: a source, an unwinder, names and meaning, tied together into a profile.
//!
//! In: a process and what is wanted. Out: a [`Profile`](spindoctor_model::Profile). The caller keeps the clock: it asks for each snapshot.

mod budget;
mod finished;
mod hot_code;
mod in_order;
mod meaning;
mod options;
mod process;
mod pthread_self;
mod retention;
mod ring;
mod ring_thread;
mod stack_ends;
mod tables;
mod thread;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustc_hash::FxHashMap;
use spindoctor_model::stack::{Activity, Observation, ProfiledProcess, SnapshotCost, StackSource};

use crate::capture::cpu::{Clock, CpuSampler};
use crate::capture::{self, Capture, CpuSamples, RawStack, RawThread};
use crate::error::{Error, Result};
use crate::futex_waits::{FutexWaits, Waiter, WaitingFrame, futex_waits};
use crate::module::Modules;
use crate::unwind::Copied;
use budget::Budget;
use in_order::InOrder;
use meaning::Meaning;
pub use options::{ProfilerOptions, usual_most_cpu_percent};
use process::ProcessTimes;
pub use ring::{Ring, RingOptions};
pub use ring_thread::{RingCost, RingThread};
use thread::{Last, Thread, futex_of};

/// How often CPU samples are read: their buffers hold three times as long.
const READING: Duration = Duration::from_millis(100);

/// Readings after which a thread is forgotten of which no CPU sample came.
const LONGEST_UNSEEN: u64 = 100;

/// Snapshots that may miss a thread before it is forgotten: a walk of the kernel's ends early where threads end.
const MISSED: u64 = 2;

/// For how long a thread's name is believed that was read for a CPU sample.
const NAME_LASTS_NS: u64 = 1_000_000_000;

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
        let modules = Modules::of_process(pid)?;
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
            budget: Budget::of_cpus(options.most_cpu_percent, cpus),
            process: process::describe(pid),
            source,
            capture,
            sampler,
            notes,
            meaning: Meaning::new(modules, options.frames),
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

    /// The source that is used.
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
            self.meaning.stack_ends.announce(capture.as_mut());
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
        // For so long a CPU sample of a thread says where it runs now: two turns of the sampling, so that one may be missed.
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
            let observation =
                Observation { thread: thread.place, stack, state, unmoved: true, ..Observation::default() };
            return (observation, thread);
        }
        thread.off_cpu = raw.off_cpu;
        let mut observation = Observation { thread: thread.place, ..Observation::default() };
        observation.stack = match (&raw.stack, &raw.registers) {
            (RawStack::Copied { start, bytes, whole }, Some(registers)) => {
                let copied = Copied { start: *start, bytes: &stacks[bytes.clone()], whole: *whole };
                meaning.user_stack(registers, copied, raw.thread_pointer)
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
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
