//! The options of a profiler, and what it may cost where the caller does not say.

use std::ops::RangeInclusive;
use std::time::Duration;

use spindoctor_model::stack::StackSource;

use crate::classify::FrameStates;

/// CPU samples of each CPU a second, beside snapshots: enough to see 2 % of a CPU within 10 s, and not in step with
/// timers that tick in tens.
pub(super) const CPU_HZ: f64 = 99.0;

/// What the profiler may take of the CPUs where nobody says otherwise, in percent for each snapshot a second that is asked
/// for: who asks for ten times as many accepts ten times the cost. Chosen, not derived. A busy server loses more than
/// that, as its caches are used as well: `throughput` in BENCHMARKS.md.
const CPU_PERCENT_PER_HZ: f64 = 0.02;

/// And at least this much, and at most that.
const CPU_PERCENT: RangeInclusive<f64> = 0.25..=3.0;

/// What the profiler may take of the CPUs where nobody says otherwise, in percent.
pub fn usual_most_cpu_percent(hz: f64) -> f64 {
    (CPU_PERCENT_PER_HZ * hz).clamp(*CPU_PERCENT.start(), *CPU_PERCENT.end())
}

/// What a profiler is asked for.
#[derive(Debug, Clone)]
pub struct ProfilerOptions {
    /// Which source; the best that works where none is named. [`StackSource::Cpu`] takes no snapshots: each
    /// observation is a CPU sample.
    pub source: Option<StackSource>,
    /// Beside snapshots: CPU samples too, for the stacks of running threads and for the spin share. Where they
    /// cannot be had, a note of the profile says why.
    pub cpu: bool,
    /// So many of them, of each CPU a second.
    pub cpu_hz: f64,
    /// Snapshots a second, or CPU samples of each CPU a second.
    pub hz: f64,
    /// Fewer snapshots are taken where the profiler would take more than this part of what all CPUs of the machine have,
    /// in percent. CPU samples are not bounded: they cost alike on any machine.
    pub most_cpu_percent: f64,
    /// Only this thread's CPU samples, `hz` in each second that it runs; with [`StackSource::Cpu`].
    pub thread: Option<u32>,
    /// Keep only this much of the past until [`Profiler::keep_all`](super::Profiler::keep_all): for a trigger that is waited for.
    pub keep: Option<Duration>,
    /// Keep the machine code of the hottest functions in the profile, some ten KiB.
    pub code: bool,
    /// Frames that mean a state in this program: a function's name, and the state of a thread that is blocked below it.
    pub frames: &'static FrameStates,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self {
            source: None,
            cpu: true,
            cpu_hz: CPU_HZ,
            hz: 10.0,
            most_cpu_percent: usual_most_cpu_percent(10.0),
            thread: None,
            keep: None,
            code: false,
            frames: &[],
        }
    }
}
