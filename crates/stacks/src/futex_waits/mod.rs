//! Who holds the locks of the C library that threads wait for: read from the process's memory, no thread stopped.
//!
//! In: the threads that a snapshot saw in futex(2), and their frames. Out: for each its lock's kind, owner, and the
//! function that asked for it. `frames` decides what the futex belongs to, and `layout` knows where a lock keeps its
//! owner. This file reads, and makes sure that all it read is from one instant: it reads before and after how often
//! each thread ran, and leaves out threads that ran in between.

mod frames;
mod layout;

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use spindoctor_model::wait_graph::{FutexKind, FutexWait, MutexBehind};

use crate::capture::procfs::{Position, Ran, read_text};
use crate::classify::is_in_futex;
use crate::process::{after_name, tasks};
use crate::process_memory::read_array;
use frames::Waiting;
pub use frames::WaitingFrame;
use layout::{Held, MUTEX_BYTES, RWLOCK_BYTES};

/// As much of a stack, from the innermost frame on, as holds the frames of `pthread_cond_wait`: 400 bytes in
/// glibc 2.36, with some room for others.
const WAITING_STACK_BYTES: usize = 1024;

/// A thread that a snapshot saw waiting on a futex.
#[derive(Debug, Clone, Default)]
pub struct Waiter<'a> {
    /// Its thread id, in the profiler's pid namespace.
    pub tid: u32,
    /// The address that it waits on.
    pub futex: u64,
    /// For how long, where the snapshot says.
    pub waited: Option<Duration>,
    /// Its frames, innermost first.
    pub frames: Vec<WaitingFrame<'a>>,
}

/// What was found out about waiting threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FutexWaits {
    /// Those that waited throughout.
    pub waits: Vec<FutexWait>,
    /// Waits for locks that were over when the locks were read.
    pub moved_on: u64,
    /// Why nothing is known of the owners, where that is so.
    pub note: Option<String>,
}

/// Looks at who holds what these threads of a process wait for.
pub fn futex_waits(pid: u32, waiters: &[Waiter<'_>]) -> FutexWaits {
    let mut found = FutexWaits::default();
    let mut seen: Vec<Observed<'_>> =
        waiters.iter().map(|waiter| Observed::before_reading(pid, waiter)).collect();
    let mut locks = Locks::default();
    for one in &mut seen {
        one.read(&mut locks);
    }
    let mut names = ThreadIds::of_process(pid);
    for one in &seen {
        let wait = FutexWait {
            thread_os_id: one.waiter.tid.into(),
            futex: one.waiter.futex,
            lock: one.lock,
            kind: one.waiting.kind,
            waited_s: one.waiter.waited.map(|waited| waited.as_secs_f64()),
            asked_by: one.waiting.asked_by.to_owned(),
            ..FutexWait::default()
        };
        let is_lock = matches!(wait.kind, FutexKind::Mutex | FutexKind::RwLock);
        match &one.before {
            Before::NotAsked => found.waits.push(wait),
            Before::Refused(error) => {
                if is_lock && found.note.is_none() {
                    found.note = Some(format!(
                        "who holds its mutexes is not known: what its threads wait on may not be read: {error}; run as \
                         root, or grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
                    ));
                }
                found.waits.push(wait);
            }
            Before::Blocked { ran, .. } if Ran::read(pid, one.waiter.tid) == *ran && !one.is_free => {
                let (owner_os_id, owner_has_ended) = names.owner(one.owner);
                let behind = one.behind.map(|(mutex, owner)| {
                    let (owner_os_id, owner_has_ended) = names.owner(owner);
                    MutexBehind { mutex, owner_os_id, owner_has_ended }
                });
                found.waits.push(FutexWait {
                    owner_os_id,
                    owner_has_ended,
                    readers: one.readers,
                    behind,
                    ..wait
                });
            }
            Before::Blocked { .. } | Before::Elsewhere => found.moved_on += u64::from(is_lock),
        }
    }
    found
}

/// A waiting thread, and what was read of it and its lock.
struct Observed<'a> {
    waiter: &'a Waiter<'a>,
    waiting: Waiting<'a>,
    before: Before,
    /// Where the lock lies.
    lock: u64,
    /// As the lock has it: a thread id in the process's own pid namespace; 0 for none.
    owner: u32,
    readers: u32,
    is_free: bool,
    /// The mutex behind a condition variable, and its owner.
    behind: Option<(u64, u32)>,
}

/// A thread before the locks were read.
enum Before {
    /// Its lock knows no owner.
    NotAsked,
    /// It waited on its futex, with these arguments, and had run so often.
    Blocked { ran: Option<Ran>, arguments: [u64; 3], sp: u64 },
    /// It had moved on.
    Elsewhere,
    /// The kernel does not say.
    Refused(io::Error),
}

