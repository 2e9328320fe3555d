//! `performance_schema.events_errors_summary_global_by_error`: how often statements ended with an error, and with which.

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::{ErrorCount, ErrorSummary};

use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off};
use crate::pace::Pace;
use crate::source::Cadence;

/// Numbers read at most: those of the last minute first, the most frequent of them first.
const LIMIT: usize = 100;

/// Characters of an error's name at most: as wide as the column is (`ERROR_NAME VARCHAR(64)`).
const LONGEST_NAME: usize = 64;

/// What clients send as text ends as `statement/sql/...`; what they prepare and execute is counted by command. Pings and quits are
/// not counted.
macro_rules! statements {
    () => {
        "SELECT SUM(COUNT_STAR) AS STATEMENTS, SUM(SUM_ERRORS) AS FAILED \
         FROM performance_schema.events_statements_summary_global_by_event_name \
         WHERE EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME IN ('statement/com/Prepare', 'statement/com/Execute')"
    };
}

/// Numbers from 10,000 on are messages of the error log, which end no statement. The join gives a row even where no error was raised.
const BY_NUMBER: &str = concat!(
    "SELECT s.STATEMENTS, s.FAILED, e.* FROM (",
    statements!(),
    ") AS s LEFT JOIN (SELECT ERROR_NUMBER, ERROR_NAME, SUM_ERROR_RAISED, \
     TIMESTAMPDIFF(SECOND, FIRST_SEEN, NOW()) AS first_seen_s \
     FROM performance_schema.events_errors_summary_global_by_error \
     WHERE ERROR_NUMBER < 10000 AND SUM_ERROR_RAISED > 0 \
     ORDER BY LAST_SEEN >= NOW() - INTERVAL 1 MINUTE DESC, SUM_ERROR_RAISED DESC LIMIT 100) AS e ON 1 = 1"
);

/// The source.
///
/// Cost: adds up some 220 rows by statement over all threads, and from MySQL 8.0 on reads one row for each error that the server knows
/// (5,800 in 9.7), all of it memory without a lock: 4 ms on 9.7 with 120 connections. It is asked at the ends of a window.
///
/// Warnings are counted by number as errors are (an `INSERT IGNORE` of a key that is there raises 1062, seen on 9.7.4); what a handler
/// in a stored program took is not in `SUM_ERROR_RAISED`. MySQL before 8.0 and MariaDB have no such table: of these, how many
/// statements failed is all that is known.
pub const SOURCE: Source = Source {
    name: "performance_schema.events_errors_summary_global_by_error",
    help: "statements that failed, and errors by number",
    cost: "reads up to 6,000 rows of memory without a lock, about 4 ms",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(30, 300).adding_up_events(),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None if version.mysql_at_least(8, 0, 4) => Plan::Ask(BY_NUMBER),
        None => Plan::Ask(statements!()),
    },
    parse: |rows, answer, sample| {
        note_if_cut(SOURCE.name, rows, LIMIT, sample);
        sample.errors = answer.reading(errors(rows));
    },
    reading: ServerSample::field("errors"),
};

fn errors(rows: &Rows) -> ErrorSummary {
    let first = rows.first();
    let total = |column| first.and_then(|row| row.number(column)).unwrap_or(0);
    let has_numbers = rows.names().iter().any(|column| column.eq_ignore_ascii_case("ERROR_NUMBER"));
    ErrorSummary {
        statements: total("STATEMENTS"),
        failed: total("FAILED"),
        by_number: has_numbers.then(|| rows.iter().filter_map(counted).collect()),
    }
}

fn counted(row: Row<'_>) -> Option<ErrorCount> {
    Some(ErrorCount {
        number: row.number("ERROR_NUMBER")?,
        name: row.text("ERROR_NAME").unwrap_or_default().chars().take(LONGEST_NAME).collect(),
        raised: row.number("SUM_ERROR_RAISED")?,
        first_seen_s: row.number("first_seen_s").map(|s: f64| s.max(0.0)),
    })
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ServerVersion;
    use spindoctor_model::mysql::NamedValues;

    use super::super::fixture;
    use super::*;

    #[test]
    fn errors_are_counted_by_number_and_an_answer_without_any_has_the_totals() {
        let head = "STATEMENTS\tFAILED\tERROR_NUMBER\tERROR_NAME\tSUM_ERROR_RAISED\tfirst_seen_s\n";
        let read = errors(&fixture::tabbed(&format!(
            "{head}9000\t850\t1290\tER_OPTION_PREVENTS_STATEMENT\t850\t99\n9000\t850\t1062\tER_DUP_ENTRY\t450\t40\n"
        )));
        assert_eq!((read.statements, read.failed), (9000, 850));
        let numbers = read.by_number.unwrap();
        assert_eq!((numbers[0].number, numbers[0].raised, numbers[0].first_seen_s), (1290, 850, Some(99.0)));
        assert_eq!(numbers[1].name, "ER_DUP_ENTRY");
        let none = errors(&fixture::tabbed(&format!("{head}9000\t0\tNULL\tNULL\tNULL\tNULL\n")));
        assert_eq!((none.statements, none.by_number), (9000, Some(Vec::new())));
    }

    #[test]
    fn where_no_table_has_numbers_the_totals_are_asked_for_and_no_number_is_said() {
        let on: NamedValues = [("performance_schema", "ON")].into_iter().collect();
        let plan = |text: &str| (SOURCE.plan)(ServerVersion::parse(text, "").unwrap(), Some(&on));
        let asks = |text: &str| match plan(text) {
            Plan::Ask(sql) => sql,
            other => panic!("{text}: {other:?}"),
        };
        assert!(asks("9.7.4").contains(&format!("LIMIT {LIMIT})")) && asks("8.0.15") == BY_NUMBER);
        for old in ["5.6.14", "5.7.22", "10.11.19-MariaDB"] {
            assert_eq!(asks(old), statements!(), "{old}");
        }
        assert!(matches!(plan("5.5.34"), Plan::Cannot(_)));
        let read = errors(&fixture::tabbed("STATEMENTS\tFAILED\n100\t3\n"));
        assert_eq!((read.failed, read.by_number), (3, None));
    }
}
