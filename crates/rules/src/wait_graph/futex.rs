//! Locks of the C library, as the process's memory tells who holds them.

use spindoctor_model::wait_graph::{FutexKind, FutexWait, LockKind, WaitEdge};

use super::builder::Builder;

/// Adds who waits for whose mutex or rw-lock. Nobody holds a condition variable: who waits for one waits to be told
/// something, even where another thread has the mutex behind it for a moment.
pub(super) fn add(builder: &mut Builder<'_>) {
    for wait in builder.readings.futex_waits {
        let kind = match wait.kind {
            FutexKind::Mutex => LockKind::Mutex,
            FutexKind::RwLock => LockKind::RwLock,
            FutexKind::Condition | FutexKind::Unknown => continue,
        };
        let waiter = builder.os_thread(wait.thread_os_id);
        let holder = wait.owner_os_id.map(|owner| builder.os_thread(owner));
        let edge =
            WaitEdge { kind, object: object(wait, kind), waited_s: wait.waited_s, ..WaitEdge::default() };
        builder.add(waiter, holder.clone(), edge);
        if let Some(holder) = holder.filter(|_| wait.owner_has_ended) {
            builder.has_ended(holder);
        }
    }
}

/// `mutex 0x7f52c8001a40, wanted in Fil_shard::open_file`. A rw-lock counts its readers and does not know who they are.
fn object(wait: &FutexWait, kind: LockKind) -> String {
    let what = if kind == LockKind::RwLock { "rw-lock" } else { "mutex" };
    let readers = match wait.readers {
        0 => String::new(),
        1 => ", held by 1 reader".to_owned(),
        readers => format!(", held by {readers} readers"),
    };
    let wanted = match wait.asked_by.as_str() {
        "" => String::new(),
        asked_by => format!(", wanted in {asked_by}"),
    };
    format!("{what} {:#x}{readers}{wanted}", wait.futex)
}
