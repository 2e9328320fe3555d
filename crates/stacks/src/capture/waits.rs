//! How long the threads of a process wait in functions that spin first and then sleep: latches.
//!
//! In: a process, its functions, and the function that sleeps. Out: [`LatchWaits`], how long waits lasted, of each function.
//! Probes are set where those of a [`super::trigger`] are, and run `bpf/waits.bpf.c`. A wait that slept lasts until the thread
//! was woken, which is when the latch was let go. What a sleep costs is measured in turns of its own: the CPU time of calls of
//! the function that sleeps.
//!
//! Every pass costs the process some microseconds, so the probes stand for short turns, one function at a time, and are taken
//! away until the next turn is paid for: a part of the waits is seen, each with the same chance. The kernel takes them away when
//! this process ends, by kill -9 too.

#![expect(unsafe_code, reason = "the state that the programs write to is mapped")]

use std::error::Error as StdError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::BtfTracePoint;

use super::kernel_program::{Aligned, SharedMap, load, refused};
use super::sleep_cost;
use super::uprobe::{NAME, Place, ProgramOfMany, measure, nanoseconds, now_ns};
use crate::error::{Error, Result};
use crate::function::{self, Function};
use crate::module::Modules;
use crate::names::Names;
use crate::process::Process;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/waits.bpf.o"));

/// A program of the object, and the kernel's tracepoint that it is for.
#[derive(Debug, Clone, Copy)]
struct AtTracepoint {
    program: &'static str,
    tracepoint: &'static str,
}

/// Of a wake-up, in the waker's own time.
const WAKING: AtTracepoint = AtTracepoint { program: "waking", tracepoint: "sched_waking" };
/// Of a CPU that goes from one thread to another.
const SWITCHED: AtTracepoint = AtTracepoint { program: "switched", tracepoint: "sched_switch" };

/// A turn lasts for no longer than this, nor than the budget of so much time pays for: some thousand waits, of which few are
/// cut off by its end.
const TURN: Duration = Duration::from_millis(250);
const TURN_PAID_BY: Duration = Duration::from_millis(500);

/// How often the cost is looked at in a turn: two CPUs that do nothing but hit probes cost 1 ms in this time.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// How often it is looked at whether the next turn is paid for.
const REST: Duration = Duration::from_millis(10);

/// What a pass of a tracepoint costs beside the time in the program, which it measures itself: the way in and out, and the
/// clock.
const PASS: Duration = Duration::from_nanos(100);

/// A function that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitFunction {
    /// What it is called in results.
    pub name: &'static str,
    /// Its short name (`rw_lock_s_lock_spin`), or as the symbol table has it.
    pub symbol: &'static str,
}

/// How long waits in one function lasted.
#[derive(Debug, Clone, PartialEq)]
pub struct LatchWaits {
    /// The function's name, as it was asked for.
    pub name: &'static str,
    /// For how long the probes stood in it.
    pub armed: Duration,
    /// Waits that ended while they spun: the longest that counts here, in ascending order, and how many.
    pub met: Vec<(Duration, u64)>,
    /// Waits that slept: the same, by the time until their thread was woken.
    pub slept: Vec<(Duration, u64)>,
    /// How long those spun before they slept, on average; none where nobody slept.
    pub spun: Option<Duration>,
    /// How long it took from the wake-up until the latch was had, on average; none where nobody was woken.
    pub woken: Option<Duration>,
}

/// What the probes cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitsCost {
    /// How often a probe was hit.
    pub hits: u64,
    /// How often a thread of the machine was woken meanwhile, or got a CPU while sleeps were measured.
    pub passes: u64,
    /// The CPU time of both: hits by what one cost when it was measured, passes as their program measured itself.
    pub cpu: Duration,
    /// Calls that were not seen because there was no room for their thread.
    pub untracked: u64,
}

/// What a sleep on a latch costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepCost {
    /// Between two threads on this host that do nothing else: the CPU time of both, for each sleep.
    pub least: Duration,
    /// The CPU time of a call in which a thread of the process slept, on average; none where none was seen. The waker's is not in
    /// it, nor what the thread pays afterwards for caches that others used meanwhile.
    pub seen: Option<Duration>,
    /// How many those were.
    pub sleeps: u64,
}

/// Functions of a process, and what it takes to measure their waits.
pub struct WaitProbes {
    process: Process,
    object: Ebpf,
    probed: ProgramOfMany,
    state: State,
    passes: PerCpuArray<MapData, [u64; 2]>,
    groups: Vec<(LatchWaits, Vec<Function>)>,
    sleeps: Vec<Function>,
    sleep_cost: SleepCost,
    sleeps_ns: u64,
    hit_cost: Duration,
    /// Of the turns so far, in the order of the groups.
    sums: Vec<Sums>,
}

