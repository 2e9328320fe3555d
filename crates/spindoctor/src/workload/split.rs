//! The wall-clock time inside statements, split by the stacks: parsing, optimizing, executing, reading, locks, commit,
//! network, and how much of each was on a CPU.
//!
//! In: a profile whose threads know what they did for their clients. Out: a [`Split`]. Pure. Which functions mean which
//! phase is a table of the rules'.

use std::collections::HashMap;

use spindoctor_model::Profile;
use spindoctor_model::stack::ThreadState;
use spindoctor_rules::phases::{Phase, Phases};

/// Statements that are split, too.
const STATEMENTS: usize = 12;
/// How MySQL and MariaDB begin the names of threads that apply.
const APPLIERS: [&str; 2] = ["rpl_", "slave_"];

/// One phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Part {
    /// Which.
    pub(crate) phase: Phase,
    /// Its share of the time inside statements.
    pub(crate) share: f64,
    /// What of that was on a CPU, as a share of the time inside statements.
    pub(crate) on_cpu: f64,
}

/// The time inside statements.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Split {
    /// Snapshots.
    pub(crate) snapshots: u64,
    /// Times that a thread was seen inside a statement.
    pub(crate) seen: u64,
    /// Phases, the largest first.
    pub(crate) parts: Vec<Part>,
    /// The share on a CPU.
    pub(crate) on_cpu: f64,
    /// The share that was ready and waited for a CPU.
    pub(crate) for_cpu: f64,
    /// The same for the statements that were seen most: how often, and their phases.
    pub(crate) statements: Vec<(String, u64, Vec<Part>)>,
}

#[derive(Default)]
struct Counts {
    seen: u64,
    by_phase: HashMap<Phase, (u64, u64)>,
}

impl Counts {
    fn count(&mut self, phase: Phase, on_cpu: bool) {
        self.seen += 1;
        let (seen, running) = self.by_phase.entry(phase).or_default();
        *seen += 1;
        *running += u64::from(on_cpu);
    }

    fn parts(&self) -> Vec<Part> {
        let share = |count: u64| count as f64 / self.seen.max(1) as f64;
        let mut parts: Vec<Part> = self
            .by_phase
            .iter()
            .map(|(phase, (seen, running))| Part {
                phase: *phase,
                share: share(*seen),
                on_cpu: share(*running),
            })
            .collect();
        parts.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.phase.cmp(&b.phase)));
        parts
    }
}

impl Split {
    /// Of a profile; of a replica, of its appliers alone.
    pub(crate) fn of(profile: &Profile, appliers: bool) -> Self {
        let is_applier: Vec<bool> = profile
            .threads
            .iter()
            .map(|thread| APPLIERS.iter().any(|begin| thread.name.starts_with(begin)))
            .collect();
        let mut phases = Phases::of(profile);
        let mut all = Counts::default();
        let (mut running, mut runnable) = (0_u64, 0_u64);
        let mut statements: HashMap<&str, Counts> = HashMap::new();
        for seen in &profile.observations {
            // MariaDB's appliers have no name of their own where comm is not set: the server says who applies.
            let activity = seen.activity.and_then(|place| profile.activities.get(place as usize));
            let applies = is_applier.get(seen.thread as usize).copied().unwrap_or(false)
                || activity.is_some_and(|activity| activity.user.as_deref() == Some("system user"));
            if applies != appliers {
                continue;
            }
            let Some(phase) = phases.phase(seen) else { continue };
            let on_cpu = seen.state == ThreadState::Running;
            running += u64::from(on_cpu);
            runnable += u64::from(seen.state == ThreadState::Runnable);
            all.count(phase, on_cpu);
            if let Some(digest) = activity.and_then(|activity| activity.digest_text.as_deref()) {
                statements.entry(digest).or_default().count(phase, on_cpu);
            }
        }
        let mut statements: Vec<(&str, Counts)> = statements.into_iter().collect();
        statements.sort_by(|a, b| b.1.seen.cmp(&a.1.seen).then_with(|| a.0.cmp(b.0)));
        let share = |count: u64| count as f64 / all.seen.max(1) as f64;
        Self {
            snapshots: profile.snapshots.len() as u64,
            seen: all.seen,
            parts: all.parts(),
            on_cpu: share(running),
            for_cpu: share(runnable),
            statements: statements
                .into_iter()
                .take(STATEMENTS)
                .map(|(digest, counts)| (digest.to_owned(), counts.seen, counts.parts()))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::{
        Activity, Frame, Observation, ProfiledThread, SnapshotCost, Stack, StackEnd,
    };

    use super::*;

    #[test]
    fn time_inside_statements_is_split_and_that_outside_is_left_out() {
        let frame = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
        let stack = |frames: &[u32]| Stack { frames: frames.to_vec(), end: StackEnd::Root };
        let thread = |name: &str| ProfiledThread { name: name.to_owned(), ..ProfiledThread::default() };
        let seen = |thread, stack, state, activity| Observation {
            thread,
            stack,
            state,
            activity,
            ..Observation::default()
        };
        let profile = Profile {
            threads: vec![thread("connection"), thread("connection"), thread("rpl_rca_wkr-0")],
            frames: ["parse_sql", "lock_wait_suspend_thread", "dispatch_command", "poll", "do_command"]
                .map(frame)
                .into(),
            stacks: vec![stack(&[0, 2, 4]), stack(&[1, 2, 4]), stack(&[3, 4])],
            activities: vec![Activity { digest_text: Some("UPDATE t".into()), ..Activity::default() }],
            snapshots: vec![SnapshotCost::default(); 2],
            observations: vec![
                seen(0, 0, ThreadState::Running, None),
                seen(1, 2, ThreadState::NetworkIdle, None),
                seen(2, 1, ThreadState::Lock, None),
                seen(0, 1, ThreadState::Lock, Some(0)),
                seen(1, 1, ThreadState::Lock, Some(0)),
                seen(1, 0, ThreadState::Runnable, None),
            ],
            ..Profile::default()
        };
        let split = Split::of(&profile, false);
        assert_eq!((split.snapshots, split.seen, split.on_cpu, split.for_cpu), (2, 4, 0.25, 0.25));
        let told: Vec<_> =
            split.parts.iter().map(|part| (part.phase.name(), part.share, part.on_cpu)).collect();
        assert_eq!(told, [("parsing", 0.5, 0.25), ("locks", 0.5, 0.0)]);
        assert_eq!(split.statements.len(), 1);
        assert_eq!((split.statements[0].0.as_str(), split.statements[0].1), ("UPDATE t", 2));
        assert_eq!(Split::of(&profile, true).seen, 1);
        assert_eq!(Split::of(&Profile::default(), false), Split::default());
    }
}
