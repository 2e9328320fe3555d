//! The redo log: commits wait for it, in a group with a leader (`MYSQL_BIN_LOG::ordered_commit`) or each for itself, and
//! spin first where the server's own look at its CPU use says so (`log_max_spins_when_waiting_in_user_thread`).

use super::{Event, LEAD_STEPS, Phase, Sim};

#[derive(Debug, Default)]
pub(super) struct Commits {
    /// Commits that came while a group was led.
    queue: Vec<u32>,
    /// Who leads the group that is written now; the next one does not begin before that has passed on (`LOCK_log`).
    leader: Option<u32>,
    /// Groups that are not done yet, each with its leader.
    groups: Vec<(u32, Vec<u32>)>,
    /// The log's threads: the writer, the flusher and the notifier.
    stages: [Stage; STAGES],
    /// The server's look at its own CPU use.
    looked_at: u64,
    pub(super) cpu_at_look: f64,
    pct_of_one_cpu: f64,
    /// Requests to write the log, at that look and since the beginning.
    requests_at_look: u64,
    requests: u64,
    /// They come more often than once a millisecond.
    frequent: bool,
    /// Mean time of a flush, nanoseconds.
    flush_ns: f64,
}

/// One of the log's threads.
#[derive(Debug, Default)]
struct Stage {
    /// Commits that wait for it, and those that it works for.
    waiting: Vec<u32>,
    under_way: Vec<u32>,
    awake: bool,
}

/// The log's threads, each woken by the one before it: the writer, the flusher, the notifier.
pub(super) const STAGES: usize = 3;
const FLUSHER: usize = 1;

/// How often the server looks at its CPU use: each 100 ms or more (`srv_update_cpu_usage`); more often at first, so that a
/// short simulation has it.
const LOOK_NS: u64 = 100_000_000;
/// Requests that come more often let the log's threads spin (`log_write_to_file_requests_are_frequent`).
const FREQUENT_NS: u64 = 1_000_000;

