//! `rows-read-waste`: rows read far beyond rows sent: a plan gone wrong.

use spindoctor_model::mysql::{ServerThread, StatementDigest};
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};
use spindoctor_statements::{Counts, Grown};

use super::cpu_saturated;
use crate::draft::Draft;
use crate::run_queue::{cpus_used, ran_and_queued, ran_and_queued_of};
use crate::seen_most::SeenMost;
use crate::sessions::{self, Waiting};
use crate::{Cause, Costs, Outcome, Rule, Stacks};

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
    evidence: "Growth of each statement's summary over the window (events_statements_summary_by_digest): time, \
               executions, rows examined, sent and changed, executions that scanned or joined without an index. \
               A statement counts as waste when it examines a hundred rows or more for each it returns or \
               changes, a thousand or more each time, and half of its executions scanned or joined without an \
               index; one that used an index counts from five thousand rows on unless it adds up or groups. \
               The estimate is the share of all statement time that waste takes, times the part of the effective \
               CPUs that it could keep busy. Without the summary (MariaDB by default): \
               Handler_read_rnd_next against Rows_sent, from 50,000 rows a second on, at five million rows a \
               second for a CPU and never more CPU than the server used; of one statement of one session that runs on, only what \
               the other threads wait for a CPU counts; the same where prepared statements run and the summary \
               has less than half of the rows read (before MySQL 9 their executions are in no digest; from 5.7 on \
               prepared_statements_instances is read for them); the statement named is the one seen most in the thread list. spindoctor's own \
               queries, all on performance_schema and information_schema, are left out.",
    looks_alike: "COUNT, SUM and GROUP BY over an index read many rows to return few, and that is their work; a \
                  report that must read a table reads it, once. Logical backups scan everything and send \
                  everything: their ratio is one. A statement that waits for a row lock takes time without \
                  reading: row-lock-pileup. Many index dives in the optimizer are index-dive-waste.",
    remedies: "EXPLAIN the statement (EXPLAIN ANALYZE on MySQL 8.0.18 and later, ANALYZE on MariaDB), and give it \
               an index on the columns of its WHERE and JOIN. If it used to be fast: ANALYZE TABLE, compare the \
               plan with an older server, pin the plan with FORCE INDEX or a hint. Stop it meanwhile: \
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
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// Rows examined for each row returned or changed.
const EXAMINED_EACH: f64 = 100.0;

/// Rows examined by one execution of a scanning statement: smaller tables are rightly scanned.
const SCANNED_ROWS: f64 = 1000.0;

/// Rows examined by one execution of a statement that used an index.
const INDEXED_ROWS: f64 = 5000.0;

/// Share of executions that scanned or joined without an index.
const SCANS_RATIO: f64 = 0.5;

/// Waste that takes less of the statements' time than this is not worth a line.
const TIME_RATIO: f64 = 0.02;

/// Rows a second read by scans, by the counters, from which on they can matter: a hundredth of a CPU.
const SCANNED_PER_S: f64 = 50_000.0;

/// Rows that one CPU scans in a second, in memory. Narrow rows: 11 million on MySQL 9.7, 15 on MariaDB 10.11, by the recorded windows
/// (`cargo test -p spindoctor-rules --test windows what_work_costs`); wide rows and more conditions take longer.
const ROWS_PER_CPU_S: f64 = 5e6;

/// Share of samples in which a statement must be seen to be named.
const SEEN_RATIO: f64 = 0.25;

/// Share of samples in which a statement runs that began before the window, most likely.
const RUNS_ON_RATIO: f64 = 0.5;

/// Threads that wait for a CPU, on average, below which nobody notices: as of every wait in the account of session time.
const QUEUED: f64 = 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    if window.change(|s| &s.server.digests).is_some() {
        if let Some(finding) = by_digests(window) {
            return Ok(Some(finding));
        }
        // A statement that still runs is in no summary yet: the counters see it.
        if SeenMost::from_window(window, RUNS_ON_RATIO).is_some() {
            return by_counters(window, Of::All);
        }
        // Nor are executions of prepared statements, before MySQL 9 and on MariaDB.
        window.need_growth("Handler_read_rnd_next")?;
        return match is_of_prepared(window) {
            true => by_counters(window, Of::Prepared),
            false => Ok(None),
        };
    }
    by_counters(window, Of::All)
}

