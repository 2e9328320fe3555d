//! `rows-read-waste`: rows read far beyond rows sent: a plan gone wrong.

mod applier;
mod by_counters;
mod by_digests;
mod by_polls;
mod long_list;
#[cfg(test)]
mod tests;

use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::{Finding, Remedy, TimeClass, Unavailable, Window};
use spindoctor_statements::Grown;

use crate::seen_most::SeenMost;
use crate::sessions;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use by_counters::{Of, by_counters, scanned};
use by_digests::by_digests;
use by_polls::by_polls;

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "rows-read-waste",
    title: "rows read far beyond rows sent: a plan gone wrong",
    what: "A statement reads many rows to return or change a few: it scans a table for want of an index, joins \
           without one, or the optimizer took the wrong one. The rule of thumb of a large site: the rows that \
           the user sees should be as close as possible to the rows that are read.",
    why_it_hurts: "Every row read costs a tenth of a microsecond of CPU and more when it is in memory, and a disk \
                   access when its page is not. A thousand small scans a second of ten thousand rows take a \
                   CPU, and a large scan pushes useful pages out of the buffer pool. A changing statement that scans locks every row it \
                   reads.",
    evidence: "What is read: the growth of each statement's summary over the window (events_statements_summary_by_digest): time, \
               executions, rows examined, sent and changed, executions that scanned or joined without an index. spindoctor's own \
               queries, all on performance_schema and information_schema, are left out.\n\n\
               A statement counts as waste when it examines a hundred rows or more for each it returns or changes, a thousand or \
               more each time, and half of its executions scanned or joined without an index. One that used an index counts from \
               five thousand rows on unless it adds up or groups. One that counts, sums or groups whole tables, without a condition, has \
               to read them.\n\n\
               The estimate is the share of all statement time that waste takes, times the part of the effective CPUs that it could \
               keep busy.\n\n\
               Without the summary (MariaDB by default): Handler_read_rnd_next against Rows_sent, from 50,000 rows a second on; the \
               estimate is made at five million rows a second for a CPU, and is never more CPU than the server used. Where such \
               scans take four fifths of what it used and read a thousand rows and more each, twenty rows for each returned are \
               enough, with the summary, too, unless the statement adds up or groups.\n\n\
               Of one statement of one session that runs on, only what the other threads wait for a CPU counts; the same where \
               prepared statements run and the summary has less than half of the rows read (before MySQL 9 their executions are in \
               no digest; from 5.7 on prepared_statements_instances is read for them). The statement named is then the one seen most \
               in the thread list. Where most CPU samples in scans lie in functions of Rows_log_event, it is a replica's applier, and no \
               statement.\n\n\
               Polls for a row that nobody has locked (FOR UPDATE SKIP LOCKED) count from a hundred a second on that return nothing, \
               where these are half of such polls; the estimate is then their share of the statement time, in the same way.",
    looks_alike: "COUNT, SUM and GROUP BY over an index read many rows to return few, and that is their work; a \
                  report that must read a table reads it, once. Logical backups scan everything and send \
                  everything: their ratio is one. A statement that waits for a row lock takes time without \
                  reading: row-lock-pileup. Polls with NOWAIT end with an error: statements-refused. Many index dives in the optimizer \
                  are index-dive-waste.",
    remedies: "EXPLAIN the statement (EXPLAIN ANALYZE on MySQL 8.0.18 and later, ANALYZE on MariaDB), and give it an index on the \
               columns of its WHERE and JOIN. An index that is there is of no use to a text column that is compared with a number \
               or with a text of another character set or collation, or to a column within a function: quote the value, or give both the \
               same type. If it used to be fast: ANALYZE TABLE, compare the plan with an older server, pin the plan with FORCE INDEX or a hint. \
               Workers of a queue: a pause after a poll that found nothing, an index for the queue, LIMIT 1. Stop it meanwhile: \
               MAX_EXECUTION_TIME on MySQL, max_statement_time on MariaDB.",
    safety: "Adding an index is online in InnoDB and costs disk, write time and, at its start and end, a metadata \
             lock for an instant (see metadata-lock-pileup). EXPLAIN ANALYZE runs the statement. ANALYZE TABLE \
             may change other plans too.",
    references: &[
        "Domas Mituzas, MySQL metrics for read workloads; A case for FORCE INDEX",
        "MySQL Reference Manual: Optimization and Indexes; Statement Summary Tables",
    ],
    costs: Costs::Cpu,
    explains_time: &[TimeClass::Read],
    stacks: Stacks::Running(&[
        "row_search_mvcc",
        "handler::ha_rnd_next",
        "handler::ha_index_next",
        "TableScanIterator::Read",
        "rr_sequential", // MariaDB
    ]),
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// Rows examined for each row returned or changed, from which on a plan is wrong whatever share of the work it is. Chosen: the rule of
/// thumb of the references has no number, and lists of a page's length that are sorted or filtered read some ten times as many.
const EXAMINED_EACH: f64 = 100.0;

/// Rows read by one execution that scans: smaller tables are rightly scanned.
const SCANNED_ROWS: f64 = 1000.0;

