//! How long the server's threads ran and how long they waited for a CPU: from schedstat, or from what they did in the
//! snapshots of a profile.

use std::collections::HashMap;

use spindoctor_model::host::{ProcessStat, ThreadStat};
use spindoctor_model::stack::ThreadState;
use spindoctor_model::window::Change;
use spindoctor_model::{Unavailable, Window};

/// Snapshots below which no mean is given.
const ENOUGH: usize = 5;

/// Threads that had a CPU and threads that waited for one, means over the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunQueue {
    /// Threads on a CPU: the CPUs that the server used.
    pub(crate) running: f64,
    /// Threads that waited for a CPU.
    pub(crate) queued: f64,
    /// Where that was read.
    pub(crate) source: &'static str,
}

impl RunQueue {
    /// Of a window. A recording has schedstat of all threads twice a minute: what a stall of seconds was like only its
    /// snapshots show.
    pub(crate) fn from_window(window: &Window) -> Result<Self, Unavailable> {
        window.need_change(|s| &s.host.threads).map_or_else(
            |missing| Self::of_snapshots(window).ok_or(missing),
            |threads| {
                let (ran_s, queued_s) = ran_and_queued(&threads);
                Ok(Self {
                    running: ran_s / threads.seconds,
                    queued: queued_s / threads.seconds,
                    source: "/proc/PID/task/*/schedstat",
                })
            },
        )
    }

    fn of_snapshots(window: &Window) -> Option<Self> {
        let profile = window.profile.value().filter(|profile| profile.snapshots.len() >= ENOUGH)?;
        let running = cpus_used(window)?;
        let wants = |state| matches!(state, ThreadState::Running | ThreadState::Runnable);
        let runnable = profile.observations.iter().filter(|one| wants(one.state)).count() as f64
            / profile.snapshots.len() as f64;
        Some(Self { running, queued: (runnable - running).max(0.0), source: "stacks, /proc/PID/stat" })
    }

    /// Threads that wanted a CPU.
    pub(crate) fn runnable(&self) -> f64 {
        self.running + self.queued
    }
}

/// CPUs that the server used, of the kernel's count.
pub(crate) fn cpus_used(window: &Window) -> Option<f64> {
    let process = window.change(|s| &s.host.process)?;
    let used_us = |process: &ProcessStat| process.user_us + process.system_us;
    Some(used_us(process.last).checked_sub(used_us(process.first))? as f64 / 1e6 / process.seconds)
}

/// Seconds on a CPU and seconds runnable without one, over all threads. A thread that came within the
/// window counts from its birth; one that went is not seen.
pub(crate) fn ran_and_queued(threads: &Change<'_, Vec<ThreadStat>>) -> (f64, f64) {
    ran_and_queued_of(threads, |_| true)
}

/// The same of the threads whose kernel ids are such.
pub(crate) fn ran_and_queued_of(
    threads: &Change<'_, Vec<ThreadStat>>,
    is_such: impl Fn(u32) -> bool,
) -> (f64, f64) {
    let before: HashMap<u32, &ThreadStat> = threads.first.iter().map(|thread| (thread.tid, thread)).collect();
    threads.last.iter().filter(|thread| is_such(thread.tid)).fold((0.0, 0.0), |(ran, queued), thread| {
        let (ran_before, queued_before) =
            before.get(&thread.tid).map_or((0, 0), |before| (before.ran_ns, before.run_queue_ns));
        (
            ran + thread.ran_ns.saturating_sub(ran_before) as f64 / 1e9,
            queued + thread.run_queue_ns.saturating_sub(queued_before) as f64 / 1e9,
        )
    })
}
