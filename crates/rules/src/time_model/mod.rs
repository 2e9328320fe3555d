//! The time model: where the time of the sessions at work goes, split into classes without overlap.
//!
//! In: a window. Out: its [`SessionTime`]. The best of two sources gives the account: snapshots of the threads' stacks, where
//! they were taken and the server's functions have names; else the process list. How long sessions ran, and how long they
//! waited for a CPU, the kernel's clocks say better than either: a snapshot needs a CPU itself, and sees fewer threads run
//! than do. Who sleeps on purpose and who is idle is not at work.

mod account;
mod by_list;
mod by_stack;
mod explained;
mod in_classes;
mod score;
mod stacks;
pub(crate) mod tables;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use spindoctor_model::stack::{Observation, Profile, Spin};
use spindoctor_model::{KnownBy, SessionTime, TimeClass, Window};

use crate::replication_group;
use crate::row_lock_time;
use crate::run_queue::{QueuedFor, RunQueue, ran_and_queued_of, stolen_from_server};
use account::Account;
pub(crate) use by_list::InnodbLocks;
pub(crate) use explained::{ORDINARY, explained, share_of, unnamed, waits};
pub(crate) use in_classes::{InClasses, blocker, is_worth_a_finding};
pub(crate) use score::{FEW, SESSIONS, set_scores, severity};
use stacks::StackWork;
pub(crate) use stacks::{has_a_state, is_file_system_call, wait_class};

/// CPU samples of sessions below which spinning and the kernel are not distinguished from other work.
const SAMPLES: usize = 50;

/// States of the process list that a session keeps while it goes on: it runs in them as often as it waits. Where the clocks
/// say how much ran, that comes out of these first.
const VAGUE: &[TimeClass] =
    &[TimeClass::Running, TimeClass::TableCache, TimeClass::Network, TimeClass::PrivilegeCache];

/// The account of a window. None where neither stacks nor lists were read.
pub fn session_time(window: &Window) -> Option<SessionTime> {
    let mut account = match by_stack::account(window) {
        Some((mut account, clients)) => {
            let seen = account.sessions(&[TimeClass::Running]);
            if let Some((cpu, queue)) = clocks(window, &clients).or_else(|| by_snapshots(window, seen)) {
                // Threads that came and went within the window are in no clock, but in the snapshots: the larger is true.
                // So are those whose CPU the hypervisor gave to others, which are no time on a CPU.
                let stolen = stolen_of(window, seen - (cpu + queue));
                let scale = if cpu + queue > 0.0 { ((seen - stolen) / (cpu + queue)).max(1.0) } else { 0.0 };
                account.take(&[TimeClass::Running], 1.0);
                // What was seen to wait is what there is beside those that the clocks have on a CPU or in its queue.
                let waits: Vec<TimeClass> = account.classes();
                add_clocks(window, &mut account, &clients, cpu * scale, queue * scale);
                account.add(TimeClass::CpuTaken, stolen, KnownBy::Counter);
                account.bound(&waits);
            }
            match few_of_the_listed(window, &account) {
                Some(listed) => listed,
                None => account,
            }
        }
        None => {
            let (mut account, clients) = (by_list::account(window), listed_threads(window));
            let vague = account.sessions(VAGUE);
            if let Some((cpu, queue)) = clocks(window, &clients).or_else(|| by_snapshots(window, vague)) {
                by_clocks(window, &mut account, &clients, cpu, queue);
            }
            by_agreement(window, &mut account);
            account
        }
    };
    by_row_lock_time(window, &mut account);
    account.shares()
}

/// Of each stack of a profile, whether it is one of a session at work. Threads that rest between statements or sleep on purpose are none,
/// nor are those of the server itself: a share of all threads would say nothing.
pub(crate) fn at_work(profile: &Profile) -> Vec<bool> {
    StackWork::from_profile(profile).iter().map(StackWork::counts).collect()
}

/// Of what somebody captured: stacks of a few threads beside a list of many sessions at work, as where one thread was copied. The
/// account is then that of the list, with what the stacks say in place of states without a word for it.
fn few_of_the_listed(window: &Window, stacks: &Account) -> Option<Account> {
    /// The list must have so many for each that the stacks show. By judgement: the two may be some seconds apart.
    const TIMES: f64 = 2.0;
    let mut listed = window.is_given().then(|| by_list::account(window))?;
    if listed.at_work() < TIMES * stacks.at_work() {
        return None;
    }
    for class in
        stacks.classes().into_iter().filter(|class| !VAGUE.contains(class) && *class != TimeClass::Other)
    {
        let missing = stacks.sessions(&[class]) - listed.sessions(&[class]);
        let vague = listed.sessions(VAGUE);
        if missing > 0.0 && vague > 0.0 {
            let moved = missing.min(vague);
            listed.take(VAGUE, moved / vague);
            listed.add(class, moved, KnownBy::Stack);
        }
    }
    Some(listed)
}

/// Names waits without a name by InnoDB's count of the time in row locks: where its functions have no names, a list once a second
/// does not say who waits for a lock that goes from hand to hand.
fn by_row_lock_time(window: &Window, account: &mut Account) {
    let seen = account.sessions(&[TimeClass::RowLock]);
    let missing = row_lock_time::counted(window).map_or(0.0, |counted| counted - seen);
    account.name_nameless(TimeClass::RowLock, missing);
}

/// Names commits by Group Replication's clock of the agreements: a list has one word for all that a commit waits for.
fn by_agreement(window: &Window, account: &mut Account) {
    let commits = account.sessions(&[TimeClass::Commit]);
    let agreeing = replication_group::agreeing_sessions(window).map_or(0.0, |agreeing| agreeing.min(commits));
    if agreeing > 0.0 {
        account.take(&[TimeClass::Commit], agreeing / commits);
        account.add(TimeClass::GroupReplication, agreeing, KnownBy::Counter);
    }
}

