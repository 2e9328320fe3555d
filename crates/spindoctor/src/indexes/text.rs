//! `spindoctor indexes` as text: the statements with dives, the indexes, the time of planning, and the result of a
//! trial.

use anstyle::AnsiColor;
use spindoctor_model::{Effect, Verdict};

use super::estimates::{Estimated, EstimatedOne, EstimatedTable};
use super::trial::{Compared, Tried};
use super::view::{CandidateReport, Examined, InStatement, IndexesReport, Planned, Planning};
use crate::common::words::severity_word;
use spindoctor_page::number;
use spindoctor_page::number::{counted, plain, quantity};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Columns of the labels.
const LABELS: usize = 12;
/// Reasons why statements were not examined that are listed.
const REASONS: usize = 6;
/// Fewer pages a second for planning are not worth a sentence. Chosen, not derived.
const MANY_PAGES_PER_S: f64 = 1_000.0;

/// Fewer sightings of threads are not split, as in `workload`: a share of thirty is known to ten points or so.
const LEAST_SEEN: u64 = 30;
/// Fewer CPU samples are not split, as in the rules: the standard error of a share of 10 % is then 2 points.
const LEAST_SAMPLES: u64 = 200;

/// The report as text.
pub fn render(report: &IndexesReport, look: Look) -> String {
    let mut page = Page::new(look);
    let mut head = report.server.clone();
    if report.looks > 0 {
        head =
            format!("{head}, {}, {}", number::tenths(report.seconds), counted(report.looks, "look", "looks"));
    }
    let dived = report.statements.iter().filter(|one| one.estimates.dives > 0).count();
    let right = format!("{} with dives", counted(dived as u64, "statement", "statements"));
    page.line_with_right(&safe(&head), &right, STRONG, STRONG);
    if let Some(other) = &report.examined_on {
        page.paragraph("", &safe(&format!("explained and tried on {other}")), STRONG);
    }
    page.blank();
    page.paragraph("", &limit_text(report.eq_range_index_dive_limit), PLAIN);
    page.paragraph("", &all_stacks_text(report), PLAIN);
    for finding in &report.findings {
        let text = format!("{}: {} ({})", severity_word(finding.severity), finding.headline, finding.cause);
        page.hanging("", "  ", &safe(&text), STRONG);
    }
    if report.statements.is_empty() {
        page.blank();
        let nothing = match report.not_examined.is_empty() {
            true => "No statement was seen.",
            false => "No statement was seen that the optimizer dives for.",
        };
        page.paragraph("", nothing, AnsiColor::Green.on_default().bold());
    }
    for (at, examined) in report.statements.iter().enumerate() {
        page.blank();
        statement(&mut page, at + 1, examined);
    }
    if !report.not_examined.is_empty() {
        page.blank();
        page.paragraph("", "not checked", QUIET);
        for one in report.not_examined.iter().take(REASONS) {
            let statements = counted(one.statements, "statement", "statements");
            let digest = shortened(&safe(&one.digest), 60);
            page.hanging("    ", "  ", &safe(&format!("{statements}: {}; {digest}", one.because)), QUIET);
        }
        if report.not_examined.len() > REASONS {
            let more = report.not_examined.len() - REASONS;
            page.hanging(
                "    ",
                "  ",
                &format!("and for {} more; --json lists all", counted(more as u64, "reason", "reasons")),
                QUIET,
            );
        }
    }
    page.blank();
    for note in &report.notes {
        page.hanging("", "  ", &safe(note), QUIET);
    }
    page.paragraph("", &cost(report), QUIET);
    page.finish()
}

fn limit_text(limit: u64) -> String {
    match limit {
        0 => "Each value of a list is looked up in each index that could serve it, however long the list is \
              (eq_range_index_dive_limit = 0)."
            .to_owned(),
        limit => format!(
            "Each value of a list with fewer than {} values is looked up in each index that could serve it, before the \
             statement runs (eq_range_index_dive_limit).",
            plain(limit as f64)
        ),
    }
}

