//! `performance_schema.events_statements_current` of connections that rest: what they did last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use spindoctor_model::mysql::{LastStatement, ServerThread};
use spindoctor_model::{Reading, ServerSample, Unavailable};

use super::perf_schema_threads::joins_by_hash;
use super::rows::Rows;
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Connections read at most.
const LIMIT: usize = 2000;

/// Connections that are asked about at most where it is known about whom, those in the way of the most first. A pile-up has one or a few;
/// and where statements have an index by thread, each look into it walks over all threads: 33 us with 4,700 connections (9.7.4).
const BLOCKERS: usize = 16;

/// Level 0 of the nesting is what the client sent; 5.6 has no column for it, and nothing nested. `$thread`: how the thread of a statement
/// is written in the condition of the join (`perf_schema_threads::with_statement`).
macro_rules! last_statements {
    ($thread:literal) => {
        concat!(
            "SELECT t.THREAD_ID, t.PROCESSLIST_ID, LEFT(s.SQL_TEXT, 1024) AS SQL_TEXT FROM performance_schema.threads AS t \
             JOIN performance_schema.events_statements_current AS s ON ",
            $thread,
            " = t.THREAD_ID WHERE t.PROCESSLIST_COMMAND = 'Sleep' AND t.PROCESSLIST_ID <> CONNECTION_ID() \
             AND s.SQL_TEXT IS NOT NULL"
        )
    };
}

/// The source: a lock of the whole server, of `LOCK TABLES` or of `GET_LOCK` is a session's and no transaction's. Where no list of metadata
/// locks says who has it, the last statement of a session that rests does. And where a transaction waits for a row of one whose session
/// rests, no list has a statement of that one: its last says which part of the application left the transaction open.
///
/// Cost: nothing where nobody waits so. For a session's lock a slot of memory for each thread and each of its statements, without any
/// lock: 4 to 5 ms for 530 threads (MySQL 9.7.4). For a row the statements of 16 connections at most: half a millisecond of 4,700, where
/// the tables have indexes (8.0 and later); before, a walk over both.
pub const SOURCE: Source = Source {
    name: "performance_schema.events_statements_current",
    help: "the last statements of connections that rest, where somebody waits for a lock that a session keeps, or for a row of theirs",
    cost: "nothing where nobody waits so, else it reads memory without a lock, about 5 ms for 500 threads",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, 30),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None if joins_by_hash(version) => {
            Plan::AskAbout(|sample| statement(sample, last_statements!("s.THREAD_ID + 0")))
        }
        None => Plan::AskAbout(|sample| statement(sample, last_statements!("s.THREAD_ID"))),
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.events_statements_current", rows, LIMIT, sample);
        sample.last_statements = answer.reading(last_statements(rows));
    },
    reading: ServerSample::field("last_statements"),
};

/// States in which a session waits for such a lock (sql/lock.cc, sql/mdl.cc, sql/item_func.cc), in lower case.
const WAITS: &[&str] = &[
    "waiting for global read lock",
    "waiting for commit lock",
    "waiting for backup lock",
    "waiting for release of readlock",
    "user lock",
    "waiting for user lock",
    // LOCK TABLES and HANDLER, and who read the table in a transaction that is still open
    "waiting for table metadata lock",
];

/// The threads of a sample in which no metadata locks were read; none where they were, or where the threads were not due.
///
/// # Errors
/// Who waits is not known without the list: what unlocks the one unlocks the other.
pub(super) fn threads_without_locks(sample: &ServerSample) -> Result<&[ServerThread], Unavailable> {
    match &sample.threads {
        _ if sample.metadata_locks.value().is_some() => Ok(&[]),
        Reading::Available { value, .. } => Ok(value),
        Reading::Unavailable(why) => Err(why.clone()),
        Reading::NotAsked => Ok(&[]),
    }
}

/// What is asked: about all that rest (`of_all`), about those in the way of a row, or nothing.
fn statement(sample: &ServerSample, of_all: &str) -> Result<Option<String>, Unavailable> {
    if waits_for_a_sessions(sample)? {
        return Ok(Some(format!("{of_all} LIMIT {LIMIT}")));
    }
    let ids: Vec<String> = idle_blockers(sample).iter().map(u64::to_string).collect();
    // A few are looked up by the index that a walk over all is better without.
    let of_these = last_statements!("s.THREAD_ID");
    Ok((!ids.is_empty())
        .then(|| format!("{of_these} AND t.PROCESSLIST_ID IN ({}) LIMIT {LIMIT}", ids.join(", "))))
}

/// True where somebody waits for a lock that a session keeps.
fn waits_for_a_sessions(sample: &ServerSample) -> Result<bool, Unavailable> {
    let waits = |thread: &ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        WAITS.iter().any(|wait| state.starts_with(wait))
    };
    Ok(threads_without_locks(sample)?.iter().any(waits))
}

/// The connections that rest and have a row that others wait for, as far as their last statements are not known, those in the way of the
/// most first. None where either list is missing.
fn idle_blockers(sample: &ServerSample) -> Vec<u64> {
    let rests = |thread: &&ServerThread| thread.command == "Sleep" && thread.last_statement.is_none();
    let listed = sample.threads.value().into_iter().flatten().filter(rests);
    let resting: HashSet<u64> = listed.filter_map(|thread| thread.connection_id).collect();
    let mut waiters: BTreeMap<u64, usize> = BTreeMap::new();
    let waits = sample.row_lock_waits.value().into_iter().flatten();
    for id in waits.filter_map(|wait| wait.blocking_connection_id).filter(|id| resting.contains(id)) {
        *waiters.entry(id).or_default() += 1;
    }
    let mut blockers: Vec<(u64, usize)> = waiters.into_iter().collect();
    blockers.sort_by_key(|(_, waiters)| Reverse(*waiters));
    blockers.into_iter().map(|(id, _)| id).take(BLOCKERS).collect()
}

