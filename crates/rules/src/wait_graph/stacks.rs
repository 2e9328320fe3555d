//! The stacks of one instant: the last snapshot of a profile.

use std::collections::HashMap;

use spindoctor_model::Profile;
use spindoctor_model::stack::ThreadState;

/// Where each thread stood in the last snapshot.
#[derive(Debug, Default)]
pub(super) struct Stacks<'a> {
    by_thread: HashMap<u64, Standing<'a>>,
}

/// Where a thread stood.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    /// The thread's name.
    pub(super) name: &'a str,
    /// What it did.
    pub(super) state: ThreadState,
    /// For how long it had been on no CPU, seconds, where that is known.
    pub(super) off_cpu_s: Option<f64>,
    /// Names of functions, innermost first.
    pub(super) frames: Vec<&'a str>,
}

impl Standing<'_> {
    /// True where it stood in one of these functions, or in one that it called.
    pub(super) fn is_in(&self, functions: &[&str]) -> bool {
        self.frames.iter().any(|frame| functions.contains(frame))
    }
}

impl<'a> Stacks<'a> {
    /// The last snapshot of a profile; CPU samples show nothing of who waits.
    pub(super) fn from_profile(profile: Option<&'a Profile>) -> Self {
        let Some(profile) = profile else { return Self::default() };
        let Some(last) = profile.observations.iter().map(|observation| observation.snapshot).max() else {
            return Self::default();
        };
        let of_last =
            profile.observations.iter().rev().take_while(|observation| observation.snapshot == last);
        let by_thread = of_last
            .filter_map(|observation| {
                let thread = profile.threads.get(observation.thread as usize)?;
                let frames = profile.stacks.get(observation.stack as usize).map_or(&[][..], |s| &s.frames);
                let names = frames.iter().filter_map(|&at| profile.frames.get(at as usize));
                let standing = Standing {
                    name: &thread.name,
                    state: observation.state,
                    off_cpu_s: thread.off_cpu_us.map(|us| us as f64 / 1e6),
                    frames: names.map(|frame| frame.name.as_str()).collect(),
                };
                Some((u64::from(thread.tid), standing))
            })
            .collect();
        Self { by_thread }
    }

    /// Where a thread stood, by the kernel's id.
    pub(super) fn of_thread(&self, os_id: u64) -> Option<&Standing<'a>> {
        self.by_thread.get(&os_id)
    }

    /// Every thread with where it stood, in order of the kernel's ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Standing<'a>)> {
        let mut ids: Vec<u64> = self.by_thread.keys().copied().collect();
        ids.sort_unstable();
        ids.into_iter().map(|id| (id, &self.by_thread[&id]))
    }
}
