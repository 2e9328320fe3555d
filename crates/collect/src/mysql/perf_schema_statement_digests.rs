//! `performance_schema.events_statements_summary_by_digest`: what kinds of statements cost how much.

use spindoctor_model::Unavailable;
use spindoctor_model::mysql::StatementDigest;

use super::rows::Rows;
use super::source::{
    Plan, Source, note_if_cut, performance_schema_grant, performance_schema_off, picoseconds_to_ns,
};
use crate::source::Cadence;

/// Digests read at most: those that ran in the last minute first, the costliest of them first.
const LIMIT: usize = 200;

/// The join with the consumer's switch gives a row even where there is no digest: an empty summary
/// is told from one that nobody fills.
const SQL: &str = "SELECT c.ENABLED, d.* FROM \
    (SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest') AS c LEFT JOIN \
    (SELECT SCHEMA_NAME, DIGEST, LEFT(DIGEST_TEXT, 1024) AS DIGEST_TEXT, COUNT_STAR, SUM_TIMER_WAIT, \
     SUM_LOCK_TIME, SUM_ROWS_EXAMINED, SUM_ROWS_SENT, SUM_ROWS_AFFECTED, SUM_SELECT_FULL_JOIN, \
     SUM_SELECT_SCAN, SUM_CREATED_TMP_DISK_TABLES, TIMESTAMPDIFF(SECOND, FIRST_SEEN, NOW()) AS first_seen_s \
     FROM performance_schema.events_statements_summary_by_digest \
     ORDER BY LAST_SEEN >= NOW() - INTERVAL 1 MINUTE DESC, SUM_TIMER_WAIT DESC LIMIT 200) AS d ON 1 = 1";

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
    plan: |version, variables| match performance_schema_off(version, variables) {
        Some(why) => Plan::Cannot(why),
        None => Plan::Ask(SQL),
    },
    parse: |rows, answer, sample| match digests(rows) {
        Ok(digests) => {
            note_if_cut("performance_schema.events_statements_summary_by_digest", rows, LIMIT, sample);
            sample.digests = answer.reading(digests);
        }
        Err(why) => sample.digests.fail(why),
    },
    fail: |why, sample| sample.digests.fail(why),
    answered: |sample| sample.digests.value().is_some(),
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
    Ok(rows
        .iter()
        .filter(|row| row.text("COUNT_STAR").is_some())
        .map(|row| StatementDigest {
            schema: row.string("SCHEMA_NAME"),
            digest: row.string("DIGEST"),
            text: row.string("DIGEST_TEXT"),
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
        })
        .collect())
}

#[cfg(test)]
mod tests {
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
        assert!(SQL.contains(&format!("LIMIT {LIMIT})")));
    }

    #[test]
    fn an_empty_summary_is_an_answer_and_a_summary_that_nobody_fills_is_not() {
        let head = "ENABLED\tDIGEST\tCOUNT_STAR\n";
        assert_eq!(digests(&fixture::tabbed(&format!("{head}YES\tNULL\tNULL\n"))), Ok(vec![]));
        let off = digests(&fixture::tabbed(&format!("{head}NO\tab\t1\n"))).unwrap_err();
        assert!(off.unlock.unwrap().starts_with("UPDATE performance_schema.setup_consumers"));
    }
}