fn statement(page: &mut Page, at: usize, examined: &Examined) {
    page.hanging(
        "",
        "   ",
        &safe(&format!("{at}  {}", examined.statement.as_deref().unwrap_or(&examined.digest))),
        STRONG,
    );
    match seen(examined) {
        Some(text) => page.field("runs", &safe(&text), LABELS),
        None if examined.database.is_empty() => {}
        None => page.field("database", &safe(&examined.database), LABELS),
    }
    if let Some(stacks) = examined.stacks.filter(|stacks| stacks.seen >= LEAST_SEEN) {
        page.field("stacks", &stacks_text(&stacks), LABELS);
    }
    for list in &examined.lists {
        let values = counted(list.values as u64, "value", "values");
        let text = match list.is_below_limit {
            true => format!("{values} for {}, below the limit", list.column),
            false => format!("{values} for {}, not below the limit: estimated from statistics", list.column),
        };
        page.field("list", &safe(&text), LABELS);
    }
    page.field("dives", &dives_text(examined), LABELS);
    for table in &examined.estimates.tables {
        indexes(page, table);
    }
    if examined.estimates.dives > 0 {
        planning(page, examined);
    }
    for text in &examined.candidates {
        candidate(page, text, examined.estimates.dives);
    }
}

fn all_stacks_text(report: &IndexesReport) -> String {
    let Some(stacks) = &report.stacks else {
        let why = report.stacks_not_known.as_deref().unwrap_or("no stack was taken");
        return safe(&format!("How much of the time goes into estimates is not known: {why}."));
    };
    let of_cpu = match stacks.cpu_in_dives {
        Some(share) if stacks.cpu_samples >= LEAST_SAMPLES => {
            format!(
                "Of {} of its CPU time, {} lie in dives",
                counted(stacks.cpu_samples, "sample", "samples"),
                number::percent(share)
            )
        }
        _ => format!(
            "Its CPU time is not split: {} taken",
            counted(stacks.cpu_samples, "sample was", "samples were")
        ),
    };
    match stacks.all.seen >= LEAST_SEEN {
        true => format!("{of_cpu}; of all threads inside statements, {}.", stacks_text(&stacks.all)),
        false => format!("{of_cpu}; threads were hardly seen inside statements."),
    }
}

/// `79 % of 84 sightings below the range optimizer, 74 % in dives`
fn stacks_text(stacks: &InStatement) -> String {
    format!(
        "{} of {} sightings below the range optimizer, {} in dives",
        number::percent(stacks.estimating),
        plain(stacks.seen as f64),
        number::percent(stacks.diving)
    )
}

