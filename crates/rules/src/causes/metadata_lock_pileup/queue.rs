//! Who waits, for what, and in which order.

use std::collections::BTreeMap;

use spindoctor_model::Window;
use spindoctor_model::mysql::{MetadataLock, ServerSample, ServerThread};
use spindoctor_sql::{Mode, Token, lex};

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

/// The one object that the statements of those that wait name, where no list of locks says it: that of the DDL, which all the others name
/// as well; where no DDL says which, the first table of every one.
pub(super) fn named_table(server: &ServerSample, ddl: Option<&ServerThread>) -> Option<String> {
    if locks(server).next().is_some() {
        return None;
    }
    let waiting: Vec<(&ServerThread, &str)> = server
        .threads
        .value()?
        .iter()
        .filter(|thread| waits(thread))
        .filter_map(|thread| Some((thread, thread.statement.as_deref()?)))
        .collect();
    let of_ddl = ddl.and_then(|ddl| Some((ddl, object_of_ddl(ddl.statement.as_deref()?)?)));
    let is_of_ddl = of_ddl.is_some();
    let (whose, (schema, name)) = match of_ddl {
        Some(found) => found,
        // Of several tables, or of what has no name here.
        None if ddl.is_some_and(|ddl| ddl.statement.is_some()) => return None,
        None => {
            let (first, statement) = waiting.first()?;
            (*first, spindoctor_sql::qualified_table(statement)?)
        }
    };
    let names_it = |statement: &str| match is_of_ddl {
        true => spindoctor_sql::names(statement).any(|one| one == name.to_lowercase()),
        false => spindoctor_sql::first_table(statement).as_deref() == Some(name.as_str()),
    };
    let schema = schema.unwrap_or_else(|| whose.schema.clone());
    // Its tables are made of others, one of which is waited for.
    if schema.eq_ignore_ascii_case("information_schema") {
        return None;
    }
    let qualified = if schema.is_empty() { name.clone() } else { format!("{schema}.{name}") };
    waiting.iter().all(|(_, statement)| names_it(statement)).then_some(qualified)
}

/// The schema, where it is named, and the name of what a DDL wants for itself: a table, a sequence or a view. None where it is of
/// several, or of another object.
fn object_of_ddl(statement: &str) -> Option<(Option<String>, String)> {
    const OBJECTS: [&str; 4] = ["table", "tables", "sequence", "view"];
    const ON_TABLE: [&str; 2] = ["index", "trigger"];
    const FILLERS: [&str; 4] = ["if", "not", "exists", "table"];
    /// Words within which it says what it is about: `CREATE OR REPLACE TEMPORARY TABLE`.
    const BEGINNING: usize = 5;
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    let kind = spindoctor_sql::kind(statement);
    let of_several = ["ANALYZE", "DROP", "LOCK", "OPTIMIZE", "RENAME", "REPAIR"];
    if kind == "FLUSH" || of_several.contains(&kind.as_str()) && code.iter().any(|token| token.is_sign(",")) {
        return None;
    }
    let says = |token: &&Token<'_>| token.is_one_of(&OBJECTS) || token.is_one_of(&ON_TABLE);
    let at = match code.iter().take(BEGINNING).position(says) {
        Some(at) if code[at].is_one_of(&ON_TABLE) => code.iter().position(|token| token.is("on"))?,
        Some(at) => at,
        None if kind == "TRUNCATE" => 0,
        None => return None,
    };
    let mut behind = code[at + 1..].iter().skip_while(|token| token.is_one_of(&FILLERS));
    let first = behind.next().filter(|token| token.is_name())?.name();
    match behind.next() {
        Some(dot) if dot.is_sign(".") => {
            let name = behind.next().filter(|token| token.is_name())?.name();
            Some((Some(first), name))
        }
        _ => Some((None, first)),
    }
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

#[cfg(test)]
mod tests {
    use super::object_of_ddl;

    #[test]
    fn what_a_ddl_wants_for_itself_is_the_table_that_it_is_about() {
        for (statement, object) in [
            ("ALTER TABLE orders ADD INDEX noted (note)", Some("orders")),
            (
                "alter /* deploy */ table shop . `orders` ADD COLUMN a INT, ADD COLUMN b INT",
                Some("shop.orders"),
            ),
            ("ALTER SEQUENCE order_no CACHE 5000", Some("order_no")),
            ("TRUNCATE orders", Some("orders")),
            ("TRUNCATE TABLE shop.orders", Some("shop.orders")),
            ("DROP TABLE IF EXISTS orders", Some("orders")),
            ("CREATE UNIQUE INDEX noted ON orders (note)", Some("orders")),
            (
                "CREATE TRIGGER noted AFTER INSERT ON orders FOR EACH ROW INSERT INTO log VALUES (1)",
                Some("orders"),
            ),
            ("OPTIMIZE NO_WRITE_TO_BINLOG TABLE orders", Some("orders")),
            ("LOCK TABLES orders WRITE", Some("orders")),
            ("LOCK TABLES orders WRITE, customers READ", None),
            ("DROP TABLE orders, customers", None),
            ("DROP TRIGGER noted", None),
            ("FLUSH TABLES WITH READ LOCK", None),
            ("CREATE PROCEDURE p() SELECT 1 FROM orders", None),
            ("ALTER TABLE", None),
            ("ALTER TABLE shop.", None),
            ("", None),
        ] {
            let found = object_of_ddl(statement).map(|(schema, name)| match schema {
                Some(schema) => format!("{schema}.{name}"),
                None => name,
            });
            assert_eq!(found.as_deref(), object, "{statement}");
        }
    }
}
