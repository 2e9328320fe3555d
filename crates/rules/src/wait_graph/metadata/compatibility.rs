//! Which metadata locks are compatible: the matrices of sql/mdl.cc (MySQL 8.0, MariaDB 10.11).
//!
//! A request waits for granted locks that are incompatible with it, and for earlier requests that have priority.

use spindoctor_model::mysql::MetadataLock;

/// Types in the order of the columns below.
const TYPES: [&str; 10] = [
    "SHARED",
    "SHARED_HIGH_PRIO",
    "SHARED_READ",
    "SHARED_WRITE",
    "SHARED_WRITE_LOW_PRIO",
    "SHARED_UPGRADABLE",
    "SHARED_READ_ONLY",
    "SHARED_NO_WRITE",
    "SHARED_NO_READ_WRITE",
    "EXCLUSIVE",
];

/// A row for each wanted type: `-` where it waits for a granted lock of that column.
const GRANTED: [&str; 10] = [
    "+++++++++-",
    "+++++++++-",
    "++++++++--",
    "++++++----",
    "++++++----",
    "+++++-+---",
    "+++--+++--",
    "+++---+---",
    "++--------",
    "----------",
];

/// A row for each wanted type: `-` where it waits behind a pending request of that column.
const PENDING: [&str; 10] = [
    "+++++++++-",
    "++++++++++",
    "++++++++--",
    "+++++++---",
    "++++++----",
    "+++++++++-",
    "+++-++++--",
    "+++++++++-",
    "+++++++++-",
    "++++++++++",
];

/// Locks with a scope (global, commit, schema, tablespace, backup) have three types.
const SCOPED: [&str; 3] = ["INTENTION_EXCLUSIVE", "SHARED", "EXCLUSIVE"];

/// Each row a wanted type: intention, shared, exclusive.
const SCOPED_GRANTED: [&str; 3] = ["+--", "-+-", "---"];

/// The same behind pending requests.
const SCOPED_PENDING: [&str; 3] = ["+--", "++-", "+++"];

/// MariaDB's backup locks of statements: they get along with each other and wait for backups only.
const EVERYDAY: [&str; 6] =
    ["BACKUP_DML", "BACKUP_TRANS_DML", "BACKUP_SYS_DML", "BACKUP_DDL", "BACKUP_ALTER_COPY", "BACKUP_COMMIT"];

/// True where a pending lock waits for a granted one, or for one that is pending before it.
pub(super) fn waits_for(wanted: &MetadataLock, other: &MetadataLock) -> bool {
    let (wanted_type, other_type) = (wanted.lock_type.as_str(), other.lock_type.as_str());
    if wanted_type.starts_with("BACKUP_") {
        // A request of a backup waits for what is granted to statements, a statement for what a backup has or wants.
        return match (is_everyday(wanted_type), is_everyday(other_type)) {
            (false, true) => other.granted,
            (true, false) => true,
            (false, false) => other.granted,
            (true, true) => false,
        };
    }
    let cell = |types: &[&str], rows: &[&str]| {
        let at = |name: &str| types.iter().position(|candidate| *candidate == name);
        Some(rows[at(wanted_type)?].as_bytes()[at(other_type)?] == b'-')
    };
    let allowed = if is_scoped(wanted) {
        cell(&SCOPED, if other.granted { &SCOPED_GRANTED } else { &SCOPED_PENDING })
    } else {
        cell(&TYPES, if other.granted { &GRANTED } else { &PENDING })
    };
    // A type that is not known: what is granted is in the way, what waits is not.
    allowed.unwrap_or(other.granted)
}

/// True for a lock that keeps ordinary statements out.
pub(crate) fn keeps_statements_out(lock: &MetadataLock) -> bool {
    match lock.object_type.as_str() {
        "GLOBAL" | "COMMIT" => lock.lock_type != "INTENTION_EXCLUSIVE",
        "BACKUP" | "BACKUP LOCK" => lock.lock_type != "INTENTION_EXCLUSIVE" && !is_everyday(&lock.lock_type),
        _ => matches!(
            lock.lock_type.as_str(),
            "EXCLUSIVE" | "SHARED_NO_READ_WRITE" | "SHARED_NO_WRITE" | "SHARED_READ_ONLY"
        ),
    }
}

fn is_everyday(lock_type: &str) -> bool {
    EVERYDAY.contains(&lock_type)
}

fn is_scoped(lock: &MetadataLock) -> bool {
    matches!(
        lock.object_type.as_str(),
        "GLOBAL"
            | "COMMIT"
            | "SCHEMA"
            | "TABLESPACE"
            | "BACKUP LOCK"
            | "RESOURCE_GROUPS"
            | "FOREIGN KEY"
            | "CHECK CONSTRAINT"
    ) && SCOPED.contains(&lock.lock_type.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(object_type: &str, lock_type: &str, granted: bool) -> MetadataLock {
        MetadataLock {
            object_type: object_type.into(),
            lock_type: lock_type.into(),
            granted,
            ..MetadataLock::default()
        }
    }

    fn table(wanted: &str, other: &str, granted: bool) -> bool {
        waits_for(&lock("TABLE", wanted, false), &lock("TABLE", other, granted))
    }

    #[test]
    fn a_reader_gets_along_with_readers_and_waits_behind_a_ddl_that_waits() {
        assert!(!table("SHARED_READ", "SHARED_READ", true));
        assert!(!table("SHARED_READ", "SHARED_UPGRADABLE", true));
        assert!(!table("SHARED_READ", "SHARED_NO_WRITE", true));
        assert!(table("SHARED_WRITE", "SHARED_NO_WRITE", true));
        assert!(table("EXCLUSIVE", "SHARED_READ", true));
        assert!(table("SHARED_READ", "EXCLUSIVE", false));
        assert!(!table("EXCLUSIVE", "SHARED_READ", false));
        assert!(!table("EXCLUSIVE", "EXCLUSIVE", false));
    }

    #[test]
    fn writers_wait_for_the_global_read_lock_and_it_for_them() {
        let global = |wanted, other, granted| {
            waits_for(&lock("GLOBAL", wanted, false), &lock("GLOBAL", other, granted))
        };
        assert!(global("INTENTION_EXCLUSIVE", "SHARED", true));
        assert!(!global("INTENTION_EXCLUSIVE", "INTENTION_EXCLUSIVE", true));
        assert!(global("SHARED", "INTENTION_EXCLUSIVE", true));
        assert!(global("INTENTION_EXCLUSIVE", "SHARED", false));
        assert!(!global("SHARED", "INTENTION_EXCLUSIVE", false));
        assert!(waits_for(
            &lock("USER LEVEL LOCK", "EXCLUSIVE", false),
            &lock("USER LEVEL LOCK", "EXCLUSIVE", true)
        ));
    }

    #[test]
    fn statements_wait_for_a_backup_of_mariadb_and_not_for_each_other() {
        let backup = |wanted, other| waits_for(&lock("BACKUP", wanted, false), &lock("BACKUP", other, true));
        assert!(backup("BACKUP_TRANS_DML", "BACKUP_FTWRL2"));
        assert!(!backup("BACKUP_TRANS_DML", "BACKUP_DDL"));
        assert!(backup("BACKUP_FTWRL1", "BACKUP_TRANS_DML"));
    }

    #[test]
    fn every_row_has_a_cell_for_every_type() {
        for row in GRANTED.iter().chain(&PENDING) {
            assert_eq!(row.len(), TYPES.len(), "{row}");
            assert!(row.bytes().all(|cell| matches!(cell, b'+' | b'-')), "{row}");
        }
    }
}
