//! A profile as one HTML page: what it is of and what it cost, the flame graph, what the threads' time went into, who spins, the
//! top frames, and where there are CPU samples the hottest function's instructions. No network, no script; light and dark as the
//! reader's system is set; printable.

use maud::{Markup, PreEscaped, html};
use spindoctor_stacks::aggregate;

use super::measures::work_text;
use super::text::{SPINNERS, TOP, cost, places, shares_of_states, state_label};
use super::view::View;
use super::{annotated, svg};
use spindoctor_page::html::{breakable, narrow, page};
use spindoctor_page::number::{self, counted, percent};
use spindoctor_page::safe::safe;

/// What this page needs beyond the style of all pages and of the instructions.
const STYLE: &str = "table.frames th:nth-child(1),table.frames th:nth-child(2){width:7.5rem}\
table.frames td.number{white-space:nowrap}";

/// The profile as a page.
pub fn render(view: &View<'_>) -> String {
    let title = svg::title(view);
    let body = html! {
        main {
            (head(view, &title))
            @if view.observations.is_empty() {
                section.card { h2 { "Nothing was seen: no thread ran, or the process ended at once" } }
            } @else {
                section.card {
                    h2 { "Flame graph" }
                    div.picture { (PreEscaped(svg::within_page(view))) }
                }
                (states(view))
                (spin(view))
                (top(view))
                @if let Ok(instructions) = annotated::section(view) { (instructions) }
            }
            footer { p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", spindoctor.profile/1" } }
        }
    };
    page(&safe(&title), &format!("{STYLE}{}", annotated::STYLE), &body)
}

fn head(view: &View<'_>, title: &str) -> Markup {
    let profile = view.profile;
    let seen = match view.on_cpu {
        true => counted(view.observations.len() as u64, "CPU sample", "CPU samples"),
        false => counted(view.snapshot_count() as u64, "snapshot", "snapshots"),
    };
    html! {
        h1 { (breakable(title)) }
        ul.facts {
            li { "pid " (profile.process.pid) }
            li { (counted(view.thread_count() as u64, "thread", "threads")) }
            li {
                (seen) " in " (number::tenths(profile.seconds)) " from "
                time datetime=(profile.start) { (profile.start.strftime("%Y-%m-%d %H:%M:%S UTC")) }
            }
        }
        @if let Some(few) = view.few_samples() { p { strong { (breakable(&few)) } } }
        @if let Some(work) = work_text(profile) { p { "Work: " (breakable(&work)) } }
        p.quiet { (breakable(&cost(view))) }
        @for note in &profile.notes { p.quiet { (breakable(note)) } }
    }
}

fn states(view: &View<'_>) -> Markup {
    let shares = shares_of_states(view, &view.counted());
    html! {
        @if !view.on_cpu {
            section.card {
                h2 { "States" }
                p.quiet { "Share of the threads' time." }
                div.bars {
                    @for (state, share) in shares {
                        div.row {
                            span { (state_label(state)) }
                            div.track { div.fill style=(format!("width:{:.1}%", share * 100.0)) {} }
                            span.amount { (percent(share)) }
                        }
                    }
                }
            }
        }
    }
}

fn spin(view: &View<'_>) -> Markup {
    let share = aggregate::spin_share(view.profile);
    html! {
        @if let Some(share) = share {
            section.card {
                h2 { "Spin share " (percent(share.user)) }
                p.quiet {
                    "Of " (counted(share.samples, "CPU sample", "CPU samples")) "; in the kernel " (percent(share.kernel)) "."
                }
                table.wide.frames {
                    tbody {
                        @for spinner in aggregate::spinners(view.profile).iter().take(SPINNERS) {
                            tr {
                                td.value.number { (percent(spinner.share)) }
                                td colspan="2" {
                                    code { (narrow(&spinner.function)) }
                                    @for (chain, share) in spinner.callers.iter().take(SPINNERS) {
                                        div.quiet { (percent(*share)) " < " code { (narrow(chain)) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn top(view: &View<'_>) -> Markup {
    let (busy, idle) = view.split_idle();
    let stacks = busy.simplified();
    let all = stacks.iter().map(|stack| stack.count).sum::<u64>().max(1) as f64;
    let places = places(&stacks, view.on_cpu, usize::MAX);
    html! {
        @if !places.is_empty() {
            section.card {
                h2 { "Top frames" }
                @if !idle.observations.is_empty() {
                    p.quiet {
                        "Of " (counted(busy.thread_count() as u64, "busy thread", "busy threads")) "; "
                        (counted(idle.thread_count() as u64, "idle thread is", "idle threads are")) " left out."
                    }
                }
                table.wide.frames {
                    thead { tr { th { "share" } th { "observations" } th { "function < its callers" } } }
                    tbody {
                        @for (place, count) in places.iter().take(TOP) {
                            tr {
                                td.value.number { (percent(*count as f64 / all)) }
                                td.number { (number::plain(*count as f64)) }
                                td { code { (narrow(place)) } }
                            }
                        }
                    }
                }
                @if let Some(rest) = places.get(TOP..).filter(|rest| !rest.is_empty()) {
                    p.quiet { (counted(rest.len() as u64, "more place", "more places")) " stand in the flame graph." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Profile;

    use super::*;

    use crate::examples;
    use crate::view::Choice;

    fn page_of(profile: &Profile, on_cpu: bool) -> String {
        render(&View::new(profile, &Choice { on_cpu, ..Choice::default() }).unwrap())
    }

    #[test]
    fn the_page_has_the_picture_the_states_who_spins_and_the_top_frames() {
        let page = page_of(&examples::busy(), false).replace("<wbr>", "");
        for part in
            ["class=\"flame\"", "<h2>States</h2>", "<h2>Spin share ", "<h2>Top frames</h2>", "cost: source"]
        {
            assert!(page.contains(part), "{part} is missing");
        }
        let page = page_of(&examples::spinning(), true);
        assert!(page.contains("where its CPU time goes") && !page.contains("<h2>States</h2>"), "{page}");
        assert!(page.contains("table class=\"code\""), "the instructions of the hottest function");
    }

    #[test]
    fn the_page_asks_for_nothing_and_obeys_no_name() {
        for page in [page_of(&examples::busy(), true), page_of(&examples::hostile(), false)] {
            for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import"] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
            assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
        }
    }

    #[test]
    fn a_profile_of_nothing_says_so_and_few_samples_are_said() {
        assert!(page_of(&Profile::default(), false).contains("Nothing was seen"));
        let mut profile = examples::busy();
        profile.cpu_samples.truncate(26);
        let page = page_of(&profile, true);
        let few = View::new(&profile, &Choice { on_cpu: true, ..Choice::default() }).unwrap().few_samples();
        assert!(page.contains(&few.expect("26 samples are no profile")), "{page}");
    }
}
