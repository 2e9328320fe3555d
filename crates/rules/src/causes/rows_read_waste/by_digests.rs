//! By the summary of each statement.

use spindoctor_model::number::whole;
use spindoctor_model::{Evidence, Finding, Window};
use spindoctor_statements::{Counts, Grown};

use super::super::cpu_saturated;
use super::{
    CAUSE, EXAMINED_EACH, SCANNED_ROWS, explain_it, grown, is_of_all_rows, long_list, looks_for_rows,
};
use crate::cpus;
use crate::draft::Draft;
use crate::seen_most::SeenMost;
use crate::sessions;

/// Rows examined by one execution of a statement that used an index.
const INDEXED_ROWS: f64 = 5000.0;

/// Share of executions that scanned or joined without an index.
const SCANS_RATIO: f64 = 0.5;

/// Waste that takes less of the statements' time than this is not worth a line.
pub(super) const TIME_RATIO: f64 = 0.02;

fn is_waste(statement: &Grown<'_>) -> bool {
    let by = &statement.by;
    let each = by.rows_examined / by.executions.max(1.0);
    let ratio = by.rows_examined / returned(by).max(1.0);
    let scans = by.full_scans >= SCANS_RATIO * by.executions;
    looks_for_rows(&statement.digest.text)
        && ratio >= EXAMINED_EACH
        && ((scans && each >= SCANNED_ROWS && !is_of_all_rows(&statement.digest.text))
            || (each >= INDEXED_ROWS && !spindoctor_sql::aggregates(&statement.digest.text)))
}

/// Rows returned or changed.
fn returned(by: &Counts) -> f64 {
    by.rows_sent + by.rows_affected
}

/// Time that is not spent waiting for locks, seconds.
pub(super) fn time_s(by: &Counts) -> f64 {
    (by.total_ns - by.lock_ns).max(0.0) / 1e9
}

pub(super) fn by_digests(window: &Window) -> Option<Finding> {
    let seconds = window.change(|s| &s.server.digests)?.seconds;
    let grown = grown(window);
    let all_s: f64 = grown.iter().map(|statement| time_s(&statement.by)).sum();
    let mut waste: Vec<&Grown<'_>> = grown.iter().filter(|statement| is_waste(statement)).collect();
    waste.sort_by(|a, b| time_s(&b.by).total_cmp(&time_s(&a.by)));
    let worst = *waste.first()?;
    let by = &worst.by;
    let waste_s: f64 = waste.iter().map(|statement| time_s(&statement.by)).sum();
    let ratio = waste_s / all_s.max(f64::MIN_POSITIVE);
    let cpus = cpus::effective(window);
    let score = ratio * (waste_s / seconds / cpus).min(1.0);
    if ratio < TIME_RATIO || score < TIME_RATIO {
        return None;
    }
    let each = by.rows_examined / by.executions;
    let returned_each = returned(by) / by.executions;
    let examined_per_s = waste.iter().map(|statement| statement.by.rows_examined).sum::<f64>() / seconds;
    let scans = by.full_scans >= SCANS_RATIO * by.executions;
    let is_worst = |seen: &SeenMost<'_>| {
        spindoctor_sql::comparable(&seen.statement) == spindoctor_sql::comparable(&worst.digest.text)
    };
    let seen = SeenMost::from_window(window, SeenMost::NAMED_RATIO).filter(is_worst);
    Some(
        Draft::new(
            &CAUSE,
            score,
            format!(
                "{:.0} % of statement time goes into reading rows for nothing: {} read for {} returned by {}{}",
                ratio * 100.0,
                whole(each),
                whole(returned_each),
                sessions::shortened(spindoctor_sql::server_digest(&worst.digest.text)),
                seen.as_ref().map_or("", SeenMost::in_runs_of_event)
            ),
        )
        .why(if spindoctor_sql::inserts_values(&worst.digest.text) {
            "The statement itself reads no rows. A trigger of its table does, or a stored function that it calls, and these rows are \
             counted for it."
        } else if scans && spindoctor_sql::aggregates(&worst.digest.text) {
            "It scans a table, or joins without an index, and sums up the rows that meet its condition: an index is missing where these \
             are few. Where they are most of the table, that is its work."
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
        .evidence_if(seen.as_ref().and_then(SeenMost::runs_at_once))
        .remedy_if(seen.as_ref().and_then(SeenMost::disable_event))
        .remedy_if(long_list::remedy(window, &worst.digest.text).filter(|_| scans))
        .remedy(explain_it(&worst.digest.text))
        .explains(&[cpu_saturated::CAUSE.name])
        .finding(),
    )
}
