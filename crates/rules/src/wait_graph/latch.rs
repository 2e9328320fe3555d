//! Latches of InnoDB: mutexes and rw-locks, as the section SEMAPHORES of `SHOW ENGINE INNODB STATUS` prints them.
//!
//! The section names threads by `pthread_self`. It names the writer of an rw-lock or, from 8.0 on, its only reader.
//! MariaDB 10.6 and later print none: their latches are futexes.

use spindoctor_model::Profile;
use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait};
use spindoctor_model::wait_graph::{LockKind, WaitEdge};

use super::builder::Builder;
use super::stacks::Stacks;

/// What an rw-lock is, by the file that made it (mysql-facts: sync0rw's creators, MySQL 5.1 to 9.7).
const CREATORS: [(&str, &str); 9] = [
    ("dict0dict", "index or dictionary rw-lock"),
    ("dict0mem", "dictionary rw-lock"),
    ("hash0hash", "page hash rw-lock"),
    ("buf0buf", "page rw-lock"),
    ("fil0fil", "tablespace rw-lock"),
    ("btr0sea", "adaptive hash index rw-lock"),
    ("trx0purge", "purge rw-lock"),
    ("trx0rseg", "rollback segments rw-lock"),
    ("log0log", "redo log rw-lock"),
];

/// In which every thread is that the section prints (mysql-facts: sync0arr.cc, MySQL 5.5 to 9.7).
const WAITING: &str = "sync_array_wait_event";

/// A thread that every MySQL server has, in a function of InnoDB's.
const ALWAYS_THERE: &str = "srv_master_thread";

/// False where the stacks show that no thread waits for a latch.
pub(super) fn may_be_waited_for(profile: Option<&Profile>) -> bool {
    let stacks = Stacks::from_profile(profile);
    let is_seen = |function| stacks.iter().any(|(_, standing)| standing.is_in(&[function]));
    !is_seen(ALWAYS_THERE) || is_seen(WAITING)
}

/// Adds who waits for whose latch.
pub(super) fn add(builder: &mut Builder<'_>) {
    let Some(status) = builder.readings.server.innodb_status.value() else { return };
    for wait in status.semaphores.waiters.iter().filter(|wait| !wait.ended) {
        if is_free(wait) {
            builder.moved_on(1);
            continue;
        }
        let waiter = builder.pthread(wait.pthread_id);
        let holder = wait.holder_pthread_id.map(|pthread| builder.pthread(pthread));
        let edge = WaitEdge {
            kind: LockKind::Latch,
            object: object(wait),
            mode: mode(wait.kind).to_owned(),
            waited_s: Some(wait.waited_s),
            ..WaitEdge::default()
        };
        builder.add(waiter, holder, edge);
    }
}

/// True for an rw-lock that nobody has any more: who is still listed has been woken and goes on.
pub(crate) fn is_free(wait: &SemaphoreWait) -> bool {
    wait.kind != SemaphoreKind::Mutex
        && wait.readers == Some(0)
        && wait.held_mode.is_none()
        && wait.holder_pthread_id.is_none()
}

/// `dict_sys mutex 0x7f52c8001a40`, `index or dictionary rw-lock 0x7f52c8001a40 (dict0dict.cc:2677)`. Every index has a
/// latch that was made at the same place: they differ by their address.
fn object(wait: &SemaphoreWait) -> String {
    format!("{} 0x{}{}", latch_kind(wait), wait.address.trim_start_matches("0x"), made(wait))
}

/// `dict_sys mutex (dict0dict.cc:2677)`, without the address that distinguishes latches of one kind.
pub(crate) fn latch_named(wait: &SemaphoreWait) -> String {
    format!("{}{}", latch_kind(wait), made(wait))
}

/// ` (dict0dict.cc:2677)`, where that is known.
fn made(wait: &SemaphoreWait) -> String {
    match (wait.created_file.as_str(), wait.created_line) {
        ("", _) => String::new(),
        (file, Some(line)) => format!(" ({file}:{line})"),
        (file, None) => format!(" ({file})"),
    }
}

fn latch_kind(wait: &SemaphoreWait) -> String {
    match (wait.kind, wait.name.as_str()) {
        (SemaphoreKind::Mutex, "") => "mutex".to_owned(),
        (SemaphoreKind::Mutex, name) => format!("{} mutex", name.to_lowercase()),
        (_, "") => {
            let stem = wait.created_file.split('.').next().unwrap_or_default();
            let known = CREATORS.iter().find(|(creator, _)| *creator == stem);
            known.map_or("rw-lock", |(_, what)| what).to_owned()
        }
        (_, name) => format!("rw-lock {name}"),
    }
}

fn mode(kind: SemaphoreKind) -> &'static str {
    match kind {
        SemaphoreKind::Shared => "S",
        SemaphoreKind::Exclusive | SemaphoreKind::WaitExclusive => "X",
        SemaphoreKind::SharedExclusive => "SX",
        SemaphoreKind::Mutex | SemaphoreKind::Unknown => "",
    }
}
