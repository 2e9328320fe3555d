//! Sessions that are blocked by what one thread does inside InnoDB, counted in the snapshots of a profile.
//!
//! In: the functions that block, and the stacks that wait for them. Out: how many sessions are blocked, of how many at
//! work, and the blocker. A session is at work where its stack goes through `dispatch_command`, which both servers
//! export. A running thread has no stack and counts as one at work.

use std::collections::HashMap;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::{Observation, Profile, ThreadState};
use spindoctor_model::window::Series;
use spindoctor_model::{Evidence, Root, Unavailable, Window};

use crate::spin_samples;

/// Snapshots below which no mean is given.
const ENOUGH: usize = 5;

/// Sessions blocked on average from which on it is a queue. Below two it is one that waits for another now and
/// then, as on any busy server.
pub(crate) const HELD_UP: f64 = 2.0;

/// Share of the sessions at work that are blocked. Recorded servers that suffer from something else show 0.02 at most,
/// but for one that opens tables all the time: 0.15 of its sessions read statistics on the way.
pub(crate) const HELD_UP_RATIO: f64 = 0.1;

/// Share of the observations of those who do it that must be one thread's, before it is named as the root.
const ONE_THREAD: f64 = 0.5;

/// Functions that wait for a latch of InnoDB, spinning or asleep: MySQL 5.5 to 9.7, MariaDB to 10.5.
pub(crate) const LATCH_WAITS: &[&str] = &[
    "sync_array_wait_event",
    "rw_lock_s_lock_spin",
    "rw_lock_x_lock_func",
    "rw_lock_x_lock_wait_func",
    "rw_lock_sx_lock_func",
    "mutex_spin_wait",
    "mutex_enter_inline",
    "TTASEventMutex::wait",
];

/// Beginnings of the names of InnoDB's functions.
const INNODB: &[&str] = &["btr_", "buf_", "dict_", "fil_", "fsp_", "os_event", "row_", "srv_", "trx_"];

/// The stacks of a window.
pub(crate) fn profile(window: &Window) -> Result<&Profile, Unavailable> {
    let missing = || window.profile.unavailable().cloned();
    let profile = window.profile.value();
    profile.ok_or_else(|| missing().unwrap_or_else(|| Unavailable::because("no stacks were taken")))
}

/// The same, where there are enough snapshots for a mean.
pub(crate) fn with_enough_snapshots(window: &Window) -> Result<&Profile, Unavailable> {
    let profile = profile(window)?;
    if profile.snapshots.len() < ENOUGH {
        return Err(Unavailable::because(format!(
            "only {} snapshots of the stacks were taken, {ENOUGH} are needed",
            profile.snapshots.len()
        ))
        .unlock("a longer window, --duration 10s"));
    }
    Ok(profile)
}

/// Who blocks others, and who is blocked.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Functions that do it: a thread with one of them on its stack, which does not itself wait for it.
    pub(crate) does: &'static [&'static str],
    /// True for the stack (names, innermost first) of a session that waits for it, spinning or asleep.
    pub(crate) waits: fn(&[&str]) -> bool,
    /// True for the stack of a session that waits for it where the same snapshot shows somebody who does it or waits
    /// for it: the stack alone could wait for something else.
    pub(crate) waits_beside: fn(&[&str]) -> bool,
}

/// No stack waits so.
pub(crate) fn nobody(_: &[&str]) -> bool {
    false
}

/// Sessions that were blocked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stall {
    /// Sessions at work, mean of the snapshots.
    pub(crate) at_work: f64,
    /// Sessions that wait for it or do it, mean of the snapshots.
    pub(crate) held_up: f64,
    /// Threads that do it, mean of the snapshots.
    pub(crate) doing: f64,
    /// Sessions whose stack alone says that they wait for it, mean of the snapshots.
    pub(crate) waiting: f64,
    /// Share of the snapshots in which a thread did it.
    pub(crate) seen_ratio: f64,
    /// Sessions blocked in each snapshot.
    series: Series,
    /// The kernel's id of the thread that does most of it.
    doer: Option<u32>,
    /// Its stack.
    stack: Vec<String>,
}

