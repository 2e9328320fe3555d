//! `information_schema.METADATA_LOCK_INFO`: MariaDB's granted metadata locks, where its plugin is loaded.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::MetadataLock;

use super::perf_schema_metadata_locks;
use super::rows::Rows;
use super::source::{Plan, Source, note_if_cut};
use crate::pace::Pace;
use crate::source::Cadence;

/// Locks read at most.
const LIMIT: usize = 5000;

/// The source.
///
/// Cost: visits every metadata lock of the server and takes each one's read-write lock for reading,
/// for an instant: about 1 ms for 1,000 locks. Safe to ask every second up to some thousand locks.
///
/// The plugin lists granted locks only: who waits is seen in the process list (`Waiting for table
/// metadata lock`).
pub const SOURCE: Source = Source {
    name: "information_schema.METADATA_LOCK_INFO",
    help: "MariaDB: who holds which metadata lock",
    cost: "takes every metadata lock's latch for reading for an instant, about 1 ms for 1,000",
    grant: |_| "",
    install: "INSTALL SONAME 'metadata_lock_info'",
    cadence: Cadence::EverySample,
    pace: Pace::server(2, 30).instead_of(perf_schema_metadata_locks::SOURCE.name),
    plan: |version, _| match version.is_mariadb() {
        true => Plan::Ask(
            "SELECT THREAD_ID, LOCK_MODE, LOCK_TYPE, TABLE_SCHEMA, TABLE_NAME \
             FROM information_schema.METADATA_LOCK_INFO WHERE THREAD_ID <> CONNECTION_ID() LIMIT 5000",
        ),
        false => Plan::Elsewhere,
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.METADATA_LOCK_INFO", rows, LIMIT, sample);
        sample.metadata_locks = answer.reading(listed(rows));
    },
    reading: ServerSample::field("metadata_locks"),
};

/// The locks of a list of `information_schema.METADATA_LOCK_INFO`, which has those alone that are held.
pub fn listed(rows: &Rows) -> Vec<MetadataLock> {
    rows.iter()
        .map(|row| MetadataLock {
            object_type: object_type(row.text("LOCK_TYPE").unwrap_or_default()),
            schema: row.string("TABLE_SCHEMA"),
            name: row.string("TABLE_NAME"),
            lock_type: row
                .text("LOCK_MODE")
                .map(|mode| mode.trim_start_matches("MDL_"))
                .unwrap_or_default()
                .into(),
            granted: true,
            owner_internal_id: None,
            owner_connection_id: row.number("THREAD_ID"),
        })
        .collect()
}

/// `Table metadata lock`, `Global read lock`, `User lock`, `Backup lock` in performance_schema's words.
fn object_type(lock_type: &str) -> String {
    match lock_type {
        "Global read lock" => "GLOBAL".into(),
        "User lock" => "USER LEVEL LOCK".into(),
        other => other.trim_end_matches(" lock").trim_end_matches(" metadata").to_ascii_uppercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// Taken from MariaDB 10.11.19 while an ALTER TABLE waited for a transaction.
    const HELD: &str = "THREAD_ID\tLOCK_MODE\tLOCK_TYPE\tTABLE_SCHEMA\tTABLE_NAME\n\
        30\tMDL_BACKUP_ALTER_COPY\tBackup lock\t\t\n\
        27\tMDL_SHARED_WRITE\tTable metadata lock\tt\ta\n";

    #[test]
    fn speaks_the_words_of_performance_schema() {
        let locks = listed(&fixture::tabbed(HELD));
        assert_eq!(
            (locks[0].object_type.as_str(), locks[0].lock_type.as_str()),
            ("BACKUP", "BACKUP_ALTER_COPY")
        );
        assert_eq!((locks[1].object_type.as_str(), locks[1].lock_type.as_str()), ("TABLE", "SHARED_WRITE"));
        assert_eq!((locks[1].owner_connection_id, locks[1].name.as_str()), (Some(27), "a"));
    }
}
