//! The selected part of a profile, and its grouping: every format but the raw file renders a [`View`].
//!
//! In: a profile and the user's choice. Out: stacks with their labels from the root to the leaf, each counted once.

use std::borrow::Cow;

use regex::Regex;
use spindoctor_model::Profile;
use spindoctor_model::number;
use spindoctor_model::stack::{Activity, Frame, Observation, StackSource, ThreadState};

/// The least share of its time that an idle thread waits: background threads wake up once a second for a moment.
const IDLE_SHARE: f64 = 0.95;
/// From so many snapshots on one may show an idle thread awake: of ten it is a tenth, and the number of busy threads would jump
/// with every thread that collects finished I/O.
const FEW_SNAPSHOTS: u32 = 5;
/// CPU samples below which shares are said to be uncertain, as in the rules (`spin_samples.rs`): of 200, a share of one half is
/// known to 7 percentage points.
const ENOUGH_CPU_SAMPLES: usize = 200;
/// Snapshots below which they show moments rather than shares of the time, as in the rules (`time_model/by_stack.rs`).
const ENOUGH_SNAPSHOTS: usize = 10;
/// What the process list says of threads that wait for work.
const IDLE_COMMANDS: [&str; 2] = ["Sleep", "Daemon"];
/// How MySQL and MariaDB name the threads that serve connections.
const CONNECTIONS: [&str; 2] = ["connection", "one_connection"];

/// What stands at the root of each stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The thread's name.
    #[default]
    Thread,
    /// The connection's user.
    User,
    /// The connection's default database.
    Database,
    /// The statement without its literals.
    Digest,
    /// The first table of the statement.
    Table,
    /// The connection's state, as the process list has it.
    State,
    /// The client's host.
    Host,
}

impl By {
    /// Each with its name, and what it is.
    pub const ALL: &[(&str, &str, Self)] = &[
        ("thread", "The thread's name", Self::Thread),
        ("user", "The connection's user", Self::User),
        ("database", "The connection's default database", Self::Database),
        ("digest", "The statement without its literals", Self::Digest),
        ("table", "The first table of the statement", Self::Table),
        ("state", "The connection's state, as the process list has it", Self::State),
        ("host", "The client's host", Self::Host),
    ];
}

/// What of a profile is wanted.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// What stands at the root.
    pub by: By,
    /// CPU samples instead of snapshots.
    pub on_cpu: bool,
    /// Names with their arguments and template parameters.
    pub full_names: bool,
    /// Only threads of these names, or ids; empty for all.
    pub threads: Vec<String>,
    /// Only stacks of which a function or the group matches.
    pub grep: Option<Regex>,
}

/// A profile as it is to be shown.
#[derive(Debug)]
pub struct View<'a> {
    /// Whose lists the indexes lead to.
    pub profile: &'a Profile,
    /// What is shown, in order of time.
    pub observations: Vec<Observation>,
    /// True where these are CPU samples.
    pub on_cpu: bool,
    by: By,
    full_names: bool,
}

/// Why there is nothing to show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingToShow {
    /// No such thread.
    #[error("no thread is named {wanted}; the threads are named {names}")]
    Thread {
        /// What was asked for.
        wanted: String,
        /// What there is.
        names: String,
    },
    /// No CPU sample.
    #[error("this profile has no CPU samples; take one with --cpu")]
    CpuSamples,
    /// No stack matches.
    #[error("no stack has a function, thread or statement that matches {0}")]
    Match(String),
    /// No connection is known.
    #[error(
        "this profile does not know which thread served which connection; \
         profile a MySQL or MariaDB server that answers, with -h, -S or an option file, and that shows it: MySQL from 5.7 on \
         with performance_schema on, MariaDB from 10.2 on"
    )]
    Activities,
}

