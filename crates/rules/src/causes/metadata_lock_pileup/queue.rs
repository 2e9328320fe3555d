//! Who waits, for what, and in which order.

use std::collections::BTreeMap;

use spindoctor_model::Window;
use spindoctor_model::mysql::{MetadataLock, ServerSample, ServerThread};

use crate::sessions;

/// True for a session that waits for a metadata lock of a table or another object.
pub(in crate::causes) fn waits(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    state.starts_with("waiting for") && state.ends_with("metadata lock")
}

/// The longest wait, where the list has times.
pub(in crate::causes) fn longest_s(server: &ServerSample) -> Option<f64> {
    let waiting = server.threads.value()?.iter().filter(|thread| waits(thread));
    waiting.map(|thread| thread.time_s).max_by(f64::total_cmp).filter(|s| *s > 0.0)
}

/// True where a statement that wants no table for itself waits for longer than any DDL has.
pub(super) fn waits_before(server: &ServerSample, ddl: &ServerThread) -> bool {
    let is_other = |thread: &&ServerThread| {
        waits(thread)
            && thread.statement.as_deref().is_some_and(|statement| !spindoctor_sql::wants_a_table(statement))
    };
    server.threads.value().into_iter().flatten().filter(is_other).any(|thread| thread.time_s > ddl.time_s)
}

/// DDL a second from which on it may be what others wait for again and again: one in ten seconds. Chosen.
const DDL_PER_S: f64 = 0.1;

/// The statement that wants tables for itself of which the server counts most, by its counter, and how many a second.
pub(super) fn commonest_ddl(window: &Window) -> Option<(&'static str, f64)> {
    const COUNTERS: [&str; 11] = [
        "Com_alter_table",
        "Com_create_index",
        "Com_create_table",
        "Com_create_trigger",
        "Com_drop_index",
        "Com_drop_table",
        "Com_drop_trigger",
        "Com_lock_tables",
        "Com_optimize",
        "Com_rename_table",
        "Com_truncate",
    ];
    let counted = COUNTERS.iter().filter_map(|&counter| Some((counter, window.status_per_s(counter)?)));
    counted.filter(|&(_, per_s)| per_s >= DDL_PER_S).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Lock types that keep readers or writers of the table out.
pub(super) fn is_strong(lock_type: &str) -> bool {
    matches!(
        lock_type,
        "EXCLUSIVE"
            | "SHARED_NO_READ_WRITE"
            | "SHARED_NO_WRITE"
            | "SHARED_READ_ONLY"
            | "SHARED_WRITE_LOW_PRIO"
    )
}

/// Locks of objects that DDL locks: tables, schemas, routines; not the global ones, not user locks.
pub(in crate::causes) fn locks(server: &ServerSample) -> impl Iterator<Item = &MetadataLock> {
    const NOT_OBJECTS: [&str; 7] =
        ["GLOBAL", "COMMIT", "BACKUP", "BACKUP LOCK", "USER LEVEL LOCK", "LOCKING SERVICE", "ACL CACHE"];
    server.metadata_locks.value().into_iter().flatten().filter(|lock| {
        !NOT_OBJECTS.contains(&lock.object_type.as_str()) && lock.schema != "performance_schema"
    })
}

/// The connection to which it was granted, or that wants it; None where it has none, or no list shows it.
pub(in crate::causes) fn owner(server: &ServerSample, lock: &MetadataLock) -> Option<u64> {
    lock.owner_connection_id.or_else(|| {
        let internal_id = lock.owner_internal_id?;
        server.threads.value()?.iter().find(|thread| thread.internal_id == Some(internal_id))?.connection_id
    })
}

/// `shop.t`
pub(in crate::causes) fn qualified(lock: &MetadataLock) -> String {
    match (lock.schema.as_str(), lock.name.as_str()) {
        ("", name) => name.to_owned(),
        (schema, "") => schema.to_owned(),
        (schema, name) => format!("{schema}.{name}"),
    }
}

/// The object that most pending locks want.
pub(in crate::causes) fn wanted_object(server: &ServerSample) -> Option<String> {
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    locks(server)
        .filter(|lock| !lock.granted)
        .for_each(|lock| *wanted.entry(qualified(lock)).or_default() += 1);
    wanted.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name)
}

/// The waiting session that wants the table for itself: by its pending lock, or the one that has
/// waited longest with a statement that is none of the everyday ones.
pub(super) fn first_in_queue(server: &ServerSample) -> Option<&ServerThread> {
    let strong = locks(server)
        .filter(|lock| !lock.granted && is_strong(&lock.lock_type))
        .find_map(|lock| owner(server, lock));
    if let Some(session) = strong.and_then(|id| sessions::session(server, id)) {
        return Some(session);
    }
    let is_ddl =
        |thread: &&ServerThread| thread.statement.as_deref().is_some_and(spindoctor_sql::wants_a_table);
    let waiting = server.threads.value()?.iter().filter(|thread| waits(thread));
    waiting.filter(is_ddl).max_by(|a, b| a.time_s.total_cmp(&b.time_s))
}
