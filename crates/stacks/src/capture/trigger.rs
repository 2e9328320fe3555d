//! Waits for trouble inside a process: too many threads in one function at once, or one thread in it for too long.
//!
//! In: a process, a function, a bound. Out: [`Fired`], at that instant. Probes (uprobes) are set where the function
//! begins and returns, in this process only; they run `bpf/trigger.bpf.c`. The kernel takes them away when this process
//! ends, by kill -9 too. Only the page that the kernel mapped for its breakpoints stays.
//!
//! Every pass costs the process some microseconds. The cost of one pass is measured before, the cost of all is counted,
//! and the probes are removed when they cost more than allowed.
//!
//! A thread that was inside before the probes were there is not seen until it enters again.

#![expect(unsafe_code, reason = "the state that the programs write to is mapped")]

use std::error::Error as StdError;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use aya::programs::UProbe;
use aya::programs::uprobe::UProbeScope;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::kernel_program::{Aligned, SharedMap, load, refused};
use super::procfs;
use super::uprobe::{NAME, measure, nanoseconds, now_ns};
use crate::error::{Error, Result};
use crate::function;
use crate::module::Modules;
use crate::module::elf::Elf;
use crate::process::{Process, is_gone};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/trigger.bpf.o"));

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// More than so many threads are in the function at once.
    Inside(u32),
    /// A thread is in the function for longer than this.
    Slower(Duration),
}

/// What was waited for has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// The thread that entered last, or that is slow.
    pub tid: u32,
    /// How many threads were inside.
    pub inside: u32,
    /// For how long that thread had been inside.
    pub took: Duration,
    /// How long ago that was.
    pub ago: Duration,
}

/// How it is in the function at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// How many threads are inside.
    pub inside: u32,
    /// For how long the one is that has been inside for longest; zero where none is.
    pub longest: Duration,
}

impl Now {
    /// Whether what was waited for is so now.
    #[must_use]
    pub fn holds(self, when: When) -> bool {
        match when {
            When::Inside(threads) => self.inside > threads,
            When::Slower(bound) => self.longest >= bound,
        }
    }
}

/// What the probes cost the process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TriggerCost {
    /// How often a probe was hit: twice for each call.
    pub hits: u64,
    /// The time that took, by what a hit cost when it was measured.
    pub cpu: Duration,
    /// Calls that were not seen because there was no room for their thread.
    pub untracked: u64,
}

/// The share of one CPU's time that the probes may take, where the caller does not say: the goal for a profile at
/// 10 Hz is 1 % of the throughput of all CPUs.
pub const DEFAULT_BUDGET: f64 = 0.01;

/// A burst of calls may cost as much as this long of the budget at once. Longer ones take the probes away.
const BURST: Duration = Duration::from_secs(2);

/// So often a thread that is inside for too long is looked for, where the caller does not say.
const LEAST_TICK: Duration = Duration::from_millis(1);

/// An entry that is older may be one of a thread that left without returning: by an exception, or by its end.
const OLD: Duration = Duration::from_secs(1);

/// Probes in a process.
pub struct Trigger {
    process: Process,
    name: String,
    when: When,
    object: Ebpf,
    state: State,
    events: RingBuf<MapData>,
    hit_cost: Duration,
    budget: Budget,
    /// Threads that entered before this time have been reported, `CLOCK_MONOTONIC`.
    reported_ns: u64,
    /// No looks at threads that are inside follow each other sooner.
    least_tick: Duration,
    /// When threads that left without returning were looked for by [`Trigger::now`], `CLOCK_MONOTONIC`.
    searched_ns: u64,
}

impl std::fmt::Debug for Trigger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, name, when, .. } = self;
        formatter
            .debug_struct("Trigger")
            .field("process", process)
            .field("name", name)
            .field("when", when)
            .finish()
    }
}

