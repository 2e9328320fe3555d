//! `performance_schema.events_statements_summary_by_digest`: what kinds of statements cost how much.

use std::collections::BTreeMap;

use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::{ServerSample, Unavailable};
use spindoctor_sql::{digest, server_digest};

use super::rows::{Row, Rows};
use super::source::{Plan, Source, performance_schema_grant, performance_schema_off, picoseconds_to_ns};
use crate::pace::Pace;
use crate::source::Cadence;

/// Digests read at most: those that ran in the last minute first, the costliest of them first.
const LIMIT: usize = 200;

/// Kinds of prepared statements read at most, the costliest first.
#[cfg(test)]
const PREPARED_LIMIT: usize = 100;

/// What stands in DIGEST for a row of prepared statements, before their hash.
const PREPARED: &str = "prepared";

/// The join with the consumer's switch gives a row even where there is no digest: an empty summary is distinguished
/// from one that nobody fills.
macro_rules! digests {
    ($prepared:literal) => {
        concat!(
            "SELECT c.ENABLED, d.* FROM \
             (SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest') AS c LEFT JOIN \
             (SELECT * FROM (SELECT SCHEMA_NAME, DIGEST, LEFT(DIGEST_TEXT, 1024) AS DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, \
             SUM_LOCK_TIME, SUM_ROWS_EXAMINED, SUM_ROWS_SENT, SUM_ROWS_AFFECTED, SUM_SELECT_FULL_JOIN, \
             SUM_SELECT_SCAN, SUM_CREATED_TMP_DISK_TABLES, SUM_ERRORS, TIMESTAMPDIFF(SECOND, FIRST_SEEN, NOW()) AS first_seen_s \
             FROM performance_schema.events_statements_summary_by_digest \
             ORDER BY LAST_SEEN >= NOW() - INTERVAL 1 MINUTE DESC, SUM_TIMER_WAIT DESC LIMIT 200) AS digests",
            $prepared,
            ") AS d ON 1 = 1"
        )
    };
}

/// As it is on servers whose summary has the executions of prepared statements (`EXECUTE SELECT ..`: MySQL 9.7.4).
const SQL: &str = digests!("");

/// Executions of prepared statements are in no digest (seen on 5.7.22, 8.0.31, 8.0.33): their own table has them, each of each
/// connection, for as long as it stays prepared.
const WITH_INSTANCES: &str = digests!(
    " UNION ALL SELECT * FROM (SELECT NULL AS SCHEMA_NAME, 'prepared' AS DIGEST, LEFT(SQL_TEXT, 1024) AS DIGEST_TEXT, \
     SUM(COUNT_EXECUTE) AS COUNT_STAR, SUM(SUM_TIMER_EXECUTE) AS SUM_TIMER_WAIT, SUM(SUM_LOCK_TIME) AS SUM_LOCK_TIME, \
     SUM(SUM_ROWS_EXAMINED) AS SUM_ROWS_EXAMINED, SUM(SUM_ROWS_SENT) AS SUM_ROWS_SENT, SUM(SUM_ROWS_AFFECTED) AS \
     SUM_ROWS_AFFECTED, SUM(SUM_SELECT_FULL_JOIN) AS SUM_SELECT_FULL_JOIN, SUM(SUM_SELECT_SCAN) AS SUM_SELECT_SCAN, \
     SUM(SUM_CREATED_TMP_DISK_TABLES) AS SUM_CREATED_TMP_DISK_TABLES, SUM(SUM_ERRORS) AS SUM_ERRORS, NULL AS first_seen_s \
     FROM performance_schema.prepared_statements_instances GROUP BY LEFT(SQL_TEXT, 1024) \
     ORDER BY SUM(SUM_TIMER_EXECUTE) DESC LIMIT 100) AS prepared"
);

/// MySQL 5.6 has no such table, and MariaDB's counts no execution (seen on 10.11.18 and 11.4.5): what they count of all of them
/// together. Rows of theirs 5.6 does not count (seen on 5.6.14).
const WITH_EXECUTIONS: &str = digests!(
    " UNION ALL SELECT NULL, 'prepared', NULL, COUNT_STAR, SUM_TIMER_WAIT, SUM_LOCK_TIME, SUM_ROWS_EXAMINED, SUM_ROWS_SENT, \
     SUM_ROWS_AFFECTED, SUM_SELECT_FULL_JOIN, SUM_SELECT_SCAN, SUM_CREATED_TMP_DISK_TABLES, SUM_ERRORS, NULL \
     FROM performance_schema.events_statements_summary_global_by_event_name \
     WHERE EVENT_NAME = 'statement/com/Execute' AND COUNT_STAR > 0"
);

