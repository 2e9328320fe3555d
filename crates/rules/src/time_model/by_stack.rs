//! The account by the stacks: each snapshot is the list of the threads at work, and the kernel's clocks say how long they ran.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::{Observation, Profile, StackSource, ThreadState};
use spindoctor_model::{KnownBy, TimeClass, Window};

use super::account::Account;
use super::by_list::{InnodbLocks, is_sleeping, sleeps_in_trigger};
use super::stacks::{Doing, StackWork, of_state};
use crate::sessions::at_work;

/// Snapshots below which they give no account. On a server whose CPUs are full two a second are all that the profiler's budget
/// allows; how far their shares differ is printed as the account's error. Of what somebody captured one is all that there is.
const ENOUGH: usize = 10;

/// The process list is asked once a second: a state is that of a snapshot at most this far from it, seconds.
const NEAR_S: f64 = 0.6;

/// Lists in which spindoctor's own thread is missing, before a thread that is always there counts as its own.
const LISTS: usize = 3;

/// The account of the snapshots of a window, and the kernel ids of the threads that serve clients. None where there are
/// too few snapshots, or where the server's functions have no names, so that a session at work cannot be distinguished
/// from an idle one.
pub(super) fn account(window: &Window) -> Option<(Account, BTreeSet<u32>)> {
    let (from_s, profile) = window.profile.timed()?;
    let is_inner = |name: &str| {
        super::tables::BELOW_STATEMENT.iter().any(|begin| name.starts_with(begin))
            || super::tables::WAITS.iter().any(|(wait, _)| *wait == name)
    };
    // Of a text that shows ends of connections alone, those that wait are known by themselves.
    let has_names = profile.frames.iter().any(|frame| {
        super::tables::STATEMENT.contains(&frame.name.as_str())
            || profile.is_of_a_text() && is_inner(&frame.name)
    }) || profile.is_of_a_text()
        && StackWork::from_profile(profile).iter().any(|stack| stack.is_at_work);
    let is_enough = profile.snapshots.len() >= ENOUGH || profile.is_of_a_text();
    // Samples of what ran are no list of who is there, however many there are.
    let is_of_cpu = profile.source == StackSource::Cpu;
    if profile.snapshots.is_empty() || !is_enough || !has_names || is_of_cpu {
        return None;
    }
    let sessions = Sessions::from_window(window, profile);
    let mut account = Account::default();
    let mut latest = None;
    for seen in &profile.observations {
        while latest.is_none_or(|latest| latest < seen.snapshot) {
            account.next_instant();
            latest = Some(latest.map_or(0, |latest| latest + 1));
        }
        let at_s = profile.snapshots.get(seen.snapshot as usize).map_or(0.0, |cost| cost.at_us as f64 / 1e6);
        sessions.count(&mut account, seen, from_s + at_s);
    }
    for _ in latest.map_or(0, |latest| latest as usize + 1)..profile.snapshots.len() {
        account.next_instant();
    }
    let clients = sessions.clients.iter().filter_map(|&at| profile.threads.get(at as usize));
    Some((account, clients.map(|thread| thread.tid).collect()))
}

/// A session in one process list.
#[derive(Debug, Clone, Copy)]
struct Listed<'a> {
    at_s: f64,
    /// Its state; None where it was not at work.
    state: Option<&'a str>,
    /// The lock of InnoDB that it waits for, by the lists of transactions and lock waits.
    wants: Option<TimeClass>,
    /// True for a change that sleeps only where a trigger does.
    sleeps_in_trigger: bool,
}

/// Who of the threads serves a client, and what each stack says.
struct Sessions<'a> {
    profile: &'a Profile,
    /// By place in [`Profile::stacks`].
    stacks: Vec<StackWork>,
    /// Places in [`Profile::threads`].
    clients: BTreeSet<u32>,
    /// Snapshots in which pages are being written, each with its latch held.
    page_writes: BTreeSet<u32>,
    /// Who stands at the latch of a page: snapshot, thread, stack.
    page_waits: HashSet<(u32, u32, u32)>,
    /// Snapshots in which a client's thread runs, or is ready to, or reads a disk: who has the latch of a page may be one of these.
    busy: BTreeSet<u32>,
    /// What the process list says, by the kernel's thread id, in order of time.
    states: HashMap<u64, Vec<Listed<'a>>>,
    /// Of each list, what most of those wait for that wait in the metadata locks' mechanism and whose thread it does not name
    /// (MySQL to 5.6), with its time.
    of_nobody: Vec<(f64, &'a str)>,
}

