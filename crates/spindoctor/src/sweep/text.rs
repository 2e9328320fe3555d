//! A sweep for the terminal: a table for each quantity, the leader, how each line scales.

use spindoctor_tune::sweep::{Line, Sweep};
use unicode_width::UnicodeWidthStr as _;

use super::view as sweep_view;
use super::view::{METRICS, Metric, facts, label, results, scaling, spread_text, starved, title, variables};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG};

/// More settings than this stand in rows, and the numbers of clients in columns.
const MOST_COLUMNS: usize = 5;
/// Columns between two cells.
const GAP: usize = 2;

/// The report.
pub fn render(sweep: &Sweep, look: Look) -> String {
    let mut page = Page::new(look);
    page.hanging("", "  ", &safe(&title(sweep)), STRONG);
    page.hanging("", "  ", &safe(&facts(sweep).join("; ")), QUIET);
    if sweep.missing() > 0 {
        let text = format!("{} of {} runs were made", sweep.cells.len(), sweep.grid.size());
        page.hanging("", "  ", &text, STRONG);
    }
    for metric in METRICS.iter().filter(|metric| metric.is_measured(sweep)) {
        page.blank();
        page.paragraph("", &format!("{} ({})", metric.title, metric.better), STRONG);
        table(&mut page, sweep, metric);
    }
    let mut results = results(sweep);
    results.extend(starved(sweep));
    if !results.is_empty() {
        page.blank();
        page.paragraph("", "Which leads", STRONG);
        for text in results {
            page.hanging("  ", "  ", &safe(&text), PLAIN);
        }
    }
    if !sweep.cells.is_empty() {
        page.blank();
        page.paragraph("", "How it scales", STRONG);
        let column = sweep.lines.iter().map(|line| safe(&label(line)).width()).max().unwrap_or(0) + GAP;
        for line in &sweep.lines {
            page.field(&safe(&label(line)), &scaling(line), column.min(look.width / 2));
        }
        page.paragraph("  ", sweep_view::SCALING, QUIET);
    }
    for note in &sweep.notes {
        page.blank();
        page.hanging("", "  ", &format!("Note: {}", safe(note)), PLAIN);
    }
    page.finish()
}

/// Titles and rows, as many columns at a time as there is room for.
fn table(page: &mut Page, sweep: &Sweep, metric: &Metric) {
    let threads = || sweep.grid.threads.iter().copied();
    let variables = safe(&variables(sweep));
    let lines: Vec<&Line> = sweep.lines.iter().collect();
    let (corner, above, rows): (&str, Vec<String>, Vec<Vec<String>>) = match lines.len() > MOST_COLUMNS {
        true => {
            if !variables.is_empty() {
                page.hanging("  ", "  ", &format!("{variables}, by clients"), QUIET);
            }
            let row = |line: &&Line| {
                [safe(&label(line))].into_iter().chain(threads().map(|at| cell(line, at, metric))).collect()
            };
            ("", threads().map(|at| at.to_string()).collect(), lines.iter().map(row).collect())
        }
        false => {
            if !variables.is_empty() {
                page.hanging("  ", "  ", &format!("clients, by {variables}"), QUIET);
            }
            let row = |at: u32| {
                [at.to_string()].into_iter().chain(lines.iter().map(|line| cell(line, at, metric))).collect()
            };
            let above = lines.iter().map(|line| safe(&label(line))).collect();
            (if variables.is_empty() { "clients" } else { "" }, above, threads().map(row).collect())
        }
    };
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].width());
        let title = if column == 0 { corner.width() } else { above[column - 1].width() };
        cells.max().unwrap_or(0).max(title) + GAP
    };
    let first = width(0);
    let mut columns: Vec<usize> = (1..=above.len()).collect();
    while !columns.is_empty() {
        let mut used = first;
        let fitting = columns.iter().take_while(|column| {
            used += width(**column);
            used <= page.look.width
        });
        let part: Vec<usize> = columns.drain(..fitting.count().max(1)).collect();
        let mut line = |head: &str, cells: &mut dyn Iterator<Item = &String>, style| {
            let mut text = pad(head, first);
            for (column, cell) in part.iter().zip(cells) {
                text.push_str(&pad(cell, width(*column)));
            }
            let painted = page.paint(style, &text);
            page.push(&painted);
        };
        line(corner, &mut part.iter().map(|column| &above[column - 1]), QUIET);
        for row in &rows {
            line(&row[0], &mut part.iter().map(|column| &row[*column]), PLAIN);
        }
    }
}

fn pad(cell: &str, width: usize) -> String {
    format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width())))
}

/// `11,141 ±2 %`; a dash where nothing was measured.
fn cell(line: &Line, threads: u32, metric: &Metric) -> String {
    let spread = line.at(threads).and_then(|point| Some(((metric.of)(point)?, point.runs)));
    match spread {
        Some((spread, runs)) => {
            format!("{} {:>5}", metric.shown(rounded(spread.median)), spread_text(spread, runs))
                .trim_end()
                .to_owned()
        }
        None => "-".to_owned(),
    }
}

/// A hundred and more without decimals.
fn rounded(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn a_sweep_of_two_settings_has_a_column_for_each() {
        insta::assert_snapshot!(render(&examples::spin_loops(), Look::of_file()));
    }

    #[test]
    fn many_settings_stand_in_rows() {
        insta::assert_snapshot!(render(&examples::many(), Look::of_file()));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_steers_it() {
        for (name, sweep) in examples::all() {
            for width in [50, 80, 100] {
                let text = render(&sweep, Look { width, colour: false });
                for line in text.lines() {
                    assert!(line.width() <= width || name == "hostile", "{name} at {width}: {line}");
                }
                assert!(!text.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
            }
        }
    }
}
