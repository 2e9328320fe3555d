//! What a profile says in sum: pure, over a [`Profile`].

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, Spin, StackSource, ThreadState};

/// Callers that are listed for a spinner: the commonest ones.
const CALLERS: usize = 5;

/// Frames of a call chain that is shown in one line.
const CHAIN: usize = 6;

/// Shares of the CPU samples, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpinShare {
    /// In spin-wait loops of the process.
    pub user: f64,
    /// In the kernel's spin locks.
    pub kernel: f64,
    /// How many CPU samples that rests on.
    pub samples: u64,
}

/// A function that burnt CPU in a spin-wait loop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spinner {
    /// The function with the loop.
    pub function: String,
    /// Its share of all CPU samples, from 0 to 1.
    pub share: f64,
    /// Who called it, the commonest first: each `caller < its caller < ...`, and its share of all CPU samples.
    pub callers: Vec<(String, f64)>,
}

/// Observations that have the same key: their number, and each stack of theirs with its count, the commonest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// What they have in common: a state, a thread's name, a user.
    pub key: String,
    /// How many observations.
    pub count: u64,
    /// Places in [`Profile::stacks`] and how often each was seen.
    pub stacks: Vec<(u32, u64)>,
}

/// The CPU samples of a profile: all there is in one of the `cpu` source, else those taken beside the snapshots.
pub fn cpu_samples(profile: &Profile) -> &[Observation] {
    match profile.source {
        StackSource::Cpu => &profile.observations,
        StackSource::Bpf | StackSource::Procfs | StackSource::Ptrace => &profile.cpu_samples,
    }
}

/// The spin share; none where there are no CPU samples.
pub fn spin_share(profile: &Profile) -> Option<SpinShare> {
    let samples = cpu_samples(profile);
    let share = |spin| share_of(samples.iter().filter(|one| one.spin == Some(spin)).count(), samples.len());
    (!samples.is_empty()).then(|| SpinShare {
        user: share(Spin::User),
        kernel: share(Spin::Kernel),
        samples: samples.len() as u64,
    })
}

/// The functions that spin, the costliest first: those of the process by the function that was sampled, the kernel's
/// by the name of its lock.
pub fn spinners(profile: &Profile) -> Vec<Spinner> {
    let samples = cpu_samples(profile);
    let mut found: HashMap<&str, (usize, HashMap<Vec<&str>, usize>)> = HashMap::new();
    for sample in samples.iter().filter(|sample| sample.spin.is_some()) {
        let names = frame_names(profile, sample.stack);
        let Some((&function, callers)) = names.split_first() else { continue };
        let (count, chains) = found.entry(function).or_default();
        *count += 1;
        *chains.entry(callers.iter().copied().take(CHAIN).collect()).or_default() += 1;
    }
    let mut spinners: Vec<Spinner> = found
        .into_iter()
        .map(|(function, (count, chains))| {
            let mut callers: Vec<(String, f64)> = chains
                .into_iter()
                .map(|(chain, count)| (chain.join(" < "), share_of(count, samples.len())))
                .collect();
            callers.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            callers.truncate(CALLERS);
            Spinner { function: function.to_owned(), share: share_of(count, samples.len()), callers }
        })
        .collect();
    spinners.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.function.cmp(&b.function)));
    spinners
}

