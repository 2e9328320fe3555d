//! A comparison for the terminal: what differs, which has more where, a table for each quantity.

use anstyle::AnsiColor;
use spindoctor_tune::sweep::Comparison;
use unicode_width::UnicodeWidthStr as _;

use super::{
    INTERVALS, SAME, cells, differences, facts, interval_text, is_better, is_measured, only_one_has,
    ratio_text, results, title,
};
use crate::sweep::view::{METRICS, Metric};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};

/// The report.
pub fn render(comparison: &Comparison, look: Look) -> String {
    let mut page = Page::new(look);
    page.hanging("", "  ", &safe(&title(comparison)), STRONG);
    for fact in facts(comparison) {
        page.hanging("  ", "   ", &safe(&fact), PLAIN);
    }
    page.blank();
    different(&mut page, comparison);
    page.blank();
    page.paragraph("", "Which has more throughput", STRONG);
    for text in results(comparison).iter().chain(&only_one_has(comparison)) {
        page.hanging("  ", "  ", &safe(text), PLAIN);
    }
    for metric in METRICS.iter().filter(|metric| is_measured(comparison, metric)) {
        page.blank();
        page.paragraph("", &format!("{} ({})", metric.title, metric.better), STRONG);
        table(&mut page, comparison, metric);
    }
    page.blank();
    page.paragraph("", INTERVALS, QUIET);
    for note in &comparison.notes {
        page.blank();
        page.hanging("", "  ", &format!("Note: {}", safe(note)), PLAIN);
    }
    page.finish()
}

fn different(page: &mut Page, comparison: &Comparison) {
    let (listed, beside) = differences(comparison);
    if listed.is_empty() && beside.is_empty() {
        page.paragraph("", SAME, STRONG);
        return;
    }
    page.paragraph("", "What differs", STRONG);
    let column = listed.iter().map(|[what, ..]| safe(what).width()).max().unwrap_or(0) + 2;
    for [what, a, b] in &listed {
        let text = format!("A: {}; B: {}", safe(shown(a)), safe(shown(b)));
        page.field(&safe(what), &text, column.min(page.look.width / 2));
    }
    for line in beside {
        page.hanging("    ", "  ", &safe(&line), QUIET);
    }
}

/// A setting may be empty.
fn shown(value: &str) -> &str {
    if value.is_empty() { "(empty)" } else { value }
}

/// Clients, A, B, B / A and its interval, of each setting.
fn table(page: &mut Page, comparison: &Comparison, metric: &Metric) {
    const TITLES: [&str; 5] = ["clients", "A", "B", "B / A", "95 % interval"];
    type Row = ([String; 5], Option<bool>);
    for line in &comparison.lines {
        let rows: Vec<Row> = line
            .points
            .iter()
            .map(|point| {
                let (a, b, ratio) = cells(metric, point);
                let better = ratio.as_ref().and_then(|ratio| is_better(metric, ratio));
                let interval = ratio.as_ref().and_then(interval_text).unwrap_or_default();
                let ratio = ratio.map_or("-".to_owned(), |ratio| ratio_text(ratio.ratio));
                ([point.threads.to_string(), a, b, ratio, interval], better)
            })
            .collect();
        let name = line.setting.text();
        if !name.is_empty() {
            page.hanging("  ", "  ", &safe(&name), QUIET);
        }
        let widths: Vec<usize> = (0..TITLES.len())
            .map(|at| {
                rows.iter().map(|(row, _)| row[at].width()).max().unwrap_or(0).max(TITLES[at].width()) + 2
            })
            .collect();
        let joined = |cells: &[String]| -> String {
            cells.iter().zip(&widths).map(|(cell, width)| pad(cell, *width)).collect()
        };
        let titles = page.paint(QUIET, &joined(&TITLES.map(str::to_owned)));
        page.push(&titles);
        for (row, better) in rows {
            let style = match better {
                Some(true) => AnsiColor::Green.on_default(),
                Some(false) => AnsiColor::Red.on_default(),
                None => PLAIN,
            };
            let ratio = page.paint(style, &joined_from(&row, &widths, 3));
            page.push(&format!("{}{ratio}", joined(&row[..3])));
        }
    }
}

fn joined_from(cells: &[String; 5], widths: &[usize], from: usize) -> String {
    cells[from..].iter().zip(&widths[from..]).map(|(cell, width)| pad(cell, *width)).collect()
}

fn pad(cell: &str, width: usize) -> String {
    format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn two_machines_are_compared_in_a_table_for_each_quantity() {
        insta::assert_snapshot!(render(&examples::compared(), Look::of_file()));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_steers_it() {
        for (name, comparison) in
            [("two machines", examples::compared()), ("hostile", examples::compared_hostile())]
        {
            for width in [60, 80, 100] {
                let text = render(&comparison, Look { width, colour: false });
                for line in text.lines() {
                    assert!(line.width() <= width || name == "hostile", "{name} at {width}: {line}");
                }
                assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
            }
        }
    }
}
