//! CFS bandwidth control (kernel/sched/fair.c): CPUs take the period's quota in slices. A CPU whose slice is used up while
//! nothing is left stops with all that waits on it until the next period, or until other CPUs give back what they do not
//! need; meanwhile CPUs that have some of theirs left go on. A thread that is woken may be put on a CPU that is stopped:
//! it looks idle.

use crate::world::Hardware;

use super::{Event, PERIOD, Phase, SLACK, Sim};

/// What a CPU takes at a time (`sched_cfs_bandwidth_slice_us`), and keeps while it idles (`min_cfs_rq_runtime`).
const SLICE_NS: u64 = 5_000_000;
const KEPT_NS: u64 = 1_000_000;
/// Until what was given back is given to others (`cfs_bandwidth_slack_period`).
const SLACK_NS: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    /// CPU time of a period, nanoseconds; none without a quota.
    quota_ns: Option<u64>,
    period_ns: u64,
    /// What no CPU has taken yet.
    pool_ns: u64,
    slack_pending: bool,
    stopped_since: Option<u64>,
}

impl Bandwidth {
    pub(super) fn new(hardware: &Hardware) -> Self {
        let quota_ns = hardware.quota_cpus.filter(|cpus| *cpus < f64::from(hardware.cpus));
        Self {
            quota_ns: quota_ns.map(|cpus| (cpus * hardware.period_ns) as u64),
            period_ns: (hardware.period_ns as u64).max(1),
            ..Self::default()
        }
    }

    pub(super) fn limits(&self) -> bool {
        self.quota_ns.is_some()
    }
}

impl Sim<'_> {
    /// Takes a slice for a CPU that has used its own; false where nothing is left.
    pub(super) fn take_slice(&mut self, cpu: usize) -> bool {
        if self.cpus[cpu].local_ns > 0 {
            return true;
        }
        let taken = self.bandwidth.pool_ns.min(SLICE_NS);
        self.bandwidth.pool_ns -= taken;
        self.cpus[cpu].local_ns = taken;
        taken > 0
    }

    /// The CPU of this thread stops.
    pub(super) fn stop_cpu(&mut self, at: u32) {
        match self.threads[at as usize].phase {
            Phase::Spin => self.remove_spinner(at),
            Phase::CommitSpin | Phase::LogSpin => self.spinning -= 1,
            _ => {}
        }
        let thread = &mut self.threads[at as usize];
        let cpu = thread.cpu.take().expect("it has a CPU");
        thread.turn = thread.turn.wrapping_add(1);
        self.busy -= 1;
        self.cpus[cpu as usize].thread = None;
        self.make_ready(at);
        self.stopped[cpu as usize / 64] |= 1 << (cpu % 64);
        self.stopped_count += 1;
        self.bandwidth.stopped_since.get_or_insert(self.now);
    }

    /// A CPU idles: what it does not need goes back.
    pub(super) fn give_back(&mut self, cpu: usize) {
        if !self.bandwidth.limits() {
            return;
        }
        let back = self.cpus[cpu].local_ns.saturating_sub(KEPT_NS);
        self.cpus[cpu].local_ns -= back;
        self.bandwidth.pool_ns += back;
        if self.bandwidth.pool_ns > SLICE_NS && self.stopped_count > 0 && !self.bandwidth.slack_pending {
            self.bandwidth.slack_pending = true;
            self.events.push(Event { at: self.now + SLACK_NS, to: SLACK, turn: 0 });
        }
    }

    /// What was given back goes to CPUs that are stopped.
    pub(super) fn give_slack(&mut self) {
        self.bandwidth.slack_pending = false;
        let mut left = self.bandwidth.pool_ns;
        for cpu in 0..self.cpus.len() {
            if left == 0 {
                break;
            }
            if self.is_stopped(cpu as u32) {
                left = left.saturating_sub(SLICE_NS);
                self.start_cpu(cpu);
            }
        }
        self.count_stopped();
        self.fill_cpus();
    }

    /// A new period: what was stopped goes on.
    pub(super) fn begin_period(&mut self) {
        let Some(quota) = self.bandwidth.quota_ns else { return };
        self.events.push(Event { at: self.now + self.bandwidth.period_ns, to: PERIOD, turn: 0 });
        self.bandwidth.pool_ns = quota;
        for cpu in 0..self.cpus.len() {
            if self.is_stopped(cpu as u32) {
                self.start_cpu(cpu);
            }
        }
        self.count_stopped();
        self.fill_cpus();
    }

    fn start_cpu(&mut self, cpu: usize) {
        self.stopped[cpu / 64] &= !(1 << (cpu % 64));
        self.stopped_count -= 1;
        self.idle[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Counts the time that the quota held threads up until now.
    pub(super) fn count_stopped(&mut self) {
        if let Some(since) = self.bandwidth.stopped_since.take() {
            self.counted.throttled_ns += self.now - since.max(self.counted.since);
            if self.stopped_count > 0 {
                self.bandwidth.stopped_since = Some(self.now);
            }
        }
    }

    pub(super) fn is_stopped(&self, cpu: u32) -> bool {
        self.stopped[cpu as usize / 64] >> (cpu % 64) & 1 == 1
    }
}
