//! A sweep as one HTML file: the charts, the leader, the tables, how each line scales. No network, no script.

use maud::{Markup, PreEscaped, html};
use spindoctor_tune::sweep::{Line, Sweep};

use super::svg;
use super::view::{
    METRICS, Metric, SCALING, facts, label, results, scaling, spread_text, starved, title, variables,
};
use spindoctor_page::html::{breakable, page};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// With more settings than this, a table has a row for each of them.
const MOST_COLUMNS: usize = 4;

const OWN_STYLE: &str = "\
main{max-width:70rem}table.sweep-numbers{table-layout:auto}.wide-table{overflow-x:auto}\
table.sweep-numbers td,table.sweep-numbers th{text-align:right;white-space:nowrap}\
table.sweep-numbers td:first-child,table.sweep-numbers th:first-child{text-align:left}\
td .quiet{font-size:.85rem;margin-left:.4rem}ul.results{margin:.6rem 0 0;padding-left:1.1rem}\
table.sweep-numbers.few{width:auto}.few th,.few td{padding:.3rem 0 .3rem 1.6rem}\
table.few th:first-child,table.few td:first-child{padding-left:0}\
@media screen and (max-width:36rem){td .quiet{display:block;margin-left:0}\
table.sweep-numbers td,table.sweep-numbers th{padding-left:.9rem;padding-right:0}\
table.sweep-numbers td:first-child,table.sweep-numbers th:first-child{padding-left:0}}\
@media print{.wide-table{overflow:visible}.wide-table td,.wide-table th{padding-top:.15rem;padding-bottom:.15rem}\
.wide-table table:not(.few) td,.wide-table table:not(.few) th{white-space:normal;font-size:8pt;padding-right:.3rem}}";

/// The page.
pub fn render(sweep: &Sweep) -> String {
    let title = safe(&title(sweep));
    let body = html! {
        main {
            h1 { (title) }
            ul.facts { @for fact in facts(sweep) { li { (breakable(&fact)) } } }
            @if sweep.missing() > 0 {
                section.card.verdict {
                    h2 { (sweep.cells.len()) " of " (sweep.grid.size()) " runs were made" }
                }
            }
            section.card { div.picture { (PreEscaped(svg::within_page(&sweep.into()))) } }
            (leads(sweep))
            @for metric in METRICS.iter().filter(|metric| metric.is_measured(sweep)) {
                (table(sweep, metric))
            }
            (scales(sweep))
            @if !sweep.notes.is_empty() {
                section.card {
                    h2 { "Notes" }
                    @for note in &sweep.notes { p { (breakable(note)) } }
                }
            }
            footer {
                @if let (Some(first), Some(last)) = (sweep.cells.first(), sweep.cells.last()) {
                    p {
                        "Measured from " (first.at.strftime("%Y-%m-%d %H:%M:%S UTC")) " to "
                        (last.at.strftime("%H:%M:%S UTC")) "."
                    }
                }
                p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", " (sweep.schema) }
            }
        }
    };
    page(&title, OWN_STYLE, &body)
}

fn leads(sweep: &Sweep) -> Markup {
    let mut results = results(sweep);
    results.extend(starved(sweep));
    html! {
        @if !results.is_empty() {
            section.card {
                h2 { "Which leads" }
                ul.results { @for text in results { li { (breakable(&text)) } } }
            }
        }
    }
}

/// A table has a column for each setting where they are few, as on the terminal, else one for each number of clients.
fn table(sweep: &Sweep, metric: &Metric) -> Markup {
    let variables = safe(&variables(sweep));
    html! {
        section.card {
            h2 { (metric.title) }
            p.quiet { (metric.better) "; the median of the runs, and half of the way from the lowest to the highest" }
            @if !variables.is_empty() { p { (variables) ":" } }
            div.wide-table {
                @if sweep.lines.len() <= MOST_COLUMNS { (with_column_of_each_setting(sweep, metric)) }
                @else { (with_row_of_each_setting(sweep, metric)) }
            }
        }
    }
}

fn with_column_of_each_setting(sweep: &Sweep, metric: &Metric) -> Markup {
    html! {
        table.sweep-numbers.few {
            thead { tr { th { "clients" } @for line in &sweep.lines { th { (safe(&label(line))) } } } }
            tbody {
                @for threads in &sweep.grid.threads {
                    tr {
                        td { (threads) }
                        @for line in &sweep.lines { td { (cell(line, *threads, metric)) } }
                    }
                }
            }
        }
    }
}

fn with_row_of_each_setting(sweep: &Sweep, metric: &Metric) -> Markup {
    html! {
        table.sweep-numbers {
            thead {
                tr {
                    th { }
                    @for threads in &sweep.grid.threads {
                        th { (number::counted(u64::from(*threads), "client", "clients")) }
                    }
                }
            }
            tbody {
                @for line in &sweep.lines {
                    tr {
                        td { (safe(&label(line))) }
                        @for threads in &sweep.grid.threads { td { (cell(line, *threads, metric)) } }
                    }
                }
            }
        }
    }
}

fn cell(line: &Line, threads: u32, metric: &Metric) -> Markup {
    let spread = line.at(threads).and_then(|point| Some(((metric.of)(point)?, point.runs)));
    html! {
        @if let Some((spread, runs)) = spread {
            (metric.shown(spread.median)) " "
            span.quiet { (spread_text(spread, runs)) }
        } @else { "–" }
    }
}

fn scales(sweep: &Sweep) -> Markup {
    html! {
        @if !sweep.cells.is_empty() {
            section.card {
                h2 { "How it scales" }
                dl {
                    @for line in &sweep.lines {
                        dt { (safe(&label(line))) }
                        dd { (scaling(line)) }
                    }
                }
                p.quiet { (SCALING) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::sweep::examples;

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages = examples::all().map(|(name, sweep)| (name, render(&sweep)));
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn the_page_asks_for_nothing_from_anywhere_and_obeys_no_hostile_string() {
        for (name, sweep) in examples::all() {
            let page = render(&sweep);
            for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import", "@font-face"] {
                assert!(!page.contains(forbidden), "{name}: {forbidden}");
            }
            assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
        }
    }

    #[test]
    fn every_part_of_a_sweep_is_on_the_page() {
        let page = render(&examples::spin_loops());
        for part in [
            "innodb_sync_spin_loops",
            "<th>clients</th><th>30</th><th>200</th>",
            "<td>1024</td>",
            "±2 %",
            "Which leads",
            "peaks at",
            "<svg",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
