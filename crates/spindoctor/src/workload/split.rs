//! The wall-clock time inside statements, split by the stacks: parsing, optimizing, executing, reading, locks, commit,
//! network, and how much of each was on a CPU.
//!
//! In: a profile whose threads know what they did for their clients. Out: a [`Split`]. Pure. Which functions mean which
//! phase is a table of the rules'. Snapshots show what threads wait for, CPU samples what runs.

use std::collections::HashMap;
use std::ops::AddAssign;

use spindoctor_model::Profile;
use spindoctor_model::stack::{Observation, ProfiledThread, ThreadState};
use spindoctor_rules::phases::{Phase, Phases};

/// Statements that are split, too.
const STATEMENTS: usize = 12;
/// How MySQL and MariaDB begin the names of threads that apply.
const APPLIERS: [&str; 2] = ["rpl_", "slave_"];

/// One phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Which.
    pub phase: Phase,
    /// Its share of the time inside statements.
    pub share: f64,
    /// What of that was on a CPU, as a share of the time inside statements.
    pub on_cpu: f64,
}

/// The time inside statements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Split {
    /// Snapshots.
    pub snapshots: u64,
    /// Times that a thread was seen inside a statement, CPU samples included.
    pub seen: u64,
    /// Phases, the largest first.
    pub parts: Vec<Part>,
    /// The share on a CPU.
    pub on_cpu: f64,
    /// The share that was ready and waited for a CPU.
    pub for_cpu: f64,
    /// The same for the statements that took the most.
    pub statements: Vec<OfStatement>,
}

/// The time inside one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct OfStatement {
    /// Its text, normalized.
    pub digest: String,
    /// Its share of the sightings in snapshots of which the statement is known.
    pub share: f64,
    /// Times that a thread was seen inside it, in snapshots.
    pub seen: u64,
    /// Its phases, as shares of its own time.
    pub parts: Vec<Part>,
}

/// Sightings of one statement, or of all.
#[derive(Default)]
struct Counts {
    /// Of threads inside it.
    seen: u64,
    by_phase: HashMap<Phase, Seconds>,
}

/// What a sighting stands for, seconds.
#[derive(Debug, Clone, Copy, Default)]
struct Seconds {
    all: f64,
    /// Of these, on a CPU.
    on_cpu: f64,
    /// Of these, ready and waiting for a CPU.
    ready: f64,
}

impl AddAssign for Seconds {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.on_cpu += more.on_cpu;
        self.ready += more.ready;
    }
}

impl Counts {
    fn count(&mut self, phase: Phase, seconds: Seconds) {
        self.seen += 1;
        *self.by_phase.entry(phase).or_default() += seconds;
    }

    fn total(&self) -> Seconds {
        let mut total = Seconds::default();
        for seconds in self.by_phase.values() {
            total += *seconds;
        }
        total
    }

    fn parts(&self) -> Vec<Part> {
        let all_s = self.total().all;
        let mut parts: Vec<Part> = self
            .by_phase
            .iter()
            .map(|(phase, seconds)| Part {
                phase: *phase,
                share: share(seconds.all, all_s),
                on_cpu: share(seconds.on_cpu, all_s),
            })
            .collect();
        parts.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.phase.cmp(&b.phase)));
        parts
    }
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

/// How much time one sighting stands for.
///
/// Who takes a snapshot is on a CPU itself, and a thread of the server that ran there is ready then: on a host of two CPUs
/// that is half of what ran. So the kernel's count of the process's CPU time decides how much of what was seen running or
/// ready was on a CPU, and the rest waited for one.
#[derive(Debug, Clone, Copy)]
struct Weights {
    /// A sighting in a snapshot, seconds.
    sighting_s: f64,
    /// A CPU sample, seconds; None where there are none.
    sample_s: Option<f64>,
    /// What of a running or ready thread was on a CPU.
    on_cpu: f64,
    /// What of a ready thread waited for a CPU, where CPU samples cover those that were on one.
    ready: f64,
}