impl Trigger {
    /// Puts probes into a function, by its short name (`THD::wait_for`) or as the symbol table has it. `budget` is
    /// the share of one CPU's time that they may take: [`DEFAULT_BUDGET`].
    ///
    /// # Errors
    /// No such process, no such function, or the kernel refuses; the error says what would change that.
    pub fn arm(pid: u32, function: &str, when: When, budget: f64) -> Result<Self> {
        let process = Process::open(pid)?;
        let functions = function::find(&mut Modules::of_process(pid)?, function)?;
        let (mut object, _) = load(OBJECT, NAME)?;
        let failed = |error: &(dyn StdError + 'static)| refused(NAME, error);
        let state =
            State(SharedMap::map(&object, "trigger", size_of::<Shared>()).map_err(|error| failed(&error))?);
        let events = object.take_map("events").expect("the object has this map");
        let events = RingBuf::try_from(events).map_err(|error| failed(&error))?;
        let measured = probe(&mut object, "measured")?;
        let hit_cost = measure(&state.get().hits, |function| {
            let places: Vec<u64> = function.exits.iter().copied().chain([function.entry]).collect();
            attach(measured, &function.file, &places, None)
        })?;
        measured.unload().map_err(|error| failed(&error))?;
        let shared = state.get();
        shared.hits.store(0, Relaxed);
        let (more_than, slower_ns) = match when {
            When::Inside(threads) => (u64::from(threads), u64::MAX),
            When::Slower(bound) => (u64::MAX, nanoseconds(bound)),
        };
        shared.more_than.store(more_than, Relaxed);
        shared.slower_ns.store(slower_ns, Relaxed);
        // What happens before the first wait is reported by it.
        shared.armed.store(1, Release);
        // The exits first: a thread that is seen to enter is seen to leave.
        for (program, entry) in [("left", false), ("entered", true)] {
            let program = probe(&mut object, program)?;
            for function in &functions {
                let places = if entry { std::slice::from_ref(&function.entry) } else { &function.exits };
                attach(program, &function.file, places, Some(process.pid()))?;
            }
        }
        Ok(Self {
            process,
            name: function.to_owned(),
            when,
            object,
            state,
            events,
            hit_cost,
            budget: Budget::new(budget),
            reported_ns: 0,
            least_tick: LEAST_TICK,
            searched_ns: 0,
        })
    }

    /// The same for one that is watched for hours: a thread that is slow is seen this much later, while it is inside, and
    /// looking costs the less.
    #[must_use]
    pub fn looking_every(self, least: Duration) -> Self {
        Self { least_tick: least, ..self }
    }

    /// As [`wait`], for one.
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<Fired>> {
        Ok(wait(std::slice::from_mut(self), patience)?.map(|(_, fired)| fired))
    }

    /// The function, as it was asked for.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.name
    }

    /// What the probes cost the process so far.
    #[must_use]
    pub fn cost(&self) -> TriggerCost {
        let shared = self.state.get();
        let hits = shared.hits.load(Relaxed);
        let cpu = Duration::from_nanos(nanoseconds(self.hit_cost).saturating_mul(hits));
        TriggerCost { hits, cpu, untracked: shared.untracked.load(Relaxed) }
    }

    /// How it is in the function now: for a caller that knows that it fired, and asks until when that lasts.
    /// Threads that left without returning count for up to a second.
    ///
    /// # Errors
    /// As [`wait`].
    pub fn now(&mut self) -> Result<Now> {
        self.pay()?;
        if !self.process.is_alive() {
            return Err(Error::NoProcess(self.process.pid()));
        }
        let now = now_ns();
        if now.saturating_sub(self.searched_ns) >= nanoseconds(OLD) {
            self.searched_ns = now;
            self.forget_those_that_left(now);
        }
        let shared = self.state.get();
        let entered = shared.slots.iter().map(|slot| slot.entered_ns.load(Acquire));
        let first = entered.filter(|&entered_ns| entered_ns != 0).min().unwrap_or(now);
        Ok(Now {
            inside: u32::try_from(shared.inside.load(Relaxed)).unwrap_or(u32::MAX),
            longest: Duration::from_nanos(now.saturating_sub(first)),
        })
    }

    /// Forgets what was reported meanwhile: what is waited for next is what happens from now on. Where it is so already,
    /// that is given.
    ///
    /// # Errors
    /// As [`wait`].
    pub fn again(&mut self) -> Result<Option<Fired>> {
        while self.events.next().is_some() {}
        // Who entered within the bound is not slow yet.
        if let When::Slower(bound) = self.when {
            self.reported_ns = now_ns().saturating_sub(nanoseconds(bound));
        }
        let now = self.now()?;
        let is_so = matches!(self.when, When::Inside(_)) && now.holds(self.when);
        Ok(is_so.then_some(Fired { tid: 0, inside: now.inside, took: Duration::ZERO, ago: Duration::ZERO }))
    }

    /// How often threads that are inside are looked at, and the cost.
    fn tick(&self) -> Duration {
        const LONGEST: Duration = Duration::from_millis(50);
        match self.when {
            // What a program cannot see by itself: that time passes.
            When::Slower(bound) => (bound / 10).clamp(self.least_tick, LONGEST),
            When::Inside(_) => LONGEST,
        }
    }

    /// Takes the probes away where they cost too much.
    fn pay(&mut self) -> Result<()> {
        let cost = self.cost();
        if self.budget.pay(cost.cpu) {
            return Ok(());
        }
        for program in ["entered", "left"] {
            probe(&mut self.object, program)?.unload().map_err(|error| refused(NAME, &error))?;
        }
        let seconds = self.budget.start.elapsed().as_secs_f64();
        Err(Error::Unavailable {
            source_name: NAME,
            because: format!(
                "the probes in {} took {:.1} ms of CPU in {seconds:.1} s, more than they may, and are gone again: it \
                 is called {:.0} times a second",
                self.name,
                cost.cpu.as_secs_f64() * 1e3,
                cost.hits as f64 / 2.0 / seconds,
            ),
            unlock: "take a function that is called less often, or allow them more".to_owned(),
        })
    }