impl<'a> View<'a> {
    /// What of a profile was chosen.
    pub fn new(profile: &'a Profile, choice: &Choice) -> Result<Self, NothingToShow> {
        let source_is_cpu = profile.source == StackSource::Cpu;
        let observations = match choice.on_cpu && !source_is_cpu {
            true => &profile.cpu_samples,
            false => &profile.observations,
        };
        if choice.on_cpu && !source_is_cpu && observations.is_empty() {
            return Err(NothingToShow::CpuSamples);
        }
        if choice.by != By::Thread && profile.activities.is_empty() {
            return Err(NothingToShow::Activities);
        }
        let wanted: Vec<bool> = profile
            .threads
            .iter()
            .map(|thread| {
                choice.threads.is_empty()
                    || choice
                        .threads
                        .iter()
                        .any(|name| *name == thread.name || *name == thread.tid.to_string())
            })
            .collect();
        if !wanted.iter().any(|wanted| *wanted) && !profile.threads.is_empty() {
            let mut names: Vec<&str> = profile.threads.iter().map(|thread| thread.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            return Err(NothingToShow::Thread {
                wanted: choice.threads.join(" or "),
                names: names.join(", "),
            });
        }
        let observations = observations.iter().filter(|seen| wanted[seen.thread as usize]).copied().collect();
        let mut view = Self {
            profile,
            observations,
            on_cpu: choice.on_cpu || source_is_cpu,
            by: choice.by,
            full_names: choice.full_names,
        };
        if let Some(pattern) = &choice.grep {
            view.keep_matching(pattern)?;
        }
        Ok(view)
    }

    fn keep_matching(&mut self, pattern: &Regex) -> Result<(), NothingToShow> {
        let was_empty = self.observations.is_empty();
        let stacks: Vec<bool> = (0..self.profile.stacks.len() as u32)
            .map(|stack| self.frames(stack).any(|frame| pattern.is_match(self.name(frame))))
            .collect();
        let mut observations = std::mem::take(&mut self.observations);
        observations.retain(|seen| {
            stacks[seen.stack as usize]
                || pattern.is_match(&self.profile.threads[seen.thread as usize].name)
                || pattern.is_match(&self.group(seen))
        });
        self.observations = observations;
        match self.observations.is_empty() && !was_empty {
            true => Err(NothingToShow::Match(pattern.to_string())),
            false => Ok(()),
        }
    }

    /// What a frame is called.
    pub fn name(&self, frame: &'a Frame) -> &'a str {
        match &frame.full_name {
            Some(full) if self.full_names => full,
            _ => &frame.name,
        }
    }

    /// The frames of a stack, innermost first.
    pub fn frames(&self, stack: u32) -> impl DoubleEndedIterator<Item = &'a Frame> + use<'a> {
        let profile = self.profile;
        profile.stacks[stack as usize].frames.iter().map(|frame| &profile.frames[*frame as usize])
    }

    /// What a thread did for its client at that instant.
    pub fn activity(&self, seen: &Observation) -> Option<&'a Activity> {
        Some(&self.profile.activities[seen.activity? as usize])
    }

    /// What is left without the threads that were idle, and those: they waited for work or for a client, nearly
    /// throughout, and for nothing else. Of CPU samples none is idle.
    pub fn split_idle(&self) -> (Self, Self) {
        let mut counts = vec![(0_u32, 0_u32); self.profile.threads.len()];
        let mut held_up = vec![self.on_cpu; self.profile.threads.len()];
        for seen in &self.observations {
            let thread = seen.thread as usize;
            let (all, waiting) = &mut counts[thread];
            *all += 1;
            match seen.state {
                _ if self.may_be_idle(seen) => *waiting += 1,
                // A thread that wakes up now and then runs, or is about to.
                ThreadState::Running | ThreadState::Runnable | ThreadState::Blocked => {}
                _ => held_up[thread] = true,
            }
        }
        let is_idle = |thread: u32| {
            let (all, waiting) = counts[thread as usize];
            let is_nearly_throughout = f64::from(waiting) >= IDLE_SHARE * f64::from(all)
                // Of few snapshots one in which it had just woken up is no more than now and then.
                || (all >= FEW_SNAPSHOTS && waiting + 1 >= all);
            !held_up[thread as usize] && is_nearly_throughout
        };
        let (idle, busy) = self.observations.iter().partition(|seen| is_idle(seen.thread));
        (Self { observations: busy, ..*self }, Self { observations: idle, ..*self })
    }

    fn may_be_idle(&self, seen: &Observation) -> bool {
        let for_client = self.activity(seen).is_some_and(|activity| {
            activity.command.as_deref().is_some_and(|command| !IDLE_COMMANDS.contains(&command))
        });
        match seen.state {
            ThreadState::NetworkIdle | ThreadState::Epoll | ThreadState::Sleep => !for_client,
            // Commits that wait for each other do so on conditions too. Only the server knows who serves nobody.
            ThreadState::Condition => {
                let name = self.profile.threads[seen.thread as usize].name.as_str();
                let unknown = self.profile.activities.is_empty() && CONNECTIONS.contains(&name);
                !for_client && !unknown
            }
            _ => false,
        }
    }

    /// What stands at the root of an observation's stack.
    pub fn group(&self, seen: &Observation) -> Cow<'a, str> {
        let thread = &self.profile.threads[seen.thread as usize];
        let line = |text: &'a Option<String>| text.as_deref().filter(|text| !text.is_empty());
        let of_activity = |activity: &'a Activity| -> Option<Cow<'a, str>> {
            match self.by {
                By::Thread => None,
                By::User => line(&activity.user).map(Cow::from),
                By::Database => Some(line(&activity.database).unwrap_or("no database").into()),
                By::Host => line(&activity.host).map(Cow::from),
                By::State => Some(
                    line(&activity.state).or_else(|| line(&activity.command)).unwrap_or("no state").into(),
                ),
                By::Digest => Some(match (line(&activity.digest_text), line(&activity.statement)) {
                    (Some(digest), _) => digest.into(),
                    (None, Some(statement)) => spindoctor_sql::digest(statement).into(),
                    (None, None) => "no statement".into(),
                }),
                By::Table => {
                    let statement = line(&activity.statement).or_else(|| line(&activity.digest_text));
                    Some(statement.and_then(spindoctor_sql::first_table).map_or("no table".into(), Cow::from))
                }
            }
        };
        match self.activity(seen).and_then(of_activity) {
            Some(group) => group,
            None if self.by == By::Thread => thread.name.as_str().into(),
            // A thread that serves no connection keeps its own name, marked as such.
            None => format!("[{}]", thread.name).into(),
        }
    }