impl Weights {
    fn from_profile(profile: &Profile) -> Self {
        let sighting_s = share(profile.seconds, profile.snapshots.len() as f64);
        let seen_s = |state| {
            let seen = profile.observations.iter().filter(|seen| seen.state == state).count();
            seen as f64 * sighting_s
        };
        let (running_s, ready_s) = (seen_s(ThreadState::Running), seen_s(ThreadState::Runnable));
        let on_cpu_s = profile.process_cpu_us as f64 / 1e6;
        let samples = profile.cpu_samples.len();
        Self {
            sighting_s,
            sample_s: (samples > 0).then(|| on_cpu_s / samples as f64),
            on_cpu: share(on_cpu_s, running_s + ready_s).min(1.0),
            ready: share((running_s + ready_s - on_cpu_s).clamp(0.0, ready_s), ready_s),
        }
    }

    /// A thread in a snapshot, whether it ran or waited.
    fn of_any(self, state: ThreadState) -> Seconds {
        let all = self.sighting_s;
        match state {
            ThreadState::Running | ThreadState::Runnable => {
                Seconds { all, on_cpu: all * self.on_cpu, ready: all * (1.0 - self.on_cpu) }
            }
            _ => Seconds { all, ..Seconds::default() },
        }
    }

    /// A thread in a snapshot that did not run: CPU samples cover those that did. None for these.
    fn of_waiting(self, state: ThreadState) -> Option<Seconds> {
        match state {
            ThreadState::Running => None,
            ThreadState::Runnable => {
                let waited_s = self.sighting_s * self.ready;
                (waited_s > 0.0).then_some(Seconds { all: waited_s, on_cpu: 0.0, ready: waited_s })
            }
            _ => Some(Seconds { all: self.sighting_s, ..Seconds::default() }),
        }
    }
}

impl Split {
    /// Of a profile; of a replica, of its appliers alone. `ours` is the thread of the server that answers us: its time is
    /// not the workload's.
    pub fn from_profile(profile: &Profile, appliers: bool, ours: Option<u32>) -> Self {
        let weights = Weights::from_profile(profile);
        let mut looked = Inside::from_profile(profile, appliers, ours);
        let mut all = Counts::default();
        let mut statements: HashMap<&str, Counts> = HashMap::new();
        for seen in &profile.observations {
            let Some((phase, digest)) = looked.statement(seen) else { continue };
            let any = weights.of_any(seen.state);
            let text = if weights.sample_s.is_some() { weights.of_waiting(seen.state) } else { Some(any) };
            if let Some(seconds) = text {
                all.count(phase, seconds);
            }
            if let Some(digest) = digest {
                statements.entry(digest).or_default().count(phase, any);
            }
        }
        // A CPU sample may be of a statement that was over before the sample that shows who ran which: it counts only
        // for the total.
        for sample in &profile.cpu_samples {
            let Some((phase, _)) = looked.statement(sample) else { continue };
            let seconds = weights.sample_s.unwrap_or_default();
            all.count(phase, Seconds { all: seconds, on_cpu: seconds, ready: 0.0 });
        }
        let known: u64 = statements.values().map(|counts| counts.seen).sum();
        let mut statements: Vec<(&str, Counts)> = statements.into_iter().collect();
        statements.sort_by(|a, b| b.1.seen.cmp(&a.1.seen).then_with(|| a.0.cmp(b.0)));
        let total = all.total();
        Self {
            snapshots: profile.snapshots.len() as u64,
            seen: all.seen,
            parts: all.parts(),
            on_cpu: share(total.on_cpu, total.all),
            for_cpu: share(total.ready, total.all),
            statements: statements
                .into_iter()
                .take(STATEMENTS)
                .map(|(digest, counts)| OfStatement {
                    digest: digest.to_owned(),
                    share: share(counts.seen as f64, known as f64),
                    seen: counts.seen,
                    parts: counts.parts(),
                })
                .collect(),
        }
    }
}

