//! The simulation: threads, CPUs, a run queue, latches and the redo log, from event to event.
//!
//! A thread that has a CPU works through its steps until one of them takes time; then its end is an event. What a thread
//! owes for switches, wake-ups and cache lines is added to the next time that it works. Rounds of spinning are no events:
//! when a latch is released, the time until the first of the spinning threads looks is drawn.
//!
//! `schedule` has the CPUs, `latch` the latches and the wait array, `commit` the redo log, `quota` the bandwidth control.

mod commit;
mod latch;
mod quota;
mod schedule;

use crate::outcome::{Histogram, Outcome};
use crate::queue::{Event, Queue};
use crate::rng::Rng;
use crate::world::{Step, World};

use commit::{Commits, STAGES};
use latch::{Array, LatchState};
use quota::Bandwidth;

/// How much is simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Events after which it ends.
    pub events: u64,
    /// Simulated time after which it ends, nanoseconds.
    pub most_ns: u64,
    /// Transactions after which it ends.
    pub transactions: u64,
}

impl Default for Effort {
    fn default() -> Self {
        Self { events: 160_000, most_ns: 20_000_000_000, transactions: 12_000 }
    }
}

/// Part of the events, of the time and of the transactions that passes before anything is counted.
const WARM_UP: f64 = 0.25;

/// Between the first requests of two clients, nanoseconds.
const FIRST_COME_NS: u64 = 5_000;

/// What the leader of a group of commits does for it, after the wait for the log.
const LEAD_STEPS: usize = 4;

/// Of what an event is the event: threads have their own numbers.
const LATCH: u32 = 1 << 24;
const PERIOD: u32 = u32::MAX;
const SLACK: u32 = u32::MAX - 1;

/// Where a thread is in what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The next step is taken when it has a CPU.
    Steps,
    /// It spins on its latch.
    Spin,
    /// It has spun in vain, and has given up its CPU once.
    Yielded,
    /// It wants the array's mutex, or is in it, to take a place.
    Reserve(bool),
    /// It sleeps until its latch is released, or was just woken.
    Asleep,
    /// It wants the event's mutex, or has it, to wake those who sleep.
    Signal(bool),
    /// To sleep.
    Sleep(bool),
    /// To come back from its sleep.
    Return(bool),
    /// It wants the array's mutex, or is in it, to free its place; it has the latch (true) or begins again.
    Free(bool, bool),
    /// It spins until the log is on disk.
    CommitSpin,
    /// One of the log's threads spins until there is something to do.
    LogSpin,
    /// It is to lead the group of commits that has come together.
    Lead,
}

/// A connection, or (the last ones) one of the log's threads.
#[derive(Debug)]
struct Thread {
    phase: Phase,
    step: usize,
    /// Events of another turn no longer happen.
    turn: u32,
    cpu: Option<u32>,
    last_cpu: u32,
    /// Work that is left of this phase, nanoseconds.
    left: u64,
    /// When it was given its CPU or was looked at last.
    since: u64,
    /// To be added to the next work.
    debt: f64,
    /// CPU time that it has had, as the scheduler counts it.
    run_ns: u64,
    /// It is ready, with this number in the queue; places with another number are empty.
    ready: bool,
    ready_turn: u32,
    latch: usize,
    signals: u32,
    spinner_at: usize,
    /// When its transaction began.
    began: u64,
    /// It is in the list of active transactions.
    listed: bool,
    /// Its transactions so far: which latch of a class it uses.
    count: u32,
}

#[derive(Debug, Clone, Default)]
struct Cpu {
    thread: Option<u32>,
    slice_end: u64,
    last: u32,
    /// A thread that was woken is to have this CPU.
    preempted: bool,
    /// The thread that it was taken from: the next one, where it is still ready (`LAST_BUDDY`).
    buddy: Option<u32>,
    /// What it has left of the quota, nanoseconds.
    local_ns: u64,
    /// Its run queue, the thread with the least virtual run time first, and how many are in it.
    ready: Queue,
    ready_count: u32,
    /// The least virtual run time that was given this CPU so far (`min_vruntime`).
    least_run: u64,
}

