//! A plan as one HTML file: a card for each proposal, the host it was made for, and what was checked and needs no
//! change.

use maud::{Markup, html};
use spindoctor_model::{Left, Plan, Proposal};

use super::view::{cost_text, counted, left, readable, title, trial_of};
use crate::common::local_time::beside;
use crate::common::words::{interruption_text, server_named, server_place};
use crate::doctor::host;
use crate::tune::view::changes_text;
use spindoctor_page::html::{breakable, narrow, page};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// What this page needs beyond the style of all pages.
const OWN_STYLE: &str = include_str!("plan.css");

/// The plan as a page.
pub fn render(plan: &Plan) -> String {
    let heading = format!("{} on {}", server_named(&plan.server), safe(server_place(&plan.server)));
    let body = html! {
        main.plan {
            (head(plan, &heading))
            (overview(plan))
            @for (at, proposed) in plan.proposals.iter().enumerate() { (proposal(at + 1, proposed)) }
            (elsewhere(plan))
            (families("Checked, no change needed", left(plan, true)))
            (families("Could not be checked", left(plan, false)))
            (host(&plan.host))
            footer {
                p { "Nothing was changed. Cost of watching: " (cost_text(plan)) "." }
                p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", " (safe(&plan.schema)) }
            }
        }
    };
    page(&format!("{}: {}", safe(&heading), counted(plan)), OWN_STYLE, &body)
}

fn head(plan: &Plan, heading: &str) -> Markup {
    let server = &plan.server;
    html! {
        h1 { (breakable(heading)) }
        ul.facts {
            @if !server.address.is_empty() { li { (breakable(&server.address)) } }
            @if let Some(pid) = server.pid { li { "pid " (pid) } }
            @if let Some(threads) = server.threads { li { (number::counted(threads, "thread", "threads")) } }
            li {
                "watched for " (number::tenths(plan.window.seconds)) " from "
                time datetime=(plan.window.start) { (plan.window.start.strftime("%Y-%m-%d %H:%M:%S UTC")) }
                (beside(plan.window.start))
            }
        }
    }
}

fn overview(plan: &Plan) -> Markup {
    html! {
        section.card.verdict {
            @if let Some(interrupted) = &plan.interrupted {
                p.interrupted { strong { (breakable(&interruption_text(interrupted, plan.window.seconds))) } }
            }
            @if plan.proposals.is_empty() {
                h2.good[plan.interrupted.is_none()] { "Nothing to change" }
                p.quiet { "No setting is called for by what this server did while it was watched." }
            } @else {
                h2 { (counted(plan)) }
                ol {
                    @for (at, proposal) in plan.proposals.iter().enumerate() {
                        li {
                            span.lost { @if let Some(score) = proposal.score { (number::percent(score)) " lost" } }
                            a href=(format!("#proposal-{}", at + 1)) {
                                strong { (breakable(&proposal.family)) } ": " (breakable(&in_short(proposal)))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What it changes, or what it is about where no variable changes.
fn in_short(proposal: &Proposal) -> String {
    match proposal.changes.is_empty() || proposal.not_tried.is_some() {
        true => title(&proposal.family).to_owned(),
        false => changes_text(&proposal.changes),
    }
}

fn proposal(rank: usize, proposal: &Proposal) -> Markup {
    let remedy = &proposal.remedy;
    html! {
        section.card.finding.proposal id=(format!("proposal-{rank}")) {
            header {
                code { (breakable(&proposal.family)) }
                @if let Some(score) = proposal.score { span.lost { "about " (number::percent(score)) " lost without it" } }
            }
            h2 { (breakable(&sentence(title(&proposal.family)))) }
            @if !proposal.changes.is_empty() {
                table.changes {
                    thead { tr { th { "variable" } th { "now" } th { "proposed" } } }
                    tbody {
                        @for change in &proposal.changes {
                            tr {
                                td { code { (narrow(&change.variable)) } }
                                td { (value(readable(change, &change.from), &change.from)) }
                                td.new { (value(readable(change, &change.to), &change.to)) }
                            }
                        }
                    }
                }
            }
            div.remedy {
                code.statement { (breakable(&remedy.statement)) }
                dl {
                    @for (label, text) in [("why", &remedy.why), ("risk", &remedy.risk), ("cost", &proposal.cost)] {
                        @if !text.is_empty() { dt { (label) } dd { (breakable(text)) } }
                    }
                    @if !remedy.dynamic { dt { "note" } dd { "needs a restart" } }
                    @if !remedy.undo.is_empty() { dt { "undo" } dd { code { (breakable(&remedy.undo)) } } }
                    @if let Some(cause) = &proposal.cause { dt { "found" } dd { code { (breakable(cause)) } } }
                    @if let Some(command) = trial_of(proposal) {
                        dt { "prove" } dd { code { (breakable(&command)) } }
                    } @else if let Some(why) = &proposal.not_tried {
                        dt { "prove" } dd { "not by a trial: " (breakable(why)) }
                    }
                }
            }
        }
    }
}

/// A value for people with the server's own beside it, or the server's own alone.
fn value(readable: Option<String>, own: &str) -> Markup {
    html! {
        @match readable {
            Some(readable) => { (readable) " " span.quiet { (narrow(own)) } }
            None => { (narrow(own)) }
        }
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn elsewhere(plan: &Plan) -> Markup {
    html! {
        @if !plan.elsewhere.is_empty() {
            section.card {
                h2 { "Found, and no setting here cures it" }
                p.quiet { "spindoctor doctor says what to do." }
                table.wide.left {
                    tbody {
                        @for other in &plan.elsewhere {
                            tr { td { code { (breakable(&other.cause)) } } td { (breakable(&other.headline)) } }
                        }
                    }
                }
            }
        }
    }
}

fn families<'a>(heading: &str, left: impl Iterator<Item = &'a Left>) -> Markup {
    let left: Vec<&Left> = left.collect();
    html! {
        @if !left.is_empty() {
            section.card {
                h2 { (heading) }
                table.wide.left {
                    tbody {
                        @for family in left {
                            tr {
                                td { code { (breakable(&family.family)) } }
                                td {
                                    (breakable(&family.because))
                                    @if !family.unlock.is_empty() { p.quiet { "to enable: " (breakable(&family.unlock)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::tune::plan::examples;

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages = [("quota", render(&examples::quota())), ("undo", render(&examples::undo()))];
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn every_part_of_a_plan_is_on_the_page_and_it_fetches_nothing() {
        let mut advice = examples::undo();
        advice.proposals[0].not_tried = Some("this server has no such statement".to_owned());
        let page = render(&examples::quota()) + &render(&examples::undo()) + &render(&advice);
        let page = page.replace("<wbr>", "");
        for part in [
            "<title>MySQL 9.7.4 on db17: 3 proposals</title>",
            "How long a commit spins before it sleeps",
            "innodb_log_spin_cpu_pct_hwm",
            "about 21 % lost without it",
            "spindoctor tune --apply --only innodb_log_spin_cpu_pct_hwm=8",
            "Checked, no change needed",
            "Could not be checked",
            "no setting here cures it",
            "100 MiB <span class=\"quiet\">104857600</span>",
            "not by a trial: this server has no such statement",
            "--only undo_tablespaces=127",
        ] {
            assert!(page.contains(part), "{part} is missing");
        }
        for fetched in ["http:", "https:", "<script", "<link", "<img", "url(", "@import"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }

    #[test]
    fn hostile_strings_stay_text() {
        let page = render(&examples::hostile());
        assert!(!page.contains("<script"), "markup of the server came through");
        assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }
}
