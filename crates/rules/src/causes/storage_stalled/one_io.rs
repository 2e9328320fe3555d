//! One I/O in which a thread stands.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::{Evidence, Window};

use super::HANGS_S;
use crate::spin_samples;
use crate::stack_evidence::is_name;

/// True for a thread that reads, writes or syncs a file.
pub(super) fn is_io(one: &Observation) -> bool {
    matches!(one.state, ThreadState::DiskRead | ThreadState::DiskWrite | ThreadState::Sync)
}

/// One I/O in which a thread stands: the same stack in each snapshot from the first to the last.
#[derive(Debug, Clone, Default)]
pub(in crate::causes) struct OneIo {
    /// How long it has stood at least.
    pub(in crate::causes) seconds: f64,
    /// The functions of the thread that have names, innermost first.
    pub(in crate::causes) functions: String,
}

impl OneIo {
    /// True where no disk that works takes as long.
    pub(in crate::causes) fn hangs(&self) -> bool {
        self.seconds >= HANGS_S
    }

    /// The longest of all threads.
    pub(in crate::causes) fn longest_of_all(window: &Window) -> Self {
        window.profile.value().map_or_else(Self::default, |profile| Self::longest(profile, is_io))
    }

    /// The longest of those that count.
    pub(super) fn longest(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Self {
        let at_s = |at: u32| profile.snapshots.get(at as usize).map_or(0.0, |cost| cost.at_us as f64 / 1e6);
        // Of each thread, its stack, and the first and the last snapshot in which it stood there.
        let mut stands: HashMap<u32, [u32; 3]> = HashMap::new();
        let mut longest: Option<(f64, u32)> = None;
        for one in profile.observations.iter().filter(|one| counts(one)) {
            let now = [one.stack, one.snapshot, one.snapshot];
            let [stack, since, last] = stands.entry(one.thread).or_insert(now);
            if *stack == one.stack && one.snapshot <= *last + 1 {
                *last = one.snapshot;
            } else {
                [*stack, *since, *last] = now;
            }
            let seconds = at_s(*last) - at_s(*since);
            if longest.is_none_or(|(before_s, _)| seconds > before_s) {
                longest = Some((seconds, one.stack));
            }
        }
        longest.map_or_else(Self::default, |(seconds, stack)| {
            let observation = Observation { stack, ..Observation::default() };
            let named = spin_samples::names(profile, &observation).filter(|name| is_name(name));
            Self { seconds, functions: named.take(SHOWN_FUNCTIONS).collect::<Vec<_>>().join(" < ") }
        })
    }

    /// It, as evidence.
    pub(in crate::causes) fn evidence(&self) -> Vec<Evidence> {
        let how_long = Evidence::new("one I/O has stood for", self.seconds, "s", "stacks").expected("< 1");
        let where_it_stands = Evidence::new("it stands in", self.functions.clone(), "", "stacks");
        std::iter::once(how_long).chain((!self.functions.is_empty()).then_some(where_it_stands)).collect()
    }
}

/// Functions of a stack that are shown.
const SHOWN_FUNCTIONS: usize = 4;