/// Sets which threads are inside statements.
struct Inside<'a> {
    profile: &'a Profile,
    phases: Phases<'a>,
    appliers: bool,
    /// By place in [`Profile::threads`]: whether it applies; None for the thread that answers us.
    applies: Vec<Option<bool>>,
}

impl<'a> Inside<'a> {
    fn from_profile(profile: &'a Profile, appliers: bool, ours: Option<u32>) -> Self {
        let applies = |thread: &ProfiledThread| {
            (ours != Some(thread.tid)).then(|| APPLIERS.iter().any(|begin| thread.name.starts_with(begin)))
        };
        Self {
            profile,
            phases: Phases::from_profile(profile),
            appliers,
            applies: profile.threads.iter().map(applies).collect(),
        }
    }

    /// The phase of the statement that a thread is inside, and the statement where it is known.
    fn statement(&mut self, seen: &Observation) -> Option<(Phase, Option<&'a str>)> {
        let profile = self.profile;
        let is_applier = (*self.applies.get(seen.thread as usize)?)?;
        let activity = seen.activity.and_then(|place| profile.activities.get(place as usize));
        // MariaDB's appliers have no name of their own where comm is not set: the server says who applies.
        let applies =
            is_applier || activity.is_some_and(|activity| activity.user.as_deref() == Some("system user"));
        if applies != self.appliers {
            return None;
        }
        let phase = self.phases.phase(seen)?;
        Some((phase, activity.and_then(|activity| activity.digest_text.as_deref())))
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
        let thread =
            |name: &str, tid| ProfiledThread { name: name.to_owned(), tid, ..ProfiledThread::default() };
        let seen = |thread, stack, state, activity| Observation {
            thread,
            stack,
            state,
            activity,
            ..Observation::default()
        };
        let mut profile = Profile {
            threads: vec![
                thread("connection", 1),
                thread("connection", 2),
                thread("rpl_rca_wkr-0", 3),
                thread("connection", 4),
            ],
            seconds: 2.0,
            process_cpu_us: 1_500_000,
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
                seen(3, 0, ThreadState::Lock, None),
            ],
            ..Profile::default()
        };
        // Two seconds and two snapshots: each sighting is a second. Two ran or were ready, for 1.5 seconds on a CPU.
        let split = Split::from_profile(&profile, false, Some(4));
        assert_eq!((split.snapshots, split.seen, split.on_cpu, split.for_cpu), (2, 4, 0.375, 0.125));
        let text: Vec<_> =
            split.parts.iter().map(|part| (part.phase.name(), part.share, part.on_cpu)).collect();
        assert_eq!(text, [("parsing", 0.5, 0.375), ("locks", 0.5, 0.0)]);
        assert_eq!(split.statements.len(), 1);
        assert_eq!((split.statements[0].digest.as_str(), split.statements[0].seen), ("UPDATE t", 2));
        assert_eq!(Split::from_profile(&profile, true, None).seen, 1);
        assert_eq!(Split::from_profile(&Profile::default(), false, None), Split::default());

        // With CPU samples, these show what ran: three of four parsed for a client, the fourth answered us.
        profile.cpu_samples = vec![
            seen(0, 0, ThreadState::Running, None),
            seen(1, 0, ThreadState::Running, None),
            seen(1, 0, ThreadState::Running, Some(0)),
            seen(3, 0, ThreadState::Running, None),
        ];
        let split = Split::from_profile(&profile, false, Some(4));
        // A sample is 0.375 s: 1.125 s parsing on a CPU. Of the second of the ready thread half was the snapshot's doing.
        let all = 1.125 + 0.5 + 2.0;
        let text: Vec<_> =
            split.parts.iter().map(|part| (part.phase.name(), part.share, part.on_cpu)).collect();
        assert_eq!(text, [("locks", 2.0 / all, 0.0), ("parsing", 1.625 / all, 1.125 / all)]);
        assert_eq!((split.seen, split.on_cpu, split.for_cpu), (6, 1.125 / all, 0.5 / all));
        assert_eq!(split.statements.len(), 1);
        assert_eq!((split.statements[0].share, split.statements[0].seen), (1.0, 2));
    }
}
