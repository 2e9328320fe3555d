//! The table `mysql.slow_log` (log_output = TABLE, as on RDS) as the log that a server writes into a file; and statements of
//! performance_schema (`events_statements_current`, `_history`), whose times are picoseconds.
//!
//! ```text
//!    start_time: 2024-05-02 08:01:40.123456
//!     user_host: app[app] @ web3 [10.0.0.13]
//!    query_time: 00:00:41.301245
//!     lock_time: 00:00:40.900112
//!     rows_sent: 0
//! rows_examined: 1
//!      sql_text: UPDATE stock SET n = n - 1 WHERE id = 7
//! ```

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;

use crate::headless::one_line;
use crate::locks::clock;
use crate::slow_log::{self, SlowLog};

/// How the table and monitoring call the statement.
const STATEMENTS: [&str; 3] = ["sql_text", "statement", "query"];

/// Columns of lists that somebody joined with statements: of sessions and of locks.
const OF_OTHERS: [&str; 5] =
    ["processlist_state", "processlist_command", "lock_type", "trx_state", "blocking_pid"];

/// True for the columns of that table, in lower case.
pub(crate) fn is_list(columns: &[String]) -> bool {
    let has = |name: &str| columns.iter().any(|column| column == name);
    has("query_time") && has("lock_time") && STATEMENTS.iter().any(|name| has(name))
        || has("sql_text") && has("timer_wait") && !OF_OTHERS.iter().any(|name| has(name))
}

/// What the statements of the table come to. None where it has none.
pub(crate) fn read(rows: &Rows) -> Option<SlowLog> {
    let log: String = rows.iter().filter_map(|row| entry(&row)).collect();
    slow_log::read(&log)
}

fn entry(row: &Row<'_>) -> Option<String> {
    let is_event = row.text("timer_wait").is_some();
    let seconds = |name: &str| match is_event {
        true => row.number::<f64>(name).map(|picoseconds| picoseconds / 1e12),
        false => row.text(name).and_then(clock),
    };
    let count = |name: &str| row.number::<u64>(name).unwrap_or(0);
    let statement = STATEMENTS.iter().find_map(|name| row.text(name))?;
    Some(format!(
        "# User@Host: x[x] @ x []\n# Query_time: {}  Lock_time: {} Rows_sent: {}  Rows_examined: {}\n{};\n",
        seconds(if is_event { "timer_wait" } else { "query_time" })?,
        seconds("lock_time").unwrap_or(0.0),
        count("rows_sent"),
        count("rows_examined"),
        one_line(statement)
    ))
}

#[cfg(test)]
mod tests {
    use crate::part::Kind;
    use crate::recognise;
    use crate::rows::STARS;

    #[test]
    fn statements_of_performance_schema_are_as_long_as_their_picoseconds() {
        let table = "thread_id\tevent_id\tsql_text\ttimer_wait\tlock_time\trows_examined\n\
                     81\t12\tUPDATE stock SET n = 1 WHERE id = 7\t41500000000000\t40500000000000\t1\n\
                     82\t14\tSELECT * FROM orders WHERE id = 9\t10000000000\t0\t812\n";
        let parts = recognise("x", table);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::SlowLog], "{parts:?}");
        assert!(parts[0].says[0].contains("they waited 40.5 s"), "{parts:?}");
        assert!(
            parts[0].says[1].contains("UPDATE stock SET n = ? WHERE id = ?, 1 time, 41.5 s each"),
            "{parts:?}"
        );
        let joined = table.replace("event_id", "processlist_state");
        assert!(recognise("x", &joined).iter().all(|part| part.kind != Kind::SlowLog));
    }

    #[test]
    fn the_table_says_what_the_log_does() {
        let row = |number: u32, time: &str, locked: &str, statement: &str| {
            format!(
                "{STARS} {number}. row {STARS}\n    start_time: 2024-05-02 08:01:40.123456\n     user_host: app[app] @ web3 [10.0.0.13]\n    \
                 query_time: {time}\n     lock_time: {locked}\n     rows_sent: 0\n rows_examined: 1\n      sql_text: {statement}\n"
            )
        };
        let table = [
            row(1, "00:00:41.500000", "00:00:40.500000", "UPDATE stock SET n = n - 1 WHERE id = 7"),
            row(2, "00:00:10.000000", "00:00:00.000100", "SELECT * FROM orders\nWHERE note LIKE '%x%'"),
        ];
        let parts = recognise("x", &table.concat());
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::SlowLog], "{parts:?}");
        assert!(
            parts[0].says[0].starts_with("2 statements of 2 shapes took 51.5 s in all; they waited 40.5 s"),
            "{parts:?}"
        );
        assert!(
            parts[0].says[1].contains("UPDATE stock SET n = n - ? WHERE id = ?, 1 time, 41.5 s each"),
            "{parts:?}"
        );
        assert!(parts[0].says[2].contains("SELECT * FROM orders WHERE note LIKE ?"), "{parts:?}");
        let json = r#"[{"start_time": "2024-05-02 08:01:40", "query_time": "00:01:05", "lock_time": "00:00:00", "rows_sent": 1,
                        "rows_examined": 9812345, "db": "shop", "sql_text": "SELECT SUM(a) FROM b"}]"#;
        let parts = recognise("x", json);
        assert_eq!(parts[0].kind, Kind::SlowLog, "{parts:?}");
        assert!(parts[0].says[1].contains("it reads 9,812,345 rows each time for 1"), "{parts:?}");
    }
}