struct Sim<'a> {
    world: &'a World,
    /// The world's steps, and those of the log's threads.
    steps: Vec<Op>,
    log_steps: usize,
    rng: Rng,
    now: u64,
    events: Queue,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    idle: Vec<u64>,
    /// CPUs that the quota has stopped.
    stopped: Vec<u64>,
    stopped_count: u32,
    busy: u32,
    spinning: u32,
    /// Threads that are ready, in all run queues.
    ready_count: u32,
    latches: Vec<LatchState>,
    /// Where each class begins.
    classes: Vec<usize>,
    arrays: Vec<Array>,
    commits: Commits,
    bandwidth: Bandwidth,
    /// Transactions in the list of those that are active.
    listed: u32,
    /// When a thread that holds a latch loses its CPU.
    next_preempted: u64,
    /// Threads that sleep for a latch, or for the mutexes of its event and of the wait array.
    asleep: u32,
    slow: Vec<f64>,
    counted: Counted,
}

/// What one step is in the simulation.
#[derive(Debug, Clone, Copy)]
enum Op {
    Think,
    Step(Step),
    /// The group's leader works for all of it.
    Lead,
    /// And lets the next group begin.
    PassOn,
    /// And lets its own go.
    Led,
    /// One of the log's threads waits for something to do.
    LogWait,
    LogWork,
    LogDevice,
    LogDone,
}

#[derive(Debug, Clone, Default)]
struct Counted {
    since: u64,
    transactions: u64,
    operations: u64,
    latency: Histogram,
    cpu_ns: f64,
    spin_ns: f64,
    commit_spin_ns: f64,
    sleeps: u64,
    switches: u64,
    throttled_ns: u64,
}

/// Simulates so many connections for a while.
pub fn simulate(world: &World, threads: u32, seed: u64, effort: Effort) -> Outcome {
    let mut sim = Sim::new(world, threads, seed);
    sim.run(effort)
}

impl<'a> Sim<'a> {
    fn new(world: &'a World, threads: u32, seed: u64) -> Self {
        let work = &world.work;
        let cpus = world.hardware.cpus.max(1);
        let mut steps = vec![Op::Think];
        for step in &work.steps {
            steps.push(Op::Step(*step));
            if matches!(step, Step::Commit) {
                steps.extend([Op::Lead, Op::PassOn, Op::Lead, Op::Led]);
            }
        }
        let log_steps = steps.len();
        steps.extend([Op::LogWait, Op::LogWork, Op::LogDevice, Op::LogDone]);
        let mut classes = Vec::new();
        let mut latches = Vec::new();
        for &many in &work.latches {
            classes.push(latches.len());
            latches.extend((0..many.max(1)).map(|_| LatchState::default()));
        }
        let crowd = |busy: u32| {
            let others = f64::from(busy.saturating_sub(1)) / f64::from(cpus.saturating_sub(1).max(1));
            1.0 + work.crowding * others
        };
        let thread = |step| Thread {
            phase: Phase::Steps,
            step,
            turn: 0,
            cpu: None,
            last_cpu: 0,
            left: 0,
            since: 0,
            debt: 0.0,
            run_ns: 0,
            ready: false,
            ready_turn: 0,
            latch: 0,
            signals: 0,
            spinner_at: 0,
            began: 0,
            listed: false,
            count: 0,
        };
        let mut all: Vec<Thread> = (0..threads).map(|_| thread(1)).collect();
        all.extend((0..STAGES).map(|_| thread(log_steps)));
        let mut sim = Self {
            world,
            steps,
            log_steps,
            rng: Rng::new(seed),
            now: 0,
            events: Queue::default(),
            threads: all,
            cpus: vec![Cpu::default(); cpus as usize],
            stopped: vec![0; cpus.div_ceil(64) as usize],
            stopped_count: 0,
            idle: (0..cpus.div_ceil(64)).map(|word| idle_word(cpus, word)).collect(),
            busy: 0,
            spinning: 0,
            ready_count: 0,
            latches,
            classes,
            arrays: (0..world.latch.arrays).map(|_| Array::default()).collect(),
            commits: Commits::default(),
            bandwidth: Bandwidth::new(&world.hardware),
            listed: 0,
            // As soon as all have come.
            next_preempted: u64::from(threads) * FIRST_COME_NS + 1_000_000,
            asleep: 0,
            slow: (0..=cpus).map(crowd).collect(),
            counted: Counted::default(),
        };
        // Clients come one after the other: a crowd at the beginning would be an answer of its own.
        for at in 0..threads {
            let thread = &mut sim.threads[at as usize];
            thread.count = at;
            thread.last_cpu = at % cpus;
            let come = u64::from(at) * FIRST_COME_NS;
            sim.events.push(Event { at: come, to: at, turn: 0 });
        }
        sim.begin_period();
        sim
    }