impl<'a> Sessions<'a> {
    fn from_window(window: &'a Window, profile: &'a Profile) -> Self {
        let stacks = StackWork::from_profile(profile);
        let mut states: HashMap<u64, Vec<Listed<'_>>> = HashMap::new();
        let lists = window.all(|sample| &sample.server.threads);
        let of_nobody = lists.iter().filter_map(|(at_s, threads)| Some((*at_s, most_waited_for(threads)?)));
        let of_nobody = of_nobody.collect();
        for sample in &window.samples {
            let locks = InnodbLocks::from_sample(sample);
            for thread in
                sample.server.threads.value().into_iter().flatten().filter(|thread| thread.is_connection)
            {
                if let Some(tid) = thread.thread_os_id {
                    let state = thread.is_at_work().then_some(thread.state.as_str());
                    let wants = thread.connection_id.and_then(|id| locks.wanted_by(id));
                    let sleeps_in_trigger = sleeps_in_trigger(thread);
                    let listed = Listed { at_s: sample.at_s, state, wants, sleeps_in_trigger };
                    states.entry(tid).or_default().push(listed);
                }
            }
        }
        let mut clients = BTreeSet::new();
        let mut times_seen: BTreeMap<u32, usize> = BTreeMap::new();
        let mut page_writes = BTreeSet::new();
        let mut page_waits = HashSet::new();
        let mut busy = BTreeSet::new();
        for seen in &profile.observations {
            if let Some(stack) = stacks.get(seen.stack as usize) {
                let goes_on = matches!(
                    seen.state,
                    ThreadState::Running | ThreadState::Runnable | ThreadState::DiskRead
                );
                if stack.is_connection && (goes_on || stack.waits_for_read()) {
                    busy.insert(seen.snapshot);
                }
                if stack.waits_for_page {
                    page_waits.insert((seen.snapshot, seen.thread, seen.stack));
                }
                if stack.writes_pages && matches!(seen.state, ThreadState::DiskWrite | ThreadState::Sync) {
                    page_writes.insert(seen.snapshot);
                }
            }
            *times_seen.entry(seen.thread).or_default() += 1;
            if stacks.get(seen.stack as usize).is_some_and(|stack| stack.is_connection) {
                clients.insert(seen.thread);
            }
        }
        let tid = |at: u32| profile.threads.get(at as usize).map_or(0, |thread| u64::from(thread.tid));
        clients.extend((0..profile.threads.len() as u32).filter(|&at| states.contains_key(&tid(at))));
        // spindoctor's own session is in no list, and there all the time. Where the lists name no thread that the profile
        // knows, the two count threads differently (a container), and nothing follows.
        let is_listed = clients.iter().any(|&at| states.contains_key(&tid(at)));
        if lists.len() >= LISTS && is_listed {
            clients.retain(|at| {
                let always =
                    times_seen.get(at).is_some_and(|&times| times * 10 >= profile.snapshots.len() * 9);
                states.contains_key(&tid(*at)) || !always
            });
        }
        Self { profile, stacks, clients, page_writes, page_waits, busy, states, of_nobody }
    }

    /// True for a wait for the latch of a page that is being written, as far as it can be seen: pages are written in the same snapshot,
    /// and the wait lasts from one snapshot to the next, or no client goes on that may have the latch. For a page that many want and
    /// nobody writes the wait is over within microseconds, and who has it runs. How many snapshots there are in a second changes
    /// how many waits last for two, and not what the others do in one.
    fn is_behind_a_write(&self, seen: &Observation) -> bool {
        let stands = |snapshot| self.page_waits.contains(&(snapshot, seen.thread, seen.stack));
        let still = || stands(seen.snapshot + 1) || seen.snapshot.checked_sub(1).is_some_and(stands);
        let by_nobody = || !self.busy.contains(&seen.snapshot);
        self.page_writes.contains(&seen.snapshot) && stands(seen.snapshot) && (still() || by_nobody())
    }