impl Stall {
    /// Counts; none where hardly anybody is at work, so that nobody can be blocked.
    pub(crate) fn count(window: &Window, look: Look) -> Result<Option<Self>, Unavailable> {
        let profile = with_enough_snapshots(window)?;
        let stall = Self::from_profile(profile, look);
        if stall.at_work < HELD_UP {
            return Ok(None);
        }
        if !names_innodb(profile) {
            return Err(Unavailable::because("this server's program names no function of InnoDB")
                .unlock("install its debug symbols (Debian: mariadb-server-core-dbgsym)"));
        }
        Ok(Some(stall))
    }

    fn from_profile(profile: &Profile, look: Look) -> Self {
        let kinds: Vec<Kind> =
            (0..profile.stacks.len()).map(|at| Kind::of_stack(profile, at, look)).collect();
        let mut moments = vec![Moment::default(); profile.snapshots.len()];
        let mut doers: HashMap<u32, (usize, u32)> = HashMap::new();
        for one in &profile.observations {
            let Some(moment) = moments.get_mut(one.snapshot as usize) else { continue };
            let kind = kinds.get(one.stack as usize).copied().unwrap_or_default();
            moment.at_work += usize::from(kind.at_work || one.state == ThreadState::Running);
            moment.doing += usize::from(kind.does);
            moment.doing_for_clients += usize::from(kind.does && kind.at_work);
            moment.waiting += usize::from(kind.waits && kind.at_work);
            moment.beside += usize::from(kind.waits_beside && kind.at_work);
            if kind.does {
                let seen = doers.entry(one.thread).or_insert((0, one.stack));
                seen.0 += 1;
            }
        }
        let count = moments.len() as f64;
        let mean = |pick: fn(&Moment) -> usize| moments.iter().map(pick).sum::<usize>() as f64 / count;
        let at_s = |at: usize| profile.snapshots[at].at_us as f64 / 1e6;
        let series: Series =
            moments.iter().enumerate().map(|(at, moment)| (at_s(at), moment.held_up() as f64)).collect();
        let all: usize = doers.values().map(|(seen, _)| seen).sum();
        let doer = doers
            .into_iter()
            .max_by_key(|(thread, (seen, _))| (*seen, std::cmp::Reverse(*thread)))
            .filter(|(_, (seen, _))| *seen as f64 >= ONE_THREAD * all as f64);
        Self {
            at_work: mean(|moment| moment.at_work),
            held_up: crate::sessions::mean(series.iter().map(|&(_, held_up)| held_up)),
            doing: mean(|moment| moment.doing),
            waiting: mean(|moment| moment.waiting),
            seen_ratio: mean(|moment| usize::from(moment.doing > 0)),
            series,
            doer: doer.and_then(|(thread, _)| Some(profile.threads.get(thread as usize)?.tid)),
            stack: doer.map(|(_, (_, stack))| names_of(profile, stack)).unwrap_or_default(),
        }
    }

    /// Share of the sessions at work that are blocked.
    pub(crate) fn ratio(&self) -> f64 {
        (self.held_up / self.at_work.max(1.0)).min(1.0)
    }

    /// True where so many are blocked that it is a queue.
    pub(crate) fn matters(&self) -> bool {
        self.held_up >= HELD_UP && self.ratio() >= HELD_UP_RATIO
    }

    /// The readings that every such finding rests on.
    pub(crate) fn evidence(&self, whom: &str) -> [Evidence; 2] {
        [
            Evidence::new(whom, self.held_up, "", "stacks")
                .expected(format!("< {HELD_UP:.0}"))
                .series(self.series.clone()),
            Evidence::new("share of the sessions at work", self.ratio(), "ratio", "stacks")
                .expected(format!("< {HELD_UP_RATIO}")),
        ]
    }