    /// The event that the programs reported, or the thread that is inside for too long.
    fn look(&mut self) -> Option<Fired> {
        let mut reported = None;
        while let Some(item) = self.events.next() {
            reported = reported.or(Event::read(&item).filter(|event| event.entered_ns > self.reported_ns));
        }
        let now = now_ns();
        match self.when {
            When::Inside(bound) => {
                let event = reported?;
                let inside = event.inside.saturating_sub(self.forget_those_that_left(now));
                (inside > u64::from(bound)).then(|| Event { inside, ..event }.fired(now))
            }
            When::Slower(bound) => {
                let since = now.saturating_sub(nanoseconds(bound));
                let event = self.slowest(since, now).or(reported)?;
                // A thread that is slow by now is in the snapshot that is taken now.
                self.reported_ns = since;
                Some(event.fired(now))
            }
        }
    }

    /// The thread that has been inside for longest, of those that entered before and were not reported.
    fn slowest(&self, before_ns: u64, now: u64) -> Option<Event> {
        let shared = self.state.get();
        if shared.inside.load(Relaxed) == 0 {
            return None;
        }
        let mut slow: Vec<(u64, &Slot)> = shared
            .slots
            .iter()
            .map(|slot| (slot.entered_ns.load(Acquire), slot))
            .filter(|&(entered_ns, _)| (self.reported_ns + 1..before_ns).contains(&entered_ns))
            .collect();
        slow.sort_unstable_by_key(|&(entered_ns, _)| entered_ns);
        slow.into_iter().find_map(|(entered_ns, slot)| {
            let tid = slot.tid.load(Relaxed);
            let inside = tid != 0 && !self.forget_if_left(slot, tid);
            inside.then(|| Event { tid, entered_ns, at_ns: now, inside: shared.inside.load(Relaxed) })
        })
    }

    /// Takes out all threads that left without returning; how many there were.
    fn forget_those_that_left(&self, now: u64) -> u64 {
        let left = |slot: &&Slot| {
            let (entered_ns, tid) = (slot.entered_ns.load(Acquire), slot.tid.load(Relaxed));
            let is_old = entered_ns != 0 && now.saturating_sub(entered_ns) > nanoseconds(OLD);
            tid != 0 && is_old && self.forget_if_left(slot, tid)
        };
        self.state.get().slots.iter().filter(left).count() as u64
    }

    /// Takes out a thread that left without returning. True where that was so.
    fn forget_if_left(&self, slot: &Slot, tid: u64) -> bool {
        let sp = slot.sp.load(Relaxed);
        let has_left = match u32::try_from(tid) {
            Ok(tid) => match procfs::stack_pointer(self.process.pid(), tid) {
                Some(Ok(now)) if now > sp => true,
                Some(Ok(_)) | None => {
                    // Its frame is still there if what it returns to is. (On aarch64 that is in a register.)
                    let returns_to = slot.returns_to.load(Relaxed);
                    cfg!(target_arch = "x86_64")
                        && procfs::word(tid, sp).is_some_and(|word| word != returns_to)
                }
                Some(Err(error)) => is_gone(&error),
            },
            Err(_) => true,
        };
        if has_left {
            slot.entered_ns.store(0, Relaxed);
            if slot.tid.compare_exchange(tid, 0, Release, Relaxed).is_ok() {
                self.state.get().inside.fetch_sub(1, Relaxed);
            }
        }
        has_left
    }
}

/// Waits until one of them fires, for no longer than this: its place and what happened. No thread is reported twice
/// for being slow; a crowd that stays is reported again when the next thread enters.
///
/// # Errors
/// The process ended, or a function is called so often that its probes would cost too much: then they are gone.
pub fn wait(triggers: &mut [Trigger], patience: Duration) -> Result<Option<(usize, Fired)>> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let tick = triggers.iter().map(Trigger::tick).min().unwrap_or(left).min(left);
        sleep(triggers, tick)?;
        for (place, trigger) in triggers.iter_mut().enumerate() {
            trigger.pay()?;
            if let Some(fired) = trigger.look() {
                return Ok(Some((place, fired)));
            }
            if !trigger.process.is_alive() {
                return Err(Error::NoProcess(trigger.process.pid()));
            }
        }
        if left.is_zero() {
            return Ok(None);
        }
    }
}