/// Whose rows are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those of all statements.
    All,
    /// Those of prepared statements, which no summary has.
    Prepared,
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

/// Rows that scans read in the window.
fn scanned(window: &Window) -> Option<f64> {
    let scanned = window.status_growth("Handler_read_rnd_next")?;
    // Reading tables of performance_schema and information_schema counts as well, so what InnoDB handed
    // out, where it is counted, is the better bound.
    Some(
        window
            .status_growth("Innodb_rows_read")
            .filter(|&rows| rows > 0.0)
            .map_or(scanned, |r| r.min(scanned)),
    )
}

fn is_waste(statement: &Grown<'_>) -> bool {
    let by = &statement.by;
    let each = by.rows_examined / by.executions.max(1.0);
    let ratio = by.rows_examined / returned(by).max(1.0);
    let scans = by.full_scans >= SCANS_RATIO * by.executions;
    looks_for_rows(&statement.digest.text)
        && ratio >= EXAMINED_EACH
        && ((scans && each >= SCANNED_ROWS)
            || (each >= INDEXED_ROWS && !spindoctor_sql::aggregates(&statement.digest.text)))
}

/// Rows returned or changed.
fn returned(by: &Counts) -> f64 {
    by.rows_sent + by.rows_affected
}

/// Time that is not spent waiting for locks, seconds.
fn time_s(by: &Counts) -> f64 {
    (by.total_ns - by.lock_ns).max(0.0) / 1e9
}

/// True for a statement that reads rows to return or change some, and has a plan.
fn looks_for_rows(text: &str) -> bool {
    let kind = spindoctor_sql::kind(spindoctor_sql::server_digest(text));
    ["SELECT", "WITH", "UPDATE", "DELETE", "INSERT", "REPLACE"].contains(&kind.as_str())
}

/// True for a statement that reads whole tables because that is its work: none of them has a plan that an index mends.
fn is_of_whole_tables(text: &str) -> bool {
    let kind = spindoctor_sql::kind(spindoctor_sql::server_digest(text));
    ["ALTER", "ANALYZE", "BACKUP", "CHECK", "CHECKSUM", "CREATE", "LOAD", "OPTIMIZE", "REPAIR"]
        .contains(&kind.as_str())
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

fn by_digests(window: &Window) -> Option<Finding> {
    let seconds = window.change(|s| &s.server.digests)?.seconds;
    let grown = grown(window);
    let all_s: f64 = grown.iter().map(|statement| time_s(&statement.by)).sum();
    let mut waste: Vec<&Grown<'_>> = grown.iter().filter(|statement| is_waste(statement)).collect();
    waste.sort_by(|a, b| time_s(&b.by).total_cmp(&time_s(&a.by)));
    let worst = *waste.first()?;
    let by = &worst.by;
    let waste_s: f64 = waste.iter().map(|statement| time_s(&statement.by)).sum();
    let ratio = waste_s / all_s.max(f64::MIN_POSITIVE);
    let cpus = effective_cpus(window);
    let score = ratio * (waste_s / seconds / cpus).min(1.0);
    if ratio < TIME_RATIO || score < TIME_RATIO {
        return None;
    }
    let each = by.rows_examined / by.executions;
    let returned_each = returned(by) / by.executions;
    let examined_per_s = waste.iter().map(|statement| statement.by.rows_examined).sum::<f64>() / seconds;
    let scans = by.full_scans >= SCANS_RATIO * by.executions;
    Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "{:.0} % of statement time goes into reading rows for nothing: {} read for {} returned by {}",
                ratio * 100.0,
                whole(each),
                whole(returned_each),
                sessions::shortened(spindoctor_sql::server_digest(&worst.digest.text))
            ),
        )
        .why(if spindoctor_sql::inserts_values(&worst.digest.text) {
            "The statement itself reads no rows. A trigger of its table does, or a stored function that it calls, and these rows are \
             counted for it."
        } else if scans {
            "It scans a table, or joins without an index, to find a few rows: an index is missing or not used."
        } else {
            "It uses an index that leads to far more rows than it needs: a better one is missing or not chosen."
        })
        .evidence(Evidence::new("statement", worst.digest.text.clone(), "", "events_statements_summary_by_digest"))
        .evidence(
            Evidence::new("rows examined each time", each, "rows", "events_statements_summary_by_digest")
                .expected(format!("< {:.0}", EXAMINED_EACH * returned_each.max(1.0))),
        )
        .evidence(Evidence::new(
            "rows returned or changed each time",
            returned_each,
            "rows",
            "events_statements_summary_by_digest",
        ))
        .evidence(Evidence::new(
            "executions",
            by.executions / seconds,
            "1/s",
            "events_statements_summary_by_digest",
        ))
        .evidence(
            Evidence::new("share of statement time", ratio, "ratio", "events_statements_summary_by_digest")
                .expected("< 0.02"),
        )
        .evidence(Evidence::new(
            "rows examined by such statements",
            examined_per_s,
            "1/s",
            "events_statements_summary_by_digest",
        ))
        .remedy(explain_it(&worst.digest.text))
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    )
}

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
    Remedy {
        statement: format!("EXPLAIN {}", sessions::shortened(spindoctor_sql::server_digest(statement))),
        why: "It shows the table that is read whole; give that table an index on the columns of WHERE and JOIN.".into(),
        dynamic: true,
        risk: "EXPLAIN reads statistics only. The index to be added costs disk and write time.".into(),
        undo: "Make the index INVISIBLE (MySQL 8.0) or IGNORED (MariaDB 10.6) first, then drop it.".into(),
    }
}