    /// Counts an observation at a time of the window.
    fn count(&self, account: &mut Account, seen: &Observation, at_s: f64) {
        if !self.clients.contains(&seen.thread) {
            return;
        }
        let Some(work) = self.stacks.get(seen.stack as usize) else { return };
        account.present += 1.0;
        let listed = self.listed(seen.thread, at_s);
        let state = listed.and_then(|listed| listed.state);
        let sleeps_in_trigger = listed.is_some_and(|listed| listed.sleeps_in_trigger);
        // Of a text that leaves out the innermost functions a thread that rests seems to run.
        let rests = self.profile.is_of_a_text() && work.is_at_rest;
        let runs = matches!(seen.state, ThreadState::Running | ThreadState::Runnable) && !rests;
        // A thread of a client that runs, or would, has something to do, even where its stack is still that of the wait for the
        // next statement: the statement has come, and the thread waits for a CPU to read it.
        let is_at_work = runs || if work.is_empty { state.is_some() } else { work.is_at_work };
        if !is_at_work {
            return;
        }
        let of_lock =
            || if work.waits_for_metadata_lock() { self.lock_state(seen.thread, at_s) } else { None };
        // No text says whether a thread ran, only where it stood: who spins for a latch waits for it.
        let thread_state = match seen.state {
            ThreadState::Running if self.profile.is_of_a_text() && work.waits_for_latch() => {
                ThreadState::Lock
            }
            state => state,
        };
        match work.doing(thread_state, state.or_else(of_lock)) {
            Doing::Sleeps if sleeps_in_trigger => {
                account.see(TimeClass::Other, KnownBy::Stack, &work.innermost);
            }
            Doing::Sleeps => account.sleeping += 1.0,
            Doing::Waits(_) if work.is_empty && state.is_some_and(is_sleeping) && !sleeps_in_trigger => {
                account.sleeping += 1.0;
            }
            // No clock says of a text what they ran, and where they stood is all that is known.
            Doing::Runs => {
                let seen = if self.profile.is_of_a_text() { work.innermost.as_str() } else { "" };
                account.see(TimeClass::Running, KnownBy::Stack, seen);
            }
            // InnoDB's functions have no names: its lists say whether it is a lock.
            Doing::Waits(TimeClass::Other) if listed.is_some_and(|listed| listed.wants.is_some()) => {
                let class = listed.and_then(|listed| listed.wants).unwrap_or(TimeClass::RowLock);
                account.see(class, KnownBy::List, &work.innermost);
            }
            Doing::Waits(TimeClass::Latch) if self.is_behind_a_write(seen) => {
                let seen = format!("a page that is being written: {}", work.innermost);
                account.see(TimeClass::Write, KnownBy::Inferred, &seen);
            }
            Doing::Waits(class) => {
                let shown = work.shown(thread_state, class);
                let seen = if shown.is_empty() { state.unwrap_or_default() } else { shown };
                let is_open = class == TimeClass::Other && work.is_in_nameless_engine;
                let known_by = if is_open { KnownBy::Inferred } else { KnownBy::Stack };
                account.see(class, known_by, seen);
            }
        }
    }

    /// The state of a session that stands in the metadata locks' functions, from the nearest list however far: such a wait lasts, and
    /// the stack alone does not say which of these locks it is.
    fn lock_state(&self, thread: u32, at_s: f64) -> Option<&'a str> {
        let tid = self.profile.threads.get(thread as usize)?.tid;
        let far = |listed_at_s: f64| (listed_at_s - at_s).abs();
        match self.states.get(&u64::from(tid)) {
            Some(lists) => {
                let waiting = lists.iter().filter(|listed| listed.state.is_some_and(is_of_metadata_locks));
                waiting.min_by(|a, b| far(a.at_s).total_cmp(&far(b.at_s)))?.state
            }
            None => {
                self.of_nobody.iter().min_by(|a, b| far(a.0).total_cmp(&far(b.0))).map(|(_, state)| *state)
            }
        }
    }

    /// What the process list says of a session at about that time; none where it was not asked.
    fn listed(&self, thread: u32, at_s: f64) -> Option<&Listed<'a>> {
        let tid = self.profile.threads.get(thread as usize)?.tid;
        let lists = self.states.get(&u64::from(tid))?;
        let nearest = lists.iter().min_by(|a, b| (a.at_s - at_s).abs().total_cmp(&(b.at_s - at_s).abs()))?;
        ((nearest.at_s - at_s).abs() <= NEAR_S).then_some(nearest)
    }
}

/// True for a state of who waits for one of the locks that are all one mechanism of the server.
fn is_of_metadata_locks(state: &str) -> bool {
    matches!(
        of_state(state),
        Some(
            TimeClass::MetadataLock | TimeClass::GlobalLock | TimeClass::UserLock | TimeClass::PrivilegeCache
        )
    )
}

/// The commonest of the states of those in a list that wait for such a lock and whose thread the list does not name.
fn most_waited_for(threads: &[ServerThread]) -> Option<&str> {
    let mut waiting: BTreeMap<&str, usize> = BTreeMap::new();
    for thread in at_work(threads).filter(|thread| thread.thread_os_id.is_none()) {
        if is_of_metadata_locks(&thread.state) {
            *waiting.entry(&thread.state).or_default() += 1;
        }
    }
    waiting.into_iter().max_by_key(|&(_, sessions)| sessions).map(|(state, _)| state)
}
