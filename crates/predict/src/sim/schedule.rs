//! CPUs and the run queue: first come, first served; a thread whose slice is over goes to its end where others are ready.

use super::{Event, Phase, Sim};

impl Sim<'_> {
    /// A thread that was off its CPU is ready.
    pub(super) fn wake(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        debug_assert!(thread.cpu.is_none(), "it has a CPU");
        thread.turn = thread.turn.wrapping_add(1);
        if thread.phase == Phase::Steps && thread.began == 0 && thread.step < self.log_steps {
            self.begin_transaction(at);
        }
        match self.idle_cpu(at) {
            Some(cpu) if !self.bandwidth.throttled => {
                self.threads[at as usize].debt += self.world.hardware.idle_wake_ns;
                self.give(cpu, at);
            }
            _ => self.ready.push_back(at),
        }
    }

    /// Its last CPU where that is idle, or the first one that is.
    fn idle_cpu(&self, at: u32) -> Option<u32> {
        let last = self.threads[at as usize].last_cpu;
        if self.idle[last as usize / 64] >> (last % 64) & 1 == 1 {
            return Some(last);
        }
        let word = self.idle.iter().position(|word| *word != 0)?;
        Some(word as u32 * 64 + self.idle[word].trailing_zeros())
    }

    /// Gives an idle CPU to a thread that is ready.
    fn give(&mut self, cpu: u32, at: u32) {
        self.account();
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
            thread.debt += self.world.hardware.switch_ns;
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
        if thread.phase == Phase::CommitSpin {
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
        if self.bandwidth.throttled {
            return;
        }
        let end = (self.now + thread.left).min(self.cpus[cpu as usize].slice_end.max(self.now + 1));
        self.events.push(Event { at: end, to: at, turn: thread.turn });
    }

    /// Counts what a thread did until now.
    pub(super) fn settle(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        let worked = match self.bandwidth.throttled {
            true => 0,
            false => self.now - thread.since,
        };
        thread.since = self.now;
        thread.left = thread.left.saturating_sub(worked);
        self.counted.cpu_ns += worked as f64;
        match thread.phase {
            Phase::Spin => self.counted.spin_ns += worked as f64,
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
        if self.ready.is_empty() {
            let cpu = self.threads[at as usize].cpu.expect("it worked");
            self.cpus[cpu as usize].slice_end = self.now + self.world.hardware.slice_ns as u64;
            self.arm(at);
            return;
        }
        self.requeue(at);
    }

    /// Gives up its CPU and stays ready.
    pub(super) fn requeue(&mut self, at: u32) {
        match self.threads[at as usize].phase {
            Phase::Spin => self.remove_spinner(at),
            Phase::CommitSpin => self.spinning -= 1,
            _ => {}
        }
        self.ready.push_back(at);
        self.leave_cpu(at);
    }

    /// Leaves its CPU to the next thread that is ready.
    pub(super) fn leave_cpu(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        let cpu = thread.cpu.take().expect("it has a CPU");
        thread.turn = thread.turn.wrapping_add(1);
        self.account();
        self.busy -= 1;
        self.idle[cpu as usize / 64] |= 1 << (cpu % 64);
        self.cpus[cpu as usize].thread = None;
        if !self.bandwidth.throttled
            && let Some(next) = self.ready.pop_front()
        {
            self.give(cpu, next);
        }
    }

    /// Gives idle CPUs to threads that are ready.
    pub(super) fn fill_cpus(&mut self) {
        while let Some(&next) = self.ready.front()
            && let Some(cpu) = self.idle_cpu(next)
        {
            self.ready.pop_front();
            self.give(cpu, next);
        }
    }
}
