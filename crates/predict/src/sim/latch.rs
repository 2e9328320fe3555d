//! Latches: the spin, the yield, the wait array and its mutex, the sleep, and who is woken.
//!
//! As `TTASEventMutex::spin_and_try_lock` and `wait` (ib0mutex.h) have it; `mutex_spin_wait` of 5.5 is the same but for the
//! search of a free place in the array. A thread that takes the latch while it has a place in the array frees that place
//! before it goes on: under the array's mutex, and with the latch held.

use std::collections::VecDeque;

use super::{Event, LATCH, Phase, Sim};

#[derive(Debug, Default)]
pub(super) struct LatchState {
    taken: bool,
    /// CPU of the last holder, from 1; 0 before the first.
    last_cpu: u32,
    turn: u32,
    /// Threads that spin on it and have a CPU.
    spinners: Vec<u32>,
    sleepers: VecDeque<u32>,
    /// Somebody sleeps or is about to.
    flag: bool,
    /// How often its event was set.
    signals: u32,
    /// The event's mutex.
    event_taken: bool,
    event_waiting: VecDeque<u32>,
}

/// A part of the wait array.
#[derive(Debug, Default)]
pub(super) struct Array {
    taken: bool,
    waiting: VecDeque<u32>,
    places: u32,
}

impl Sim<'_> {
    /// Which latch of a class a thread's transaction uses.
    pub(super) fn latch_of(&self, at: u32, class: u8) -> usize {
        let class = usize::from(class);
        let begin = self.classes[class];
        let end = self.classes.get(class + 1).copied().unwrap_or(self.latches.len());
        begin + self.threads[at as usize].count as usize % (end - begin)
    }

    /// Takes a latch that is free.
    pub(super) fn take(&mut self, at: u32, latch: usize) -> bool {
        if self.latches[latch].taken {
            return false;
        }
        let cpu = self.threads[at as usize].cpu.expect("only a thread with a CPU takes a latch");
        let moved = match self.latches[latch].last_cpu {
            0 => 0.0,
            last => self.move_line(last - 1, cpu),
        };
        let state = &mut self.latches[latch];
        state.taken = true;
        state.last_cpu = cpu + 1;
        state.turn = state.turn.wrapping_add(1);
        self.threads[at as usize].debt += moved * (1.0 + self.world.work.lines);
        true
    }

    /// To move a cache line between two CPUs, nanoseconds.
    fn move_line(&self, from: u32, to: u32) -> f64 {
        let hardware = &self.world.hardware;
        let node = |cpu: u32| cpu * hardware.numa_nodes.max(1) / hardware.cpus.max(1);
        match from == to {
            true => 0.0,
            false if node(from) == node(to) => hardware.line_ns,
            false => hardware.remote_line_ns,
        }
    }

    /// The latch is taken: spins.
    pub(super) fn contend(&mut self, at: u32, latch: usize) {
        let spin = &self.world.latch;
        let round = spin.round_ns(self.world.hardware.pause_ns);
        // The sum of many rounds, each of them uniform: nearly its mean.
        let noise = if spin.rounds > 0.0 { (self.rng.unit() - 0.5) / spin.rounds.sqrt() } else { 0.0 };
        let thread = &mut self.threads[at as usize];
        thread.latch = latch;
        thread.phase = Phase::Spin;
        let time = round * spin.rounds * (1.0 + noise);
        if spin.rounds < 1.0 {
            self.spun_in_vain_at_once(at);
            return;
        }
        self.add_spinner(at);
        self.work(at, time);
    }

    pub(super) fn add_spinner(&mut self, at: u32) {
        self.spinning += 1;
        let thread = &mut self.threads[at as usize];
        let spinners = &mut self.latches[thread.latch].spinners;
        thread.spinner_at = spinners.len();
        spinners.push(at);
    }

    pub(super) fn remove_spinner(&mut self, at: u32) {
        self.spinning -= 1;
        let (latch, place) = {
            let thread = &self.threads[at as usize];
            (thread.latch, thread.spinner_at)
        };
        let spinners = &mut self.latches[latch].spinners;
        spinners.swap_remove(place);
        if let Some(&moved) = spinners.get(place) {
            self.threads[moved as usize].spinner_at = place;
        }
    }

    /// All rounds are over.
    pub(super) fn spun_in_vain(&mut self, at: u32) {
        self.remove_spinner(at);
        self.spun_in_vain_at_once(at);
    }

    fn spun_in_vain_at_once(&mut self, at: u32) {
        let thread = &mut self.threads[at as usize];
        thread.left = 0;
        match self.world.latch.yields {
            true => {
                thread.phase = Phase::Yielded;
                let cpu = thread.cpu.expect("it worked") as usize;
                if self.cpus[cpu].ready_count == 0 {
                    self.look_again(at);
                } else {
                    self.requeue(at);
                }
            }
            false => self.look_again(at),
        }
    }

    /// Looks once more after the yield.
    pub(super) fn look_again(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        if self.take(at, latch) {
            self.taken(at);
            return;
        }
        self.threads[at as usize].phase = Phase::Reserve(false);
        if self.arrays.is_empty() {
            self.sleep(at);
        } else {
            self.enter_array(at);
        }
    }

    /// It has the latch and goes on with its transaction.
    pub(super) fn taken(&mut self, at: u32) {
        let next = self.after(self.threads[at as usize].step + 1);
        let thread = &mut self.threads[at as usize];
        thread.phase = Phase::Steps;
        thread.step = next;
        thread.left = 0;
        self.take_steps(at);
    }

    fn array_of(&self, at: u32) -> usize {
        at as usize % self.arrays.len()
    }

    /// Wants the mutex of its part of the array; sleeps where another thread has it.
    pub(super) fn enter_array(&mut self, at: u32) {
        let array = self.array_of(at);
        let spin = &self.world.latch;
        let state = &mut self.arrays[array];
        if state.taken {
            state.waiting.push_back(at);
            self.block(at);
            return;
        }
        state.taken = true;
        let scan = match self.threads[at as usize].phase {
            Phase::Reserve(_) => spin.array_scan_ns * f64::from(state.places),
            _ => 0.0,
        };
        let ns = spin.array_ns + scan;
        let thread = &mut self.threads[at as usize];
        match &mut thread.phase {
            Phase::Reserve(inside) | Phase::Free(_, inside) => *inside = true,
            other => unreachable!("{other:?} is not in the array"),
        }
        self.work(at, ns);
    }

    fn leave_array(&mut self, at: u32) {
        let array = self.array_of(at);
        let state = &mut self.arrays[array];
        state.taken = false;
        if let Some(next) = state.waiting.pop_front() {
            self.unblock(at, next);
        }
    }

    /// It has a place in the array: tries the latch once more, then sleeps.
    pub(super) fn reserved(&mut self, at: u32) {
        let array = self.array_of(at);
        self.arrays[array].places += 1;
        self.leave_array(at);
        let latch = self.threads[at as usize].latch;
        self.latches[latch].flag = true;
        self.threads[at as usize].signals = self.latches[latch].signals;
        if self.take(at, latch) {
            self.threads[at as usize].phase = Phase::Free(true, false);
            self.enter_array(at);
            return;
        }
        self.threads[at as usize].phase = Phase::Sleep(false);
        self.enter_event(at);
    }

    /// Wants the mutex of its latch's event; sleeps where another thread has it.
    pub(super) fn enter_event(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        let state = &mut self.latches[latch];
        if state.event_taken {
            state.event_waiting.push_back(at);
            self.block(at);
            return;
        }
        state.event_taken = true;
        let mut ns = self.world.latch.event_ns;
        let thread = &mut self.threads[at as usize];
        match &mut thread.phase {
            Phase::Signal(inside) => {
                *inside = true;
                ns += self.world.latch.event_each_ns * state.sleepers.len() as f64;
            }
            Phase::Sleep(inside) | Phase::Return(inside) => *inside = true,
            other => unreachable!("{other:?} is not at an event"),
        }
        self.work(at, ns);
    }

    fn leave_event(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        let state = &mut self.latches[latch];
        state.event_taken = false;
        if let Some(next) = state.event_waiting.pop_front() {
            self.unblock(at, next);
        }
    }

    /// The event is set: those who sleep come to its mutex, one after the other.
    pub(super) fn signalled(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        let state = &mut self.latches[latch];
        state.signals = state.signals.wrapping_add(1);
        while let Some(next) = state.sleepers.pop_front() {
            self.threads[next as usize].phase = Phase::Return(false);
            state.event_waiting.push_back(next);
        }
        self.leave_event(at);
        self.threads[at as usize].phase = Phase::Steps;
        self.take_steps(at);
    }

    /// It sleeps, unless the event was set since it looked.
    pub(super) fn slept(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        self.leave_event(at);
        if self.latches[latch].signals != self.threads[at as usize].signals {
            self.threads[at as usize].phase = Phase::Free(false, false);
            self.enter_array(at);
            return;
        }
        self.counted.sleeps += 1;
        self.latches[latch].sleepers.push_back(at);
        self.threads[at as usize].left = 0;
        self.block(at);
    }

    /// It has come back.
    pub(super) fn returned(&mut self, at: u32) {
        self.leave_event(at);
        self.threads[at as usize].phase = Phase::Free(false, false);
        self.enter_array(at);
    }

    fn sleep(&mut self, at: u32) {
        self.counted.sleeps += 1;
        let thread = &mut self.threads[at as usize];
        thread.phase = Phase::Asleep;
        thread.left = 0;
        let latch = thread.latch;
        self.latches[latch].sleepers.push_back(at);
        self.block(at);
    }

    /// Leaves its CPU until another thread wakes it.
    fn block(&mut self, at: u32) {
        self.asleep += 1;
        self.leave_cpu(at);
    }

    /// Wakes one that waits here; the waking thread pays.
    fn unblock(&mut self, waking: u32, at: u32) {
        self.asleep -= 1;
        self.threads[waking as usize].debt += self.world.hardware.wake_ns;
        self.wake(at);
    }

    /// Its place is free again.
    pub(super) fn freed(&mut self, at: u32, has_latch: bool) {
        let array = self.array_of(at);
        self.arrays[array].places -= 1;
        self.leave_array(at);
        if has_latch {
            self.taken(at);
        } else {
            self.begin_again(at);
        }
    }

    /// Woken: tries, and spins as at first.
    pub(super) fn begin_again(&mut self, at: u32) {
        let latch = self.threads[at as usize].latch;
        if self.take(at, latch) {
            self.taken(at);
        } else {
            self.contend(at, latch);
        }
    }

    /// Gives a latch back and wakes those who sleep for it; true where that takes time of its own.
    pub(super) fn release(&mut self, at: u32, latch: usize) -> bool {
        let state = &mut self.latches[latch];
        state.taken = false;
        state.turn = state.turn.wrapping_add(1);
        if !state.spinners.is_empty() {
            // The line comes back from those who look at it.
            self.threads[at as usize].debt += self.world.hardware.line_ns;
        }
        self.announce(latch);
        let state = &mut self.latches[latch];
        if self.world.latch.herd {
            if !std::mem::take(&mut state.flag) {
                return false;
            }
            let thread = &mut self.threads[at as usize];
            thread.latch = latch;
            thread.phase = Phase::Signal(false);
            self.enter_event(at);
            return true;
        }
        if let Some(next) = state.sleepers.pop_front() {
            self.unblock(at, next);
        }
        false
    }

    /// When the first of those who spin will see that the latch is free.
    pub(super) fn announce(&mut self, latch: usize) {
        let state = &self.latches[latch];
        if state.taken || state.spinners.is_empty() {
            return;
        }
        let round = self.world.latch.round_ns(self.world.hardware.pause_ns);
        let first = 1.0 - (1.0 - self.rng.unit()).powf(1.0 / state.spinners.len() as f64);
        let at = self.now + (round * first) as u64;
        self.events.push(Event { at, to: LATCH + latch as u32, turn: state.turn });
    }

    /// One of those who spin sees it.
    pub(super) fn notice(&mut self, latch: usize, turn: u32) {
        let state = &self.latches[latch];
        if state.turn != turn || state.taken || state.spinners.is_empty() {
            return;
        }
        let first = state.spinners[self.rng.below(state.spinners.len())];
        self.settle(first);
        self.remove_spinner(first);
        let taken = self.take(first, latch);
        debug_assert!(taken, "it was free");
        self.taken(first);
    }
}
