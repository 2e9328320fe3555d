//! Locks of the C library, as the process's memory tells who holds them.

use spindoctor_model::wait_graph::{FutexKind, FutexWait, LockKind, WaitEdge};

use super::builder::Builder;

/// Adds who waits for whose mutex or rw-lock. Nobody holds a condition variable, but where the mutex behind it has an
/// owner, that one is waited for.
pub(super) fn add(builder: &mut Builder<'_>) {
    for wait in builder.readings.futex_waits {
        let kind = match (wait.kind, wait.owner_os_id) {
            (FutexKind::Mutex, _) | (FutexKind::Condition, Some(_)) => LockKind::Mutex,
            (FutexKind::RwLock, _) => LockKind::RwLock,
            (FutexKind::Condition, None) | (FutexKind::Unknown, _) => continue,
        };
        let waiter = builder.os_thread(wait.thread_os_id);
        let holder = wait.owner_os_id.map(|owner| builder.os_thread(owner));
        let edge = WaitEdge { kind, object: object(wait, kind), ..WaitEdge::default() };
        builder.add(waiter, holder.clone(), edge);
        if let Some(holder) = holder.filter(|_| wait.owner_has_ended) {
            builder.has_ended(holder);
        }
    }
}

/// `mutex 0x7f52c8001a40, wanted in Fil_shard::open_file`.
fn object(wait: &FutexWait, kind: LockKind) -> String {
    let what = if kind == LockKind::RwLock { "rw-lock" } else { "mutex" };
    match wait.asked_by.as_str() {
        "" => format!("{what} {:#x}", wait.futex),
        asked_by => format!("{what} {:#x}, wanted in {asked_by}", wait.futex),
    }
}
