//! `performance_schema.threads`: every thread of a MySQL server, with the kernel's thread ids.

use spindoctor_model::mysql::{NamedValues, ServerThread, THREADS_LISTED_WITHIN_S};
use spindoctor_model::{ServerSample, ServerVersion};

use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Threads read at most; those that sleep are left out first.
const LIMIT: usize = 5000;

/// A column with a statement's text, under its own name: of a long one the first 1,024 characters and the last 256, with
/// [`CUT`] between them.
macro_rules! both_ends {
    ($column:literal) => {
        both_ends!($column, $column)
    };
    ($value:literal, $column:literal) => {
        concat!(
            "IF(CHAR_LENGTH(",
            $value,
            ") > 1280, CONCAT(LEFT(",
            $value,
            ", 1024), '/*[...]*/', RIGHT(",
            $value,
            ", 256)), ",
            $value,
            ") AS ",
            $column
        )
    };
}
pub(super) use both_ends;

/// The texts of prepared statements that run now. In performance_schema.threads they are NULL (seen on 5.6.14, 5.7.22, 8.0.31,
/// 8.0.33; 9.7.4 has them): the process list has them on every version.
///
/// Cost: as for the process list (`processlist.rs`): it visits every connection and takes its lock for an instant. Only who
/// looks at statements asks it, and only of these versions.
macro_rules! prepared {
    () => {
        "LEFT JOIN (SELECT ID, INFO FROM information_schema.PROCESSLIST WHERE COMMAND = 'Execute' AND INFO IS NOT NULL) AS p \
         ON p.ID = t.PROCESSLIST_ID "
    };
}

/// True where performance_schema.threads shows no text of a prepared statement. From when on it does is known of 9.7 alone.
fn hides_prepared(version: ServerVersion) -> bool {
    !version.mysql_at_least(9, 7, 0)
}

