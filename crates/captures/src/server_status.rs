//! What `mysqladmin debug` makes a server print into its error log (sql/sql_test.cc): the locks on whole tables, with who has them and who
//! waits.
//!
//! ```text
//! Status information:
//!
//! Current dir: /var/lib/mysql/
//! Running threads: 17  Stack size: 262144
//! ...
//! Thread database.table_name          Locked/Waiting        Lock_type
//!
//! 7       shop.stock                  Locked - read         Read lock without concurrent inserts
//! 8       shop.stock                  Waiting - write       High priority write lock
//! ```
//!
//! A name is cut after 28 bytes (`%-28.28s`), and what stands behind it then begins right there. No other list of a server says who has such a lock
//! (MySQL 5.7 and MariaDB; the engines of MySQL 8.0 that have them are few). The counters beside the list are sums since the server's start.

use std::collections::BTreeMap;

use spindoctor_model::mysql::{MetadataLock, ServerThread};
use spindoctor_model::number;

use crate::locks::NOT_KNOWN;

/// Locks that are read.
const MOST: usize = 20_000;
/// Bytes of a name: of one that was cut within a letter three stand for what is left of it.
const LONGEST_NAME: usize = 28 + 3;
/// Tables that are named, and connections of each.
const NAMED: usize = 5;
/// The state of a session that waits for the lock of an engine.
const WAITS: &str = "Waiting for table level lock";
/// The line with which it begins, and the beginning of one that stands near below it.
const TITLE: &str = "Status information:";
const FOLDER: &str = "Current dir: ";
const NEAR: usize = 4;

/// What it says.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ServerStatus {
    /// In sentences.
    pub(crate) says: Vec<String>,
    /// The locks of the tables for which somebody waits.
    pub(crate) locks: Vec<MetadataLock>,
    /// Who waits for them, and who has them.
    pub(crate) threads: Vec<ServerThread>,
}

/// A row of the list.
#[derive(Debug, Clone, Copy)]
struct Row<'t> {
    connection: u64,
    table: &'t str,
    is_granted: bool,
    is_write: bool,
    /// The lock in the server's words.
    lock: &'t str,
}

/// True for the line with which such a text begins, or its list where somebody copied that alone.
pub(crate) fn is_head(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim();
    let is_near = || lines[at + 1..].iter().take(NEAR).any(|line| line.trim_start().starts_with(FOLDER));
    line == TITLE && is_near() || is_head_of_list(line)
}

fn is_head_of_list(line: &str) -> bool {
    line.starts_with("Thread ")
        && line.split_whitespace().eq(["Thread", "database.table_name", "Locked/Waiting", "Lock_type"])
}

fn row(line: &str) -> Option<Row<'_>> {
    const STATES: [(&str, bool, bool); 4] = [
        ("Locked - write", true, true),
        ("Locked - read", true, false),
        ("Waiting - write", false, true),
        ("Waiting - read", false, false),
    ];
    let (before, lock, is_granted, is_write) = STATES.iter().find_map(|(state, is_granted, is_write)| {
        let (before, lock) = line.split_once(state)?;
        Some((before.trim(), lock.trim(), *is_granted, *is_write))
    })?;
    let digits = before.bytes().take_while(u8::is_ascii_digit).count();
    let (connection, table) = before.split_at(digits);
    let (connection, table) = (connection.parse().ok()?, table.trim_start());
    let is_name = (1..=LONGEST_NAME).contains(&table.len());
    is_name.then_some(Row { connection, table, is_granted, is_write, lock })
}

