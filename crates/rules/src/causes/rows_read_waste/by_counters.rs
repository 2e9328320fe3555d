//! By the counters of all statements, where no summary has those that read.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window};

use super::super::cpu_saturated;
use super::{CAUSE, EXAMINED_EACH, explain_it, looks_for_rows};
use crate::cpus;
use crate::draft::Draft;
use crate::run_queue::{cpus_used, ran_and_queued, ran_and_queued_of};
use crate::seen_most::SeenMost;
use crate::sessions::{self, Waiting};

/// Rows a second read by scans, by the counters, from which on they can matter: a hundredth of a CPU.
const SCANNED_PER_S: f64 = 50_000.0;

/// Rows that one CPU scans in a second, in memory. Narrow rows: 11 million on MySQL 9.7, 15 on MariaDB 10.11, by the recorded windows
/// (`cargo test -p spindoctor-rules --test windows what_work_costs`); wide rows and more conditions take longer.
const ROWS_PER_CPU_S: f64 = 5e6;

/// Share of samples in which a statement must be seen to be named.
const SEEN_RATIO: f64 = 0.25;

/// Threads that wait for a CPU, on average, below which nobody notices: as of every wait in the account of session time.
const QUEUED: f64 = 0.5;

/// Whose rows are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Those of all statements.
    All,
    /// Those of prepared statements, which no summary has.
    Prepared,
}

/// Rows that scans read in the window.
pub(super) fn scanned(window: &Window) -> Option<f64> {
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

/// True for a statement that reads whole tables because that is its work: none of them has a plan that an index mends.
fn is_of_whole_tables(text: &str) -> bool {
    let kind = spindoctor_sql::kind(spindoctor_sql::server_digest(text));
    ["ALTER", "ANALYZE", "BACKUP", "CHECK", "CHECKSUM", "CREATE", "LOAD", "OPTIMIZE", "REPAIR"]
        .contains(&kind.as_str())
}

pub(super) fn by_counters(window: &Window, of: Of) -> Result<Option<Finding>, Unavailable> {
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
    let cpus = cpus::effective(window);
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
