//! The profiler: a source, an unwinder and names, tied together into a profile.
//!
//! In: a process and what is wanted. Out: a [`Profile`]. The caller keeps the clock: it asks for each snapshot.

use std::time::Duration;

use spindoctor_model::stack::{Activity, Profile, SnapshotCost, StackSource, ThreadState};

use crate::error::Result;

/// What a profiler is asked for.
#[derive(Debug, Clone)]
pub struct ProfilerOptions {
    /// Which source; the best that works where none is named. [`StackSource::Cpu`] takes no snapshots: each
    /// observation is a CPU sample.
    pub source: Option<StackSource>,
    /// Beside snapshots: CPU samples too, for the stacks of running threads and for the spin share. Where they
    /// cannot be had, a note of the profile says why.
    pub cpu: bool,
    /// Snapshots, or CPU samples of each running thread, a second.
    pub hz: f64,
    /// Keep only this much of the past until [`Profiler::keep_all`]: for a trigger that is waited for.
    pub keep: Option<Duration>,
    /// Frames that mean a state in this program: a function's name, and the state of a thread that is blocked below it.
    pub frames: &'static [(&'static str, ThreadState)],
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self { source: None, cpu: true, hz: 10.0, keep: None, frames: &[] }
    }
}

/// What one [`Profiler::snapshot`] brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Taken {
    /// A snapshot, or a reading of CPU samples, at this cost.
    Snapshot(SnapshotCost),
    /// The process ended: the profile has what was seen until then.
    ProcessGone,
}

/// A profile in the making.
#[derive(Debug)]
pub struct Profiler {
    profile: Profile,
}

impl Profiler {
    /// Gets ready to look at a process.
    ///
    /// # Errors
    /// No such process, or no source can be used.
    pub fn start(_pid: u32, _options: ProfilerOptions) -> Result<Self> {
        Ok(Self { profile: Profile::default() })
    }

    /// For how long to wait between two snapshots. CPU samples are buffered: they are read ten times a second.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Looks at every thread once, or reads the CPU samples since the last time.
    ///
    /// # Errors
    /// Nothing of the process may be read any more.
    pub fn snapshot(&mut self) -> Result<Taken> {
        Ok(Taken::ProcessGone)
    }

    /// Says what the threads of the last snapshot did for their clients.
    pub fn set_activities(&mut self, _of: &dyn Fn(u32) -> Option<Activity>) {}

    /// From now on nothing is dropped: the trigger fired.
    pub fn keep_all(&mut self) {}

    /// The profile so far.
    pub fn profile(&mut self) -> Profile {
        self.profile.clone()
    }

    /// The profile.
    pub fn finish(mut self) -> Profile {
        self.profile()
    }
}
