//! By the counters of all statements, where no summary has those that read.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Remedy, Unavailable, Window};

use super::super::cpu_saturated;
use super::{
    CAUSE, EXAMINED_EACH, SCANNED_ROWS, applier, explain_it, grown, is_of_all_rows, long_list, looks_for_rows,
};
use crate::cpus;
use crate::draft::Draft;
use crate::polling::{self, How};
use crate::run_queue::{cpus_used, ran_and_queued, ran_and_queued_of};
use crate::seen_most::SeenMost;
use crate::sessions::{self, Waiting};

/// Rows a second read by scans, by the counters, from which on they can matter: a hundredth of a CPU.
const SCANNED_PER_S: f64 = 50_000.0;

/// Rows that one CPU scans in a second, in memory. Narrow rows: 11 million on MySQL 9.7, 15 on MariaDB 10.11, by the recorded windows
/// (`cargo test -p spindoctor-rules --test windows what_work_costs`); wide rows and more conditions take longer.
const ROWS_PER_CPU_S: f64 = 5e6;

/// Rows that a scan reads in the time that one row takes to which a secondary index leads: two descents of a tree against the next row of
/// a page. By judgement.
const SCANNED_IN_A_LOOKUP: f64 = 10.0;

/// Rows read by scans for each row returned, from which on an index would save half of the work and more.
const SCANNED_EACH: f64 = 2.0 * SCANNED_IN_A_LOOKUP;

/// Share of the server's CPU time that the scans take, from which on they are nearly all that it does. Chosen.
const NEARLY_ALL: f64 = 0.8;

/// Threads that wait for a CPU, on average, below which nobody notices: as of every wait in the account of session time.
const QUEUED: f64 = 0.5;

/// Characters of a statement that the shortest list of threads has: of a longer one the condition may be cut away.
const LISTED: usize = 256;

/// Whose rows are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// Those of all statements.
    All,
    /// Those of prepared statements, which no summary has.
    Prepared,
    /// Those of all statements, of which the summary knows none that is waste by itself.
    Known,
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

/// Part of the rows read by scans that temporary tables hold, from which on they are nearly all. Chosen: the end of each table counts, too.
const OF_TEMPORARY_RATIO: f64 = 0.9;

/// True where nearly all rows that scans read are those that statements had put into temporary tables, which are read back by the same
/// function: no index of a table spares them. Most of the tables are then filled by no scan. MariaDB alone counts their rows; one that
/// is there already is an attempt to write it and a change.
fn is_of_temporary_tables(window: &Window, scanned: f64) -> bool {
    let growth = |name: &str| window.status_growth(name);
    let (Some(written), Some(made), Some(scans)) =
        (growth("Handler_tmp_write"), growth("Created_tmp_tables"), growth("Select_scan"))
    else {
        return false;
    };
    let kept = written - growth("Handler_tmp_update").unwrap_or(0.0);
    let full_joins = growth("Select_full_join").unwrap_or(0.0);
    scans + full_joins < made / 2.0 && kept >= OF_TEMPORARY_RATIO * scanned
}

/// True for a statement that reads whole tables because that is its work: none of them has a plan that an index mends.
fn is_of_whole_tables(text: &str) -> bool {
    let kind = spindoctor_sql::kind(spindoctor_sql::server_digest(text));
    ["ALTER", "ANALYZE", "BACKUP", "CHECK", "CHECKSUM", "CREATE", "LOAD", "OPTIMIZE", "REPAIR"]
        .contains(&kind.as_str())
}

/// Rows that one scan reads, on average. MySQL counts no scan of a statement that changes rows. None where scans are not counted.
fn rows_of_a_scan(window: &Window) -> Option<f64> {
    let scans =
        window.status_growth("Select_scan")? + window.status_growth("Select_full_join").unwrap_or(0.0);
    Some(scanned(window)? / scans.max(1.0))
}

/// True where large scans are nearly all that the server does. Rows that are found by an index, however many, are in none of these
/// counters: a sum over a range of an index reads a hundred rows to return one, and scans none.
fn scans_nearly_always(window: &Window, cpus_share: f64, statement: Option<&str>) -> bool {
    cpus_share >= NEARLY_ALL
        && rows_of_a_scan(window).is_some_and(|rows| rows >= SCANNED_ROWS)
        && !statement.is_some_and(spindoctor_sql::aggregates)
}