/// The source.
///
/// Cost: reads one slot of memory for each thread, without any lock (that is what sets it apart from
/// the process list). About 1 ms for 400 threads (MySQL 9.7.4). Safe to ask every second.
///
/// MariaDB's process list has the kernel's thread ids too, and milliseconds: it is used there.
pub const SOURCE: Source = Source {
    name: "performance_schema.threads",
    help: "every thread: connection, kernel thread id, state, statement",
    cost: "reads memory without a lock, about 1 ms for 400 threads",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, THREADS_LISTED_WITHIN_S).hurrying(),
    plan: |version, variables| {
        if version.is_mariadb() || performance_schema_off(version, variables).is_some() {
            Plan::Elsewhere
        } else if version.mysql_at_least(5, 7, 0) && find_room(variables) {
            Plan::Ask(
                "SELECT THREAD_ID, NAME, TYPE, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, \
                 PROCESSLIST_DB, PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, \
                 LEFT(PROCESSLIST_INFO, 1024) AS PROCESSLIST_INFO, THREAD_OS_ID \
                 FROM performance_schema.threads \
                 WHERE PROCESSLIST_ID IS NULL OR PROCESSLIST_ID <> CONNECTION_ID() LIMIT 5000",
            )
        } else if version.mysql_at_least(5, 7, 0) {
            Plan::Ask(
                "SELECT THREAD_ID, NAME, TYPE, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, \
                 PROCESSLIST_DB, PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, \
                 LEFT(PROCESSLIST_INFO, 1024) AS PROCESSLIST_INFO, THREAD_OS_ID \
                 FROM performance_schema.threads \
                 WHERE PROCESSLIST_ID IS NULL OR PROCESSLIST_ID <> CONNECTION_ID() \
                 ORDER BY PROCESSLIST_COMMAND <=> 'Sleep' LIMIT 5000",
            )
        } else {
            // 5.6 does not know the kernel's thread ids.
            Plan::Ask(
                "SELECT THREAD_ID, NAME, TYPE, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, \
                 PROCESSLIST_DB, PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, \
                 LEFT(PROCESSLIST_INFO, 1024) AS PROCESSLIST_INFO \
                 FROM performance_schema.threads \
                 WHERE PROCESSLIST_ID IS NULL OR PROCESSLIST_ID <> CONNECTION_ID() \
                 ORDER BY PROCESSLIST_COMMAND <=> 'Sleep' LIMIT 5000",
            )
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.threads", rows, LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    reading: ServerSample::field("threads"),
};

/// `SELECT` of all threads, each beside its statement of the outermost level. `$info`: the text that it executes, `$prepared`: the join
/// that this text needs, `$thread`: how the thread of a statement is written in the condition of the join, `$columns`: what is read of
/// the statement, and `$only`: which statements.
///
/// From MySQL 8.0 on the table of statements has an index by thread, but each look into it walks over all threads
/// (`PFS_index_all_thread`, storage/perfschema/table_events_statements.cc): to look up one statement for each thread took 157 ms with
/// 4,700 connections, and 24 ms with 1,000, without any lock. A condition on
/// `THREAD_ID + 0` uses no index: both tables are walked over once and joined by a hash table, in 12.5 and 2.5 ms (9.7.4).
macro_rules! with_statement {
    ($info:literal, $prepared:expr, $thread:literal, $columns:literal, $only:literal) => {
        concat!(
            "SELECT t.THREAD_ID, t.NAME, t.TYPE, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, LEFT(",
            $info,
            ", 1024) AS PROCESSLIST_INFO, THREAD_OS_ID, ",
            $columns,
            " FROM performance_schema.threads AS t ",
            $prepared,
            "LEFT JOIN performance_schema.events_statements_current AS s ON ",
            $thread,
            " = t.THREAD_ID AND s.NESTING_EVENT_LEVEL = 0",
            $only,
            " WHERE PROCESSLIST_ID IS NULL OR PROCESSLIST_ID <> CONNECTION_ID() \
             ORDER BY PROCESSLIST_COMMAND <=> 'Sleep' LIMIT 5000"
        )
    };
}

/// What is asked of a server of this version: of threads beside their statements, as [`with_statement!`] says.
macro_rules! plan_with_statement {
    ($version:ident, $variables:ident, $columns:literal, $only:literal) => {
        match (SOURCE.plan)($version, $variables) {
            Plan::Ask(_) if !hides_prepared($version) => {
                Plan::Ask(with_statement!("PROCESSLIST_INFO", "", "s.THREAD_ID + 0", $columns, $only))
            }
            Plan::Ask(_) if joins_by_hash($version) => Plan::Ask(with_statement!(
                "COALESCE(PROCESSLIST_INFO, p.INFO)",
                prepared!(),
                "s.THREAD_ID + 0",
                $columns,
                $only
            )),
            Plan::Ask(_) if $version.mysql_at_least(5, 7, 0) => Plan::Ask(with_statement!(
                "COALESCE(PROCESSLIST_INFO, p.INFO)",
                prepared!(),
                "s.THREAD_ID",
                $columns,
                $only
            )),
            plan => plan,
        }
    };
}

/// True where an outer join whose condition no index helps with is done by a hash table: MySQL from 8.0.20 on (its release notes).
/// Before, each row of the one table would be held against each of the other.
pub(super) fn joins_by_hash(version: ServerVersion) -> bool {
    version.mysql_at_least(8, 0, 20)
}

/// The same threads with the digest of the statement that each executes now, for who groups stacks by it.
///
/// Cost: for each thread one more slot of memory, without any lock. About 2 ms for 400 threads (MySQL 9.7.4): safe to
/// ask once a second. Level 0 is the statement that the client sent; those inside a routine are nested in it. Where
/// the consumer events_statements_current is off there are no digests, and all else is there.
pub const WITH_DIGESTS: Source = Source {
    help: "every thread: connection, kernel thread id, state, statement and its digest",
    cost: "reads memory without a lock, about 2 ms for 400 threads",
    plan: |version, variables| {
        plan_with_statement!(
            version,
            variables,
            "LEFT(s.DIGEST_TEXT, 1024) AS DIGEST_TEXT",
            " AND s.END_EVENT_ID IS NULL"
        )
    },
    ..SOURCE
};

/// The same threads with the number of the statement that each executes or executed last, and the text of the latter
/// where the thread rests now: for who blocks whom.
///
/// Cost: as for [`WITH_DIGESTS`]; 4 to 5 ms for 530 threads, of which 2 for the order (MySQL 9.7.4).
pub const WITH_STATEMENTS: Source = Source {
    help: "every thread: connection, kernel thread id, state, statement now or the last one",
    cost: "reads memory without a lock, about 5 ms for 500 threads",
    plan: |version, variables| {
        plan_with_statement!(
            version,
            variables,
            "s.EVENT_ID AS STATEMENT_NUMBER, IF(PROCESSLIST_COMMAND = 'Sleep', LEFT(s.SQL_TEXT, 1024), NULL) AS LAST_STATEMENT",
            ""
        )
    },
    ..SOURCE
};

/// Connections that do something, each with the number of its statement, and nothing else of them: for who still waits.
///
/// Cost: as for [`WITH_STATEMENTS`], and half of it for 500 connections: no text, no order.
pub const ACTIVE: Source = Source {
    help: "every connection that does not rest: state and number of its statement",
    cost: "reads memory without a lock, about 2.5 ms for 500 connections",
    plan: |version, variables| match (SOURCE.plan)(version, variables) {
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) => Plan::Ask(
            "SELECT t.THREAD_ID, t.NAME, PROCESSLIST_ID, PROCESSLIST_COMMAND, PROCESSLIST_STATE, \
             s.EVENT_ID AS STATEMENT_NUMBER \
             FROM performance_schema.threads AS t \
             LEFT JOIN performance_schema.events_statements_current AS s \
             ON s.THREAD_ID = t.THREAD_ID AND s.NESTING_EVENT_LEVEL = 0 \
             WHERE PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_COMMAND <> 'Sleep' LIMIT 5000",
        ),
        plan => plan,
    },
    ..SOURCE
};