/// The source.
///
/// Cost: reads and sorts the whole summary without a lock: performance_schema_digests_size rows
/// (10,000 at most by default), about 20 ms where it is full. Safe to ask every 10 s; it is asked at
/// the ends of a window.
pub const SOURCE: Source = Source {
    name: "performance_schema.events_statements_summary_by_digest",
    help: "executions, time and rows of each kind of statement",
    cost: "reads and sorts up to 10,000 rows of memory without a lock, up to 20 ms",
    grant: performance_schema_grant,
    install: "",
    cadence: Cadence::Ends,
    pace: Pace::server(30, 300),
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None if version.mysql_at_least(9, 7, 0) => Plan::Ask(SQL),
        None if version.mysql_at_least(5, 7, 4) => Plan::Ask(WITH_INSTANCES),
        None => Plan::Ask(WITH_EXECUTIONS),
    },
    parse: |rows, answer, sample| match digests(rows) {
        Ok(digests) => {
            let of_digests = rows.iter().filter(|row| row.text("DIGEST") != Some(PREPARED)).count();
            if of_digests >= LIMIT {
                sample.cut.push("performance_schema.events_statements_summary_by_digest".to_owned());
            }
            sample.digests = answer.reading(digests);
        }
        Err(why) => sample.digests.fail(why),
    },
    reading: ServerSample::field("digests"),
};

fn digests(rows: &Rows) -> Result<Vec<StatementDigest>, Unavailable> {
    if rows.first().and_then(|row| row.text("ENABLED")) != Some("YES") {
        return Err(Unavailable::because(
            "the statement summary is switched off (consumer statements_digest)",
        )
        .unlock(
            "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'statements_digest'",
        ));
    }
    let mut digests = Vec::new();
    let mut prepared: BTreeMap<String, StatementDigest> = BTreeMap::new();
    // Where the summary has them, each would be counted twice.
    let has_executions =
        |row: Row<'_>| row.text("DIGEST_TEXT").is_some_and(|text| server_digest(text) != text);
    let are_in_summary = rows.iter().any(has_executions);
    for row in rows.iter().filter(|row| row.text("COUNT_STAR").is_some()) {
        if row.text("DIGEST") != Some(PREPARED) {
            digests.push(counted(row));
        } else if !are_in_summary {
            // The text is as it was prepared: values that are no parameters stand in it.
            let text =
                row.text("DIGEST_TEXT").map_or_else(|| StatementDigest::WITHOUT_TEXT.to_owned(), digest);
            let row = counted(row);
            let known = prepared.entry(text).or_default();
            known.executions += row.executions;
            known.total_ns += row.total_ns;
            known.lock_ns += row.lock_ns;
            known.rows_examined += row.rows_examined;
            known.rows_sent += row.rows_sent;
            known.rows_affected += row.rows_affected;
            known.full_joins += row.full_joins;
            known.full_scans += row.full_scans;
            known.disk_temporary_tables += row.disk_temporary_tables;
            known.errors = row.errors.map(|errors| known.errors.unwrap_or(0).saturating_add(errors));
        }
    }
    digests.extend(prepared.into_iter().map(|(text, counted)| StatementDigest {
        digest: format!("{PREPARED}-{:016x}", hash(&text)),
        text,
        ..counted
    }));
    Ok(digests)
}