impl Before {
    fn look_at(pid: u32, waiter: &Waiter<'_>) -> Self {
        // First how often it ran: where that is the same in the end, it waited all the time.
        let ran = Ran::read(pid, waiter.tid);
        match Position::read(pid, waiter.tid) {
            Ok(Position::Blocked { syscall, arguments, sp, .. })
                if is_in_futex(syscall, &arguments) && arguments[0] == waiter.futex =>
            {
                Self::Blocked { ran, arguments, sp }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Self::Refused(error),
            Ok(_) | Err(_) => Self::Elsewhere,
        }
    }
}

impl<'a> Observed<'a> {
    fn before_reading(pid: u32, waiter: &'a Waiter<'a>) -> Self {
        let mut waiting = Waiting::by(&waiter.frames);
        let before = match waiting.kind {
            FutexKind::Unknown => Before::NotAsked,
            _ => Before::look_at(pid, waiter),
        };
        if let Before::Blocked { arguments, .. } = &before
            && waiting.is_mutex_again(arguments)
        {
            waiting.kind = FutexKind::Mutex;
        }
        Self {
            waiter,
            waiting,
            before,
            lock: waiter.futex,
            owner: 0,
            readers: 0,
            is_free: false,
            behind: None,
        }
    }

    fn read(&mut self, locks: &mut Locks) {
        let Before::Blocked { arguments, sp, .. } = self.before else { return };
        let Waiter { tid, futex, .. } = *self.waiter;
        let held = match self.waiting.kind {
            // musl's locks have another layout, and a plain mutex of it does not know its owner.
            _ if self.waiting.is_musl => return,
            FutexKind::Mutex => locks.mutex(tid, futex),
            FutexKind::RwLock => {
                self.lock = layout::rwlock_of(futex, &arguments);
                locks.rwlock(tid, self.lock)
            }
            FutexKind::Condition => {
                let mutex = read_array::<WAITING_STACK_BYTES>(tid, sp)
                    .and_then(|stack| layout::mutex_behind(futex, &stack));
                self.behind = mutex.and_then(|mutex| match locks.mutex(tid, mutex)? {
                    Held::Free => Some((mutex, 0)),
                    Held::By { owner, .. } => Some((mutex, owner)),
                });
                return;
            }
            FutexKind::Unknown => return,
        };
        match held {
            Some(Held::Free) => self.is_free = true,
            Some(Held::By { owner, readers }) => (self.owner, self.readers) = (owner, readers),
            None => {}
        }
    }
}

/// Locks that were read, each once: all who wait for one see the same owner.
#[derive(Default)]
struct Locks(HashMap<u64, Option<Held>>);

impl Locks {
    fn mutex(&mut self, tid: u32, at: u64) -> Option<Held> {
        *self.0.entry(at).or_insert_with(|| Some(layout::mutex(&read_array::<MUTEX_BYTES>(tid, at)?)))
    }

    fn rwlock(&mut self, tid: u32, at: u64) -> Option<Held> {
        *self.0.entry(at).or_insert_with(|| Some(layout::rwlock(&read_array::<RWLOCK_BYTES>(tid, at)?)))
    }
}

/// What the threads of a process are called inside and outside of its pid namespace.
struct ThreadIds {
    pid: u32,
    /// Ours, by the process's own; none where they are the same, or nobody asked yet.
    ours: Option<HashMap<u32, u32>>,
    is_same: bool,
}

impl ThreadIds {
    fn of_process(pid: u32) -> Self {
        // Kernels before 4.1 do not say: there the ids are taken as they are.
        let is_same = ids(pid, pid).is_none_or(|(ours, its)| ours == its);
        Self { pid, ours: None, is_same }
    }

    /// Our id of an owner, and whether that thread has ended. The id of one that has ended is the process's own.
    fn owner(&mut self, owner: u32) -> (Option<u64>, bool) {
        // include/linux/threads.h: ids are below PID_MAX_LIMIT. What is not is no thread's.
        const PID_MAX_LIMIT: u32 = 4 << 20;
        if owner == 0 || owner >= PID_MAX_LIMIT {
            return (None, false);
        }
        match self.ours(owner) {
            Some(tid) if is_alive(self.pid, tid) => (Some(tid.into()), false),
            Some(tid) => (Some(tid.into()), true),
            None => (Some(owner.into()), true),
        }
    }

    fn ours(&mut self, its: u32) -> Option<u32> {
        if self.is_same {
            return Some(its);
        }
        let pid = self.pid;
        let ours = self.ours.get_or_insert_with(|| {
            tasks(pid).into_iter().filter_map(|tid| ids(pid, tid).map(|(ours, its)| (its, ours))).collect()
        });
        ours.get(&its).copied()
    }
}

/// A thread's id as we have it and as it has it itself.
fn ids(pid: u32, tid: u32) -> Option<(u32, u32)> {
    let status = read_text(pid, tid, "status").ok()?;
    // NSpid:	4351	17        (Linux 4.1 and later; the last is the innermost namespace's)
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some((tid, line.split_ascii_whitespace().last()?.parse().ok()?))
}

/// False for one that has ended; the first thread may end before the others, and is listed still.
fn is_alive(pid: u32, tid: u32) -> bool {
    read_text(pid, tid, "stat")
        .is_ok_and(|stat| after_name(&stat).next().is_some_and(|state| !matches!(state, "Z" | "X")))
}