impl Sim<'_> {
    /// A commit has come.
    pub(super) fn commit(&mut self, at: u32) {
        let Some(redo) = &self.world.work.redo else {
            // Nothing waits for a log: on with the transaction.
            let next = self.after(self.threads[at as usize].step + 1 + LEAD_STEPS);
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
        let group = std::mem::take(&mut self.commits.queue);
        self.commits.groups.push((at, group));
        self.wait_for_log(at);
    }

    /// The work of a group's leader in one of its two stages, nanoseconds; of a commit that waits for itself, its own.
    pub(super) fn leader_work(&self, at: u32) -> f64 {
        let Some(redo) = &self.world.work.redo else { return 0.0 };
        let many = self.commits.groups.iter().find(|group| group.0 == at).map_or(1, |group| group.1.len());
        redo.leader_ns * many as f64 / 2.0
    }

    /// The group is in the binary log: the next one may begin, while this one's leader commits it in the engine.
    pub(super) fn passed_on(&mut self, at: u32) {
        if self.commits.leader != Some(at) {
            return;
        }
        self.commits.leader = self.commits.queue.first().copied();
        if let Some(next) = self.commits.leader {
            self.threads[next as usize].phase = Phase::Lead;
            self.threads[at as usize].debt += self.world.hardware.wake_ns;
            self.wake(next);
        }
    }

    /// The group is done: its members go on.
    pub(super) fn led(&mut self, at: u32) {
        let Some(place) = self.commits.groups.iter().position(|group| group.0 == at) else { return };
        let (_, members) = self.commits.groups.swap_remove(place);
        let next_step = self.threads[at as usize].step;
        for member in members {
            if member != at {
                self.threads[member as usize].step = next_step;
                self.threads[at as usize].debt += self.world.hardware.wake_ns;
                self.wake(member);
            }
        }
    }

    /// Spins or sleeps until the log is on disk.
    fn wait_for_log(&mut self, at: u32) {
        let next = self.threads[at as usize].step + 1;
        self.threads[at as usize].step = next;
        self.commits.requests += 1;
        self.look_at_cpu_use();
        self.hand_on(at, 0, vec![at]);
        let limit = self.commit_spin_ns();
        if limit > 0.0 {
            self.threads[at as usize].phase = Phase::CommitSpin;
            self.spinning += 1;
            self.work(at, limit);
        } else {
            self.leave_cpu(at);
        }
    }

    /// The server looks at its own CPU use.
    fn look_at_cpu_use(&mut self) {
        let looked_at = self.commits.looked_at;
        if looked_at > 0 && self.now < looked_at + LOOK_NS.min(looked_at) {
            return;
        }
        self.settle_all();
        let passed = (self.now - looked_at).max(1);
        let used = (self.counted.cpu_ns - self.commits.cpu_at_look).max(0.0);
        let commits = &mut self.commits;
        commits.pct_of_one_cpu = 100.0 * used / passed as f64 * self.world.work.user_share;
        commits.frequent = (commits.requests - commits.requests_at_look) * FREQUENT_NS > passed;
        commits.requests_at_look = commits.requests;
        commits.looked_at = self.now.max(1);
        commits.cpu_at_look = self.counted.cpu_ns;
    }

    /// For how long a commit spins now.
    fn commit_spin_ns(&self) -> f64 {
        let world = self.world;
        let Some(spin) = world.work.redo.as_ref().and_then(|redo| redo.spin.as_ref()) else { return 0.0 };
        let user = self.commits.pct_of_one_cpu;
        let pct = user / f64::from(world.hardware.cpus);
        if user < spin.abs_lwm_pct || pct >= spin.pct_hwm || self.commits.flush_ns >= spin.flush_hwm_ns {
            return 0.0;
        }
        let half = spin.pct_hwm / 2.0;
        let times = if pct >= half { 1.0 } else { 1.0 + 9.0 * (half - pct) / half };
        spin.pauses * times * world.hardware.pause_ns
    }

    /// For how long one of the log's threads spins for its next work (`Log_thread_waiting`): by the low-water mark and by how
    /// often there is some, not by the high-water mark.
    fn log_spin_ns(&self) -> f64 {
        let redo = self.world.work.redo.as_ref();
        redo.and_then(|redo| redo.spin.as_ref())
            .filter(|spin| self.commits.frequent && self.commits.pct_of_one_cpu >= spin.abs_lwm_pct)
            .map_or(0.0, |spin| spin.log_thread_pauses * self.world.hardware.pause_ns)
    }

    /// It has spun in vain: sleeps.
    pub(super) fn commit_spun(&mut self, at: u32) {
        self.spinning -= 1;
        self.threads[at as usize].phase = Phase::Steps;
        if let Some(stage) = self.stage(at) {
            self.commits.stages[stage].awake = false;
        }
        self.leave_cpu(at);
    }

    /// Which of the log's threads this is.
    fn stage(&self, at: u32) -> Option<usize> {
        (at as usize + STAGES).checked_sub(self.threads.len())
    }

    /// Commits become the work of one of the log's threads.
    fn hand_on(&mut self, from: u32, stage: usize, commits: Vec<u32>) {
        let to = (self.threads.len() - STAGES + stage) as u32;
        let next = &mut self.commits.stages[stage];
        next.waiting.extend(commits);
        if !std::mem::replace(&mut next.awake, true) {
            self.threads[from as usize].debt += self.world.hardware.wake_ns;
            self.wake(to);
        } else if self.threads[to as usize].phase == Phase::LogSpin {
            self.seen(to);
        }
    }

    /// A thread that spins sees what it waits for: it goes on, at once or when it has a CPU again.
    fn seen(&mut self, at: u32) {
        let runs = self.threads[at as usize].cpu.is_some();
        if runs {
            self.settle(at);
            self.spinning -= 1;
        }
        let thread = &mut self.threads[at as usize];
        thread.phase = Phase::Steps;
        thread.left = 0;
        if runs {
            self.take_steps(at);
        }
    }

    /// One of the log's threads begins with what has come; it spins or sleeps where nothing has.
    pub(super) fn log_begins(&mut self, at: u32) -> bool {
        let stage = self.stage(at).expect("it is one of the log's threads");
        if self.commits.stages[stage].waiting.is_empty() {
            let spin = self.log_spin_ns();
            if spin > 0.0 {
                self.threads[at as usize].phase = Phase::LogSpin;
                self.spinning += 1;
                self.work(at, spin);
            } else {
                self.commits.stages[stage].awake = false;
                self.leave_cpu(at);
            }
            return false;
        }
        let stage = &mut self.commits.stages[stage];
        stage.under_way = std::mem::take(&mut stage.waiting);
        true
    }

    /// The device works for the flusher; true where that takes time.
    pub(super) fn log_flushes(&mut self, at: u32) -> bool {
        let Some(redo) = &self.world.work.redo else { return false };
        if self.stage(at) != Some(FLUSHER) || redo.flush_ns <= 0.0 {
            return false;
        }
        let time = self.rng.time(redo.flush_ns, redo.flush_spread) as u64;
        // The call alone, not the wait for it. That a 32nd of it counts is assumed.
        let mean = self.commits.flush_ns;
        self.commits.flush_ns = if mean == 0.0 { time as f64 } else { mean + (time as f64 - mean) / 32.0 };
        self.leave_cpu(at);
        let turn = self.threads[at as usize].turn;
        self.events.push(Event { at: self.now + time.max(1), to: at, turn });
        true
    }

    /// One of the log's threads has done its part. What is on disk is seen by those who spin; the notifier wakes the others.
    pub(super) fn log_done(&mut self, at: u32) {
        let stage = self.stage(at).expect("it is one of the log's threads");
        let mut commits = std::mem::take(&mut self.commits.stages[stage].under_way);
        if stage < FLUSHER {
            self.hand_on(at, stage + 1, commits);
            return;
        }
        if stage == FLUSHER {
            commits.retain(|waiting| {
                let spins = self.threads[*waiting as usize].phase == Phase::CommitSpin;
                if spins {
                    self.seen(*waiting);
                }
                !spins
            });
            if !commits.is_empty() {
                self.hand_on(at, stage + 1, commits);
            }
            return;
        }
        for waiting in commits {
            if self.threads[waiting as usize].phase == Phase::CommitSpin {
                self.seen(waiting);
            } else {
                self.threads[at as usize].debt += self.world.hardware.wake_ns;
                self.wake(waiting);
            }
        }
    }
}
