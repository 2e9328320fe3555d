//! CPUs and their run queues, as CFS has them (kernel/sched/fair.c): a thread that is woken gets its last CPU or one that
//! idles, and waits for its last one where none does; a CPU whose queue is empty takes a thread of the longest one. The
//! thread that had the least CPU time is next.

use super::{Event, Phase, Sim};

/// How often something else takes the CPU of a thread while it holds a latch: the kernel's own threads, other processes.
/// Assumed. What becomes of the server hangs less on how often that is than on whether it gets out of the crowd behind it.
const HOLDER_PREEMPTED_EVERY_NS: u64 = 100_000_000;

impl Sim<'_> {
    /// A thread that was off its CPU is ready.
    pub(super) fn wake(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        debug_assert!(thread.cpu.is_none(), "it has a CPU");
        thread.turn = thread.turn.wrapping_add(1);
        if thread.phase == Phase::Steps && thread.began == 0 && thread.step < self.log_steps {
            self.begin_transaction(at);
        }
        let idle = self.idle_cpu(at);
        if let Some(cpu) = idle {
            self.migrate(at, cpu);
        }
        // A thread that slept has no more of a claim than half a latency (`place_entity`).
        let credit_ns = self.world.hardware.sleeper_credit_ns as u64;
        let thread = &mut self.threads[at as usize];
        let least = self.cpus[thread.last_cpu as usize].least_run;
        thread.run_ns = thread.run_ns.max(least.saturating_sub(credit_ns));
        match idle {
            Some(cpu) if !self.is_stopped(cpu) => {
                self.threads[at as usize].debt += self.world.hardware.idle_wake_ns;
                self.give(cpu, at);
            }
            Some(_) => self.make_ready(at),
            None => {
                self.make_ready(at);
                self.preempt_for(at);
            }
        }
    }

    /// Another CPU than its last one: its claim there is what it was here (`migrate_task_rq_fair`).
    fn migrate(&mut self, at: u32, cpu: u32) {
        let thread = &mut self.threads[at as usize];
        let from = self.cpus[thread.last_cpu as usize].least_run;
        let to = self.cpus[cpu as usize].least_run;
        thread.run_ns = (thread.run_ns + to).saturating_sub(from);
        thread.last_cpu = cpu;
    }

    /// Waits in the run queue of its last CPU.
    pub(super) fn make_ready(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        thread.ready = true;
        thread.ready_turn = thread.ready_turn.wrapping_add(1);
        let place = &mut self.cpus[thread.last_cpu as usize];
        place.ready.push(Event { at: thread.run_ns, to: at, turn: thread.ready_turn });
        place.ready_count += 1;
        self.ready_count += 1;
    }

    fn no_longer_ready(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        thread.ready = false;
        self.cpus[thread.last_cpu as usize].ready_count -= 1;
        self.ready_count -= 1;
    }

    /// The next thread of a CPU's run queue, or of the longest one where its own is empty (`newidle_balance`).
    fn next_ready(&mut self, cpu: usize) -> Option<u32> {
        if self.ready_count == 0 {
            return None;
        }
        let from = match self.cpus[cpu].ready_count {
            0 => (0..self.cpus.len())
                .filter(|other| !self.is_stopped(*other as u32))
                .max_by_key(|other| self.cpus[*other].ready_count)?,
            _ => cpu,
        };
        loop {
            let next = self.cpus[from].ready.pop()?;
            let thread = &self.threads[next.to as usize];
            if thread.ready && thread.ready_turn == next.turn {
                self.no_longer_ready(next.to);
                if from != cpu {
                    self.migrate(next.to, cpu as u32);
                }
                let place = &mut self.cpus[cpu];
                place.least_run = place.least_run.max(self.threads[next.to as usize].run_ns);
                return Some(next.to);
            }
        }
    }

    /// A thread that was woken takes the CPU that it had from a thread that had much more CPU time
    /// (`check_preempt_wakeup`).
    fn preempt_for(&mut self, at: u32) {
        let woken = &self.threads[at as usize];
        let (cpu, run_ns) = (woken.last_cpu as usize, woken.run_ns);
        let Some(victim) = self.cpus[cpu].thread else { return };
        self.settle(victim);
        let had = self.threads[victim as usize].run_ns;
        if had.saturating_sub(run_ns) > self.world.hardware.wakeup_granularity_ns as u64 {
            self.cpus[cpu].slice_end = self.now;
            self.cpus[cpu].preempted = true;
        }
        self.arm(victim);
    }

    /// The holder of a latch loses its CPU in the middle of that time, where others wait for that CPU: they have had less.
    pub(super) fn preempt_holder(&mut self, at: u32, held_ns: f64) {
        self.next_preempted = self.now + HOLDER_PREEMPTED_EVERY_NS;
        let thread = &mut self.threads[at as usize];
        let place = &mut self.cpus[thread.cpu.expect("it holds a latch") as usize];
        place.slice_end = self.now + (held_ns / 2.0) as u64 + 1;
        thread.run_ns = thread.run_ns.max(place.least_run);
    }

    /// Its last CPU where that looks idle, or the first one that does; one that is stopped looks idle.
    fn idle_cpu(&self, at: u32) -> Option<u32> {
        let last = self.threads[at as usize].last_cpu;
        let looks_idle = |word: usize| self.idle[word] | self.stopped[word];
        if looks_idle(last as usize / 64) >> (last % 64) & 1 == 1 {
            return Some(last);
        }
        let word = (0..self.idle.len()).find(|word| looks_idle(*word) != 0)?;
        Some(word as u32 * 64 + looks_idle(word).trailing_zeros())
    }

    /// Gives an idle CPU to a thread that is ready.
    fn give(&mut self, cpu: u32, at: u32) {
        self.busy += 1;
        self.idle[cpu as usize / 64] &= !(1 << (cpu % 64));
        let place = &mut self.cpus[cpu as usize];
        place.thread = Some(at);
        place.slice_end = self.now + self.world.hardware.slice_ns as u64;
        let switched = place.last != at + 1;
        place.last = at + 1;
        self.counted.switches += u64::from(switched);
        let thread = &mut self.threads[at as usize];
        thread.cpu = Some(cpu);
        thread.last_cpu = cpu;
        if switched {
            let hardware = &self.world.hardware;
            thread.debt += hardware.switch_ns + hardware.refill_ns * f64::from(1 + place.ready_count).ln();
        }
        if thread.phase == Phase::Spin {
            // It looks at once.
            let latch = thread.latch;
            if self.take(at, latch) {
                self.taken(at);
            } else {
                self.add_spinner(at);
                self.work_left(at);
            }
            return;
        }
        if matches!(thread.phase, Phase::CommitSpin | Phase::LogSpin) {
            self.spinning += 1;
        }
        self.work_left(at);
    }

    /// Goes on with what was left, and pays what it owes first.
    fn work_left(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        thread.left = (thread.left + thread.debt as u64).max(1);
        thread.debt = 0.0;
        self.arm(at);
    }

    /// Its end, or that of its slice, becomes an event.
    pub(super) fn arm(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        let cpu = thread.cpu.expect("only a thread with a CPU works");
        thread.turn = thread.turn.wrapping_add(1);
        thread.since = self.now;
        let place = &self.cpus[cpu as usize];
        let mut end = (self.now + thread.left).min(place.slice_end.max(self.now + 1));
        if self.bandwidth.limits() {
            // Rounded up: the event must find nothing left.
            let lasts = (place.local_ns as f64 / self.world.work.server_share).ceil() as u64 + 1;
            end = end.min(self.now + lasts);
        }
        self.events.push(Event { at: end, to: at, turn: thread.turn });
    }

    /// Counts what a thread did until now.
    pub(super) fn settle(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        let worked = self.now - thread.since;
        if let Some(cpu) = thread.cpu {
            let place = &mut self.cpus[cpu as usize];
            let counted = (worked as f64 * self.world.work.server_share) as u64;
            place.local_ns = place.local_ns.saturating_sub(counted);
        }
        thread.since = self.now;
        thread.left = thread.left.saturating_sub(worked);
        thread.run_ns += worked;
        self.counted.cpu_ns += worked as f64;
        match thread.phase {
            Phase::Spin | Phase::LogSpin => self.counted.spin_ns += worked as f64,
            Phase::CommitSpin => self.counted.commit_spin_ns += worked as f64,
            _ => {}
        }
    }

    pub(super) fn settle_all(&mut self) {
        for cpu in 0..self.cpus.len() {
            if let Some(at) = self.cpus[cpu].thread {
                self.settle(at);
            }
        }
    }

    /// Another thread that is ready gets the CPU, where there is one.
    pub(super) fn end_of_slice(&mut self, at: u32) {
        let cpu = self.threads[at as usize].cpu.expect("it worked");
        let place = &mut self.cpus[cpu as usize];
        if place.ready_count == 0 {
            place.preempted = false;
            place.slice_end = self.now + self.world.hardware.slice_ns as u64;
            self.arm(at);
            return;
        }
        self.requeue(at);
    }

    /// Gives up its CPU and stays ready.
    pub(super) fn requeue(&mut self, at: u32) {
        match self.threads[at as usize].phase {
            Phase::Spin => self.remove_spinner(at),
            Phase::CommitSpin | Phase::LogSpin => self.spinning -= 1,
            _ => {}
        }
        self.settle(at);
        let cpu = self.threads[at as usize].cpu.expect("it has a CPU") as usize;
        let preempted = std::mem::take(&mut self.cpus[cpu].preempted);
        if !preempted {
            self.cpus[cpu].buddy = None;
        }
        self.make_ready(at);
        self.leave_cpu(at);
        if preempted {
            self.cpus[cpu].buddy = Some(at);
        }
    }

    /// Leaves its CPU to the next thread that is ready.
    pub(super) fn leave_cpu(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        let cpu = thread.cpu.take().expect("it has a CPU");
        thread.turn = thread.turn.wrapping_add(1);
        self.busy -= 1;
        self.idle[cpu as usize / 64] |= 1 << (cpu % 64);
        self.cpus[cpu as usize].thread = None;
        let buddy = self.cpus[cpu as usize].buddy.take().filter(|buddy| {
            let thread = &self.threads[*buddy as usize];
            thread.ready && thread.last_cpu == cpu
        });
        if let Some(buddy) = buddy {
            self.no_longer_ready(buddy);
            self.give(cpu, buddy);
        } else if let Some(next) = self.next_ready(cpu as usize) {
            self.give(cpu, next);
        } else {
            self.give_back(cpu as usize);
        }
    }

    /// Gives idle CPUs to threads that are ready.
    pub(super) fn fill_cpus(&mut self) {
        for cpu in 0..self.cpus.len() as u32 {
            let is_idle = self.idle[cpu as usize / 64] >> (cpu % 64) & 1 == 1;
            if is_idle && let Some(next) = self.next_ready(cpu as usize) {
                self.give(cpu, next);
            }
        }
    }
}