/// Takes what the clocks say out of the account of the lists: out of the vague states first, then out of all that is left in
/// proportion. What has no word and did not run waits for something that the list does not say. Where the clocks count more
/// than the lists do, the clocks are right: a list is made when the thread that makes it has a CPU, and others have none.
fn by_clocks(window: &Window, account: &mut Account, clients: &BTreeSet<u32>, cpu: f64, queue: f64) {
    let mut left = cpu + queue;
    for pool in [&VAGUE[..1], VAGUE, TimeClass::ALL] {
        let there = account.sessions(pool);
        if there > 0.0 && left > 0.0 {
            let taken = left.min(there);
            account.take(pool, taken / there);
            left -= taken;
        }
    }
    let unclear = account.sessions(&[TimeClass::Running]);
    let stolen = stolen_of(window, unclear);
    if stolen > 0.0 {
        account.take(&[TimeClass::Running], stolen / unclear);
        account.add(TimeClass::CpuTaken, stolen, KnownBy::Counter);
    }
    account.rename(TimeClass::Running, TimeClass::Other, KnownBy::Inferred);
    add_clocks(window, account, clients, cpu, queue);
}

/// Of sessions that are said to run and are in no clock, those whose CPU the hypervisor gave to others.
fn stolen_of(window: &Window, unclocked: f64) -> f64 {
    let own = RunQueue::from_window(window).map_or(0.0, |queue| queue.running);
    stolen_from_server(window, own).unwrap_or(0.0).min(unclocked).max(0.0)
}

/// Adds time on a CPU, split by CPU samples, and time in its queue, split by what kept the threads there.
fn add_clocks(window: &Window, account: &mut Account, clients: &BTreeSet<u32>, cpu: f64, queue: f64) {
    let (spin, kernel) = spin_and_kernel(window, clients);
    account.add(TimeClass::Spin, cpu * spin, KnownBy::Stack);
    account.add(TimeClass::Kernel, cpu * kernel, KnownBy::Stack);
    account.add(TimeClass::Cpu, cpu * (1.0 - spin - kernel), KnownBy::Counter);
    let QueuedFor { quota, others } = QueuedFor::from_window(window);
    account.add(TimeClass::CpuQuota, queue * quota, KnownBy::Counter);
    account.add(TimeClass::CpuTaken, queue * others, KnownBy::Counter);
    account.add(TimeClass::CpuQueue, queue * (1.0 - quota - others), KnownBy::Counter);
}

/// Sessions on a CPU and sessions waiting for one, on average, by the kernel's clocks. None where these were not read for
/// most of the threads.
fn clocks(window: &Window, clients: &BTreeSet<u32>) -> Option<(f64, f64)> {
    let threads = window.change(|s| &s.host.threads)?;
    let known = threads.last.iter().filter(|thread| clients.contains(&thread.tid)).count();
    if known == 0 || known * 2 < clients.len() {
        return None;
    }
    let (ran_s, queued_s) = ran_and_queued_of(&threads, |tid| clients.contains(&tid));
    Some((ran_s / threads.seconds, queued_s / threads.seconds))
}

/// The same where the threads' clocks were not read twice, as in a stall of seconds of a recording, which has them twice a minute: no
/// more than these sessions, split as the threads were that the snapshots show runnable, of which the server's clock says how many ran.
fn by_snapshots(window: &Window, sessions: f64) -> Option<(f64, f64)> {
    let is_read_twice = window.change(|s| &s.host.threads).is_some();
    let queue = if is_read_twice { None } else { RunQueue::of_snapshots(window) }?;
    let runnable = queue.runnable();
    let sessions = sessions.min(runnable);
    (sessions > 0.0).then(|| (sessions * queue.running / runnable, sessions * queue.queued / runnable))
}

/// Shares of the sessions' CPU samples in spin-wait loops and in the rest of the kernel, 0 to 1.
fn spin_and_kernel(window: &Window, clients: &BTreeSet<u32>) -> (f64, f64) {
    let Some(profile) = window.profile.value() else { return (0.0, 0.0) };
    let is_client = |sample: &&Observation| {
        profile.threads.get(sample.thread as usize).is_some_and(|thread| clients.contains(&thread.tid))
    };
    let samples: Vec<&Observation> = profile.samples().iter().filter(is_client).collect();
    if samples.len() < SAMPLES {
        return (0.0, 0.0);
    }
    let in_kernel = |sample: &Observation| {
        let stack = profile.stacks.get(sample.stack as usize);
        let innermost = stack.and_then(|stack| stack.frames.first());
        innermost.and_then(|&at| profile.frames.get(at as usize)).is_some_and(|frame| frame.kernel)
    };
    let spins =
        samples.iter().filter(|sample| matches!(sample.spin, Some(Spin::User | Spin::Kernel))).count();
    let kernel = samples.iter().filter(|sample| sample.spin.is_none() && in_kernel(sample)).count();
    let all = samples.len() as f64;
    (spins as f64 / all, kernel as f64 / all)
}

/// Kernel ids of the threads that the lists name as connections: who was idle in each list worked between them.
fn listed_threads(window: &Window) -> BTreeSet<u32> {
    let lists = window.all(|sample| &sample.server.threads);
    let threads = lists.iter().flat_map(|(_, threads)| threads.iter()).filter(|thread| thread.is_connection);
    threads.filter_map(|thread| u32::try_from(thread.thread_os_id?).ok()).collect()
}