/// Share of samples in which a statement runs that began before the window, most likely.
const RUNS_ON_RATIO: f64 = 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if window.change(|s| &s.server.digests).is_some() {
        let found = [by_digests(window), by_polls(window)].into_iter().flatten();
        if let Some(finding) = found.max_by(|a, b| a.score.total_cmp(&b.score)) {
            return Ok(Some(finding));
        }
        // A statement that still runs is in no summary yet: the counters see it.
        if SeenMost::from_window(window, RUNS_ON_RATIO).is_some() {
            return by_counters(window, Of::All);
        }
        // Nor are executions of prepared statements, before MySQL 9 and on MariaDB.
        window.need_growth("Handler_read_rnd_next")?;
        return by_counters(window, if is_of_prepared(window) { Of::Prepared } else { Of::Known });
    }
    by_counters(window, Of::All)
}

/// Bytes that the smallest row takes on the wire: four of its head, one of a value's length and one of the value.
const ROW_BYTES: f64 = 6.0;

/// True where prepared statements run, and the summary knows of less than half of the rows that scans read. A dump beside
/// them reads whole tables too, and sends them: then there would be as many bytes.
fn is_of_prepared(window: &Window) -> bool {
    let growth = |name: &str| window.status_growth(name).unwrap_or(0.0);
    let scanned = scanned(window).unwrap_or(0.0);
    let has_text = |statement: &&Grown<'_>| statement.digest.text != StatementDigest::WITHOUT_TEXT;
    let known: f64 = grown(window).iter().filter(has_text).map(|statement| statement.by.rows_examined).sum();
    let sent_at_most = growth("Bytes_sent") / ROW_BYTES;
    growth("Com_stmt_execute") > 0.0
        && known < SUMMARY_KNOWS * scanned
        && sent_at_most < SUMMARY_KNOWS * scanned
}

/// Share of the rows read by scans that the summary's statements read, where it has those that matter.
const SUMMARY_KNOWS: f64 = 0.5;

/// True for a statement that reads rows to return or change some, and has a plan.
fn looks_for_rows(text: &str) -> bool {
    let kind = spindoctor_sql::kind(spindoctor_sql::server_digest(text));
    ["SELECT", "WITH", "UPDATE", "DELETE", "INSERT", "REPLACE"].contains(&kind.as_str())
}

/// Statements that are not about the server, with what they did within the window.
fn grown(window: &Window) -> Vec<Grown<'_>> {
    let Some(change) = window.change(|s| &s.server.digests) else {
        return Vec::new();
    };
    let mut grown = spindoctor_statements::grown(change.first, change.last, change.seconds);
    grown.retain(|grown| !spindoctor_sql::is_about_the_server(&grown.digest.schema, &grown.digest.text));
    grown
}

/// Why an index that is there may be of no use to a comparison (MySQL Reference Manual, How MySQL Uses Indexes).
const UNUSABLE: &str = " Where it has one already (EXPLAIN may show it in possible_keys, with key NULL), the comparison may be \
                        unable to use it: a text column with a number, texts of two character sets or collations, a function around \
                        the column; then quote the value, or compare the column alone with a value of its own type.";

/// True for a statement with a condition that an index may serve.
fn compares(statement: &str) -> bool {
    const CONDITIONS: [&str; 5] = ["where", "on", "using", "join", "straight_join"];
    spindoctor_sql::names(statement).any(|name| CONDITIONS.contains(&name.as_str()))
}

/// True for a statement that counts, sums or groups a whole table: to read all of it is its work. The least and the largest value of a
/// column, without groups, are at the two ends of an index.
fn is_of_all_rows(statement: &str) -> bool {
    const OF_ALL: [&str; 6] = ["count", "sum", "avg", "group", "distinct", "distinctrow"];
    let sums_up = || spindoctor_sql::names(statement).any(|name| OF_ALL.contains(&name.as_str()));
    // The server cuts a long text of a summary, and ends it so.
    let is_whole = !statement.trim_end().ends_with("...");
    spindoctor_sql::aggregates(statement) && is_whole && !compares(statement) && sums_up()
}

/// To look at the plan, or at the triggers of a statement that has none.
fn explain_it(statement: &str) -> Remedy {
    if spindoctor_sql::inserts_values(statement) {
        return Remedy {
            statement: "SHOW TRIGGERS\\G".into(),
            why: "It shows the statements of the table's triggers: EXPLAIN each of them, and that of a function that they call. The \
                  EXPLAIN of the INSERT does not show them."
                .into(),
            dynamic: true,
            risk: "It only reads.".into(),
            undo: String::new(),
        };
    }
    let unusable = if compares(statement) { UNUSABLE } else { "" };
    Remedy {
        statement: format!("EXPLAIN {}", sessions::shortened(spindoctor_sql::server_digest(statement))),
        why: format!(
            "It shows the table that is read whole; give that table an index on the columns of WHERE and JOIN.{unusable}"
        ),
        dynamic: true,
        risk: "EXPLAIN reads statistics only. The index to be added costs disk and write time.".into(),
        undo: "Make the index INVISIBLE (MySQL 8.0) or IGNORED (MariaDB 10.6) first, then drop it.".into(),
    }
}
