//! The tables, and which versions of them can be read.
//!
//! A recording of an older version stays as it is when it is read; a writer brings it up to date first, one step a version.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _};

use crate::codec::Layout;
use crate::error::{Doing, Error};

/// Marks the file as a recording: `spdr`, in SQLite's `application_id`.
pub(crate) const APPLICATION_ID: i32 = 0x7370_6472;
/// The version that is written: `user_version`.
pub(crate) const VERSION: i64 = 2;

/// The tables of versions 1 and 2, described in `FORMAT.md`. Version 2 has another layout in chunks and samples.
pub(crate) const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, began_ms INTEGER NOT NULL, hostname TEXT NOT NULL, address TEXT NOT NULL,
    server_version TEXT NOT NULL, written_by TEXT NOT NULL, body TEXT NOT NULL);
CREATE TABLE gaps (from_ms INTEGER NOT NULL, to_ms INTEGER, because TEXT NOT NULL);
CREATE INDEX gaps_by_time ON gaps (from_ms);
CREATE TABLE samples (
    id INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, segment INTEGER NOT NULL, at_ms INTEGER NOT NULL,
    literals INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL,
    samples INTEGER NOT NULL, literals INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX chunks_by_time ON chunks (from_ms, to_ms, segment);
CREATE TABLE minutes (
    id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, at_ms INTEGER NOT NULL, uptime_s INTEGER, questions INTEGER,
    commits INTEGER, slow_queries INTEGER, threads_connected INTEGER, threads_running INTEGER,
    threads_running_max INTEGER, rows_read INTEGER, rows_changed INTEGER, checkpoint_age_bytes INTEGER,
    server_cpu_us INTEGER, host_busy_us INTEGER, host_idle_us INTEGER, throttled_us INTEGER, disk_read_bytes INTEGER,
    disk_written_bytes INTEGER, replica_behind_s REAL);
CREATE INDEX minutes_by_time ON minutes (at_ms);
CREATE TABLE settings (name TEXT NOT NULL, at_ms INTEGER NOT NULL, value TEXT, PRIMARY KEY (name, at_ms)) WITHOUT ROWID;
CREATE TABLE facts (name TEXT NOT NULL, at_ms INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (name, at_ms))
    WITHOUT ROWID;
CREATE TABLE statements (
    id INTEGER PRIMARY KEY, digest TEXT NOT NULL, text TEXT NOT NULL, hash INTEGER NOT NULL UNIQUE,
    seen_ms INTEGER NOT NULL);
CREATE TABLE events (
    id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER,
    kind TEXT NOT NULL, because TEXT NOT NULL, began_s REAL NOT NULL, seen_s REAL NOT NULL, cause TEXT,
    headline TEXT NOT NULL);
CREATE INDEX events_by_time ON events (began_ms);
CREATE TABLE findings (
    event INTEGER NOT NULL, rank INTEGER NOT NULL, cause TEXT NOT NULL, severity TEXT NOT NULL, score REAL NOT NULL,
    headline TEXT NOT NULL, remedy TEXT, PRIMARY KEY (event, rank)) WITHOUT ROWID;
CREATE TABLE stacks (
    id INTEGER PRIMARY KEY, event INTEGER NOT NULL, phase TEXT NOT NULL, count INTEGER NOT NULL, state TEXT NOT NULL,
    stack TEXT NOT NULL);
CREATE INDEX stacks_by_event ON stacks (event, phase);
CREATE TABLE blobs (
    id INTEGER PRIMARY KEY, event INTEGER NOT NULL, kind TEXT NOT NULL, at_ms INTEGER, data BLOB NOT NULL);
CREATE INDEX blobs_by_event ON blobs (event, kind);
CREATE TABLE costs (
    minute_ms INTEGER NOT NULL, source TEXT NOT NULL, asked INTEGER NOT NULL, took_ms REAL NOT NULL,
    PRIMARY KEY (minute_ms, source)) WITHOUT ROWID;
";

/// How a version writes samples that are not in a chunk yet.
pub(crate) fn layout(version: i64) -> Layout {
    if version < 2 { Layout::Many } else { Layout::ManyWithExpected }
}

/// Says that the file is one of the version that is written now.
pub(crate) fn set_version(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "user_version", VERSION)
}

/// Makes the tables of a new recording.
pub(crate) fn create(db: &Connection) -> rusqlite::Result<()> {
    // Pages that retention frees can be given back to the file system a few at a time; set before the first table.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.execute_batch(&format!(
        "BEGIN IMMEDIATE;{TABLES}PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {VERSION};COMMIT;"
    ))
}

/// Puts all of a recording that nobody writes any more into its one file: no log has to lie beside it.
pub(crate) fn in_one_file(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "DELETE")
}

/// True for a file without tables: a new one, or one whose maker was killed before it had made them.
pub(crate) fn is_blank(db: &Connection) -> bool {
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    number("SELECT count(*) FROM sqlite_schema") == Ok(0) && number("PRAGMA application_id") == Ok(0)
}

/// Checks that a file is a recording of a version that is known, and gives the version.
pub(crate) fn version(db: &Connection, path: &Path) -> Result<i64, Error> {
    let not = |because: &str| Error::NotARecording { path: path.to_owned(), because: because.to_owned() };
    let number = |pragma: &str| db.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0));
    let application = match number("application_id") {
        Ok(application) => application,
        Err(error) => {
            return Err(match error.sqlite_error_code() {
                Some(rusqlite::ErrorCode::NotADatabase) => not("it is not a SQLite database"),
                Some(rusqlite::ErrorCode::DatabaseCorrupt) => not("its first page is damaged"),
                _ => Doing { path, doing: "read" }.failed(error),
            });
        }
    };
    let read = Doing { path, doing: "read" };
    if application != i64::from(APPLICATION_ID) {
        let tables = db
            .query_row("SELECT 1 FROM sqlite_schema LIMIT 1", [], |_| Ok(()))
            .optional()
            .map_err(|error| read.failed(error))?;
        return Err(not(if tables.is_some() {
            "it is a database of another program"
        } else {
            "it is empty"
        }));
    }
    let version = number("user_version").map_err(|error| read.failed(error))?;
    if version > VERSION {
        return Err(Error::Newer { path: path.to_owned(), version, known: VERSION });
    }
    Ok(version)
}
