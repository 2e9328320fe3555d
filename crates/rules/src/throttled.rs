//! What a CPU quota did to the server over a window: the kernel's count of throttled periods, and the time stopped.

use spindoctor_model::host::{EffectiveCpus, ThreadStat};
use spindoctor_model::{Unavailable, Window};

/// From this share of throttled periods on, stops are the rule and not a burst: one in twenty is one
/// stop every two seconds at the usual period, which a 95th percentile shows.
const PERIODS_THROTTLED: f64 = 0.05;

/// Stops that cost less of the time than this are not worth a line.
const TIME_STOPPED: f64 = 0.02;

/// A thread that ran or wanted to run for a tenth of the window keeps a CPU's queue from being empty.
const BUSY_THREAD: f64 = 0.1;

/// Throttling over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Throttled {
    /// Periods in which the group ran.
    pub(crate) periods: f64,
    /// Those that ended with the quota used up.
    pub(crate) throttled: f64,
    /// Time stopped, summed over CPUs, seconds.
    pub(crate) stopped_s: f64,
    /// Share of the time in which the server's CPUs stood still.
    pub(crate) stopped_ratio: f64,
}

impl Throttled {
    /// True where throttling is the rule, not a burst.
    pub(crate) fn matters(&self) -> bool {
        self.throttled >= PERIODS_THROTTLED * self.periods && self.stopped_ratio >= TIME_STOPPED
    }
}

/// What throttling did over the window; None where no quota is set.
pub(crate) fn throttled(window: &Window) -> Result<Option<Throttled>, Unavailable> {
    let effective = window.need(|s| &s.host.effective_cpus)?;
    let Some(quota) = &effective.quota else {
        return Ok(None);
    };
    let change = window.need_change(|s| &s.host.throttling)?;
    let grown = |last: u64, first: u64| {
        last.checked_sub(first)
            .map(|grown| grown as f64)
            .ok_or_else(|| Unavailable::because("cpu.stat went back: the cgroup was created again"))
    };
    let periods = grown(change.last.periods, change.first.periods)?;
    let throttled = grown(change.last.throttled_periods, change.first.throttled_periods)?;
    let stopped_s = grown(change.last.throttled_us, change.first.throttled_us)? / 1e6;
    let period_s = quota.period_us.max(1) as f64 / 1e6;
    let stopped_part = stopped_s / (throttled * period_s * cpus_in_use(window)).max(f64::MIN_POSITIVE);
    let throttled_ratio = throttled / periods.max(1.0);
    Ok(Some(Throttled {
        periods,
        throttled,
        stopped_s,
        stopped_ratio: throttled_ratio * stopped_part.min(1.0),
    }))
}

/// CPUs on which the server's threads can be stopped at once: as many as it may use, and no more than
/// it has busy threads.
fn cpus_in_use(window: &Window) -> f64 {
    let allowed = window.latest(|s| &s.host.effective_cpus).map_or(1, EffectiveCpus::allowed);
    let busy = window.change(|s| &s.host.threads).map(|change| {
        let wanted = |thread: &ThreadStat| {
            let before = change.first.iter().find(|first| first.tid == thread.tid);
            let (ran, queued) = before.map_or((0, 0), |before| (before.ran_ns, before.run_queue_ns));
            (thread.ran_ns.saturating_sub(ran) + thread.run_queue_ns.saturating_sub(queued)) as f64 / 1e9
        };
        change.last.iter().filter(|thread| wanted(thread) >= BUSY_THREAD * change.seconds).count()
    });
    let allowed = f64::from(allowed);
    busy.map_or(allowed, |busy| (busy as f64).clamp(1.0, allowed))
}
