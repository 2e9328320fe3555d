//! The latches and mutexes that threads wait for: how many threads sleep for each, and how many CPUs spin for it.
//!
//! In: a profile. Out: [`latches()`], the one that costs most first. [`spindoctor_model::latches`] says which latch a stack waits for.

use std::collections::HashMap;

use serde::Serialize;
use spindoctor_model::Profile;
use spindoctor_model::latches::LatchWait;
use spindoctor_model::stack::{Spin, StackSource};
use spindoctor_stacks::aggregate::{cpu_samples, frame_names};

/// A latch that fewer than this wait for is left out: threads asleep and CPUs that spin together.
const LEAST: f64 = 0.01;

/// A latch that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitedLatch {
    /// What it protects, or the function that takes it.
    pub latch: String,
    /// How performance_schema names it, within `wait/synch/`; none where it has no instrument or is not in the table.
    pub event: Option<&'static str>,
    /// The function that takes it, of several the commonest.
    pub taken_in: String,
    /// Threads that sleep for it, on average over the snapshots; none of a profile without snapshots.
    pub threads_asleep: Option<f64>,
    /// CPUs that spin for it, on average; none where no CPU samples were taken.
    pub cpus_spinning: Option<f64>,
}

impl WaitedLatch {
    /// Threads asleep and CPUs that spin.
    pub fn cost(&self) -> f64 {
        self.threads_asleep.unwrap_or(0.0) + self.cpus_spinning.unwrap_or(0.0)
    }
}

/// What of it was counted.
#[derive(Debug, Default)]
struct Tally<'a> {
    asleep: u64,
    spinning: u64,
    takers: HashMap<&'a str, u64>,
}

/// The latches of a profile, the one that costs most first.
pub fn latches(profile: &Profile) -> Vec<WaitedLatch> {
    let has_snapshots = profile.source != StackSource::Cpu && !profile.snapshots.is_empty();
    // A stack that was seen a thousand times is read once.
    let mut stacks: HashMap<(u32, bool), u64> = HashMap::new();
    if has_snapshots {
        for seen in profile.observations.iter().filter(|seen| seen.state.waits_for_another()) {
            *stacks.entry((seen.stack, false)).or_default() += 1;
        }
    }
    let samples = cpu_samples(profile);
    for seen in samples.iter().filter(|seen| seen.spin == Some(Spin::User)) {
        *stacks.entry((seen.stack, true)).or_default() += 1;
    }
    let mut tallies: HashMap<&str, (Option<&'static str>, Tally<'_>)> = HashMap::new();
    for ((stack, spins), count) in stacks {
        let Some(wait) = LatchWait::from_stack(&frame_names(profile, stack), spins) else { continue };
        let event = wait.latch.and_then(|latch| latch.event);
        let (_, tally) = tallies.entry(wait.name()).or_insert_with(|| (event, Tally::default()));
        *(if spins { &mut tally.spinning } else { &mut tally.asleep }) += count;
        *tally.takers.entry(wait.taken_in).or_default() += count;
    }
    let cpus = profile.process_cpu_us as f64 / 1e6 / profile.seconds;
    let cpus_each = (!samples.is_empty() && cpus.is_finite()).then(|| cpus / samples.len() as f64);
    let mut latches: Vec<WaitedLatch> = tallies
        .into_iter()
        .map(|(latch, (event, tally))| WaitedLatch {
            latch: latch.to_owned(),
            event,
            taken_in: commonest(&tally.takers).to_owned(),
            threads_asleep: has_snapshots.then(|| tally.asleep as f64 / profile.snapshots.len() as f64),
            cpus_spinning: cpus_each.map(|each| tally.spinning as f64 * each),
        })
        .filter(|latch| latch.cost() >= LEAST)
        .collect();
    latches.sort_by(|a, b| b.cost().total_cmp(&a.cost()).then_with(|| a.latch.cmp(&b.latch)));
    latches
}