    /// Seconds of thread time, or of CPU time, that one observation stands for.
    pub fn seconds_each(&self) -> f64 {
        if self.on_cpu && self.profile.source != StackSource::Cpu {
            // Taken beside the snapshots at a rate of their own: they stand for the CPU time that was used.
            return self.profile.process_cpu_us as f64 / 1e6 / self.profile.cpu_samples.len().max(1) as f64;
        }
        if self.profile.hz > 0.0 { 1.0 / self.profile.hz } else { 0.0 }
    }

    /// How many threads are shown.
    pub fn thread_count(&self) -> usize {
        let mut seen = vec![false; self.profile.threads.len()];
        self.observations.iter().for_each(|observation| seen[observation.thread as usize] = true);
        seen.into_iter().filter(|seen| *seen).count()
    }

    /// What is to be said beside shares of few samples; none where there are enough.
    pub fn few_samples(&self) -> Option<String> {
        let (count, snapshots) = (self.observations.len(), self.snapshot_count());
        match self.on_cpu {
            true if (1..ENOUGH_CPU_SAMPLES).contains(&count) => {
                // 1.96 standard errors of a share of one half, in percentage points.
                let points = 98.0 / (count as f64).sqrt();
                Some(format!(
                    "few samples: a share may be off by {} percentage points",
                    number::whole(points)
                ))
            }
            false if (1..ENOUGH_SNAPSHOTS).contains(&snapshots) => {
                Some("few snapshots: they show moments, not shares of the time".to_owned())
            }
            _ => None,
        }
    }

    /// How many of the profile's snapshots or readings these are.
    pub fn snapshot_count(&self) -> usize {
        self.profile.snapshots.len()
    }
}