/// `0.93 at once, 600 /s of 1.5 ms, in shop`
fn seen(examined: &Examined) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(
        examined.at_once.map(|at_once| format!("{} at once", plain((at_once * 100.0).round() / 100.0))),
    );
    if let (Some(per_s), Some(ms)) = (examined.executions_per_s, examined.execution_ms) {
        parts.push(format!("{} of {}", quantity(per_s, "1/s"), quantity(ms, "ms")));
    }
    if !parts.is_empty() && !examined.database.is_empty() {
        parts.push(format!("in {}", examined.database));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn dives_text(examined: &Examined) -> String {
    let (dives, in_vain) = (examined.estimates.dives, examined.estimates.dives_in_vain);
    match (dives, in_vain) {
        (0, _) => "none".to_owned(),
        (dives, 0) => format!("{}, each at both ends, in the index that is used", ranges(dives)),
        (dives, in_vain) if in_vain == dives => format!("{}, each at both ends, all in vain", ranges(dives)),
        (dives, in_vain) => format!(
            "{}, each at both ends, {} of them in indexes that are not used",
            ranges(dives),
            plain(in_vain as f64)
        ),
    }
}

fn ranges(count: u64) -> String {
    format!("{} looked up", counted(count, "range", "ranges"))
}

fn indexes(page: &mut Page, table: &EstimatedTable) {
    for one in &table.indexes {
        let columns = one.columns.join(", ");
        let text = format!("{}.{} ({columns}): {}", table.table, one.index, index_text(one));
        page.hanging("      ", "  ", &safe(&text), if one.in_vain { STRONG } else { PLAIN });
    }
}

/// `190 ranges by dives, used`
fn index_text(one: &EstimatedOne) -> String {
    let ranges = counted(one.ranges, "range", "ranges");
    let how = match one.estimated {
        Estimated::Dives => format!("{ranges} by dives"),
        Estimated::Statistics => format!("{ranges} from statistics"),
        Estimated::Unique => format!("{ranges} of one row each, not looked up"),
        Estimated::Skipped => format!("{ranges}, not estimated"),
    };
    let mut parts = vec![how];
    if one.is_used {
        parts.push("used".to_owned());
    }
    if one.in_vain {
        parts.push("in vain".to_owned());
    }
    parts.extend(one.alike.clone());
    if one.in_vain && one.reads_since_start == Some(0) {
        parts.push("no row was read through it since the server started".to_owned());
    }
    parts.join(", ")
}

fn planning(page: &mut Page, examined: &Examined) {
    let Planning { as_it_is, without_in_vain, without_list_dives, pages_not_counted, .. } =
        &examined.planning;
    page.field("planning", &planned(as_it_is), LABELS);
    if let Some(without) = without_in_vain {
        page.field("", &format!("{} without the indexes in vain", planned(without)), LABELS);
    }
    if let Some(without) = without_list_dives {
        page.field("", &format!("{} without dives for values", planned(without)), LABELS);
    }
    if let Some(pages) = examined.planning_pages_per_s().filter(|pages| *pages >= MANY_PAGES_PER_S) {
        page.field("", &format!("{} pages a second, as often as it runs", plain(pages.round())), LABELS);
    }
    if let Some(share) = examined.dive_share().filter(|share| *share > 0.0) {
        page.field(
            "",
            &format!("dives for values: {} of the statement's time", number::percent(share)),
            LABELS,
        );
    }
    if let Some(why) = pages_not_counted {
        page.field("pages", &safe(&format!("not known: {why}")), LABELS);
    }
    if let Some(split) = &examined.pages {
        let text = format!(
            "{} of the {} of a run are for its plan, {} for its rows",
            plain(split.for_the_plan.round()),
            pages_text(split.of_a_run),
            plain(split.for_its_rows.round())
        );
        page.field("pages", &text, LABELS);
    }
}

/// `1.3 ms and 1,530 pages`
fn planned(planned: &Planned) -> String {
    let time = quantity(planned.ms, "ms");
    match planned.pages {
        Some(pages) => format!("{time} and {}", pages_text(pages)),
        None => time,
    }
}

fn pages_text(pages: f64) -> String {
    counted(pages.round() as u64, "page", "pages")
}

fn candidate(page: &mut Page, text: &CandidateReport, dives: u64) {
    page.blank();
    let change = format!("   {}", safe(&text.candidate.change));
    match &text.tried {
        Some(tried) => {
            page.line_with_right(&change, verdict_word(tried.verdict), STRONG, verdict_style(tried.verdict));
        }
        None => page.paragraph("", &change, STRONG),
    }
    page.field("spares", &safe(&text.candidate.spares), LABELS);
    if let Some(tried) = &text.tried {
        trial(page, tried, dives);
    }
    if let Some(why) = &text.not_tried {
        page.field("not tried", &safe(why), LABELS);
    }
    page.field("risk", &safe(&text.candidate.risk), LABELS);
}

fn trial(page: &mut Page, tried: &Tried, dives: u64) {
    page.field("time", &changed(&tried.time_ms, |ms| quantity(ms, "ms")), LABELS);
    if let Some(pages) = &tried.pages {
        page.field("pages", &changed(pages, pages_text), LABELS);
    }
    if let Some(from_disk) = tried.pages_from_disk.filter(|pages| pages.before > 0.0 || pages.after > 0.0) {
        page.field("from disk", &changed(&from_disk, pages_text), LABELS);
    } else if tried.pages.is_some() {
        page.field("from disk", "no page: all were in the buffer pool", LABELS);
    }
    if let Some(why) = &tried.pages_not_counted {
        page.field("pages", &safe(&format!("not known: {why}")), LABELS);
    }
    if let Some(now) = tried.dives {
        let skipped = if tried.skipped { ": skipped for the forced index" } else { "" };
        let text = format!("{} -> {}{skipped}, by the trace", plain(dives as f64), plain(now as f64));
        page.field("dives", &text, LABELS);
    }
    let quads = counted(tried.quads, "quad", "quads");
    let rows = counted(tried.rows, "row", "rows");
    let text = format!("{quads}, {} in all, the same {rows} each time", counted(tried.runs, "run", "runs"));
    page.field("trial", &text, LABELS);
}

/// `1.5 ms -> 180 µs, -88 % (-89 to -87)`
fn changed(compared: &Compared, text: impl Fn(f64) -> String) -> String {
    let sides = format!("{} -> {}", text(compared.before), text(compared.after));
    match compared.effect {
        Some(Effect { ratio, low: Some(low), high: Some(high) }) => {
            format!("{sides}, {} % ({} to {})", signed(ratio), signed(low), signed(high))
        }
        Some(Effect { ratio, .. }) => format!("{sides}, {} % (no interval yet)", signed(ratio)),
        None => sides,
    }
}

/// A ratio as what it is more or less, in percent, without the sign.
fn signed(ratio: f64) -> String {
    let percent = 100.0 * (ratio - 1.0);
    // No minus before a zero.
    format!("{:+.1}", if percent.abs() < 0.05 { 0.0 } else { percent })
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::Hurts => "hurts",
        Verdict::NoSignificantEffect => "no significant effect",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn verdict_style(verdict: Verdict) -> anstyle::Style {
    match verdict {
        Verdict::Helps => AnsiColor::Green.on_default().bold(),
        Verdict::Hurts => AnsiColor::Red.on_default().bold(),
        Verdict::NoSignificantEffect | Verdict::Inconclusive => QUIET,
    }
}

fn cost(report: &IndexesReport) -> String {
    let cost = &report.cost;
    let runs = match cost.trial_runs {
        0 => "no statement was run".to_owned(),
        runs => format!("{} of the statements tried", counted(runs, "run", "runs")),
    };
    format!(
        "cost: {}, answered in {}, own CPU {}; {runs}",
        counted(cost.server_queries, "query", "queries"),
        quantity(cost.server_busy_ms.ceil(), "ms"),
        quantity(cost.own_cpu_ms.ceil(), "ms"),
    )
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    use crate::indexes::examples;
    use spindoctor_page::json::to_text;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn planted_waste_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::planted(), TERMINAL));
    }

    #[test]
    fn a_busy_server_that_was_only_looked_at_reads_well_at_80_columns() {
        insta::assert_snapshot!(render(&examples::busy(), TERMINAL));
    }

    #[test]
    fn nothing_to_show_is_shown() {
        let text = render(&examples::nothing(), TERMINAL);
        assert!(text.contains("No statement was seen."), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_steers_it() {
        for (name, report) in
            [("planted", examples::planted()), ("busy", examples::busy()), ("hostile", examples::hostile())]
        {
            for width in [60, 80, 100] {
                let text = render(&report, Look { width, colour: false });
                for line in text.lines() {
                    assert!(line.width() <= width, "{name} at {width}: {line}");
                }
                assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
            }
        }
    }

    /// The promise of `spindoctor.indexes/1`: fields may be added, none is renamed or removed.
    #[test]
    fn every_field_of_the_public_schema_is_there() {
        let json: serde_json::Value = serde_json::from_str(&to_text(&examples::planted()).unwrap()).unwrap();
        assert_eq!(json["schema"], "spindoctor.indexes/1");
        let one = &json["statements"][0];
        assert_eq!(one["dives"], 380);
        assert_eq!(one["dives_in_vain"], 190);
        assert_eq!(one["lists"][0]["values"], 190);
        let index = &one["tables"][0]["indexes"][1];
        assert_eq!(index["estimated"], "dives");
        assert_eq!(index["in_vain"], true);
        assert_eq!(one["planning"]["as_it_is"]["pages"], 1_530.0);
        let forced = &one["candidates"][0];
        assert_eq!(forced["kind"], "force");
        assert_eq!(forced["tried"]["verdict"], "helps");
        assert_eq!(forced["tried"]["time_ms"]["effect"]["ratio"], 0.12);
        assert_eq!(forced["tried"]["skipped"], true);
        assert_eq!(json["not_examined"][0]["statements"], 3);
        assert!(json["cost"]["server_queries"].is_u64());
        let hostile = to_text(&examples::hostile()).unwrap();
        assert!(!hostile.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }
}