    fn run(&mut self, effort: Effort) -> Outcome {
        let (mut done, mut counting) = (0_u64, false);
        while let Some(event) = self.events.pop() {
            done += 1;
            self.now = event.at;
            if !counting {
                let shares = [
                    done as f64 / effort.events as f64,
                    self.now as f64 / effort.most_ns as f64,
                    self.counted.transactions as f64 / effort.transactions as f64,
                ];
                if shares.iter().any(|share| *share >= WARM_UP) {
                    counting = true;
                    self.settle_all();
                    self.commits.cpu_at_look -= self.counted.cpu_ns;
                    self.counted = Counted { since: self.now, ..Counted::default() };
                }
            }
            self.happen(event);
            let enough = self.counted.transactions >= effort.transactions;
            if done >= effort.events || self.now >= effort.most_ns || enough {
                break;
            }
        }
        self.settle_all();
        self.outcome(done)
    }

    fn happen(&mut self, event: Event) {
        match event.to {
            PERIOD => self.begin_period(),
            SLACK => self.give_slack(),
            to if to >= LATCH => self.notice((to - LATCH) as usize, event.turn),
            to => {
                let thread = &self.threads[to as usize];
                if thread.turn != event.turn {
                    return;
                }
                match thread.cpu {
                    None => self.wake(to),
                    Some(_) => self.worked(to),
                }
            }
        }
    }

    /// The end of what a thread did on its CPU, or of its slice.
    fn worked(&mut self, at: u32) {
        self.settle(at);
        let cpu = self.threads[at as usize].cpu.expect("it worked") as usize;
        if self.bandwidth.limits() && !self.take_slice(cpu) {
            self.stop_cpu(at);
        } else if self.threads[at as usize].left == 0 {
            self.go_on(at);
        } else if self.now >= self.cpus[cpu].slice_end {
            self.end_of_slice(at);
        } else {
            self.arm(at);
        }
    }

    /// Nothing is left of a phase: what follows.
    fn go_on(&mut self, at: u32) {
        match self.threads[at as usize].phase {
            Phase::Steps => self.take_steps(at),
            Phase::Spin => self.spun_in_vain(at),
            Phase::Yielded => self.look_again(at),
            Phase::Reserve(false) | Phase::Free(_, false) => self.enter_array(at),
            Phase::Reserve(true) => self.reserved(at),
            Phase::Signal(false) | Phase::Sleep(false) | Phase::Return(false) => self.enter_event(at),
            Phase::Signal(true) => self.signalled(at),
            Phase::Sleep(true) => self.slept(at),
            Phase::Return(true) => self.returned(at),
            Phase::Asleep => self.begin_again(at),
            Phase::Free(has_latch, true) => self.freed(at, has_latch),
            Phase::CommitSpin | Phase::LogSpin => self.commit_spun(at),
            Phase::Lead => self.lead(at),
        }
    }

    /// Takes steps until one takes time.
    fn take_steps(&mut self, at: u32) {
        loop {
            let step = self.threads[at as usize].step;
            let next = step + 1;
            match self.steps.get(step).copied() {
                None | Some(Op::Think) if step < self.log_steps => {
                    self.think(at);
                    return;
                }
                None => unreachable!("the log's threads begin again"),
                Some(Op::Think) => unreachable!("it is the first step"),
                Some(Op::Step(Step::Work(ns))) => {
                    let slow = self.slow[(self.busy - self.spinning).min(self.cpus.len() as u32) as usize];
                    let time = self.rng.time(ns * slow, self.world.work.work_spread);
                    self.threads[at as usize].step = self.after(next);
                    self.work(at, time);
                    return;
                }
                Some(Op::Step(Step::Acquire(class))) => {
                    self.counted.operations += 1;
                    let latch = self.latch_of(at, class);
                    if !self.take(at, latch) {
                        self.contend(at, latch);
                        return;
                    }
                    self.threads[at as usize].step = self.after(next);
                }
                Some(Op::Step(Step::Inside { ns, per_active_ns })) => {
                    let others = self.world.latch.per_sleeper_ns * f64::from(self.asleep);
                    let mean = ns + per_active_ns * f64::from(self.listed) + others;
                    let time = self.rng.time(mean, self.world.work.hold_spread);
                    self.threads[at as usize].step = self.after(next);
                    if self.now >= self.next_preempted {
                        self.preempt_holder(at, time);
                    }
                    self.work(at, time);
                    return;
                }
                Some(Op::Step(Step::List(enters))) => {
                    let after = self.after(next);
                    let thread = &mut self.threads[at as usize];
                    thread.step = after;
                    if std::mem::replace(&mut thread.listed, enters) != enters {
                        self.listed = if enters { self.listed + 1 } else { self.listed - 1 };
                    }
                }
                Some(Op::Step(Step::Release(class))) => {
                    let latch = self.latch_of(at, class);
                    self.threads[at as usize].step = self.after(next);
                    if self.release(at, latch) {
                        return;
                    }
                }
                Some(Op::Step(Step::Commit)) => {
                    self.commit(at);
                    return;
                }
                Some(Op::Lead) => {
                    self.threads[at as usize].step = next;
                    let time = self.leader_work(at);
                    self.work(at, time);
                    return;
                }
                Some(Op::PassOn) => {
                    self.threads[at as usize].step = next;
                    self.passed_on(at);
                }
                Some(Op::Led) => {
                    self.threads[at as usize].step = self.after(next);
                    self.led(at);
                }
                Some(Op::LogWait) => {
                    if !self.log_begins(at) {
                        return;
                    }
                    self.threads[at as usize].step = next;
                }
                Some(Op::LogWork) => {
                    self.threads[at as usize].step = next;
                    let ns = self.world.work.redo.as_ref().map_or(0.0, |redo| redo.cpu_ns / STAGES as f64);
                    let time = self.rng.time(ns, self.world.work.work_spread);
                    self.work(at, time);
                    return;
                }
                Some(Op::LogDevice) => {
                    self.threads[at as usize].step = next;
                    if self.log_flushes(at) {
                        return;
                    }
                }
                Some(Op::LogDone) => {
                    self.threads[at as usize].step = self.log_steps;
                    self.log_done(at);
                }
            }
        }
    }