fn last_statements(rows: &Rows) -> Vec<LastStatement> {
    rows.iter()
        .map(|row| LastStatement {
            internal_id: row.number("THREAD_ID"),
            connection_id: row.number("PROCESSLIST_ID"),
            statement: row.string("SQL_TEXT"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::RowLockWait;

    use super::super::fixture;
    use super::*;

    #[test]
    fn it_is_asked_only_where_somebody_waits_for_a_lock_that_no_list_shows() {
        let of = |state: &str, is_listed: bool| {
            let thread = ServerThread { state: state.into(), ..ServerThread::default() };
            let mut sample = ServerSample {
                threads: Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![thread] },
                ..ServerSample::default()
            };
            if is_listed {
                sample.metadata_locks = Reading::Available { at_s: 0.0, took_ms: 1.0, value: Vec::new() };
            }
            waits_for_a_sessions(&sample).unwrap()
        };
        assert!(of("Waiting for global read lock", false) && of("User lock", false));
        assert!(!of("Waiting for global read lock", true));
        assert!(of("Waiting for table metadata lock", false) && !of("Waiting for table metadata lock", true));
        assert!(!of("executing", false) && !of("Waiting for table flush", false));
        assert_eq!(
            statement(&ServerSample::default(), "SELECT"),
            Ok(None),
            "where the list was not due, nothing is asked"
        );
        let why = Unavailable::because("no right to it").unlock("GRANT PROCESS");
        let sample = ServerSample { threads: Reading::Unavailable(why.clone()), ..ServerSample::default() };
        assert_eq!(statement(&sample, "SELECT"), Err(why));
    }

    #[test]
    fn of_who_rests_in_the_way_of_a_row_the_last_statement_is_asked_and_of_nobody_else() {
        fn read<T>(value: Vec<T>) -> Reading<Vec<T>> {
            Reading::Available { at_s: 0.0, took_ms: 1.0, value }
        }
        let thread = |id: u64, command: &str| ServerThread {
            connection_id: Some(id),
            command: command.into(),
            ..ServerThread::default()
        };
        let wait = |waiting: u64, blocking: Option<u64>| RowLockWait {
            waiting_connection_id: Some(waiting),
            blocking_connection_id: blocking,
            ..RowLockWait::default()
        };
        let of = |threads: Vec<ServerThread>, waits: Vec<RowLockWait>| {
            let sample = ServerSample {
                threads: read(threads),
                row_lock_waits: read(waits),
                metadata_locks: read(Vec::new()),
                ..ServerSample::default()
            };
            statement(&sample, "SELECT").unwrap()
        };
        let threads =
            || vec![thread(7, "Sleep"), thread(8, "Query"), thread(9, "Sleep"), thread(20, "Query")];
        // Most wait for 9; 8 is at work, and its statement is in the list; a transaction without a connection has none.
        let waits =
            vec![wait(20, Some(7)), wait(20, Some(9)), wait(21, Some(9)), wait(22, Some(8)), wait(23, None)];
        let asked = of(threads(), waits).unwrap();
        assert!(asked.ends_with(" AND t.PROCESSLIST_ID IN (9, 7) LIMIT 2000"), "{asked}");
        assert!(asked.contains(" ON s.THREAD_ID = t.THREAD_ID WHERE "), "by the index: {asked}");
        assert_eq!(of(threads(), vec![wait(20, Some(8))]), None, "who blocks is at work");
        assert_eq!(of(threads(), Vec::new()), None, "nobody waits");
        let known = ServerThread { last_statement: Some("UPDATE t".into()), ..thread(7, "Sleep") };
        assert_eq!(of(vec![known], vec![wait(20, Some(7))]), None, "it is there already");
        // However many there are.
        let many: Vec<u64> = (100..200).collect();
        let resting = many.iter().map(|&id| thread(id, "Sleep")).collect();
        let asked = of(resting, many.iter().map(|&id| wait(20, Some(id))).collect()).unwrap();
        assert_eq!(asked.split_once(" IN (").unwrap().1.split(", ").count(), BLOCKERS);
    }

    #[test]
    fn who_waits_for_a_sessions_lock_has_all_that_rest_asked() {
        let thread = ServerThread { state: "Waiting for global read lock".into(), ..ServerThread::default() };
        let sample = ServerSample {
            threads: Reading::Available { at_s: 0.0, took_ms: 1.0, value: vec![thread] },
            ..ServerSample::default()
        };
        let asked = statement(&sample, last_statements!("s.THREAD_ID + 0")).unwrap().unwrap();
        assert!(asked.ends_with("AND s.SQL_TEXT IS NOT NULL LIMIT 2000"), "{asked}");
    }

    #[test]
    fn each_statement_goes_with_its_thread_and_its_connection() {
        let text = "THREAD_ID\tPROCESSLIST_ID\tSQL_TEXT\n27\t7\tFLUSH TABLES WITH READ LOCK\n";
        let statement = LastStatement {
            internal_id: Some(27),
            connection_id: Some(7),
            statement: "FLUSH TABLES WITH READ LOCK".into(),
        };
        assert_eq!(last_statements(&fixture::tabbed(text)), [statement]);
    }
}