/// Connections that run a statement, the longest first: for who runs what on many servers at once, again and again.
///
/// Cost: as for [`SOURCE`]; of those that rest nothing is sent. Texts are cut to 256 characters, one line of a wide
/// terminal. Safe to ask every second.
pub const RUNNING: Source = Source {
    help: "every connection that runs a statement: state, statement",
    plan: |version, variables| match (SOURCE.plan)(version, variables) {
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) && hides_prepared(version) => Plan::Ask(concat!(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, \
             LEFT(COALESCE(PROCESSLIST_INFO, p.INFO), 256) AS PROCESSLIST_INFO FROM performance_schema.threads AS t ",
            prepared!(),
            "WHERE PROCESSLIST_ID <> CONNECTION_ID() AND COALESCE(PROCESSLIST_INFO, p.INFO) IS NOT NULL \
             AND PROCESSLIST_COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
             ORDER BY PROCESSLIST_TIME DESC LIMIT 100"
        )),
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) => Plan::Ask(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, \
             LEFT(PROCESSLIST_INFO, 256) AS PROCESSLIST_INFO FROM performance_schema.threads \
             WHERE PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_INFO IS NOT NULL \
             AND PROCESSLIST_COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID') \
             ORDER BY PROCESSLIST_TIME DESC LIMIT 100",
        ),
        // 5.6: the process list has the same.
        Plan::Ask(_) => Plan::Elsewhere,
        plan => plan,
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.threads", rows, RUNNING_LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    ..SOURCE
};

/// Connections that run a statement, with the beginning and the end of its text: for who looks many times a second.
///
/// Cost: as for [`SOURCE`]; of those that rest nothing is sent. Of a long text the first 1,024 characters are sent, and
/// the last 256, where tags stand that a framework adds as a comment; [`CUT`] is between them. Who looks ten times a
/// second measures what that costs and looks less often where it is too much.
pub const SAMPLED: Source = Source {
    help: "every connection that runs a statement: state, statement, kernel thread id",
    plan: |version, variables| match (SOURCE.plan)(version, variables) {
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) && hides_prepared(version) => Plan::Ask(concat!(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, ",
            both_ends!("COALESCE(PROCESSLIST_INFO, p.INFO)", "PROCESSLIST_INFO"),
            " FROM performance_schema.threads AS t ",
            prepared!(),
            "WHERE PROCESSLIST_ID <> CONNECTION_ID() AND COALESCE(PROCESSLIST_INFO, p.INFO) IS NOT NULL LIMIT 2000"
        )),
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) => Plan::Ask(concat!(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, ",
            both_ends!("PROCESSLIST_INFO"),
            " FROM performance_schema.threads \
             WHERE PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_INFO IS NOT NULL LIMIT 2000"
        )),
        // 5.6: the process list has the same.
        Plan::Ask(_) => Plan::Elsewhere,
        plan => plan,
    },
    parse: |rows, answer, sample| {
        note_if_cut("performance_schema.threads", rows, SAMPLED_LIMIT, sample);
        sample.threads = answer.reading(threads(rows));
    },
    ..SOURCE
};