fn by_counters(window: &Window, of: Of) -> Result<Option<Finding>, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    window.need_growth("Handler_read_rnd_next")?;
    let scanned = scanned(window).unwrap_or(0.0);
    let sent = window.status_growth("Rows_sent");
    let changed: f64 = ["Handler_write", "Handler_update", "Handler_delete"]
        .iter()
        .filter_map(|name| window.status_growth(name))
        .sum();
    // MySQL has no Rows_sent: statements are its bound, a row each.
    let returned =
        sent.map_or_else(|| window.status_growth("Questions").unwrap_or(0.0), |sent| sent + changed);
    let per_s = scanned / seconds;
    let ratio = scanned / returned.max(1.0);
    if per_s < SCANNED_PER_S || ratio < EXAMINED_EACH {
        return Ok(None);
    }
    let cpus = effective_cpus(window);
    let seen = SeenMost::from_window(window, SEEN_RATIO);
    if seen.as_ref().is_some_and(|seen| is_of_whole_tables(&seen.statement)) {
        return Ok(None);
    }
    let scan_cpus = (per_s / ROWS_PER_CPU_S).min(cpus_used(window).unwrap_or(cpus));
    let runs_on = seen.as_ref().and_then(|seen| seen.runs_on);
    let statement = seen.map(|seen| seen.statement);
    let named = match (&statement, of) {
        (Some(statement), _) => format!("; seen most: {}", sessions::shortened(statement)),
        (None, Of::Prepared) => {
            "; by prepared statements, of which this server's summary has none".to_owned()
        }
        (None, Of::All) => String::new(),
    };
    let (lost, headline, why) = match (runs_on, &statement) {
        (Some(session), Some(statement)) => (
            lost_by_others(window, session),
            format!(
                "One statement of connection {} reads {} rows a second by scans and takes about {scan_cpus:.1} \
                 CPUs: {}",
                session.connection_id.unwrap_or(0),
                whole(per_s),
                sessions::shortened(statement)
            ),
            "It runs on by itself; the others lose what they wait for a CPU. What it takes is an estimate, at five million rows a \
             second for each CPU.",
        ),
        _ => (
            1.0,
            format!(
                "Scans read {} rows a second, {} for each row returned{named}",
                whole(per_s),
                whole(ratio)
            ),
            "Tables are read whole to find a few rows: an index is missing or not used. The CPU it takes is an \
             estimate, at five million rows a second.",
        ),
    };
    Ok(Some(
        Draft::new(&CAUSE, (scan_cpus / cpus).min(0.9) * lost, headline)
            .why(why)
            .evidence(
                Evidence::new("rows read by scans", per_s, "1/s", "SHOW GLOBAL STATUS Handler_read_rnd_next")
                    .expected(format!("< {SCANNED_PER_S:.0}"))
                    .series(window.status_rate_series("Handler_read_rnd_next")),
            )
            .evidence(
                Evidence::new("rows read for each returned", ratio, "", "SHOW GLOBAL STATUS")
                    .expected(format!("< {EXAMINED_EACH:.0}")),
            )
            .evidence_if(window.status_per_s("Select_scan").map(|scans| {
                Evidence::new("statements that scanned", scans, "1/s", "SHOW GLOBAL STATUS Select_scan")
            }))
            .evidence_if((of == Of::Prepared).then(|| {
                let per_s = window.status_per_s("Com_stmt_execute").unwrap_or(0.0);
                Evidence::new(
                    "prepared statements executed",
                    per_s,
                    "1/s",
                    "SHOW GLOBAL STATUS Com_stmt_execute",
                )
            }))
            .evidence(Evidence::new("CPUs that the scans take", scan_cpus, "CPUs", "estimated from the rows"))
            .evidence_if(
                statement
                    .clone()
                    .map(|text| Evidence::new("statement seen most at work", text, "", "thread list")),
            )
            .remedy(match &statement {
                Some(statement) if looks_for_rows(statement) => explain_it(statement),
                _ => Remedy {
                    statement: "Switch the slow log on with log_queries_not_using_indexes for a minute"
                        .into(),
                    why: "It names the statements that scan.".into(),
                    dynamic: true,
                    risk: "It writes a line for each such statement.".into(),
                    undo: "SET GLOBAL slow_query_log = OFF, log_queries_not_using_indexes = OFF".into(),
                },
            })
            .explains(&[cpu_saturated::CAUSE.name])
            .finding(),
    ))
}