    /// The step after the last one of a transaction is the first one.
    fn after(&self, step: usize) -> usize {
        if step == self.log_steps { 0 } else { step }
    }

    /// A transaction has ended; the client thinks.
    fn think(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        if thread.began > 0 {
            let took = self.now - thread.began;
            self.counted.transactions += 1;
            self.counted.latency.add(took);
        }
        let thread = &mut self.threads[at as usize];
        thread.step = 1;
        thread.count = thread.count.wrapping_add(1);
        thread.began = 0;
        let think = self.world.work.think_ns;
        if think <= 0.0 {
            self.begin_transaction(at);
            // Without a thought between them the next one begins where this one ended: as another turn of the loop.
            self.work(at, 0.0);
            return;
        }
        let time = self.rng.time(think, self.world.work.think_spread) as u64;
        self.leave_cpu(at);
        let thread = &self.threads[at as usize];
        self.events.push(Event { at: self.now + time, to: at, turn: thread.turn });
    }

    /// The request of a client has come.
    fn begin_transaction(&mut self, at: u32) {
        self.threads[at as usize].began = self.now.max(1);
    }

    /// Works for that time and for what it owes.
    fn work(&mut self, at: u32, ns: f64) {
        let thread = &mut self.threads[at as usize];
        thread.left = ((ns + thread.debt) as u64).max(1);
        thread.debt = 0.0;
        self.arm(at);
    }

    fn outcome(&self, events: u64) -> Outcome {
        let counted = &self.counted;
        let seconds = (self.now - counted.since).max(1) as f64 / 1e9;
        let rate = |count: u64| count as f64 / seconds;
        let cpu_s = counted.cpu_ns / 1e9;
        let of_cpu = |ns: f64| if counted.cpu_ns > 0.0 { ns / counted.cpu_ns } else { 0.0 };
        let each =
            |count: f64| if counted.transactions > 0 { count / counted.transactions as f64 } else { 0.0 };
        Outcome {
            seconds,
            transactions: counted.transactions,
            throughput_per_s: rate(counted.transactions),
            mean_ms: counted.latency.mean() / 1e6,
            p95_ms: counted.latency.quantile(0.95) / 1e6,
            cpus: cpu_s / seconds,
            cpu_us_per_transaction: each(counted.cpu_ns / 1e3),
            spin_share: of_cpu(counted.spin_ns + counted.commit_spin_ns),
            commit_spin_share: of_cpu(counted.commit_spin_ns),
            sleeps_per_transaction: each(counted.sleeps as f64),
            switches_per_s: rate(counted.switches),
            throttled_share: counted.throttled_ns as f64 / 1e9 / seconds,
            latch_operations: counted.operations,
            events,
        }
    }
}

fn idle_word(cpus: u32, word: u32) -> u64 {
    let left = cpus - word * 64;
    if left >= 64 { u64::MAX } else { (1 << left) - 1 }
}