    /// The thread that does it, where it is one: with its session, where it has one.
    pub(crate) fn root(&self, window: &Window) -> Option<Root> {
        let tid = u64::from(self.doer?);
        let lists = window.all(|s| &s.server.threads);
        let session: Option<&ServerThread> = lists
            .iter()
            .rev()
            .flat_map(|(_, threads)| threads.iter())
            .filter(|thread| thread.thread_os_id == Some(tid))
            .max_by_key(|thread| thread.statement.is_some());
        Some(Root {
            thread_os_id: Some(tid),
            connection_id: session.and_then(|session| session.connection_id),
            user: session.map(|session| session.user.clone()).unwrap_or_default(),
            statement: session.and_then(|session| session.statement.clone()).unwrap_or_default(),
            stack: self.stack.clone(),
        })
    }
}

/// What a stack means.
#[derive(Clone, Copy, Default)]
struct Kind {
    at_work: bool,
    does: bool,
    waits: bool,
    waits_beside: bool,
}

impl Kind {
    fn of_stack(profile: &Profile, stack: usize, look: Look) -> Self {
        let observation = Observation { stack: stack as u32, ..Observation::default() };
        let names: Vec<&str> = spin_samples::names(profile, &observation).collect();
        let waits = (look.waits)(&names);
        let does = !waits && names.iter().any(|name| look.does.contains(name));
        let waits_beside = !does && !waits && (look.waits_beside)(&names);
        Self { at_work: names.contains(&"dispatch_command"), does, waits, waits_beside }
    }
}

/// One snapshot, counted.
#[derive(Clone, Copy, Default)]
struct Moment {
    at_work: usize,
    doing: usize,
    doing_for_clients: usize,
    waiting: usize,
    beside: usize,
}

impl Moment {
    fn held_up(&self) -> usize {
        let beside = if self.doing + self.waiting > 0 { self.beside } else { 0 };
        self.doing_for_clients + self.waiting + beside
    }
}

/// The stack that a thread was seen in most; empty where it was not seen.
pub(crate) fn stack_of(window: &Window, thread_os_id: u64) -> Vec<String> {
    let Some(profile) = window.profile.value() else { return Vec::new() };
    let mut counted: HashMap<u32, usize> = HashMap::new();
    for one in &profile.observations {
        if profile.threads.get(one.thread as usize).is_some_and(|seen| u64::from(seen.tid) == thread_os_id) {
            *counted.entry(one.stack).or_default() += 1;
        }
    }
    let most = counted.into_iter().max_by_key(|&(stack, count)| (count, std::cmp::Reverse(stack)));
    most.map(|(stack, _)| names_of(profile, stack)).unwrap_or_default()
}

fn names_of(profile: &Profile, stack: u32) -> Vec<String> {
    let observation = Observation { stack, ..Observation::default() };
    spin_samples::names(profile, &observation).map(str::to_owned).collect()
}

fn names_innodb(profile: &Profile) -> bool {
    profile
        .frames
        .iter()
        .any(|frame| !frame.kernel && INNODB.iter().any(|begin| frame.name.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::*;
    use crate::Outcome;
    use crate::causes::{file_extension_stall, storage_stalled};

    #[test]
    fn every_cause_asks_for_the_same_number_of_snapshots() {
        for cause in [&file_extension_stall::CAUSE, &storage_stalled::CAUSE] {
            let mut window = (cause.examples.fires)();
            let Reading::Available { value: profile, .. } = &mut window.profile else {
                panic!("{} rests on stacks", cause.name)
            };
            profile.snapshots.truncate(ENOUGH - 1);
            let Outcome::NotEnoughEvidence(missing) = cause.evaluate(&window, None) else {
                panic!("{} needs more snapshots", cause.name)
            };
            assert_eq!(Err(missing), with_enough_snapshots(&window).map(|_| ()), "{}", cause.name);
        }
    }
}
