//! The redo log: commits wait for it, in a group with a leader (`MYSQL_BIN_LOG::ordered_commit`) or each for itself, and
//! spin first where the server's own look at its CPU use says so (`log_max_spins_when_waiting_in_user_thread`).

use super::{Event, Phase, Sim};

#[derive(Debug, Default)]
pub(super) struct Commits {
    /// Commits that came while a group was led.
    queue: Vec<u32>,
    /// The group that is led, with its leader.
    group: Vec<u32>,
    leader: Option<u32>,
    /// Threads that wait for the next write, and for the one that is under way.
    waiting: Vec<u32>,
    under_way: Vec<u32>,
    log_sleeps: bool,
    /// The server's look at its own CPU use.
    looked_at: u64,
    pub(super) cpu_at_look: f64,
    pct_of_one_cpu: f64,
    /// Mean time of a flush, nanoseconds.
    flush_ns: f64,
}

/// How often the server looks at its CPU use: each 100 ms or more (`srv_update_cpu_usage`).
const LOOK_NS: u64 = 100_000_000;

impl Commits {
    pub(super) fn new() -> Self {
        Self { log_sleeps: true, ..Self::default() }
    }
}

impl Sim<'_> {
    /// A commit has come.
    pub(super) fn commit(&mut self, at: u32) {
        let Some(redo) = &self.world.work.redo else {
            // Nothing waits for a log: on with the transaction.
            let next = self.after(self.threads[at as usize].step + 3);
            self.threads[at as usize].step = next;
            self.work(at, 0.0);
            return;
        };
        if !redo.group {
            self.wait_for_log(at);
            return;
        }
        self.commits.queue.push(at);
        if self.commits.leader.is_some() {
            self.leave_cpu(at);
            return;
        }
        self.lead(at);
    }

    /// Takes all that have come as its group.
    pub(super) fn lead(&mut self, at: u32) {
        self.threads[at as usize].phase = Phase::Steps;
        self.commits.leader = Some(at);
        self.commits.group = std::mem::take(&mut self.commits.queue);
        self.wait_for_log(at);
    }

    /// The work of a group's leader, nanoseconds; of a commit that waits for itself, nothing.
    pub(super) fn leader_work(&self) -> f64 {
        match &self.world.work.redo {
            Some(redo) if redo.group => redo.leader_ns * self.commits.group.len() as f64,
            Some(redo) => redo.leader_ns,
            None => 0.0,
        }
    }

    /// The group is done: its members go on, and the next one that waits leads.
    pub(super) fn led(&mut self, at: u32) {
        if self.commits.leader != Some(at) {
            return;
        }
        let next_step = self.threads[at as usize].step;
        for member in std::mem::take(&mut self.commits.group) {
            if member != at {
                self.threads[member as usize].step = next_step;
                self.threads[at as usize].debt += self.world.hardware.wake_ns;
                self.wake(member);
            }
        }
        self.commits.leader = None;
        if let Some(&next) = self.commits.queue.first() {
            self.commits.leader = Some(next);
            self.threads[next as usize].phase = Phase::Lead;
            self.threads[at as usize].debt += self.world.hardware.wake_ns;
            self.wake(next);
        }
    }

    /// Spins or sleeps until the log is on disk.
    fn wait_for_log(&mut self, at: u32) {
        let next = self.threads[at as usize].step + 1;
        self.threads[at as usize].step = next;
        self.commits.waiting.push(at);
        if self.commits.log_sleeps {
            self.commits.log_sleeps = false;
            self.threads[at as usize].debt += self.world.hardware.wake_ns;
            let log = self.threads.len() as u32 - 1;
            self.wake(log);
        }
        let limit = self.commit_spin_ns();
        if limit > 0.0 {
            self.threads[at as usize].phase = Phase::CommitSpin;
            self.spinning += 1;
            self.work(at, limit);
        } else {
            self.leave_cpu(at);
        }
    }

    /// For how long a commit spins now.
    fn commit_spin_ns(&mut self) -> f64 {
        let world = self.world;
        let Some(spin) = world.work.redo.as_ref().and_then(|redo| redo.spin.as_ref()) else { return 0.0 };
        if self.now >= self.commits.looked_at + LOOK_NS || self.commits.looked_at == 0 {
            self.settle_all();
            let passed = (self.now - self.commits.looked_at).max(1) as f64;
            let used = (self.counted.cpu_ns - self.commits.cpu_at_look).max(0.0);
            self.commits.pct_of_one_cpu = 100.0 * used / passed * world.work.user_share;
            self.commits.looked_at = self.now.max(1);
            self.commits.cpu_at_look = self.counted.cpu_ns;
        }
        let user = self.commits.pct_of_one_cpu;
        let pct = user / f64::from(world.hardware.cpus);
        if user < spin.abs_lwm_pct || pct >= spin.pct_hwm || self.commits.flush_ns >= spin.flush_hwm_ns {
            return 0.0;
        }
        let half = spin.pct_hwm / 2.0;
        let times = if pct >= half { 1.0 } else { 1.0 + 9.0 * (half - pct) / half };
        spin.pauses * times * world.hardware.pause_ns
    }

    /// It has spun in vain: sleeps.
    pub(super) fn commit_spun(&mut self, at: u32) {
        self.spinning -= 1;
        self.threads[at as usize].phase = Phase::Steps;
        self.leave_cpu(at);
    }

    /// The log's thread begins a write where somebody waits for one; sleeps otherwise.
    pub(super) fn log_begins(&mut self, at: u32) -> bool {
        if self.commits.waiting.is_empty() {
            self.commits.log_sleeps = true;
            self.leave_cpu(at);
            return false;
        }
        self.commits.under_way = std::mem::take(&mut self.commits.waiting);
        true
    }

    /// The device works.
    pub(super) fn log_writes(&mut self, at: u32) {
        let Some(redo) = &self.world.work.redo else { return };
        let time = self.rng.time(redo.flush_ns, redo.flush_spread) as u64;
        // The call alone, not the wait for it. That a 32nd of it counts is assumed.
        let mean = self.commits.flush_ns;
        self.commits.flush_ns = if mean == 0.0 { time as f64 } else { mean + (time as f64 - mean) / 32.0 };
        self.leave_cpu(at);
        let turn = self.threads[at as usize].turn;
        self.events.push(Event { at: self.now + time.max(1), to: at, turn });
    }

    /// The log is on disk: those who wait for it go on.
    pub(super) fn log_written(&mut self, at: u32) {
        for waiting in std::mem::take(&mut self.commits.under_way) {
            let thread = &self.threads[waiting as usize];
            match (thread.phase, thread.cpu) {
                (Phase::CommitSpin, Some(_)) => {
                    self.settle(waiting);
                    self.spinning -= 1;
                    let thread = &mut self.threads[waiting as usize];
                    thread.phase = Phase::Steps;
                    thread.left = 0;
                    self.take_steps(waiting);
                }
                // Ready, and no longer spinning: it goes on when it has a CPU.
                (Phase::CommitSpin, None) => {
                    let thread = &mut self.threads[waiting as usize];
                    thread.phase = Phase::Steps;
                    thread.left = 0;
                }
                _ => {
                    self.threads[at as usize].debt += self.world.hardware.wake_ns;
                    self.wake(waiting);
                }
            }
        }
    }
}