/// The same with what each waits for at that instant (`WAIT_EVENT`: the innermost event that has not ended), for servers that
/// have the consumer `events_waits_current` switched on. spindoctor switches none on.
///
/// Cost: as for [`SAMPLED`], and for each connection that is listed one more slot of memory by its key, without a lock.
/// Before 8.0 the table has no key. `wait/io/table` is no wait: it is all the time within the storage engine.
pub const SAMPLED_WITH_WAITS: Source = Source {
    help: "every connection that runs a statement: state, statement, kernel thread id, wait event",
    plan: |version, variables| match (SAMPLED.plan)(version, variables) {
        Plan::Ask(_) if version.mysql_at_least(8, 0, 0) && hides_prepared(version) => Plan::Ask(concat!(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, ",
            both_ends!("COALESCE(PROCESSLIST_INFO, p.INFO)", "PROCESSLIST_INFO"),
            ", (SELECT w.EVENT_NAME FROM performance_schema.events_waits_current AS w \
             WHERE w.THREAD_ID = t.THREAD_ID AND w.END_EVENT_ID IS NULL AND w.EVENT_NAME NOT LIKE 'wait/io/table/%' \
             ORDER BY w.EVENT_ID DESC LIMIT 1) AS WAIT_EVENT FROM performance_schema.threads AS t ",
            prepared!(),
            "WHERE PROCESSLIST_ID <> CONNECTION_ID() AND COALESCE(PROCESSLIST_INFO, p.INFO) IS NOT NULL LIMIT 2000"
        )),
        Plan::Ask(_) if version.mysql_at_least(8, 0, 0) => Plan::Ask(concat!(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, ",
            both_ends!("PROCESSLIST_INFO"),
            ", (SELECT w.EVENT_NAME FROM performance_schema.events_waits_current AS w \
             WHERE w.THREAD_ID = t.THREAD_ID AND w.END_EVENT_ID IS NULL AND w.EVENT_NAME NOT LIKE 'wait/io/table/%' \
             ORDER BY w.EVENT_ID DESC LIMIT 1) AS WAIT_EVENT FROM performance_schema.threads AS t \
             WHERE PROCESSLIST_ID <> CONNECTION_ID() AND PROCESSLIST_INFO IS NOT NULL LIMIT 2000"
        )),
        plan => plan,
    },
    ..SAMPLED
};

/// The threads of a replica that apply: the coordinator and its workers, with the table that each works on
/// (`LOCKED_TABLE`: the one that it locked last), which a row event shows nowhere else.
///
/// Cost: one slot of memory for each thread, and for each applier a walk over the metadata locks that are held, without
/// any lock. About 1 ms for four workers of a server with 1,000 connections.
pub const APPLIERS: Source = Source {
    help: "the threads that apply: state, statement, table",
    plan: |version, variables| match (SOURCE.plan)(version, variables) {
        Plan::Ask(_) if version.mysql_at_least(8, 0, 0) => Plan::Ask(
            "SELECT t.THREAD_ID, t.NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, \
             LEFT(PROCESSLIST_INFO, 1024) AS PROCESSLIST_INFO, \
             (SELECT CONCAT(m.OBJECT_SCHEMA, '.', m.OBJECT_NAME) FROM performance_schema.metadata_locks AS m \
             WHERE m.OWNER_THREAD_ID = t.THREAD_ID AND m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_SCHEMA <> 'mysql' \
             ORDER BY m.OWNER_EVENT_ID DESC LIMIT 1) AS LOCKED_TABLE \
             FROM performance_schema.threads AS t WHERE t.NAME IN ('thread/sql/replica_sql', \
             'thread/sql/replica_worker', 'thread/sql/slave_sql', 'thread/sql/slave_worker') LIMIT 2000",
        ),
        Plan::Ask(_) if version.mysql_at_least(5, 7, 0) => Plan::Ask(
            "SELECT THREAD_ID, NAME, PROCESSLIST_ID, PROCESSLIST_USER, PROCESSLIST_HOST, PROCESSLIST_DB, \
             PROCESSLIST_COMMAND, PROCESSLIST_TIME, PROCESSLIST_STATE, THREAD_OS_ID, \
             LEFT(PROCESSLIST_INFO, 1024) AS PROCESSLIST_INFO \
             FROM performance_schema.threads \
             WHERE NAME IN ('thread/sql/slave_sql', 'thread/sql/slave_worker') LIMIT 2000",
        ),
        // 5.6: the process list has the same.
        Plan::Ask(_) => Plan::Elsewhere,
        plan => plan,
    },
    ..SAMPLED
};

