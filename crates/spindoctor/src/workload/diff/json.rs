//! JSON, schema `spindoctor.workload-diff/1`. Fields may be added; none is renamed or removed. Times are in milliseconds unless the
//! name says otherwise; `interval` is of after by before.

use serde::Serialize;
use spindoctor_page::json::to_text;
use spindoctor_statements::{Change, Changes, Factor, Moved, Span};

/// The schema's name.
const SCHEMA: &str = "spindoctor.workload-diff/1";

#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    before: WrittenSide<'a>,
    after: WrittenSide<'a>,
    at_once: WrittenFactor,
    statements_per_s: Option<WrittenFactor>,
    each_ms: Option<WrittenFactor>,
    changed: usize,
    statements: Vec<WrittenChange<'a>>,
    small_statements: usize,
    small_share: WrittenMoved,
    not_known: Vec<WrittenNotKnown>,
}

#[derive(Serialize)]
struct WrittenSide<'a> {
    name: &'a str,
    start: Option<String>,
    seconds: f64,
    looks: u64,
    counted_seconds: f64,
    counted_parts: usize,
}

#[derive(Serialize)]
struct WrittenFactor {
    before: f64,
    after: f64,
    times: Option<f64>,
    interval: Option<(f64, f64)>,
}

#[derive(Serialize)]
struct WrittenMoved {
    before: f64,
    after: f64,
}

#[derive(Serialize)]
struct WrittenChange<'a> {
    statement: &'a str,
    verdict: &'static str,
    costs_sessions: f64,
    reads_other_rows: bool,
    at_once: WrittenFactor,
    calls_per_s: Option<WrittenFactor>,
    each_ms: Option<WrittenFactor>,
    rows_read_each: Option<WrittenFactor>,
    rows_read_for_each_returned: Option<WrittenFactor>,
    scanning_share: Option<WrittenMoved>,
    disk_table_share: Option<WrittenMoved>,
    lock_share: Option<WrittenMoved>,
    wait: Option<WrittenWait<'a>>,
}

#[derive(Serialize)]
struct WrittenWait<'a> {
    wait: &'a str,
    before: f64,
    after: f64,
}

#[derive(Serialize)]
struct WrittenNotKnown {
    what: &'static str,
    because: &'static str,
}

/// The comparison as indented JSON with a line break at its end.
pub fn render(before: &Span, after: &Span, changes: &Changes) -> serde_json::Result<String> {
    to_text(&document(before, after, changes))
}

/// The same for a document that holds it.
pub fn value(before: &Span, after: &Span, changes: &Changes) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(document(before, after, changes))
}

fn document<'a>(before: &'a Span, after: &'a Span, changes: &'a Changes) -> Written<'a> {
    let mut not_known = vec![WrittenNotKnown {
        what: "pages_read, index_used",
        because: "no server counts them by statement",
    }];
    if changes.calls_per_s.is_none() {
        not_known.push(WrittenNotKnown {
            what: "calls, time and rows of a statement",
            because: "one side has fewer than two readings of the server's summary of statements",
        });
    }
    Written {
        schema: SCHEMA,
        before: written_side(before),
        after: written_side(after),
        at_once: written(changes.at_once),
        statements_per_s: changes.calls_per_s.map(written),
        each_ms: changes.each_ms.map(written),
        changed: changes.significant().count(),
        statements: changes.statements.iter().map(written_change).collect(),
        small_statements: changes.small.0,
        small_share: moved(changes.small.1),
        not_known,
    }
}

fn written_side(span: &Span) -> WrittenSide<'_> {
    WrittenSide {
        name: &span.name,
        start: span.start.map(|at| at.to_string()),
        seconds: span.seconds,
        looks: span.looks(),
        counted_seconds: span.counted.iter().map(|part| part.seconds).sum(),
        counted_parts: span.counted.len(),
    }
}

fn written(factor: Factor) -> WrittenFactor {
    WrittenFactor {
        before: factor.before,
        after: factor.after,
        times: factor.times(),
        interval: factor.interval,
    }
}

fn moved(moved: Moved) -> WrittenMoved {
    WrittenMoved { before: moved.before, after: moved.after }
}

fn written_change(change: &Change) -> WrittenChange<'_> {
    WrittenChange {
        statement: &change.statement,
        verdict: change.verdict.name(),
        costs_sessions: change.costs(),
        reads_other_rows: change.is_of_rows(),
        at_once: written(change.at_once),
        calls_per_s: change.calls_per_s.map(written),
        each_ms: change.each_ms.map(written),
        rows_read_each: change.rows_each.map(written),
        rows_read_for_each_returned: change.rows_for_each.map(written),
        scanning_share: change.scans.map(moved),
        disk_table_share: change.disk_tables.map(moved),
        lock_share: change.locks.map(moved),
        wait: change.wait.as_ref().map(|(wait, moved)| WrittenWait {
            wait,
            before: moved.before,
            after: moved.after,
        }),
    }
}