/// FNV-1a: a prepared statement has no digest of the server's, and is known by its text from one reading to the next.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn counted(row: Row<'_>) -> StatementDigest {
    StatementDigest {
        schema: row.string("SCHEMA_NAME"),
        digest: row.string("DIGEST"),
        text: row.text("DIGEST_TEXT").map(server_digest).unwrap_or_default().to_owned(),
        first_seen_s: row.number("first_seen_s").map(|s: f64| s.max(0.0)),
        executions: row.number("COUNT_STAR").unwrap_or(0),
        total_ns: picoseconds_to_ns(row, "SUM_TIMER_WAIT"),
        lock_ns: picoseconds_to_ns(row, "SUM_LOCK_TIME"),
        rows_examined: row.number("SUM_ROWS_EXAMINED").unwrap_or(0),
        rows_sent: row.number("SUM_ROWS_SENT").unwrap_or(0),
        rows_affected: row.number("SUM_ROWS_AFFECTED").unwrap_or(0),
        full_joins: row.number("SUM_SELECT_FULL_JOIN").unwrap_or(0),
        full_scans: row.number("SUM_SELECT_SCAN").unwrap_or(0),
        disk_temporary_tables: row.number("SUM_CREATED_TMP_DISK_TABLES").unwrap_or(0),
        errors: row.number("SUM_ERRORS"),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::NamedValues;

    use super::super::fixture;
    use super::*;

    #[test]
    fn converts_picoseconds_and_keeps_the_row_for_all_other_statements() {
        let digests = digests(&fixture::tabbed(
            "ENABLED\tSCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_LOCK_TIME\tSUM_ROWS_EXAMINED\tfirst_seen_s\n\
             YES\tsbtest\tab12\tSELECT ?\t1000\t2500000000000\t7000000\t5000\t90\n\
             YES\tNULL\tNULL\tNULL\t3\t1000\t0\t0\t90\n",
        ))
        .unwrap();
        assert_eq!((digests[0].total_ns, digests[0].lock_ns), (2_500_000_000, 7000));
        assert_eq!((digests[1].digest.as_str(), digests[1].executions, digests[1].total_ns), ("", 3, 1));
        assert!(
            SQL.contains(&format!("LIMIT {LIMIT})"))
                && WITH_INSTANCES.contains(&format!("LIMIT {PREPARED_LIMIT})"))
        );
    }

    #[test]
    fn prepared_statements_are_digests_too_without_what_stands_in_their_texts() {
        let head =
            "ENABLED\tSCHEMA_NAME\tDIGEST\tDIGEST_TEXT\tCOUNT_STAR\tSUM_TIMER_WAIT\tSUM_ROWS_EXAMINED\n";
        let of = |rows: &str| digests(&fixture::tabbed(&format!("{head}{rows}"))).unwrap();
        let digests = of("YES\tsb\tab12\tSELECT ?\t1000\t2500000000000\t5000\n\
             YES\tNULL\tprepared\tSELECT c FROM t WHERE b = 'alice' AND k = ?\t10\t4000\t700\n\
             YES\tNULL\tprepared\tSELECT c FROM t WHERE b = 'bob' AND k = ?\t5\t1000\t300\n");
        assert_eq!(digests.len(), 2);
        assert_eq!(digests[1].text, "SELECT c FROM t WHERE b = ? AND k = ?");
        assert_eq!((digests[1].executions, digests[1].total_ns, digests[1].rows_examined), (15, 5, 1000));
        assert!(digests[1].digest.starts_with("prepared-"));
        assert_eq!(of("YES\tNULL\tprepared\tNULL\t10\t4000\t0\n")[0].text, StatementDigest::WITHOUT_TEXT);
        // Where the summary has executions, nothing is counted twice.
        let digests = of("YES\tsb\tab12\tEXECUTE SELECT `c` FROM `t`\t10\t4000\t700\n\
             YES\tNULL\tprepared\tSELECT c FROM t\t10\t4000\t700\n");
        assert_eq!(
            digests.iter().map(|digest| digest.text.as_str()).collect::<Vec<_>>(),
            ["SELECT `c` FROM `t`"]
        );
    }

    #[test]
    fn each_version_is_asked_for_prepared_statements_where_it_has_them() {
        let on: NamedValues = [("performance_schema", "ON")].into_iter().collect();
        let plan = |text: &str| match (SOURCE.plan)(
            spindoctor_model::ServerVersion::parse(text, "").unwrap(),
            Some(&on),
        ) {
            Plan::Ask(sql) => sql,
            other => panic!("{other:?}"),
        };
        assert!(plan("5.6.14").contains("statement/com/Execute"));
        assert!(plan("5.7.22").contains("prepared_statements_instances"));
        assert!(plan("8.0.33").contains("prepared_statements_instances"));
        assert_eq!(plan("9.7.4"), SQL);
        // Its table of them exists from 10.5 on, and stays at no execution.
        assert!(plan("10.11.18-MariaDB").contains("statement/com/Execute"));
    }

    #[test]
    fn an_empty_summary_is_an_answer_and_a_summary_that_nobody_fills_is_not() {
        let head = "ENABLED\tDIGEST\tCOUNT_STAR\n";
        assert_eq!(digests(&fixture::tabbed(&format!("{head}YES\tNULL\tNULL\n"))), Ok(vec![]));
        let off = digests(&fixture::tabbed(&format!("{head}NO\tab\t1\n"))).unwrap_err();
        assert!(off.unlock.unwrap().starts_with("UPDATE performance_schema.setup_consumers"));
    }
}
