//! Metadata locks, the global read lock, backup locks and user-level locks: one mechanism of the server has them all.
//!
//! Where the server lists what is wanted (performance_schema.metadata_locks), each wait follows from the matrices.
//! A waiter's statement names its user-level lock, and the server says who has a lock of that name.
//! Where it lists only what is held (MariaDB's METADATA_LOCK_INFO) or nothing, `by_state` infers the rest.

mod by_state;
mod compatibility;

use std::collections::HashMap;

use spindoctor_model::mysql::MetadataLock;
use spindoctor_model::wait_graph::{LockKind, WaitEdge};

use super::builder::{Builder, Who};
pub(crate) use by_state::{TABLE_FLUSH, TABLE_LEVEL};
pub(super) use by_state::{is_ddl, names_no_object};
pub(crate) use compatibility::keeps_statements_out;

/// Holders of one lock that are named for each of its waiters; those that hold it with the strongest type first. A table that a
/// thousand transactions read has as many holders, and each DDL waits for all of them.
const NAMED: usize = 20;

/// Adds who waits for whose metadata lock.
pub(super) fn add(builder: &mut Builder<'_>) {
    by_lists(builder);
    by_names(builder);
    by_state::add(builder);
}

/// Locks of GET_LOCK of which the server named the holder.
fn by_names(builder: &mut Builder<'_>) {
    for wait in builder.readings.server.user_lock_waits.value().into_iter().flatten() {
        let waiter = builder.connection(wait.waiting_connection_id);
        let holder = builder.connection(wait.blocking_connection_id);
        let edge = WaitEdge {
            kind: LockKind::User,
            object: format!("user lock '{}'", wait.name),
            waited_s: builder.thread(&waiter).map(|thread| thread.time_s),
            ..WaitEdge::default()
        };
        builder.add(waiter, Some(holder), edge);
    }
}

/// What a DDL takes first, one at a time on a table, and upgrades when it copies or ends (sql/mdl.cc, `upgrade_shared_lock`). The list
/// of some versions keeps the type that it was granted with (MySQL 8.0.31): where nothing else is in the way, it is that.
const UPGRADABLE: &str = "SHARED_UPGRADABLE";

type Object<'a> = (&'a str, &'a str, &'a str);

fn object(lock: &MetadataLock) -> Object<'_> {
    (&lock.object_type, &lock.schema, &lock.name)
}

/// Each pending lock against the granted ones of the same object, and against those that are pending too.
fn by_lists(builder: &mut Builder<'_>) {
    let locks = builder.readings.server.metadata_locks.value().map(Vec::as_slice).unwrap_or_default();
    let mut of_object: HashMap<Object<'_>, Vec<(&MetadataLock, Who)>> = HashMap::new();
    for lock in locks {
        if let Some(owner) = owner(builder, lock) {
            of_object.entry(object(lock)).or_default().push((lock, owner));
        }
    }
    for wanted in locks.iter().filter(|lock| !lock.granted) {
        let Some(waiter) = owner(builder, wanted) else { continue };
        let others = of_object.get(&object(wanted)).map(Vec::as_slice).unwrap_or_default();
        let others = || others.iter().filter(|(_, owner)| *owner != waiter);
        let in_the_way = |granted: bool| {
            let mut found: Vec<(&MetadataLock, Who)> = others()
                .filter(|(other, _)| other.granted == granted && compatibility::waits_for(wanted, other))
                .cloned()
                .collect();
            found.sort_by_key(|(other, _)| !compatibility::keeps_statements_out(other));
            found
        };
        let mut holders = in_the_way(true);
        if holders.is_empty() {
            // Behind those that wait and have priority: the DDL.
            holders = in_the_way(false);
        }
        let is_upgraded = holders.is_empty();
        if is_upgraded {
            holders = others()
                .filter(|(other, _)| other.granted && other.lock_type == UPGRADABLE)
                .cloned()
                .collect();
        }
        let edge = WaitEdge {
            kind: kind(wanted),
            object: lock_name(wanted),
            mode: wanted.lock_type.clone(),
            is_inferred: is_upgraded && !holders.is_empty(),
            waited_s: builder.thread(&waiter).map(|thread| thread.time_s),
            ..WaitEdge::default()
        };
        if holders.is_empty() {
            builder.add(waiter, None, edge);
            continue;
        }
        if holders.len() > NAMED {
            builder.note(format!("{} has {} holders: {NAMED} of them are shown", edge.object, holders.len()));
        }
        for (_, holder) in holders.into_iter().take(NAMED) {
            builder.add(waiter.clone(), Some(holder), edge.clone());
        }
    }
}

fn owner(builder: &Builder<'_>, lock: &MetadataLock) -> Option<Who> {
    match (lock.owner_connection_id, lock.owner_internal_id) {
        (Some(connection), _) => Some(builder.connection(connection)),
        (None, Some(internal)) => builder.internal(internal),
        (None, None) => None,
    }
}

/// What kind of lock a list of metadata locks has.
pub(crate) fn kind(lock: &MetadataLock) -> LockKind {
    match lock.object_type.as_str() {
        "GLOBAL" | "COMMIT" => LockKind::Global,
        "BACKUP" | "BACKUP LOCK" => LockKind::Backup,
        "USER LEVEL LOCK" | "LOCKING SERVICE" => LockKind::User,
        _ => LockKind::Metadata,
    }
}

/// `shop.stock`, `schema shop`, `user lock 'nightly'`, `global read lock`.
pub(super) fn lock_name(lock: &MetadataLock) -> String {
    let qualified = match (lock.schema.as_str(), lock.name.as_str()) {
        ("", name) => name.to_owned(),
        (schema, "") => schema.to_owned(),
        (schema, name) => format!("{schema}.{name}"),
    };
    match lock.object_type.as_str() {
        "TABLE" => qualified,
        "GLOBAL" => "global read lock".to_owned(),
        "COMMIT" => "commit lock".to_owned(),
        "BACKUP" | "BACKUP LOCK" => "backup lock".to_owned(),
        // MariaDB's plugin has the name where the schema of a table stands.
        "USER LEVEL LOCK" => format!("user lock '{qualified}'"),
        other => format!("{} {qualified}", other.to_ascii_lowercase()).trim_end().to_owned(),
    }
}
