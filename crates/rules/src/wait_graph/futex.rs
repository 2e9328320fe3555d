//! Locks of the C library, with their holders as the process's memory shows them.

use spindoctor_model::wait_graph::{FutexKind, FutexWait, LockKind, WaitEdge};

use super::builder::Builder;

/// Adds who waits for whose mutex or rw-lock. Nobody holds a condition variable: a thread that waits for one waits for
/// a message, even where another thread has the mutex behind it for a moment.
pub(super) fn add(builder: &mut Builder<'_>) {
    let profile = builder.readings.profile.into_iter();
    for wait in profile.flat_map(|profile| &profile.futex_waits) {
        let kind = match wait.kind {
            FutexKind::Mutex => LockKind::Mutex,
            FutexKind::RwLock => LockKind::RwLock,
            FutexKind::Condition | FutexKind::Unknown => continue,
        };
        let waiter = builder.os_thread(wait.thread_os_id);
        let holder = wait.owner_os_id.map(|owner| builder.os_thread(owner));
        let edge = WaitEdge {
            kind,
            object: object(wait, kind),
            wanted_in: asked_by(builder, wait).to_owned(),
            waited_s: wait.waited_s,
            ..WaitEdge::default()
        };
        // One that takes a lock which it holds already waits for ever.
        builder.add_even_for_itself(waiter, holder.clone(), edge);
        if let Some(holder) = holder.filter(|_| wait.owner_has_ended) {
            builder.has_ended(holder);
        }
    }
}

/// Functions of the servers that only pass a lock on to the C library: who asked for it called them.
const PASSING_ON: [&str; 9] = [
    "psi_mutex_lock",
    "psi_rwlock_rdlock",
    "psi_rwlock_wrlock",
    "psi_prlock_rdlock",
    "psi_prlock_wrlock",
    "my_mutex_lock",
    "native_mutex_lock",
    "inline_mysql_mutex_lock",
    "safe_mutex_lock",
];

/// Who asked for a lock: the innermost function with a name that does more than pass it on.
fn asked_by<'a>(builder: &'a Builder<'_>, wait: &'a FutexWait) -> &'a str {
    let asked_by = wait.asked_by.as_str();
    if !PASSING_ON.contains(&asked_by) {
        return asked_by;
    }
    let Some(standing) = builder.stacks.of_thread(wait.thread_os_id) else { return asked_by };
    let outer = standing.frames.iter().skip_while(|frame| **frame != asked_by);
    let named = outer.filter(|frame| !frame.contains("+0x") && !PASSING_ON.contains(frame));
    named.copied().next().unwrap_or(asked_by)
}

/// `mutex 0x7f52c8001a40`. A rw-lock counts its readers and does not know who they are.
fn object(wait: &FutexWait, kind: LockKind) -> String {
    let what = if kind == LockKind::RwLock { "rw-lock" } else { "mutex" };
    let readers = match wait.readers {
        0 => String::new(),
        1 => ", held by 1 reader".to_owned(),
        readers => format!(", held by {readers} readers"),
    };
    format!("{what} {:#x}{readers}", wait.lock)
}