/// Rows that were returned or changed in the window; None where nobody counts them.
fn returned(window: &Window, of: Of) -> Option<f64> {
    let changed = || -> f64 {
        ["Handler_write", "Handler_update", "Handler_delete"]
            .iter()
            .filter_map(|name| window.status_growth(name))
            .sum()
    };
    match window.status_growth("Rows_sent") {
        Some(sent) => Some(sent + changed()),
        // MySQL counts them by statement alone.
        None if of == Of::Known => {
            Some(grown(window).iter().map(|known| known.by.rows_sent + known.by.rows_affected).sum())
        }
        None => None,
    }
}

pub(super) fn by_counters(window: &Window, of: Of) -> Result<Option<Finding>, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    window.need_growth("Handler_read_rnd_next")?;
    let scanned = scanned(window).unwrap_or(0.0);
    let returned = returned(window, of);
    let per_s = scanned / seconds;
    if per_s < SCANNED_PER_S || is_of_temporary_tables(window, scanned) {
        return Ok(None);
    }
    // Statements are the bound where nobody counts rows, a row each.
    let at_least = match returned {
        Some(returned) => returned,
        None => window.need_growth("Questions").or_else(|_| window.need_growth("Queries"))?,
    };
    let ratio = scanned / at_least.max(1.0);
    let (each, of_each) = match returned {
        Some(_) => ("row returned", "returned"),
        None => ("statement", "statement"),
    };
    if ratio < SCANNED_EACH {
        return Ok(None);
    }
    let cpus = cpus::effective(window);
    // Whose statement is at work beside an applier that scans reads none of its rows.
    let applied = applier::share(window);
    let by_applier = applied.filter(|&share| share >= applier::MOST);
    let seen = match by_applier {
        Some(_) => None,
        None => SeenMost::from_window(window, SeenMost::NAMED_RATIO),
    };
    let is_its_work = |seen: &SeenMost<'_>| {
        let runs_long = seen.longest.is_some() && seen.statement.len() < LISTED;
        is_of_whole_tables(&seen.statement) || runs_long && is_of_all_rows(&seen.statement)
    };
    if seen.as_ref().is_some_and(is_its_work) {
        return Ok(None);
    }
    let used = cpus_used(window).unwrap_or(cpus);
    let scan_cpus = (per_s / ROWS_PER_CPU_S).min(used);
    let runs_on = seen.as_ref().and_then(|seen| seen.runs_on);
    let in_runs = seen.as_ref().map_or("", SeenMost::in_runs_of_event);
    let disable_event = seen.as_ref().and_then(SeenMost::disable_event);
    let statement = seen.map(|seen| seen.statement);
    let is_waste = of != Of::Known && ratio >= EXAMINED_EACH;
    let is_all = || returned.is_some() && scans_nearly_always(window, scan_cpus / used, statement.as_deref());
    if !is_waste && !is_all() {
        return Ok(None);
    }
    let named = match (&statement, of) {
        (Some(statement), _) => format!("; seen most: {}{in_runs}", sessions::shortened(statement)),
        (None, Of::Prepared) if applied.is_none() && applier::is_there(window) => {
            "; by prepared statements or by the replica's applier, of which this server's summary has none"
                .to_owned()
        }
        (None, Of::Prepared) => {
            "; by prepared statements, of which this server's summary has none".to_owned()
        }
        (None, Of::All | Of::Known) => String::new(),
    };
    let takes = cpu_saturated::cpus_text(scan_cpus);
    let (lost, headline, why) = match (runs_on, &statement) {
        _ if by_applier.is_some() => (
            lost_by_others(window, &applier::thread_os_ids(window)),
            format!(
                "Scans read {} rows a second, most of them by the replica's applier, and take about {takes}",
                whole(per_s)
            ),
            applier::WHY,
        ),
        (Some(session), Some(statement)) => (
            lost_by_others(window, session.thread_os_id.as_slice()),
            format!(
                "One statement of connection {} reads {} rows a second by scans and takes about {takes}: {}",
                session.connection_id.unwrap_or(0),
                whole(per_s),
                sessions::shortened(statement)
            ),
            "It runs on by itself; the others lose what they wait for a CPU. What it takes is an estimate, at five million rows a \
             second for each CPU.",
        ),
        _ => (
            1.0,
            format!("Scans read {} rows a second, {} for each {each}{named}", whole(per_s), whole(ratio)),
            "Tables are read whole to find a few rows: an index is missing or not used. The CPU it takes is an \
             estimate, at five million rows a second.",
        ),
    };
    let polls = statement.as_deref().and_then(How::from_statement);
    let why = match polls {
        Some(how) => format!("{why} {}", polling::why(how)),
        None => why.to_owned(),
    };
    Ok(Some(
        // An index leads to each row that is returned, at the price of a lookup.
        Draft::new(
            &CAUSE,
            (scan_cpus / cpus).min(0.9) * lost * (1.0 - SCANNED_IN_A_LOOKUP / ratio),
            headline,
        )
        .why(why)
        .evidence(
            Evidence::new("rows read by scans", per_s, "1/s", "SHOW GLOBAL STATUS Handler_read_rnd_next")
                .expected(format!("< {SCANNED_PER_S:.0}"))
                .series(window.status_rate_series("Handler_read_rnd_next")),
        )
        .evidence(
            Evidence::new(&format!("rows read for each {of_each}"), ratio, "", "SHOW GLOBAL STATUS")
                .expected(format!("< {:.0}", if is_waste { EXAMINED_EACH } else { SCANNED_EACH })),
        )
        .evidence_if(window.status_per_s("Select_scan").map(|scans| {
            Evidence::new("statements that scanned", scans, "1/s", "SHOW GLOBAL STATUS Select_scan")
        }))
        .evidence_if((of == Of::Prepared && by_applier.is_none()).then(|| {
            let per_s = window.status_per_s("Com_stmt_execute").unwrap_or(0.0);
            Evidence::new("prepared statements executed", per_s, "1/s", "SHOW GLOBAL STATUS Com_stmt_execute")
        }))
        .evidence(Evidence::new("CPUs that the scans take", scan_cpus, "CPUs", "estimated from the rows"))
        .evidence_if(by_applier.map(|share| {
            Evidence::new("of the CPU in scans, the replica's applier", share, "ratio", "CPU samples")
        }))
        .evidence_if(
            statement
                .clone()
                .map(|text| Evidence::new("statement seen most at work", text, "", "thread list")),
        )
        .remedy_if(disable_event)
        .remedy_if(statement.as_deref().and_then(|statement| long_list::remedy(window, statement)))
        .remedy(match &statement {
            _ if by_applier.is_some() => applier::key(),
            Some(statement) if looks_for_rows(statement) => explain_it(statement),
            _ => Remedy {
                statement: "Switch the slow log on with log_queries_not_using_indexes for a minute".into(),
                why: "It names the statements that scan.".into(),
                dynamic: true,
                risk: "It writes a line for each such statement.".into(),
                undo: "SET GLOBAL slow_query_log = OFF, log_queries_not_using_indexes = OFF".into(),
            },
        })
        .remedies(polls.into_iter().flat_map(|_| polling::remedies()))
        .explains(if scan_cpus >= EXPLAINS * used { &[cpu_saturated::CAUSE.name] } else { &[] })
        .finding(),
    ))
}

/// Part of the CPU that the server used, from which on the scans are why its CPUs are full. Chosen: less is beside what fills them.
const EXPLAINS: f64 = 0.1;

/// Part of the sessions' time, 0 to 1, that scans of these threads can cost the others: of the threads that want a CPU those of others
/// that wait for one. Where the host is not seen, it is no more than the others' part of the sessions at work.
fn lost_by_others(window: &Window, thread_os_ids: &[u64]) -> f64 {
    let is_other = |tid| !thread_os_ids.contains(&u64::from(tid));
    if let Some(threads) = window.change(|s| &s.host.threads) {
        let (ran_s, queued_s) = ran_and_queued(&threads);
        let (_, others_s) = ran_and_queued_of(&threads, is_other);
        let lost = others_s / (ran_s + queued_s).max(f64::MIN_POSITIVE);
        return if others_s / threads.seconds < QUEUED { 0.0 } else { lost };
    }
    let at_work = Waiting::count(window, |_| false).map_or(1.0, |all| all.at_work_mean);
    (at_work - 1.0).max(0.0) / at_work.max(1.0)
}
