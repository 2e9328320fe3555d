//! CFS bandwidth control: once the period's quota is used up, no thread of the server runs until the next period begins.
//! The kernel hands the quota out in slices of 5 ms to each CPU; here it is one account.

use crate::world::Hardware;

use super::{Event, PERIOD, Sim, THROTTLE};

#[derive(Debug, Default)]
pub(super) struct Bandwidth {
    /// CPU time of a period, nanoseconds; none without a quota.
    quota_ns: Option<f64>,
    period_ns: u64,
    used_ns: f64,
    since: u64,
    turn: u32,
    pub(super) throttled: bool,
    throttled_since: u64,
}

impl Bandwidth {
    pub(super) fn new(hardware: &Hardware) -> Self {
        let quota_ns = hardware.quota_cpus.filter(|cpus| *cpus < f64::from(hardware.cpus));
        Self {
            quota_ns: quota_ns.map(|cpus| cpus * hardware.period_ns),
            period_ns: (hardware.period_ns as u64).max(1),
            ..Self::default()
        }
    }
}

impl Sim<'_> {
    /// Counts what was used until now; the number of CPUs that work is about to change.
    pub(super) fn account(&mut self) {
        let Some(quota) = self.bandwidth.quota_ns else { return };
        let bandwidth = &mut self.bandwidth;
        if !bandwidth.throttled {
            bandwidth.used_ns += (self.now - bandwidth.since) as f64 * f64::from(self.busy);
        }
        bandwidth.since = self.now;
        bandwidth.turn = bandwidth.turn.wrapping_add(1);
        if !bandwidth.throttled {
            // Were one more CPU busy from now on: it is looked at again when that time has come.
            let busy = f64::from(self.busy + 1);
            let after = ((quota - bandwidth.used_ns).max(0.0) / busy) as u64;
            self.events.push(Event { at: self.now + after, to: THROTTLE, turn: bandwidth.turn });
        }
    }

    /// The quota may be used up.
    pub(super) fn throttle(&mut self, turn: u32) {
        let Some(quota) = self.bandwidth.quota_ns else { return };
        if turn != self.bandwidth.turn || self.bandwidth.throttled {
            return;
        }
        let now = self.now;
        let bandwidth = &mut self.bandwidth;
        bandwidth.used_ns += (now - bandwidth.since) as f64 * f64::from(self.busy);
        bandwidth.since = now;
        let left = quota - bandwidth.used_ns;
        // Less than a microsecond of one CPU is nothing.
        if left > 1e3 {
            let after = ((left / f64::from(self.busy.max(1))) as u64).max(1);
            self.events.push(Event { at: now + after, to: THROTTLE, turn });
            return;
        }
        self.settle_all();
        self.bandwidth.throttled = true;
        self.bandwidth.throttled_since = now;
        for cpu in &self.cpus {
            if let Some(at) = cpu.thread {
                let thread = &mut self.threads[at as usize];
                thread.turn = thread.turn.wrapping_add(1);
            }
        }
    }

    /// A new period: what was throttled goes on.
    pub(super) fn begin_period(&mut self) {
        if self.bandwidth.quota_ns.is_none() {
            return;
        }
        self.events.push(Event { at: self.now + self.bandwidth.period_ns, to: PERIOD, turn: 0 });
        if !self.bandwidth.throttled {
            self.account();
        }
        self.bandwidth.used_ns = 0.0;
        if !self.bandwidth.throttled {
            self.account();
            return;
        }
        self.bandwidth.throttled = false;
        self.bandwidth.since = self.now;
        let from = self.bandwidth.throttled_since.max(self.counted.since);
        self.counted.throttled_ns += self.now - from;
        self.account();
        for cpu in 0..self.cpus.len() {
            if let Some(at) = self.cpus[cpu].thread {
                self.arm(at);
            }
        }
        self.fill_cpus();
        for latch in 0..self.latches.len() {
            self.announce(latch);
        }
    }
}
