//! How many threads stand below some functions, by the stacks of a profile and its CPU samples.

use spindoctor_model::Profile;
use spindoctor_model::stack::{Observation, ThreadState};

use crate::spin_samples;

/// Threads that are in one of these functions or below it, on average: on a CPU by the samples, else by the snapshots.
pub(crate) fn threads_below(profile: &Profile, functions: &[&str]) -> f64 {
    let below: Vec<bool> = (0..profile.stacks.len() as u32)
        .map(|stack| {
            let one = Observation { stack, ..Observation::default() };
            spin_samples::names(profile, &one).any(|name| functions.contains(&name))
        })
        .collect();
    let is_below = |one: &&Observation| below.get(one.stack as usize).copied().unwrap_or(false);
    let samples = profile.samples();
    let of_samples = samples.iter().filter(is_below).count() as f64 / samples.len().max(1) as f64;
    let cpus = profile.process_cpu_us as f64 / 1e6 / profile.seconds.max(1.0);
    // Who runs has no stack in a snapshot; who waits for a CPU, or for the disk, has.
    let rests = |one: &&Observation| is_below(one) && one.state != ThreadState::Running;
    let resting = profile.observations.iter().filter(rests).count() as f64;
    of_samples * cpus + resting / profile.snapshots.len().max(1) as f64
}
