//! A comparison for the terminal.

use anstyle::AnsiColor;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};
use spindoctor_statements::changes::{ROWS, TIMES};
use spindoctor_statements::{Change, Changes, Factor, Moved, Span, Verdict};

use crate::common::stalls::day_and_time;

/// Columns of the table of the whole.
const COLUMNS: [(&str, i32); 4] = [("", -22), ("before", 12), ("after", 12), ("after / before", 30)];

/// The comparison as text, with so many statements.
pub fn render(before: &Span, after: &Span, changes: &Changes, top: usize, look: Look) -> String {
    let mut page = Page::new(look);
    headline(&mut page, changes);
    page.blank();
    page.field("before", &safe(&side(before)), 8);
    page.field("after", &safe(&side(after)), 8);
    page.blank();
    whole(&mut page, changes);
    let mut left = top;
    for (verdict, title) in [
        (Verdict::Changed, "changed, what costs most first"),
        (Verdict::New, "new: did not run before"),
        (Verdict::Gone, "gone: does not run any more"),
    ] {
        let of_kind: Vec<&Change> = changes.significant().filter(|one| one.verdict == verdict).collect();
        if of_kind.is_empty() {
            continue;
        }
        page.blank();
        page.paragraph("", title, STRONG);
        let (shown, hidden) = of_kind.split_at(left.min(of_kind.len()));
        left -= shown.len();
        shown.iter().for_each(|one| statement(&mut page, one));
        if !hidden.is_empty() {
            let more = number::counted(hidden.len() as u64, "statement", "statements");
            page.paragraph("  ", &format!("{more} more: --top shows them"), QUIET);
        }
    }
    rest(&mut page, before, after, changes);
    page.finish()
}

/// What changed most, or that nothing did, or that it is not known.
fn headline(page: &mut Page, changes: &Changes) {
    let unknown = changes.statements.iter().filter(|one| one.verdict == Verdict::NotKnown).count();
    let (text, style) = match changes.significant().next() {
        Some(first) => (
            format!("{}: {}", in_few_words(first), safe(&first.statement)),
            AnsiColor::Yellow.on_default().bold(),
        ),
        None if changes.statements.is_empty() => ("No statement was seen.".to_owned(), STRONG),
        None if unknown > 0 => (
            format!(
                "No change was found, but of {} there is not enough evidence.",
                number::counted(unknown as u64, "statement", "statements")
            ),
            STRONG,
        ),
        None => (
            format!(
                "No statement changed: none by {TIMES} times in time or calls, or {ROWS} times in rows read."
            ),
            AnsiColor::Green.on_default().bold(),
        ),
    };
    page.hanging("", "  ", &text, style);
}

/// What became of a statement, in few words.
pub fn in_few_words(change: &Change) -> String {
    let costs = change.costs();
    let sessions = match costs {
        more if more > 0.0 => format!("{} more at work at once", round(more)),
        fewer => format!("{} fewer at work at once", round(-fewer)),
    };
    let how = match change.verdict {
        Verdict::New => "new".to_owned(),
        Verdict::Gone => "gone".to_owned(),
        _ => {
            let rows = change.rows_each.filter(|rows| rows.is_beyond(ROWS)).and_then(|rows| rows.times());
            let each = change.each_ms.filter(|each| each.is_beyond(TIMES)).and_then(|each| each.times());
            let calls =
                change.calls_per_s.filter(|calls| calls.is_beyond(TIMES)).and_then(|calls| calls.times());
            match (rows, each, calls) {
                (Some(rows), _, _) => format!("reads {} the rows each time", times(rows)),
                (None, Some(each), _) => format!("takes {} the time", times(each)),
                (None, None, Some(calls)) => format!("is called {} as often", times(calls)),
                (None, None, None) => "changed".to_owned(),
            }
        }
    };
    format!("{how}, {sessions}")
}

/// `rec.spindoctor from 2026-07-01 09:00:00 UTC, 10 min 0 s, 600 looks, 20 counts`
fn side(span: &Span) -> String {
    let start = span.start.map_or_else(String::new, |at| format!(" from {}", day_and_time(at)));
    let counts = match span.counted.len() {
        0 => "no count of the server's".to_owned(),
        parts => {
            let seconds: f64 = span.counted.iter().map(|part| part.seconds).sum();
            format!(
                "the server's counts of {} in {}",
                number::tenths(seconds),
                number::counted(parts as u64, "part", "parts")
            )
        }
    };
    format!(
        "{}{start}, {}, {}, {counts}",
        span.name,
        number::tenths(span.seconds),
        number::counted(span.looks(), "look", "looks")
    )
}

