//! Which threads of a profile stand below some functions, and how many do, by its snapshots and CPU samples.

use spindoctor_model::Profile;
use spindoctor_model::stack::{Observation, ThreadState};

use crate::spin_samples;

/// The stacks that go through one of some functions, or are such otherwise: each stack is looked through once, however often it was seen.
pub(crate) struct Below(Vec<bool>);

impl Below {
    /// Those of a profile.
    pub(crate) fn new(profile: &Profile, functions: &[&str]) -> Self {
        let has_one =
            |stack: u32| is_below(profile, &Observation { stack, ..Observation::default() }, functions);
        Self((0..profile.stacks.len() as u32).map(has_one).collect())
    }

    /// The stacks whose names, innermost first, are such.
    pub(crate) fn such(profile: &Profile, is_such: impl Fn(&[&str]) -> bool) -> Self {
        let is_one = |stack: u32| {
            let observation = Observation { stack, ..Observation::default() };
            let names: Vec<&str> = spin_samples::names(profile, &observation).collect();
            is_such(&names)
        };
        Self((0..profile.stacks.len() as u32).map(is_one).collect())
    }

    /// True where that thread was in one of the functions or below it.
    pub(crate) fn has(&self, one: &Observation) -> bool {
        self.0.get(one.stack as usize).copied().unwrap_or_default()
    }
}

/// True where a thread was in one of these functions or below it.
pub(crate) fn is_below(profile: &Profile, one: &Observation, functions: &[&str]) -> bool {
    spin_samples::names(profile, one).any(|name| functions.contains(&name))
}

/// Threads that are in one of these functions or below it, on average: on a CPU by the samples, else by the snapshots.
pub(crate) fn threads_below(profile: &Profile, functions: &[&str]) -> f64 {
    let below = Below::new(profile, functions);
    let samples = profile.samples();
    let of_samples = samples.iter().filter(|one| below.has(one)).count() as f64 / samples.len().max(1) as f64;
    let cpus = profile.process_cpu_us as f64 / 1e6 / profile.seconds.max(1.0);
    // Who runs has no stack in a snapshot; who waits for a CPU, or for the disk, has.
    of_samples * cpus + mean_seen(profile, |one| below.has(one) && one.state != ThreadState::Running)
}

/// Threads that are such, on average of the snapshots.
pub(crate) fn mean_seen(profile: &Profile, is_such: impl Fn(&Observation) -> bool) -> f64 {
    let seen = profile.observations.iter().filter(|one| is_such(one)).count();
    seen as f64 / profile.snapshots.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState::{DiskWrite, Lock};

    use super::*;
    use crate::testing::Build;

    #[test]
    fn a_stack_is_below_a_function_wherever_that_stands_on_it_and_one_that_is_not_there_is_below_none() {
        let window = Build::busy("8.0.36")
            .only_snapshots(&[
                (1, DiskWrite, &["write", "filesort", "dispatch_command"]),
                (3, Lock, &["futex", "dispatch_command"]),
            ])
            .window();
        let profile = window.profile.value().unwrap();
        let (sorts, all) = (Below::new(profile, &["filesort"]), Below::new(profile, &["dispatch_command"]));
        let observation = |stack| Observation { stack, ..Observation::default() };
        assert!(sorts.has(&observation(0)) && !sorts.has(&observation(1)) && !all.has(&observation(7)));
        assert_eq!(mean_seen(profile, |one| sorts.has(one)), 1.0);
        assert_eq!(threads_below(profile, &["dispatch_command"]), 4.0);
    }
}