/// Sums of one function over its turns, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    spun_ns: u64,
    woken_ns: u64,
    woken: u64,
}

impl std::fmt::Debug for WaitProbes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WaitProbes").field("process", &self.process).finish_non_exhaustive()
    }
}

impl WaitProbes {
    /// Looks for the functions, measures what is to be known, and sets no probe yet. Functions that the process has not are left
    /// out. Of `sleeps` the first that it has counts.
    ///
    /// # Errors
    /// No such process, none of the functions, or the kernel refuses; the error says what would change that.
    pub fn new(pid: u32, functions: &[WaitFunction], sleeps: &[&str]) -> Result<Self> {
        let process = Process::open(pid)?;
        let (mut modules, mut names) = (Modules::of_process(pid)?, Names::new());
        let mut groups = Vec::new();
        for wanted in functions {
            let found = function::find_any(&mut modules, &mut names, wanted.symbol)?;
            if !found.is_empty() {
                groups.push((LatchWaits::none(wanted.name), found));
            }
        }
        let mut asleep = Vec::new();
        for name in sleeps {
            if asleep.is_empty() {
                asleep = function::find_any(&mut modules, &mut names, name)?;
            }
        }
        if groups.is_empty() || asleep.is_empty() {
            let wanted: Vec<&str> = functions.iter().map(|wanted| wanted.symbol).collect();
            let because = if groups.is_empty() {
                format!("it names none of the functions that wait for latches ({})", wanted.join(", "))
            } else {
                format!("it names no function that sleeps on latches ({})", sleeps.join(", "))
            };
            return Err(Error::NotProfilable { pid, because });
        }
        let (mut object, btf) = load(OBJECT, NAME)?;
        let failed = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let state =
            State(SharedMap::map(&object, "waits", size_of::<Shared>()).map_err(|error| failed(&error))?);
        let probed = ProgramOfMany::load(OBJECT, "probed", &object, &btf)?;
        let passes = object.take_map("passes").expect("the object has this map");
        let passes = PerCpuArray::try_from(passes).map_err(|error| failed(&error))?;
        // On a thread of its own: some kernels before 6.10 let a program see the first thread of a process alone.
        let hits = &state.get().hits;
        let measured = || {
            measure(hits, |function| {
                let places: Vec<Place<'_>> =
                    both_ends(std::slice::from_ref(function), MEASURED, MEASURED_LEFT).collect();
                probed.set(&places, std::process::id())
            })
        };
        let hit_cost = std::thread::scope(|scope| scope.spawn(measured).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let unmeasured = || Error::Unavailable {
            source_name: NAME,
            because: "what a sleep costs cannot be measured: the kernel counts no sleeps of threads"
                .to_owned(),
            unlock: "look with /proc mounted".to_owned(),
        };
        let least = sleep_cost::measure().ok_or_else(unmeasured)?;
        for at in [WAKING, SWITCHED] {
            program(&mut object, at).load(at.tracepoint, &btf).map_err(|error| failed(&error))?;
        }
        hits.store(0, Relaxed);
        let sums = vec![Sums::default(); groups.len()];
        Ok(Self {
            process,
            object,
            probed,
            state,
            passes,
            groups,
            sleeps: asleep,
            sleep_cost: SleepCost { least, seen: None, sleeps: 0 },
            sleeps_ns: 0,
            hit_cost,
            sums,
        })
    }

    /// What a sleep costs, as far as it was measured.
    #[must_use]
    pub fn sleep_cost(&self) -> SleepCost {
        self.sleep_cost
    }

    /// What a hit of a probe costs on this host. How long a call lasts for the probes varies by about as much.
    #[must_use]
    pub fn hit_cost(&self) -> Duration {
        self.hit_cost
    }

    /// Forgets the waits and sleeps that were measured; what it cost stays.
    pub fn forget(&mut self) {
        for (waits, _) in &mut self.groups {
            *waits = LatchWaits::none(waits.name);
        }
        self.sums.fill(Sums::default());
        self.sleep_cost = SleepCost { seen: None, sleeps: 0, ..self.sleep_cost };
        self.sleeps_ns = 0;
    }

    /// Measures for so long, or until `is_over` says so of what it cost so far; the probes take at most this share of one
    /// CPU's time, and that of one turn. Ends early where the process does.
    ///
    /// # Errors
    /// The kernel refuses a probe.
    pub fn measure(
        &mut self,
        duration: Duration,
        share: f64,
        is_over: &dyn Fn(WaitsCost) -> bool,
    ) -> Result<Vec<LatchWaits>> {
        let (start, before) = (Instant::now(), self.cost().cpu);
        let end = start + duration;
        let mut turns = (0..self.groups.len()).map(Turn::Waits).chain([Turn::Sleeps]).cycle();
        while Instant::now() < end && !is_over(self.cost()) && self.process.is_alive() {
            if self.cost().cpu.saturating_sub(before) > start.elapsed().mul_f64(share) {
                std::thread::sleep(REST);
            } else if let Some(turn) = turns.next() {
                self.turn(turn, end.min(Instant::now() + TURN), TURN_PAID_BY.mul_f64(share), is_over)?;
            }
        }
        Ok(self.groups.iter().map(|(waits, _)| waits.clone()).collect())
    }

    /// What the probes cost so far.
    #[must_use]
    pub fn cost(&self) -> WaitsCost {
        let shared = self.state.get();
        let hits = shared.hits.load(Relaxed);
        let (mut passes, mut in_program_ns) = (0, 0);
        for [count, ns] in self.passes.get(&0, 0).iter().flat_map(|cpus| cpus.iter().copied()) {
            passes += count;
            in_program_ns += ns;
        }
        let cpu = Duration::from_nanos(
            nanoseconds(self.hit_cost)
                .saturating_mul(hits)
                .saturating_add(nanoseconds(PASS).saturating_mul(passes))
                .saturating_add(in_program_ns),
        );
        WaitsCost { hits, passes, cpu, untracked: shared.untracked.load(Relaxed) }
    }

    /// Sets the probes of a turn, for as long as it may last and cost, and takes them away.
    fn turn(
        &mut self,
        turn: Turn,
        end: Instant,
        most: Duration,
        is_over: &dyn Fn(WaitsCost) -> bool,
    ) -> Result<()> {
        let before = self.cost().cpu;
        let failed = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let (at, places) = match turn {
            Turn::Waits(group) => {
                let sleeps = self.sleeps.iter().map(|function| place(function, function.entry, SLEEPS));
                (WAKING, both_ends(&self.groups[group].1, ENTERED, LEFT).chain(sleeps).collect::<Vec<_>>())
            }
            Turn::Sleeps => (SWITCHED, both_ends(&self.sleeps, DOZES, AWAKE).collect()),
        };
        let passing = program(&mut self.object, at).attach().map_err(|error| failed(&error))?;
        let probes = self.probed.set(&places, self.process.pid())?;
        let start = Instant::now();
        loop {
            let cost = self.cost();
            if Instant::now() >= end || cost.cpu.saturating_sub(before) >= most || is_over(cost) {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let armed = start.elapsed();
        drop(probes);
        program(&mut self.object, at).detach(passing).map_err(|error| failed(&error))?;
        match turn {
            Turn::Waits(group) => self.take(group, armed),
            Turn::Sleeps => self.take_sleeps(),
        }
        Ok(())
    }

    /// Adds what the programs counted in a turn to what sleeps cost, and clears it for the next.
    fn take_sleeps(&mut self) {
        let shared = self.state.get();
        for waiter in &shared.waiters {
            waiter.tid.store(0, Relaxed);
        }
        self.sleeps_ns += shared.sleeps_ns.swap(0, Relaxed);
        let cost = &mut self.sleep_cost;
        cost.sleeps += shared.sleeps.swap(0, Relaxed);
        cost.seen = self.sleeps_ns.checked_div(cost.sleeps).map(Duration::from_nanos);
    }

    /// Adds what the programs counted in a turn to a function's waits, and clears it for the next.
    fn take(&mut self, group: usize, armed: Duration) {
        let now = now_ns();
        let shared = self.state.get();
        let (mut met, mut slept) = (taken(&shared.met), taken(&shared.slept));
        // A wait that the turn's end cut off lasted at least until then.
        for waiter in shared.waiters.iter().filter(|waiter| waiter.tid.load(Acquire) != 0) {
            let (began, slept_ns) = (waiter.began_ns.load(Relaxed), waiter.slept_ns.load(Relaxed));
            if began > 0 {
                let counts = if slept_ns > 0 { &mut slept } else { &mut met };
                counts[bin_of(now.saturating_sub(began))] += 1;
            }
            waiter.tid.store(0, Relaxed);
        }
        let sums = &mut self.sums[group];
        sums.spun_ns += shared.spun_ns.swap(0, Relaxed);
        sums.woken_ns += shared.woken_ns.swap(0, Relaxed);
        sums.woken += shared.woken.swap(0, Relaxed);
        let waits = &mut self.groups[group].0;
        waits.armed += armed;
        add(&mut waits.met, &met);
        add(&mut waits.slept, &slept);
        let sleepers: u64 = waits.slept.iter().map(|(_, count)| count).sum();
        waits.spun = sums.spun_ns.checked_div(sleepers).map(Duration::from_nanos);
        waits.woken = sums.woken_ns.checked_div(sums.woken).map(Duration::from_nanos);
    }
}

impl LatchWaits {
    fn none(name: &'static str) -> Self {
        Self { name, armed: Duration::ZERO, met: Vec::new(), slept: Vec::new(), spun: None, woken: None }
    }
}

/// What is measured while probes stand.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// The waits in the functions of this group.
    Waits(usize),
    /// What sleeps cost.
    Sleeps,
}

/// The object's program for a tracepoint.
fn program(object: &mut Ebpf, at: AtTracepoint) -> &mut BtfTracePoint {
    let program = object.program_mut(at.program).expect("the object has this program");
    program.try_into().expect("it is for a tracepoint")
}

fn place(function: &Function, offset: u64, cookie: u64) -> Place<'_> {
    Place { file: &function.file, offset, cookie }
}

/// Where functions begin and where they return.
fn both_ends(functions: &[Function], begins: u64, returns: u64) -> impl Iterator<Item = Place<'_>> {
    functions.iter().flat_map(move |function| {
        let exits = function.exits.iter().map(move |&exit| place(function, exit, returns));
        std::iter::once(place(function, function.entry, begins)).chain(exits)
    })
}

