//! A sweep as one HTML file: the charts, the leader, the tables, how each line scales. No network, no script.

use maud::{Markup, PreEscaped, html};
use spindoctor_tune::sweep::{Line, Sweep};

use super::svg;
use super::view::{
    METRICS, Metric, SCALING, facts, label, results, scaling, spread_text, starved, title, variables,
};
use spindoctor_page::html::page;
use spindoctor_page::number;
use spindoctor_page::safe::safe;

const OWN_STYLE: &str = "\
main{max-width:70rem}table.sweep-numbers{table-layout:auto}.wide-table{overflow-x:auto}\
table.sweep-numbers td,table.sweep-numbers th{text-align:right;white-space:nowrap}\
table.sweep-numbers td:first-child,table.sweep-numbers th:first-child{text-align:left}\
td .quiet{font-size:.85rem;margin-left:.4rem}ul.results{margin:.6rem 0 0;padding-left:1.1rem}";

/// The page.
pub fn render(sweep: &Sweep) -> String {
    let title = safe(&title(sweep));
    let body = html! {
        main {
            h1 { (title) }
            ul.facts { @for fact in facts(sweep) { li { (safe(&fact)) } } }
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
                    @for note in &sweep.notes { p { (safe(note)) } }
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
                ul.results { @for text in results { li { (safe(&text)) } } }
            }
        }
    }
}

fn table(sweep: &Sweep, metric: &Metric) -> Markup {
    let variables = safe(&variables(sweep));
    html! {
        section.card {
            h2 { (metric.title) }
            p.quiet { (metric.better) "; the median of the runs, and half of the way from the lowest to the highest" }
            div.wide-table {
                table.sweep-numbers {
                    thead {
                        tr {
                            th { @if variables.is_empty() { "" } @else { (variables) } }
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

    use crate::sweep::examples;

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
        for part in ["innodb_sync_spin_loops", "1024 clients", "±2 %", "Which leads", "peaks at", "<svg"] {
            assert!(page.contains(part), "{part}");
        }
    }
}