/// The share of each state among all observations, the largest first.
pub fn states(profile: &Profile) -> Vec<(ThreadState, f64)> {
    let mut counts: HashMap<ThreadState, usize> = HashMap::new();
    for observation in &profile.observations {
        *counts.entry(observation.state).or_default() += 1;
    }
    let all = profile.observations.len();
    let mut shares: Vec<_> = counts.into_iter().map(|(state, count)| (state, share_of(count, all))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}

/// Groups observations by what `key` says of each; those of which it says nothing are left out. The largest first.
pub fn groups(profile: &Profile, key: &dyn Fn(&Observation) -> Option<String>) -> Vec<Group> {
    let mut found: HashMap<String, HashMap<u32, u64>> = HashMap::new();
    for observation in &profile.observations {
        if let Some(key) = key(observation) {
            *found.entry(key).or_default().entry(observation.stack).or_default() += 1;
        }
    }
    let mut groups: Vec<Group> = found
        .into_iter()
        .map(|(key, stacks)| {
            let mut stacks: Vec<(u32, u64)> = stacks.into_iter().collect();
            stacks.sort_by_key(|&(stack, count)| (std::cmp::Reverse(count), stack));
            Group { key, count: stacks.iter().map(|(_, count)| count).sum(), stacks }
        })
        .collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
    groups
}

/// The names of a stack's frames, innermost first; none where the profile is damaged.
pub fn frame_names(profile: &Profile, stack: u32) -> Vec<&str> {
    let frames = profile.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
    frames.iter().filter_map(|&frame| Some(profile.frames.get(frame as usize)?.name.as_str())).collect()
}

fn share_of(part: usize, all: usize) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{Frame, Stack};

    use super::*;

    /// Stacks of one-letter functions, innermost first.
    fn profile(source: StackSource, seen: &[(&str, Option<Spin>, ThreadState)]) -> Profile {
        let mut profile = Profile { source, ..Profile::default() };
        for letter in 'a'..='z' {
            profile.frames.push(Frame { name: letter.to_string(), ..Frame::default() });
        }
        for &(stack, spin, state) in seen {
            let frames = stack.bytes().map(|letter| u32::from(letter - b'a')).collect();
            let stack = Stack { frames, ..Stack::default() };
            let place = profile.stacks.iter().position(|one| *one == stack).unwrap_or_else(|| {
                profile.stacks.push(stack);
                profile.stacks.len() - 1
            });
            profile.observations.push(Observation {
                stack: place as u32,
                spin,
                state,
                ..Observation::default()
            });
        }
        profile
    }

    const RUNNING: ThreadState = ThreadState::Running;

    #[test]
    fn user_and_kernel_spinning_are_counted_apart() {
        let profile = profile(
            StackSource::Cpu,
            &[
                ("dlm", Some(Spin::User), RUNNING),
                ("dlm", Some(Spin::User), RUNNING),
                ("qs", Some(Spin::Kernel), RUNNING),
                ("w", None, RUNNING),
            ],
        );
        assert_eq!(spin_share(&profile), Some(SpinShare { user: 0.5, kernel: 0.25, samples: 4 }));
    }

    #[test]
    fn without_cpu_samples_there_is_no_spin_share() {
        let snapshots = profile(StackSource::Bpf, &[("w", None, ThreadState::Lock)]);
        assert_eq!(spin_share(&snapshots), None);
    }

    #[test]
    fn snapshots_take_the_spin_share_from_the_samples_beside_them() {
        let mut snapshots =
            profile(StackSource::Bpf, &[("dl", Some(Spin::User), RUNNING), ("w", None, RUNNING)]);
        snapshots.cpu_samples = vec![snapshots.observations[1]];
        assert_eq!(spin_share(&snapshots), Some(SpinShare { user: 0.0, kernel: 0.0, samples: 1 }));
    }

    #[test]
    fn spinners_come_with_who_called_them_the_costliest_first() {
        let spin = Some(Spin::User);
        let profile = profile(
            StackSource::Cpu,
            &[("dlm", spin, RUNNING), ("dlm", spin, RUNNING), ("dxm", spin, RUNNING), ("c", spin, RUNNING)],
        );
        let found = spinners(&profile);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].function.as_str(), found[0].share), ("d", 0.75));
        assert_eq!(found[0].callers, [("l < m".to_owned(), 0.5), ("x < m".to_owned(), 0.25)]);
        assert_eq!((found[1].function.as_str(), found[1].share), ("c", 0.25));
    }

    #[test]
    fn states_are_shares_of_all_observations() {
        let lock = ThreadState::Lock;
        let profile =
            profile(StackSource::Bpf, &[("a", None, lock), ("b", None, lock), ("c", None, RUNNING)]);
        assert_eq!(states(&profile), [(lock, 2.0 / 3.0), (RUNNING, 1.0 / 3.0)]);
    }

    #[test]
    fn groups_count_each_stack_and_leave_out_what_has_no_key() {
        let lock = ThreadState::Lock;
        let profile = profile(
            StackSource::Bpf,
            &[("ab", None, lock), ("cb", None, lock), ("cb", None, lock), ("x", None, RUNNING)],
        );
        let found = groups(&profile, &|one| (one.state == lock).then(|| "lock".to_owned()));
        assert_eq!(found, [Group { key: "lock".to_owned(), count: 3, stacks: vec![(1, 2), (0, 1)] }]);
    }
}