/// Stands between the beginning and the end of a text that is longer than both.
pub use spindoctor_sql::CUT;

/// Connections of [`SAMPLED`] at most, here and in the process list.
pub(super) const SAMPLED_LIMIT: usize = 2000;

/// Connections of [`RUNNING`] at most, here and in the process list.
pub(super) const RUNNING_LIMIT: usize = 100;

/// True where all threads that there may be find room: then they need not be put in order, which is 1.5 of the 3.6 ms that
/// the server needs for 1,000 of them (MySQL 9.7.4, two CPUs with other work).
pub(super) fn find_room(variables: Option<&NamedValues>) -> bool {
    /// Threads that are no clients': a server at rest has 30, and appliers may have 1,024.
    const OTHERS: f64 = 1_100.0;
    let connections = variables.and_then(|variables| variables.number("max_connections"));
    connections.is_some_and(|connections| connections + OTHERS <= LIMIT as f64)
}

fn threads(rows: &Rows) -> Vec<ServerThread> {
    rows.iter().map(thread).collect()
}

fn thread(row: Row<'_>) -> ServerThread {
    let name = row.string("NAME");
    let connection_id = row.number("PROCESSLIST_ID");
    // `thread/sql/one_connection`, `thread/thread_pool/tp_one_connection`, `thread/mysqlx/worker`, and an event at work, which has
    // a session of its own. Appliers and the event scheduler have a PROCESSLIST_ID too, under other names.
    let is_session = |name: &str| {
        ["one_connection", "mysqlx/worker", "sql/event_worker"].iter().any(|end| name.ends_with(end))
    };
    let is_connection = connection_id.is_some() && is_session(&name);
    ServerThread {
        internal_id: row.number("THREAD_ID"),
        connection_id,
        thread_os_id: row.number("THREAD_OS_ID"),
        is_connection,
        name,
        user: row.string("PROCESSLIST_USER"),
        host: row.string("PROCESSLIST_HOST"),
        schema: row.string("PROCESSLIST_DB"),
        command: row.string("PROCESSLIST_COMMAND"),
        time_s: row.number("PROCESSLIST_TIME").unwrap_or(0.0_f64).max(0.0),
        state: row.string("PROCESSLIST_STATE"),
        statement: row.text("PROCESSLIST_INFO").map(str::to_owned),
        digest_text: row
            .text("DIGEST_TEXT")
            .filter(|text| !text.is_empty())
            .map(|text| spindoctor_sql::server_digest(text).to_owned()),
        statement_number: row.number("STATEMENT_NUMBER"),
        last_statement: row.text("LAST_STATEMENT").filter(|text| !text.is_empty()).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use spindoctor_model::ServerVersion;

    #[test]
    fn shows_connections_from_appliers_and_background_threads() {
        let threads = threads(&fixture::tabbed(
            "THREAD_ID\tNAME\tTYPE\tPROCESSLIST_ID\tPROCESSLIST_USER\tPROCESSLIST_TIME\tTHREAD_OS_ID\n\
             1\tthread/sql/main\tBACKGROUND\tNULL\tNULL\tNULL\t4310\n\
             52\tthread/sql/one_connection\tFOREGROUND\t12\tapp\t3\t4351\n\
             40\tthread/sql/replica_worker\tFOREGROUND\t7\tsystem user\t9\t4340\n\
             41\tthread/sql/event_scheduler\tFOREGROUND\t5\tevent_scheduler\t9\t4341\n\
             60\tthread/sql/event_worker\tFOREGROUND\t31\troot\t2\t4360\n",
        ));
        let are_sessions: Vec<bool> = threads.iter().map(|thread| thread.is_connection).collect();
        assert_eq!(are_sessions, [false, true, false, false, true]);
        assert_eq!((threads[1].connection_id, threads[1].thread_os_id), (Some(12), Some(4351)));
        assert_eq!(threads[1].statement, None);
    }

    #[test]
    fn asks_no_server_for_a_column_that_it_does_not_have() {
        let plan = |text| match (SOURCE.plan)(ServerVersion::parse(text, "").unwrap(), None) {
            Plan::Ask(sql) => sql,
            other => panic!("{other:?}"),
        };
        assert!(!plan("5.6.21").contains("THREAD_OS_ID"));
        for version in ["5.7.32", "8.0.36", "9.7.4"] {
            assert!(plan(version).contains("THREAD_OS_ID"), "{version}");
            assert!(plan(version).ends_with(&format!("LIMIT {LIMIT}")), "{version}");
        }
    }

    #[test]
    fn of_a_long_text_both_ends_are_asked_for_and_waits_only_where_they_have_a_key() {
        let plan = |source: Source, text| match (source.plan)(ServerVersion::parse(text, "").unwrap(), None) {
            Plan::Ask(sql) => sql,
            other => panic!("{other:?}"),
        };
        for version in ["5.7.22", "8.0.33"] {
            for source in [SAMPLED, SAMPLED_WITH_WAITS, RUNNING, WITH_DIGESTS, WITH_STATEMENTS] {
                let sql = plan(source, version);
                assert!(
                    sql.contains("p ON p.ID = t.PROCESSLIST_ID"),
                    "prepared statements are looked for: {sql}"
                );
            }
        }
        let sampled = plan(SAMPLED, "9.7.4");
        assert!(!sampled.contains("PROCESSLIST_ID = p.ID") && !sampled.contains("information_schema"));
        assert!(
            sampled
                .contains(&format!("LEFT(PROCESSLIST_INFO, 1024), '{CUT}', RIGHT(PROCESSLIST_INFO, 256))"))
        );
        assert_eq!(plan(SAMPLED_WITH_WAITS, "5.7.44"), plan(SAMPLED, "5.7.44"));
        let waits = plan(SAMPLED_WITH_WAITS, "9.7.4");
        assert!(
            waits.contains("events_waits_current") && waits.contains("w.THREAD_ID = t.THREAD_ID"),
            "{waits}"
        );
        assert!(waits.ends_with(&format!("LIMIT {SAMPLED_LIMIT}")), "{waits}");
    }

    /// A look into the index for each thread walks over all threads: with 5,000 of them that is a quarter of a second.
    #[test]
    fn statements_are_joined_by_a_hash_table_where_the_server_has_one() {
        let version = |text| ServerVersion::parse(text, "").unwrap();
        for source in [WITH_DIGESTS, WITH_STATEMENTS] {
            for (text, is_hashed) in [("5.7.44", false), ("8.0.19", false), ("8.0.20", true), ("9.7.4", true)]
            {
                let Plan::Ask(sql) = (source.plan)(version(text), None) else { panic!("{text}") };
                assert_eq!(sql.contains("s.THREAD_ID + 0 = t.THREAD_ID"), is_hashed, "{text}: {sql}");
                assert!(
                    sql.contains("s.NESTING_EVENT_LEVEL = 0") && sql.ends_with(&format!("LIMIT {LIMIT}")),
                    "{sql}"
                );
            }
            assert!(
                matches!((source.plan)(version("5.6.51"), None), Plan::Ask(sql) if !sql.contains("JOIN"))
            );
        }
    }

    #[test]
    fn threads_are_put_in_order_only_where_some_may_be_left_out() {
        let is_ordered = |connections: &str| {
            let variables = NamedValues::from_iter([("max_connections".to_owned(), connections.to_owned())]);
            match (SOURCE.plan)(ServerVersion::parse("8.0.36", "").unwrap(), Some(&variables)) {
                Plan::Ask(sql) => sql.contains("ORDER BY"),
                other => panic!("{other:?}"),
            }
        };
        assert!(!is_ordered("1000"));
        assert!(is_ordered("5000"));
    }
}