fn whole(page: &mut Page, changes: &Changes) {
    let row = |name: &str, factor: Factor, unit: fn(f64) -> String| {
        vec![name.to_owned(), unit(factor.before), unit(factor.after), against(factor)]
    };
    let mut rows = vec![row("statements at once", changes.at_once, round)];
    rows.extend(changes.calls_per_s.map(|calls| row("statements a second", calls, round)));
    rows.extend(changes.each_ms.map(|each| row("time of one", each, |ms| number::duration(ms / 1e3))));
    page.table(&COLUMNS, rows.into_iter());
}

fn statement(page: &mut Page, change: &Change) {
    let sign = if change.costs() < 0.0 { "-" } else { "+" };
    let lead = format!("{sign}{}", round(change.costs().abs()));
    page.hanging(&format!("{lead:>8}  "), "          ", &safe(&change.statement), STRONG);
    let indent = "          ";
    let mut line = |text: String| page.hanging(indent, "            ", &safe(&text), PLAIN);
    line(format!("at work at once {}", both(change.at_once, round)));
    if let Some(rows) = change.rows_each.filter(|rows| rows.is_beyond(ROWS)) {
        line(format!("rows read each time {}: its plan, its data or its values changed", both(rows, round)));
    }
    if let Some(each) = change.each_ms {
        line(format!("time of one {}", both(each, |ms| number::duration(ms / 1e3))));
    }
    if let Some(calls) = change.calls_per_s {
        line(format!("calls a second {}", both(calls, round)));
    }
    let parts = [
        ("executions that scan a table whole or join without an index", change.scans),
        ("executions with a temporary table on disk", change.disk_tables),
        ("time in locks", change.locks),
    ];
    for (name, moved) in parts {
        if let Some(moved) = moved.filter(Moved::is_far) {
            line(format!(
                "{name}: {} before, {} after",
                number::percent(moved.before),
                number::percent(moved.after)
            ));
        }
    }
    if let Some((wait, moved)) = &change.wait {
        line(format!(
            "waits for {wait}: {} of its time before, {} after",
            number::percent(moved.before),
            number::percent(moved.after)
        ));
    }
}

fn rest(page: &mut Page, before: &Span, after: &Span, changes: &Changes) {
    page.blank();
    let count = |verdict| changes.statements.iter().filter(|one| one.verdict == verdict).count();
    let mut line = |text: &str| page.hanging("", "  ", &safe(text), QUIET);
    let statements = |count: usize| number::counted(count as u64, "statement", "statements");
    if count(Verdict::Alike) > 0 {
        line(&format!(
            "alike: {}, within {TIMES} times in time and calls and {ROWS} times in rows read",
            statements(count(Verdict::Alike))
        ));
    }
    let unknown: Vec<&str> = changes
        .statements
        .iter()
        .filter(|one| one.verdict == Verdict::NotKnown)
        .map(|one| one.statement.as_str())
        .collect();
    if !unknown.is_empty() {
        line(&format!(
            "not enough evidence: {} ({}); compare longer times",
            statements(unknown.len()),
            unknown[..unknown.len().min(3)].join("; ")
        ));
    }
    let (small, share) = changes.small;
    if small > 0 {
        line(&format!(
            "not compared: {} with less than 1 % of the time each ({} before, {} after, together)",
            statements(small),
            number::percent(share.before),
            number::percent(share.after)
        ));
    }
    if changes.calls_per_s.is_none() {
        line(
            "calls, time and rows of a statement are not known: one side has fewer than two readings of the server's summary of \
              statements (events_statements_summary_by_digest)",
        );
    }
    if before.is_cut || after.is_cut {
        line(
            "the server has more statements than are read of its summary: one that is not in it may have run",
        );
    }
    line("pages and indexes are not known by statement: no server counts them so");
    line("intervals hold with 95 %, for all statements together");
}

/// `0.2 before, 3.1 after (15 times, 12 to 18)`
fn both(factor: Factor, unit: fn(f64) -> String) -> String {
    let against = against(factor);
    let times = if against.is_empty() { String::new() } else { format!(" ({against})") };
    format!("{} before, {} after{times}", unit(factor.before), unit(factor.after))
}

/// `15 times, 12 to 18`
fn against(factor: Factor) -> String {
    match (factor.times(), factor.interval) {
        (Some(by), Some((low, high))) => {
            format!("{} times, {} to {}", digits(by), digits(low), digits(high))
        }
        (Some(by), None) => format!("{} times, no interval", digits(by)),
        (None, _) => String::new(),
    }
}

/// `15 times`, `half`-like factors below one with two digits.
fn times(by: f64) -> String {
    format!("{} times", digits(by))
}

fn digits(by: f64) -> String {
    number::plain((by * 100.0).round() / 100.0)
}

fn round(value: f64) -> String {
    number::plain((value * 100.0).round() / 100.0)
}
