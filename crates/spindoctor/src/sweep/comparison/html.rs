//! A comparison as one HTML file: what differs, the overlay of both charts, a table for each quantity. No network, no
//! script.

use maud::{Markup, PreEscaped, html};
use spindoctor_tune::sweep::{ComparedPoint, Comparison};

use super::{
    INTERVALS, SAME, cells, differences, facts, interval_text, is_better, is_measured, only_one_has,
    ratio_text, results, title,
};
use crate::sweep::chart::overlay;
use crate::sweep::svg;
use crate::sweep::view::{METRICS, Metric};
use spindoctor_page::html::{breakable, narrow, page};
use spindoctor_page::safe::safe;

const OWN_STYLE: &str = "\
main{max-width:70rem}table.sweep-numbers{table-layout:auto}.wide-table{overflow-x:auto}\
table.sweep-numbers td,table.sweep-numbers th{text-align:right;white-space:nowrap}\
table.sweep-numbers td:first-child,table.sweep-numbers th:first-child{text-align:left}\
table.conditions td{overflow-wrap:anywhere}.better{color:#1d7a4f}.worse{color:#b3402a}\
@media (prefers-color-scheme:dark){.better{color:#5fcf9f}.worse{color:#f2965e}}\
ul.results{margin:.6rem 0 0;padding-left:1.1rem}";

/// The page.
pub fn render(comparison: &Comparison) -> String {
    let title = safe(&title(comparison));
    let body = html! {
        main {
            h1 { (title) }
            ul.facts { @for fact in facts(comparison) { li { (breakable(&fact)) } } }
            (different(comparison))
            section.card {
                h2 { "Which has more throughput" }
                ul.results {
                    @for text in results(comparison).iter().chain(&only_one_has(comparison)) { li { (breakable(text)) } }
                }
            }
            section.card { div.picture { (PreEscaped(svg::within_page(&overlay(comparison)))) } }
            @for metric in METRICS.iter().filter(|metric| is_measured(comparison, metric)) {
                (table(comparison, metric))
            }
            @if !comparison.notes.is_empty() {
                section.card {
                    h2 { "Notes" }
                    @for note in &comparison.notes { p { (breakable(note)) } }
                }
            }
            footer { p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", " (comparison.schema) } }
        }
    };
    page(&title, OWN_STYLE, &body)
}

fn different(comparison: &Comparison) -> Markup {
    let (listed, beside) = differences(comparison);
    html! {
        section.card {
            h2 { "What differs" }
            @if listed.is_empty() && beside.is_empty() { p { (SAME) } }
            @if !listed.is_empty() {
                table.conditions {
                    thead { tr { th {} th { "A" } th { "B" } } }
                    tbody {
                        @for [what, a, b] in &listed {
                            tr { td { (narrow(what)) } td { (narrow(a)) } td { (narrow(b)) } }
                        }
                    }
                }
            }
            @for line in &beside { p.quiet { (breakable(line)) } }
        }
    }
}

fn table(comparison: &Comparison, metric: &Metric) -> Markup {
    html! {
        section.card {
            h2 { (metric.title) }
            p.quiet { (metric.better) ". " (INTERVALS) }
            div.wide-table {
                table.sweep-numbers {
                    thead {
                        tr { th { "setting" } th { "clients" } th { "A" } th { "B" } th { "B / A" } th { "95 % interval" } }
                    }
                    tbody {
                        @for line in &comparison.lines {
                            @for point in &line.points { (row(&line.setting.text(), point, metric)) }
                        }
                    }
                }
            }
        }
    }
}

fn row(setting: &str, point: &ComparedPoint, metric: &Metric) -> Markup {
    let (a, b, ratio) = cells(metric, point);
    let class = match ratio.as_ref().and_then(|ratio| is_better(metric, ratio)) {
        Some(true) => "better",
        Some(false) => "worse",
        None => "",
    };
    html! {
        tr {
            td { (safe(setting)) }
            td { (point.threads) }
            td { (a) }
            td { (b) }
            td class=(class) { @if let Some(ratio) = &ratio { (ratio_text(ratio.ratio)) } @else { "–" } }
            td { (ratio.as_ref().and_then(interval_text).unwrap_or_default()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sweep::examples;

    #[test]
    fn the_page_asks_for_nothing_from_anywhere_and_obeys_no_hostile_string() {
        for comparison in [examples::compared(), examples::compared_hostile()] {
            let page = render(&comparison);
            for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import", "@font-face"] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
            assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
    }

    #[test]
    fn both_sides_and_what_differs_are_on_the_page() {
        let page = render(&examples::compared());
        for part in
            ["What differs", "PAUSE", "old.json", "new.json", "class=\"line dashed s0\"", "95 % interval"]
        {
            assert!(page.contains(part), "{part}");
        }
    }
}