/// The counts of a histogram, which begins again.
fn taken(counts: &[AtomicU64; BINS]) -> [u64; BINS] {
    std::array::from_fn(|bin| counts[bin].swap(0, Relaxed))
}

/// Adds the counts of a histogram to a list of what is in it.
fn add(list: &mut Vec<(Duration, u64)>, counts: &[u64; BINS]) {
    for (bin, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
        let most = most_in(bin);
        match list.binary_search_by_key(&most, |(most, _)| *most) {
            Ok(at) => list[at].1 += count,
            Err(at) => list.insert(at, (most, count)),
        }
    }
}

/// `bin_of` of `bpf/waits.bpf.c`.
fn bin_of(ns: u64) -> usize {
    if ns < 4 {
        return 0;
    }
    let octave = ns.ilog2();
    let bin = octave as usize * 4 + (ns >> (octave - 2) & 3) as usize;
    bin.min(BINS - 1)
}

/// The longest time that counts in a place of a histogram.
fn most_in(bin: usize) -> Duration {
    let (octave, quarter) = (bin / 4, bin as u64 % 4);
    Duration::from_nanos(match octave {
        0 | 1 => 4,
        _ => (1_u64 << (octave - 2)) * (5 + quarter),
    })
}

/// `struct waits` of `bpf/waits.h`, mapped.
struct State(SharedMap);