/// The word for a state, as JSON has it and people read it.
pub fn state_word(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running => "running",
        ThreadState::Runnable => "runnable",
        ThreadState::Lock => "lock",
        ThreadState::Condition => "condition",
        ThreadState::Futex => "futex",
        ThreadState::DiskRead => "disk_read",
        ThreadState::DiskWrite => "disk_write",
        ThreadState::Sync => "sync",
        ThreadState::NetworkIdle => "network_idle",
        ThreadState::Epoll => "epoll",
        ThreadState::Sleep => "sleep",
        ThreadState::Stopped => "stopped",
        ThreadState::Blocked => "blocked",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use spindoctor_model::stack::{Module, ProfiledThread, SnapshotCost, Stack};

    use super::*;

    use crate::examples;

    fn choice(by: By) -> Choice {
        Choice { by, ..Choice::default() }
    }

    #[test]
    fn every_stack_is_counted_once_and_nothing_is_lost() {
        let profile = examples::busy();
        for (_, _, by) in By::ALL {
            let view = View::new(&profile, &choice(*by)).unwrap();
            let counted: u64 = view.counted().iter().map(|stack| stack.count).sum();
            assert_eq!(counted, profile.observations.len() as u64, "{by:?}");
        }
    }

    #[test]
    fn shares_of_few_samples_are_said_to_be_uncertain() {
        let few = |on_cpu, count: usize| {
            let mut profile = examples::busy();
            let seen = profile.observations[0];
            profile.observations = vec![seen; count];
            profile.cpu_samples = vec![seen; count];
            let snapshot = profile.snapshots[0];
            profile.snapshots = vec![snapshot; count];
            let view = View::new(&profile, &Choice { on_cpu, ..Choice::default() }).unwrap();
            view.few_samples()
        };
        let of_26 = few(true, 26);
        assert_eq!(of_26.as_deref(), Some("few samples: a share may be off by 19 percentage points"));
        assert_eq!((few(true, 200), few(false, 10)), (None, None));
        assert!(few(false, 9).is_some_and(|few| few.starts_with("few snapshots")));
    }

    #[test]
    fn connections_are_grouped_by_what_they_do_and_other_threads_by_their_name() {
        let profile = examples::busy();
        let groups = |by| {
            let view = View::new(&profile, &choice(by)).unwrap();
            let mut groups: Vec<String> =
                view.observations.iter().map(|seen| view.group(seen).into_owned()).collect();
            groups.sort();
            groups.dedup();
            groups
        };
        assert_eq!(groups(By::Thread), ["connection", "ib_pg_flush_co"]);
        assert_eq!(groups(By::User), ["[ib_pg_flush_co]", "app", "batch"]);
        assert_eq!(groups(By::Table), ["[ib_pg_flush_co]", "no table", "sbtest1"]);
        assert_eq!(groups(By::State), ["Sleep", "[ib_pg_flush_co]", "waiting for handler commit"]);
    }

    #[test]
    fn threads_are_chosen_by_name_or_id_and_a_wrong_name_is_answered_with_the_right_ones() {
        let profile = examples::busy();
        let of = |thread: &str| {
            let choice = Choice { threads: vec![thread.to_owned()], ..Choice::default() };
            View::new(&profile, &choice).map(|view| view.thread_count())
        };
        assert_eq!(of("connection"), Ok(3));
        assert_eq!(of("4352"), Ok(1));
        let refused = of("conection").unwrap_err().to_string();
        assert!(refused.ends_with("the threads are named connection, ib_pg_flush_co"), "{refused}");
    }

    /// One thread in a stack, from the innermost frame outwards: `(module, name)`.
    pub fn one_thread(frames: &[(u32, &str)], state: ThreadState) -> Profile {
        let module = |path: &str| Module { path: path.to_owned(), build_id: None };
        let mut profile = Profile {
            modules: vec![module("/usr/sbin/mysqld"), module("/lib/libc.so.6"), module("/lib/libssl.so.3")],
            threads: vec![ProfiledThread {
                tid: 1,
                name: "connection".to_owned(),
                ..ProfiledThread::default()
            }],
            snapshots: vec![SnapshotCost::default(); 2],
            ..Profile::default()
        };
        profile.process.program = "/usr/sbin/mysqld".to_owned();
        profile.frames = frames
            .iter()
            .map(|(module, name)| Frame {
                module: Some(*module),
                name: (*name).to_owned(),
                ..Frame::default()
            })
            .collect();
        profile.stacks.push(Stack { frames: (0..frames.len() as u32).collect(), ..Stack::default() });
        for snapshot in 0..2 {
            profile.observations.push(Observation { snapshot, state, ..Observation::default() });
        }
        profile
    }

    #[test]
    fn a_thread_is_idle_that_waits_for_work_and_serves_nobody() {
        let idle = |profile: &Profile| {
            let view = View::new(profile, &Choice::default()).unwrap();
            let (busy, idle) = view.split_idle();
            assert_eq!(busy.observations.len() + idle.observations.len(), view.observations.len());
            idle.thread_count() == 1
        };
        let frames = [(1, "poll"), (0, "do_command")];
        assert!(idle(&one_thread(&frames, ThreadState::NetworkIdle)));
        assert!(!idle(&one_thread(&frames, ThreadState::Lock)));
        // Without a session nobody knows whether a connection waits for a commit or for a client.
        let mut waits = one_thread(&frames, ThreadState::Condition);
        assert!(!idle(&waits));
        waits.threads[0].name = "ib_log_writer".to_owned();
        assert!(idle(&waits));
        let mut wakes = one_thread(&frames, ThreadState::Sleep);
        wakes.observations[1].state = ThreadState::Running;
        assert!(!idle(&wakes), "half of its time is not now and then");
        wakes.observations.resize(10, Observation { state: ThreadState::Sleep, ..Observation::default() });
        assert!(idle(&wakes), "one of ten is now and then");
        wakes.observations.resize(40, Observation { state: ThreadState::Sleep, ..Observation::default() });
        assert!(idle(&wakes), "one of forty is");
        wakes.observations[1].state = ThreadState::Sync;
        assert!(!idle(&wakes), "but not where it waits for a disk");
        for (command, is_idle) in [("Query", false), ("Sleep", true)] {
            let mut serves = one_thread(&frames, ThreadState::NetworkIdle);
            serves.activities.push(Activity { command: Some(command.to_owned()), ..Activity::default() });
            serves.observations[1].activity = Some(0);
            assert_eq!(idle(&serves), is_idle, "{command}");
        }
    }

    #[test]
    fn a_pattern_keeps_the_stacks_that_have_a_function_or_a_group_of_it() {
        let profile = examples::busy();
        let of = |pattern: &str| {
            let choice = Choice { grep: Some(Regex::new(pattern).unwrap()), ..Choice::default() };
            View::new(&profile, &choice).map(|view| view.observations.len())
        };
        let all = profile.observations.len();
        assert_eq!(of("."), Ok(all));
        assert!(of("^trans_commit").is_ok_and(|kept| kept > 0 && kept < all));
        assert!(of("ib_pg_flush").is_ok_and(|kept| kept > 0 && kept < all));
        assert!(of("nothing").unwrap_err().to_string().ends_with("matches nothing"));
    }

    #[test]
    fn what_a_profile_does_not_have_is_shown() {
        let bare = Profile { activities: Vec::new(), cpu_samples: Vec::new(), ..Profile::default() };
        assert_eq!(View::new(&bare, &choice(By::User)).unwrap_err(), NothingToShow::Activities);
        let on_cpu = Choice { on_cpu: true, ..Choice::default() };
        assert_eq!(View::new(&bare, &on_cpu).unwrap_err(), NothingToShow::CpuSamples);
    }

    #[test]
    fn the_words_for_states_are_those_of_the_json() {
        for state in [ThreadState::DiskRead, ThreadState::NetworkIdle, ThreadState::Lock] {
            assert_eq!(serde_json::to_value(state).unwrap(), state_word(state));
        }
    }
}