fn effective_cpus(window: &Window) -> f64 {
    window.latest(|s| &s.host.effective_cpus).map_or(1.0, |effective| effective.cpus.max(0.01))
}

/// Part of the sessions' time, 0 to 1, that one statement of this session can cost the others: of the threads that want a CPU
/// those of others that wait for one. Where the host is not seen, it is no more than the others' part of the sessions at work.
fn lost_by_others(window: &Window, session: &ServerThread) -> f64 {
    let is_other = |tid| Some(u64::from(tid)) != session.thread_os_id;
    if let Some(threads) = window.change(|s| &s.host.threads) {
        let (ran_s, queued_s) = ran_and_queued(&threads);
        let (_, others_s) = ran_and_queued_of(&threads, is_other);
        let lost = others_s / (ran_s + queued_s).max(f64::MIN_POSITIVE);
        return if others_s / threads.seconds < QUEUED { 0.0 } else { lost };
    }
    let at_work = Waiting::count(window, |_| false).map_or(1.0, |all| all.at_work_mean);
    (at_work - 1.0).max(0.0) / at_work.max(1.0)
}

#[cfg(test)]
pub(crate) mod examples {
    use super::*;
    use crate::testing::{Build, Rows, answer, session, transaction};

    const SCAN: &str = "SELECT * FROM orders WHERE note = ?";

    /// Twelve scans a second of a table of 200,000 rows, 150 ms each.
    pub(crate) fn fires() -> Window {
        Build::busy("8.0.36")
            .digest_scans(SCAN, 12.0, 150_000.0, Rows { examined: 200_000.0, sent: 2.0 }, 1.0)
            .window()
    }

    /// A sum over a range of an index, and a scan of a small table.
    pub(crate) fn near_miss() -> Window {
        Build::busy("8.0.36")
            .digest("SELECT SUM ( k ) FROM orders WHERE id BETWEEN ? AND ?", 12.0, 50_000.0, 100_000.0, 1.0)
            .digest_scans(
                "SELECT * FROM settings WHERE name = ?",
                400.0,
                300.0,
                Rows { examined: 200.0, sent: 1.0 },
                1.0,
            )
            .window()
    }

    pub(crate) fn missing() -> Window {
        Build::busy("8.0.36").no_session(spindoctor_model::NoSessionKind::Silent).window()
    }