impl State {
    fn get(&self) -> &Shared {
        // SAFETY: the map's value is one of these, page-aligned, and lives as long as the mapping. All of it is atomic:
        // the programs may write to it at any time.
        unsafe { self.0.start().cast::<Shared>().as_ref() }
    }
}

/// From `bpf/waits.h`: what stands at a probe.
const MEASURED: u64 = 0;
const MEASURED_LEFT: u64 = 1;
const ENTERED: u64 = 2;
const LEFT: u64 = 3;
const SLEEPS: u64 = 4;
const DOZES: u64 = 5;
const AWAKE: u64 = 6;

/// `BINS`, `SLOTS` of `bpf/waits.h`.
const BINS: usize = 160;
const SLOTS: usize = 16384;

/// `struct waits` of `bpf/waits.h`.
#[repr(C)]
struct Shared {
    level: AtomicU64,
    measured_ns: AtomicU64,
    least_ns: AtomicU64,
    hits: AtomicU64,
    untracked: AtomicU64,
    spun_ns: AtomicU64,
    woken_ns: AtomicU64,
    woken: AtomicU64,
    sleeps: AtomicU64,
    sleeps_ns: AtomicU64,
    met: [AtomicU64; BINS],
    slept: [AtomicU64; BINS],
    waiters: [Waiter; SLOTS],
}

/// `struct waiter` of `bpf/waits.h`.
#[repr(C)]
struct Waiter {
    tid: AtomicU64,
    sp: AtomicU64,
    task: AtomicU64,
    began_ns: AtomicU64,
    slept_ns: AtomicU64,
    woken_ns: AtomicU64,
    off_ns: AtomicU64,
    without_ns: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_at_most_a_quarter_below_the_longest_of_its_place() {
        for ns in (4..4_000).chain([1_000_000, 1_000_000_007, 60_000_000_000]) {
            let most = most_in(bin_of(ns)).as_nanos() as u64;
            assert!(ns < most && most as f64 <= ns as f64 * 1.2501 + 1.0, "{ns}: {most}");
        }
        assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
    }

    #[test]
    fn turns_add_up_in_order() {
        let mut list = Vec::new();
        let mut counts = [0; BINS];
        counts[bin_of(1_000_000)] = 2;
        add(&mut list, &counts);
        counts[bin_of(1_000)] = 1;
        add(&mut list, &counts);
        let counted: Vec<u64> = list.iter().map(|(_, count)| *count).collect();
        assert_eq!(counted, [1, 4]);
        assert!(list[0].0 < list[1].0);
    }
}