/// Sleeps until a program reports something, or for so long.
fn sleep(triggers: &[Trigger], time: Duration) -> Result<()> {
    for trigger in triggers {
        trigger.state.get().armed.store(1, Release);
    }
    let events =
        triggers.iter().map(|trigger| PollFd::from_borrowed_fd(trigger.events.as_fd(), PollFlags::IN));
    let mut events: Vec<_> = events.collect();
    let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    match poll(&mut events, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(refused(NAME, &std::io::Error::from(error))),
    }
}

fn probe<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut UProbe> {
    let program = object.program_mut(name).expect("the object has this program");
    Ok(program.try_into().expect("it is a probe"))
}

/// Loads a program and puts it into places of a file, as far as a process has mapped it; this process where none is
/// given.
fn attach(program: &mut UProbe, file: &Elf, places: &[u64], pid: Option<u32>) -> Result<()> {
    if program.fd().is_err() {
        program.load().map_err(|error| refused(NAME, &error))?;
    }
    let file =
        file.path().ok_or_else(|| refused(NAME, &std::io::Error::from(std::io::ErrorKind::NotFound)))?;
    let scope = pid.and_then(NonZeroU32::new).map_or(UProbeScope::CallingProcess, UProbeScope::OneProcess);
    for &place in places {
        program.attach(place, &file, scope).map_err(|error| refused(NAME, &error))?;
    }
    Ok(())
}

/// How much the probes may still cost: it grows with time up to what a burst may take.
#[derive(Debug)]
struct Budget {
    share: f64,
    left_s: f64,
    paid: Duration,
    start: Instant,
    last: Instant,
}

impl Budget {
    fn new(share: f64) -> Self {
        let now = Instant::now();
        Self { share, left_s: BURST.as_secs_f64() * share, paid: Duration::ZERO, start: now, last: now }
    }

    /// Pays what all has cost so far. False where that was too much.
    fn pay(&mut self, total: Duration) -> bool {
        let elapsed = self.last.elapsed();
        self.last += elapsed;
        let most = BURST.as_secs_f64() * self.share;
        self.left_s = (self.left_s + elapsed.as_secs_f64() * self.share).min(most);
        self.left_s -= total.saturating_sub(self.paid).as_secs_f64();
        self.paid = total;
        self.left_s >= 0.0
    }
}

/// `struct trigger` of `bpf/trigger.h`, mapped.
struct State(SharedMap);

impl State {
    fn get(&self) -> &Shared {
        // SAFETY: the map's value is one of these, page-aligned, and lives as long as the mapping. All of it is atomic:
        // the programs may write to it at any time.
        unsafe { self.0.start().cast::<Shared>().as_ref() }
    }
}

/// `struct trigger` of `bpf/trigger.h`.
#[repr(C)]
struct Shared {
    more_than: AtomicU64,
    slower_ns: AtomicU64,
    armed: AtomicU64,
    level: AtomicU64,
    inside: AtomicU64,
    hits: AtomicU64,
    untracked: AtomicU64,
    slots: [Slot; SLOTS],
}

/// `SLOTS` of `bpf/trigger.h`.
const SLOTS: usize = 16384;

/// `struct slot` of `bpf/trigger.h`.
#[repr(C)]
struct Slot {
    tid: AtomicU64,
    entered_ns: AtomicU64,
    sp: AtomicU64,
    returns_to: AtomicU64,
}

/// `struct event` of `bpf/trigger.h`.
#[derive(Debug, Clone, Copy)]
struct Event {
    tid: u64,
    entered_ns: u64,
    at_ns: u64,
    inside: u64,
}

impl Event {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        let mut word = || words.next();
        Some(Self { tid: word()?, entered_ns: word()?, at_ns: word()?, inside: word()? })
    }

    fn fired(self, now: u64) -> Fired {
        Fired {
            tid: u32::try_from(self.tid).unwrap_or_default(),
            inside: u32::try_from(self.inside).unwrap_or(u32::MAX),
            took: Duration::from_nanos(self.at_ns.saturating_sub(self.entered_ns)),
            ago: Duration::from_nanos(now.saturating_sub(self.at_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_paid_and_a_flood_is_not() {
        let mut budget = Budget::new(0.01);
        assert!(budget.pay(Duration::from_millis(19)));
        assert!(budget.pay(Duration::from_millis(19)));
        assert!(!budget.pay(Duration::from_millis(60)));
    }

    #[test]
    fn an_event_is_four_words() {
        let bytes: Vec<u8> = [7_u64, 1_000, 3_000, 5].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let fired = Event::read(&bytes).unwrap().fired(3_500);
        let (took, ago) = (Duration::from_nanos(2_000), Duration::from_nanos(500));
        assert_eq!(fired, Fired { tid: 7, inside: 5, took, ago });
        assert!(Event::read(&bytes[..31]).is_none());
    }
}