    fn found(window: &Window) -> Finding {
        match evaluate(window) {
            Outcome::Fired(finding) => finding,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_statement_and_its_share_of_the_time_are_named() {
        let finding = found(&fires());
        assert!(
            finding.headline.contains("200,000 read for 2 returned by SELECT * FROM orders"),
            "{}",
            finding.headline
        );
        assert!(finding.score > 0.2 && finding.score < 0.5, "{}", finding.score);
    }

    /// Its rows are counted for the INSERT, whose own plan shows nothing.
    #[test]
    fn a_trigger_that_scans_is_looked_for_where_an_insert_reads_rows() {
        let window = Build::busy("5.7.22").digest_scans(
            "INSERT INTO orders VALUES ( ... )",
            12.0,
            150_000.0,
            Rows { examined: 200_000.0, sent: 0.0 },
            1.0,
        );
        let finding = found(&window.window());
        assert!(finding.why.contains("A trigger of its table does"), "{}", finding.why);
        assert!(finding.remedies[0].statement.starts_with("SHOW TRIGGERS"), "{:?}", finding.remedies);
    }

    #[test]
    fn one_report_on_an_idle_host_is_a_note_at_most() {
        let window = Build::busy("8.0.36")
            .digest_scans(SCAN, 0.5, 300_000.0, Rows { examined: 400_000.0, sent: 2.0 }, 1.0)
            .window();
        match evaluate(&window) {
            Outcome::Clear => {}
            Outcome::Fired(finding) => assert_eq!(finding.severity, spindoctor_model::Severity::Note),
            other => panic!("{other:?}"),
        }
    }

    /// As sysbench leaves it on 5.6.14: two connections scan by prepared statements, and no summary has them.
    fn prepared(bytes_sent_per_s: f64) -> Build {
        Build::busy("5.6.14")
            .digest("SELECT c FROM t WHERE id = ?", 10.0, 100.0, 1.0, 1.0)
            .counter("Handler_read_rnd_next", 6e6)
            .counter("Innodb_rows_read", 6e6)
            .counter("Com_stmt_execute", 30.0)
            .counter("Questions", 60.0)
            .counter("Rows_sent", 10.0)
            .sessions(|_| vec![session(20, "Execute", "Sending data", "")])
            .counter("Bytes_sent", bytes_sent_per_s)
    }

    #[test]
    fn scans_by_prepared_statements_are_found_where_no_summary_has_them() {
        let finding = found(&prepared(3_000.0).window());
        assert!(finding.headline.contains("by prepared statements"), "{}", finding.headline);
        assert!(finding.evidence.iter().any(|evidence| evidence.reading == "prepared statements executed"));
        // A dump beside them sends what it reads.
        assert!(matches!(evaluate(&prepared(60e6).window()), Outcome::Clear));
        // MariaDB counts the rows of all of them together, and has no text to look at.
        let text = StatementDigest::WITHOUT_TEXT;
        let together = prepared(3_000.0).digest_scans(
            text,
            150.0,
            16_000.0,
            Rows { examined: 20_000.0, sent: 0.0 },
            1.0,
        );
        let finding = found(&together.window());
        assert!(finding.headline.contains("by prepared statements"), "{}", finding.headline);
    }

    #[test]
    fn executions_that_the_summary_calls_so_are_statements_too() {
        let window = Build::busy("9.7.4")
            .digest_scans(
                "EXECUTE SELECT `c` FROM `t` WHERE `pad` = ?",
                12.0,
                150_000.0,
                Rows { examined: 200_000.0, sent: 2.0 },
                1.0,
            )
            .window();
        let finding = found(&window);
        assert!(finding.headline.contains("returned by SELECT `c` FROM `t`"), "{}", finding.headline);
        assert!(
            finding.remedies[0].statement.starts_with("EXPLAIN SELECT"),
            "{}",
            finding.remedies[0].statement
        );
    }

    /// One session counts pairs of rows for minutes, beside clients that are well served; so many threads wait for a CPU.
    fn runs_on(queued_cpus: f64) -> Window {
        let pairs = "SELECT COUNT(*) FROM a JOIN b ON a.k < b.k";
        let clients = |at: usize| at.is_multiple_of(3).then(|| session(31, "Query", "executing", "SELECT 1"));
        without_summary()
            .without_profile()
            .runs(1.2, queued_cpus)
            .sessions(move |at| {
                let report =
                    ServerThread { time_s: 70.0 + at as f64, ..session(20, "Query", "executing", pairs) };
                std::iter::once(report).chain(clients(at)).collect()
            })
            .window()
    }

    #[test]
    fn one_statement_that_runs_on_is_a_note_while_the_others_are_well_served() {
        let finding = found(&runs_on(0.02));
        assert_eq!(finding.severity, spindoctor_model::Severity::Note, "{}", finding.score);
        assert_eq!(
            finding.headline,
            "One statement of connection 20 reads 3,000,000 rows a second by scans and takes about 0.6 CPUs: SELECT COUNT(*) FROM a \
             JOIN b ON a.k < b.k"
        );
        assert!(finding.evidence.iter().any(|evidence| evidence.reading == "CPUs that the scans take"));
        // Five threads wait for a CPU meanwhile.
        assert!(found(&runs_on(5.0)).score > 0.1, "{}", found(&runs_on(5.0)).score);
    }

    fn without_summary() -> Build {
        Build::busy("10.11.19-MariaDB")
            .counter("Handler_read_rnd_next", 3e6)
            .counter("Innodb_rows_read", 3.1e6)
            .counter("Rows_sent", 30.0)
            .each(|_, server, _| server.digests = spindoctor_model::Reading::NotAsked)
    }

    #[test]
    fn a_literal_behind_a_comment_is_in_no_finding() {
        let statement = "SELECT /* it's */ name FROM t WHERE email = 'alice@example.com'";
        let window = without_summary()
            .sessions(move |_| vec![session(20, "Query", "Sending data", statement)])
            .window();
        let finding = found(&window);
        assert!(finding.headline.contains("SELECT name FROM t"), "{}", finding.headline);
        let all = serde_json::to_string(&finding).unwrap();
        assert!(!all.contains("alice"), "{all}");
    }

    #[test]
    fn without_the_summary_the_counters_show_and_the_thread_list_names_the_statement() {
        let window = without_summary()
            .sessions(|at| {
                vec![session(
                    20,
                    "Query",
                    "Sending data",
                    &format!("SELECT * FROM orders WHERE note = 'x{at}' LIMIT 5"),
                )]
            })
            .window();
        let finding = found(&window);
        assert!(
            finding.headline.ends_with("SELECT * FROM orders WHERE note = ? LIMIT ?"),
            "{}",
            finding.headline
        );
        assert!((0.1..0.2).contains(&finding.score), "{}", finding.score);
    }

    #[test]
    fn who_reads_whole_tables_because_that_is_its_work_wastes_nothing() {
        let of = |statement: &'static str| {
            let window = without_summary().sessions(move |_| vec![session(20, "Query", "", statement)]);
            evaluate(&window.window())
        };
        for statement in [
            "ALTER TABLE orders ENGINE = InnoDB, ALGORITHM = COPY",
            "/* nightly */ ANALYZE TABLE orders",
            "CREATE INDEX noted ON orders (note)",
            "LOAD DATA INFILE 'orders.csv' INTO TABLE orders",
        ] {
            assert_eq!(of(statement), Outcome::Clear, "{statement}");
        }
        // What has no plan of its own is not asked for one.
        let Outcome::Fired(finding) = of("CALL close_the_day()") else { panic!("a procedure that scans") };
        assert!(!finding.remedies[0].statement.starts_with("EXPLAIN"), "{finding:#?}");
    }

    #[test]
    fn who_waits_for_a_row_is_not_the_one_that_scans() {
        const CHANGE: &str = "UPDATE zebras SET k = k + 1 WHERE id = 1";
        let window = without_summary()
            .sessions(|_| {
                let mut sessions =
                    vec![session(20, "Query", "Sending data", "SELECT * FROM orders WHERE note = 'x'")];
                sessions.extend((21..28).map(|id| session(id, "Query", "Updating", CHANGE)));
                sessions
            })
            .each(|at_s, server, _| {
                let waiting = (21..28).map(|id| transaction(id, "LOCK WAIT", 5.0)).collect();
                server.transactions = answer(at_s, waiting);
            });
        assert!(found(&window.window()).headline.contains("FROM orders"));
    }
}
