//! One I/O in which a thread stands.

use std::collections::HashMap;

use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::{Evidence, Window};

use super::HANGS_S;
use crate::spin_samples;
use crate::stack_evidence::is_name;
use crate::time_model::is_file_system_call;

/// True for a thread that reads, writes or syncs a file, or waits for the file system that has it.
pub(super) fn is_io(one: &Observation) -> bool {
    matches!(one.state, ThreadState::DiskRead | ThreadState::DiskWrite | ThreadState::Sync)
}

/// True for a stack (names, innermost first) whose I/O is not InnoDB's and not a binary log's: statement logs, temporary files of sorts,
/// tables of other engines and what LOAD DATA reads go through these functions of the server (mysys), or through those of an engine
/// with files of its own. They may lie on any disk, and InnoDB's counters have none of them; nor have they files that are opened or closed.
pub(super) fn is_of_another_file(names: &[&str]) -> bool {
    const THROUGH: [&str; 5] = ["my_read", "my_write", "my_pread", "my_pwrite", "my_sync"];
    const OF_ENGINES: [&str; 2] = ["rocksdb::", "myrocks::"];
    let is_of_binlog = names.iter().any(|name| name.starts_with("MYSQL_BIN_LOG::"));
    let is_elsewhere =
        |name: &&str| THROUGH.contains(name) || OF_ENGINES.iter().any(|engine| name.starts_with(engine));
    let is_lookup = names.first().is_some_and(|name| is_file_system_call(name));
    is_lookup || !is_of_binlog && names.iter().any(is_elsewhere)
}

/// One I/O in which a thread stands: in each snapshot from the first to the last it has the same stack.
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

    /// The longest of all threads. Where the source knows which threads have moved, those are in another I/O, or in one that goes on.
    pub(in crate::causes) fn longest_of_all(window: &Window) -> Self {
        let Some(profile) = window.profile.value() else { return Self::default() };
        Self::from_stretches(profile, one_each(profile, is_io))
    }

    /// The longest of those that count, by their stacks alone: of many short ones the stack may be the same.
    pub(super) fn longest(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Self {
        Self::from_stretches(profile, stretches(profile, counts))
    }

    fn from_stretches(profile: &Profile, all: Vec<Stretch>) -> Self {
        let longest = all.into_iter().reduce(|a, b| if b.seconds() > a.seconds() { b } else { a });
        longest.map_or_else(Self::default, |one| {
            let observation = Observation { stack: one.stack, ..Observation::default() };
            let named = spin_samples::names(profile, &observation).filter(|name| is_name(name));
            let functions = named.take(SHOWN_FUNCTIONS).collect::<Vec<_>>().join(" < ");
            Self { seconds: one.seconds(), functions }
        })
    }

    /// It, as evidence.
    pub(in crate::causes) fn evidence(&self) -> Vec<Evidence> {
        let how_long = Evidence::new("one I/O has stood for", self.seconds, "s", "stacks").expected("< 1");
        let where_it_stands = Evidence::new("it stands in", self.functions.clone(), "", "stacks");
        std::iter::once(how_long).chain((!self.functions.is_empty()).then_some(where_it_stands)).collect()
    }
}

/// Snapshots one after the other in which a thread stood in the same I/O, as its stack says.
#[derive(Debug, Clone, Copy)]
pub(in crate::causes) struct Stretch {
    /// Place in [`Profile::threads`].
    pub(in crate::causes) thread: u32,
    /// Place in [`Profile::stacks`].
    pub(in crate::causes) stack: u32,
    /// The first of them, seconds from the first snapshot of all.
    pub(in crate::causes) since_s: f64,
    /// The last of them.
    pub(in crate::causes) until_s: f64,
}

impl Stretch {
    /// How long it stood at least: 0 where one snapshot alone saw it.
    pub(in crate::causes) fn seconds(&self) -> f64 {
        self.until_s - self.since_s
    }
}

/// All stretches of the observations that count: of one I/O, or of many with the same stack.
pub(in crate::causes) fn stretches(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Vec<Stretch> {
    runs(profile, counts, |_| true)
}

/// Those of one wait each: a stretch ends where its thread has moved, or where the source does not know whether it has.
pub(in crate::causes) fn unmoved(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Vec<Stretch> {
    runs(profile, counts, |one| one.unmoved)
}

/// Those of one wait each, where the source knows which threads have moved; else by their stacks.
pub(super) fn one_each(profile: &Profile, counts: impl Fn(&Observation) -> bool) -> Vec<Stretch> {
    let is_known = profile.observations.iter().any(|one| one.unmoved);
    if is_known { unmoved(profile, counts) } else { stretches(profile, counts) }
}

/// Stretches of the observations that count, which go on where `is_same` says so of the next.
fn runs(
    profile: &Profile,
    counts: impl Fn(&Observation) -> bool,
    is_same: impl Fn(&Observation) -> bool,
) -> Vec<Stretch> {
    let at_s = |at: u32| profile.snapshots.get(at as usize).map_or(0.0, |cost| cost.at_us as f64 / 1e6);
    let mut all: Vec<Stretch> = Vec::new();
    // Of each thread the place of its latest stretch, and the last snapshot of that.
    let mut latest: HashMap<u32, (usize, u32)> = HashMap::new();
    for one in profile.observations.iter().filter(|one| counts(one)) {
        let now_s = at_s(one.snapshot);
        let goes_on = latest.get(&one.thread).copied().filter(|&(place, last)| {
            all[place].stack == one.stack && one.snapshot <= last.saturating_add(1) && is_same(one)
        });
        let place = match goes_on {
            Some((place, _)) => {
                all[place].until_s = now_s;
                place
            }
            None => {
                all.push(Stretch { thread: one.thread, stack: one.stack, since_s: now_s, until_s: now_s });
                all.len() - 1
            }
        };
        latest.insert(one.thread, (place, one.snapshot));
    }
    all
}

/// Functions of a stack that are shown.
const SHOWN_FUNCTIONS: usize = 4;