/// Of several that are as common the first by name.
fn commonest<'a>(takers: &HashMap<&'a str, u64>) -> &'a str {
    let most = takers.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map_or("", |(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{Frame, Observation, SnapshotCost, Stack, ThreadState};

    use super::*;
    use crate::examples;

    /// Each stack as it was seen: asleep so often in ten snapshots, spinning in so many of a hundred samples of two CPUs.
    fn profile(stacks: &[(&str, u32, u32)]) -> Profile {
        let mut profile = Profile {
            seconds: 10.0,
            process_cpu_us: 20_000_000,
            snapshots: vec![SnapshotCost::default(); 10],
            ..Profile::default()
        };
        for (at, (stack, asleep, spinning)) in stacks.iter().enumerate() {
            let mut frames = Vec::new();
            for name in stack.split(" < ") {
                frames.push(profile.frames.len() as u32);
                profile.frames.push(Frame { name: name.to_owned(), ..Frame::default() });
            }
            profile.stacks.push(Stack { frames, ..Stack::default() });
            let seen = Observation { stack: at as u32, state: ThreadState::Lock, ..Observation::default() };
            profile.observations.extend(std::iter::repeat_n(seen, *asleep as usize));
            let spins = Observation { state: ThreadState::Running, spin: Some(Spin::User), ..seen };
            profile.cpu_samples.extend(std::iter::repeat_n(spins, *spinning as usize));
        }
        let works = Observation { state: ThreadState::Running, ..Observation::default() };
        let rest = 100_usize.saturating_sub(profile.cpu_samples.len());
        profile.cpu_samples.extend(std::iter::repeat_n(works, rest));
        profile
    }

    #[test]
    fn threads_that_sleep_and_cpus_that_spin_are_added_up_and_the_costliest_latch_comes_first() {
        let of = [
            ("sync_array_wait_event < TTASEventMutex::wait < trx_undo_assign_undo", 20, 0),
            ("TTASEventMutex::spin_and_try_lock < trx_write_serialisation_history", 0, 30),
            ("rw_lock_s_lock_spin < Buf_fetch::single_page", 4, 1),
            ("pthread_mutex_lock < get_db_stats", 1, 0),
        ];
        let found = latches(&profile(&of));
        let text: Vec<String> = found
            .iter()
            .map(|it| {
                let (asleep, spinning) = (it.threads_asleep.unwrap(), it.cpus_spinning.unwrap());
                format!("{} < {}: {asleep:.2} asleep, {spinning:.2} spinning", it.latch, it.taken_in)
            })
            .collect();
        assert_eq!(
            text,
            [
                "rollback segment < trx_write_serialisation_history: 2.00 asleep, 0.60 spinning",
                "page < Buf_fetch::single_page: 0.40 asleep, 0.02 spinning",
                "get_db_stats < get_db_stats: 0.10 asleep, 0.00 spinning",
            ]
        );
        assert_eq!(found[0].event, Some("mutex/innodb/undo_space_rseg_mutex"));
        assert_eq!((found[1].event, found[2].event), (None, None));
    }

    #[test]
    fn what_was_not_looked_at_is_none_and_never_nothing() {
        let stack = "TTASEventMutex::spin_and_try_lock < trx_start_low";
        let mut without_samples = profile(&[(stack, 5, 0)]);
        without_samples.cpu_samples.clear();
        let found = latches(&without_samples);
        assert_eq!((found[0].threads_asleep, found[0].cpus_spinning), (Some(0.5), None));
        let mut samples_alone = profile(&[(stack, 0, 50)]);
        samples_alone.source = StackSource::Cpu;
        samples_alone.observations = std::mem::take(&mut samples_alone.cpu_samples);
        let found = latches(&samples_alone);
        assert_eq!((found[0].threads_asleep, found[0].cpus_spinning), (None, Some(1.0)));
        assert_eq!(latches(&examples::busy()), [], "its commits wait for the redo log");
        assert_eq!(latches(&Profile::default()), []);
    }
}
