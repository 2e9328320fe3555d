//! `performance_schema.events_statements_current` of connections that rest: what they did last.

use spindoctor_model::mysql::{LastStatement, ServerThread};
use spindoctor_model::{Reading, ServerSample, Unavailable};

use super::perf_schema_threads::joins_by_hash;
use super::rows::Rows;
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Connections read at most.
const LIMIT: usize = 2000;

/// Level 0 of the nesting is what the client sent; 5.6 has no column for it, and nothing nested. `$thread`: how the thread of a statement
/// is written in the condition of the join (`perf_schema_threads::with_statement`).
macro_rules! last_statements {
    ($thread:literal) => {
        concat!(
            "SELECT t.THREAD_ID, t.PROCESSLIST_ID, LEFT(s.SQL_TEXT, 1024) AS SQL_TEXT FROM performance_schema.threads AS t \
             JOIN performance_schema.events_statements_current AS s ON ",
            $thread,
            " = t.THREAD_ID WHERE t.PROCESSLIST_COMMAND = 'Sleep' AND t.PROCESSLIST_ID <> CONNECTION_ID() \
             AND s.SQL_TEXT IS NOT NULL LIMIT 2000"
        )
    };
}

/// The source: a lock of the whole server, of `LOCK TABLES` or of `GET_LOCK` is a session's and no transaction's. Where no list of metadata
/// locks says who has it, the last statement of a session that rests does.
///
/// Cost: nothing where nobody waits for such a lock, or where the metadata locks were read. Else a slot of memory for each thread and
/// each of its statements, without any lock: 4 to 5 ms for 530 threads (MySQL 9.7.4).
pub const SOURCE: Source = Source {
    name: "performance_schema.events_statements_current",
    help: "the last statements of connections that rest, where somebody waits for a lock that a session keeps",
    cost: "nothing where nobody waits so, else it reads memory without a lock, about 5 ms for 500 threads",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, 30),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None if joins_by_hash(version) => Plan::AskAbout(|sample| {
            Ok(is_asked(sample)?.then(|| last_statements!("s.THREAD_ID + 0").to_owned()))
        }),
        None => {
            Plan::AskAbout(|sample| Ok(is_asked(sample)?.then(|| last_statements!("s.THREAD_ID").to_owned())))
        }
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

/// True where somebody waits for such a lock.
fn is_asked(sample: &ServerSample) -> Result<bool, Unavailable> {
    let waits = |thread: &ServerThread| {
        let state = thread.state.to_ascii_lowercase();
        WAITS.iter().any(|wait| state.starts_with(wait))
    };
    Ok(threads_without_locks(sample)?.iter().any(waits))
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
            is_asked(&sample).unwrap()
        };
        assert!(of("Waiting for global read lock", false) && of("User lock", false));
        assert!(!of("Waiting for global read lock", true));
        assert!(of("Waiting for table metadata lock", false) && !of("Waiting for table metadata lock", true));
        assert!(!of("executing", false) && !of("Waiting for table flush", false));
        assert_eq!(
            is_asked(&ServerSample::default()),
            Ok(false),
            "where the list was not due, nothing is asked"
        );
        let why = Unavailable::because("no right to it").unlock("GRANT PROCESS");
        let sample = ServerSample { threads: Reading::Unavailable(why.clone()), ..ServerSample::default() };
        assert_eq!(is_asked(&sample), Err(why));
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