/// The type of metadata lock that gets along with the others as this lock does (mysys/thr_lock.cc): readers share a table, a writer is
/// alone, and an insert at the end of a table gets along with readers that need not know. MySQL 5.0 has a second blank in one of the names.
fn lock_type(row: &Row<'_>) -> &'static str {
    match (row.is_write, row.lock) {
        (true, "Write lock that allows other writers" | "Concurrent insert lock") => "SHARED_WRITE",
        (true, _) => "SHARED_NO_READ_WRITE",
        (false, "Read lock without concurrent inserts" | "Read lock  without concurrent inserts") => {
            "SHARED_READ_ONLY"
        }
        (false, _) => "SHARED_READ",
    }
}

/// Reads it: of several lists the last.
pub(crate) fn read(text: &str) -> ServerStatus {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut threads: Option<u64> = None;
    for line in text.lines() {
        if line.trim() == TITLE || is_head_of_list(line.trim()) {
            rows.clear();
        } else if let Some(rest) = line.trim_start().strip_prefix("Running threads:") {
            threads = rest.split_whitespace().next().and_then(|count| count.parse().ok());
        } else if rows.len() < MOST {
            rows.extend(row(line));
        }
    }
    let mut tables: BTreeMap<&str, Vec<Row<'_>>> = BTreeMap::new();
    for row in &rows {
        tables.entry(row.table).or_default().push(*row);
    }
    let locked = tables.len() as u64;
    tables.retain(|_, rows| rows.iter().any(|row| !row.is_granted));
    let mut wanted: Vec<(&str, Vec<Row<'_>>)> = tables.into_iter().collect();
    let waiters = |rows: &[Row<'_>]| rows.iter().filter(|row| !row.is_granted).count();
    wanted.sort_by_key(|(_, rows)| std::cmp::Reverse(waiters(rows)));
    let mut says: Vec<String> =
        threads.map(|threads| number::counted(threads, "thread", "threads")).into_iter().collect();
    says.push(match (locked, wanted.len()) {
        (0, _) => "it lists no lock on a whole table".to_owned(),
        (locked, 0) => {
            format!("{} locked, and nobody waits", number::counted(locked, "table is", "tables are"))
        }
        (_, waited_for) => {
            format!("sessions wait for the lock of {}", number::counted(waited_for as u64, "table", "tables"))
        }
    });
    says.extend(wanted.iter().take(NAMED).map(|(table, rows)| sentence(table, rows)));
    let mut status = ServerStatus { says, ..ServerStatus::default() };
    for row in wanted.iter().flat_map(|(_, rows)| rows) {
        status.locks.push(lock(row));
    }
    status.threads = threads_of(wanted.iter().flat_map(|(_, rows)| rows));
    status
}

fn lock(row: &Row<'_>) -> MetadataLock {
    let (schema, name) = row.table.split_once('.').unwrap_or(("", row.table));
    MetadataLock {
        object_type: "TABLE".to_owned(),
        schema: schema.to_owned(),
        name: name.to_owned(),
        lock_type: lock_type(row).to_owned(),
        granted: row.is_granted,
        owner_connection_id: Some(row.connection),
        ..MetadataLock::default()
    }
}

/// The sessions of these rows: those that wait do, of the others it is not known what they do.
fn threads_of<'r, 't: 'r>(rows: impl Iterator<Item = &'r Row<'t>>) -> Vec<ServerThread> {
    let mut threads: BTreeMap<u64, ServerThread> = BTreeMap::new();
    for row in rows {
        let thread = ServerThread {
            connection_id: Some(row.connection),
            is_connection: true,
            state: NOT_KNOWN.to_owned(),
            ..ServerThread::default()
        };
        let thread = threads.entry(row.connection).or_insert(thread);
        if !row.is_granted {
            "Query".clone_into(&mut thread.command);
            WAITS.clone_into(&mut thread.state);
        }
    }
    threads.into_values().collect()
}

/// `shop.stock: connection 7 has its lock (read), connections 8 and 9 wait for it`
fn sentence(table: &str, rows: &[Row<'_>]) -> String {
    let of = |is_granted: bool| {
        let mut connections: Vec<u64> =
            rows.iter().filter(|row| row.is_granted == is_granted).map(|row| row.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        let shown: Vec<String> = connections.iter().take(NAMED).map(u64::to_string).collect();
        let more = match connections.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let word = if connections.len() == 1 { "connection" } else { "connections" };
        (connections.len(), format!("{word} {}{more}", shown.join(", ")))
    };
    let ((holders, who_has), (waiters, who_waits)) = (of(true), of(false));
    let wait = if waiters == 1 { "waits" } else { "wait" };
    if holders == 0 {
        return format!("{table}: {who_waits} {wait} for its lock, and no session is listed that has it");
    }
    let has = if holders == 1 { "has" } else { "have" };
    let is_write = rows.iter().any(|row| row.is_granted && row.is_write);
    let what = if is_write { "a write lock" } else { "a read lock" };
    format!("{table}: {who_has} {has} {what} on it, and {who_waits} {wait}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{recognise, window};

    const TEXT: &str = "\nStatus information:\n\nCurrent dir: /var/lib/mysql/\nRunning threads: 17  Stack size: 262144\n\
                        Current locks:\nlock: 0x41c6080:\nlock: 0x2a7ab10:\n\nKey caches:\ndefault\nBuffer_size:      67108864\n\
                        Block_size:           1024\nblocks used:         53585\n\nhandler status:\nread_key:     37803208\n\
                        update:       39126089\n\nTable status:\nOpened tables:       3712\nOpen files:          1711\n\n\
                        Alarm status:\nActive alarms:   15\n\n\
                        Thread database.table_name          Locked/Waiting        Lock_type\n\n\
                        7       shop.stock                  Locked - read         Read lock without concurrent inserts\n\
                        8       shop.stock                  Waiting - write       High priority write lock\n\
                        9       shop.stock                  Waiting - read        Low priority read lock\n\
                        12      shop.orders_of_the_last_yearLocked - write        High priority write lock\n\n\n\
                        Memory status:\nNon-mmapped space allocated from system: 94777344\n\n\n\
                        Event scheduler status:\nState      : INITIALIZED\nThread id  : 0\n";

    const LOG: &str = "2024-05-02T08:01:40.123456Z 0 [Warning] [MY-010055] [Server] Too many connections\n";

    #[test]
    fn who_has_the_lock_of_a_table_is_said_alone_and_within_a_log() {
        let list = &TEXT[TEXT.find("Thread database").unwrap()..];
        for (text, kinds) in [
            (TEXT.to_owned(), vec![Kind::ServerStatus]),
            (list.to_owned(), vec![Kind::ServerStatus]),
            (format!("{LOG}{TEXT}{LOG}"), vec![Kind::ErrorLog, Kind::ServerStatus]),
        ] {
            let parts = recognise("error.log", &text);
            assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), kinds, "{text}: {parts:#?}");
            let says = &parts.last().unwrap().says;
            assert_eq!(
                says[says.len() - 2..],
                [
                    "sessions wait for the lock of 1 table",
                    "shop.stock: connection 7 has a read lock on it, and connections 8, 9 wait",
                ],
                "{text}"
            );
        }
        assert_eq!(recognise("x", TEXT)[0].says[0], "17 threads");
    }

    /// It does not say for how long they have waited: only with a list that does the one who has the lock is named to be ended.
    #[test]
    fn who_waits_is_a_finding_and_with_a_process_list_it_names_who_has_the_lock() {
        let found = |text: &str| {
            let findings = spindoctor_rules::diagnose(&window(&recognise("x", text))).findings;
            findings.into_iter().find(|finding| finding.cause == "table-lock-pileup").expect("a finding")
        };
        assert!(found(TEXT).root.is_none(), "{:#?}", found(TEXT));
        let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th:1\tshop\tSleep\t95\t\tNULL\n\
                    8\tapp\th:2\tshop\tQuery\t90\tWaiting for table level lock\tUPDATE stock SET n = 1\n\
                    9\tapp\th:3\tshop\tQuery\t80\tWaiting for table level lock\tSELECT n FROM stock\n\n";
        for text in [format!("{list}{TEXT}"), format!("{TEXT}{list}"), format!("{list}{LOG}{TEXT}{LOG}")] {
            let found = found(&text);
            assert_eq!(found.root.as_ref().and_then(|root| root.connection_id), Some(7), "{found:#?}");
            assert!(found.remedies.iter().any(|remedy| remedy.statement == "KILL 7"), "{found:#?}");
        }
    }

    #[test]
    fn of_several_lists_the_last_counts_and_locks_that_nobody_waits_for_are_no_finding() {
        let free =
            TEXT.replace("Waiting - write", "Locked - write").replace("Waiting - read", "Locked - read");
        let text = format!("{TEXT}{free}");
        let parts = recognise("x", &text);
        assert_eq!(parts.len(), 1, "{parts:#?}");
        assert_eq!(parts[0].says, ["17 threads", "2 tables are locked, and nobody waits"]);
        assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty());
        let none = TEXT.lines().filter(|line| row(line).is_none() && !is_head_of_list(line));
        let none: String = none.map(|line| format!("{line}\n")).collect();
        assert_eq!(recognise("x", &none)[0].says, ["17 threads", "it lists no lock on a whole table"]);
    }

    #[test]
    fn a_name_that_no_server_prints_is_no_row() {
        let line = |name: &str| format!("7       {name}Locked - read         Low priority read lock");
        // 28 bytes, of which the last ones are the beginning of a letter.
        for name in ["shop.orders_of_the_last_year", "shop.orders_of_the_last_ye\u{fffd}"] {
            assert_eq!(row(&line(name)).map(|row| row.table), Some(name));
        }
        assert!(row(&line("")).is_none() && row(&line(&"x".repeat(40))).is_none());
        assert!(row(&line("a.b").replace('7', "99999999999999999999999")).is_none());
    }

    #[test]
    fn a_title_of_another_program_is_none() {
        let text = "Status information:\n\nService is running\nPid: 4711\n";
        assert!(recognise("x", text).iter().all(|part| part.kind == Kind::Unknown));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(Status information:\n|Current dir: \n|Thread database.table_name Locked/Waiting Lock_type\n|[0-9]{1,22} ?|a\\.b|Locked - read|Waiting - write|\n|.){0,60}") {
            read(&text);
        }
    }
}
