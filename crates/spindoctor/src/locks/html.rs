//! Who blocks whom, as a page and as a section of one: a picture, and below it everything that it has no room for, folded
//! up. A click on a card of the picture opens its details there: a browser opens the `<details>` around the place that
//! a link leads to, so that no script is needed.

use maud::{Markup, PreEscaped, html};
use spindoctor_model::wait_graph::{WaitEdge, WaitRoot, WaitingThread};

use super::forest::{Forest, Top, Tree};
use super::svg::{Anchor, anchor, within_page};
use super::view::{
    Sibling, account, cost, doing, freeing, held, holds_up, latches_text, lock, remarks, ring_text, running,
    runs_label, seconds, shown, state_text, subject, transaction, verdict, wanted, who,
};
use super::waits::Locks;
use crate::common::local_time::beside;
use spindoctor_page::html::{breakable, narrow, page};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// Threads that stand in a table of those who are alike; the others are counted. A page must open in a moment.
const ROWS_SHOWN: usize = 500;
/// Levels below a top that have details: browsers stop at 512 elements within each other.
const LEVELS_SHOWN: usize = 40;
/// Trees that have details.
const TREES_SHOWN: usize = 40;

/// A look as a page of its own.
pub fn render(locks: &Locks) -> String {
    let forest = Forest::from_locks(locks);
    let title = format!("{}: {}", subject(locks), verdict(locks));
    let body = html! {
        main {
            h1 { (breakable(&title)) }
            ul.facts {
                li { time datetime=(locks.at) { (locks.at.strftime("%Y-%m-%d %H:%M:%S UTC")) } (beside(locks.at)) }
                @if let Some(seen) = locks.threads_seen { li { (number::counted(seen, "thread", "threads")) } }
            }
            @if !forest.trees.is_empty() {
                (card("Who blocks whom", locks, &forest))
            } @else if locks.graph.notes.is_empty() {
                section.card.verdict { h2.good { "No thread waits for another one" } }
            } @else {
                section.card.verdict {
                    h2 { "No wait was seen, but not everything could be checked" }
                    @for remark in remarks(locks) { p { (breakable(&sentence(&remark))) } }
                }
            }
            footer {
                p { "Cost of this look: " (cost(locks)) "." }
                p { "spindoctor " (env!("CARGO_PKG_VERSION")) ", spindoctor.locks/1" }
            }
        }
    };
    page(&safe(&title), "", &body)
}

/// The section; nothing where nobody waits for longer than a moment.
pub fn section(locks: &Locks) -> Markup {
    let forest = Forest::from_locks(locks);
    html! {
        @if !forest.trees.iter().all(|tree| forest.is_brief(locks, tree)) {
            (card("Who blocks whom", locks, &forest))
        }
    }
}

/// The section under this title, with waits of any length: a short one may be a stall.
pub fn section_of_stall(title: &str, locks: &Locks) -> Markup {
    card(title, locks, &Forest::from_locks(locks))
}

fn card(title: &str, locks: &Locks, forest: &Forest<'_>) -> Markup {
    html! {
        section.card.locks {
            h2 { (title) }
            p.quiet {
                "At " time datetime=(locks.at) { (locks.at.strftime("%H:%M:%S UTC")) } " "
                (verdict(locks)) "."
                @for remark in remarks(locks) { " " (breakable(&sentence(&remark))) }
            }
            div.picture { (PreEscaped(within_page(locks))) }
            @if let Some(latches) = latches_text(locks) { p { (breakable(&sentence(&latches))) } }
            @for (number, tree) in forest.trees.iter().take(TREES_SHOWN).enumerate() {
                (whole(locks, forest, number, tree))
            }
            @if forest.trees.len() > TREES_SHOWN {
                p.quiet { (forest.trees.len() - TREES_SHOWN) " more are not shown here." }
            }
        }
    }
}

fn whole(locks: &Locks, forest: &Forest<'_>, number: usize, tree: &Tree<'_>) -> Markup {
    let held_up = holds_up(tree.behind, tree.children.len());
    let (title, facts) = match &tree.top {
        Top::Root(root) => match root.thread.and_then(|place| locks.thread(place)) {
            Some(thread) => {
                (format!("{} {held_up}", who(thread)), root_facts(&held(forest, tree, root), root, thread))
            }
            None => {
                (format!("An owner that is not visible {held_up}"), lock_fact(&lock(root.kind, &root.object)))
            }
        },
        Top::Unseen { kind, object } => {
            (format!("An owner that is not visible {held_up}"), lock_fact(&lock(*kind, object)))
        }
        Top::Ring(members) => (ring_text(members.len()), ring_facts(locks, members)),
    };
    html! {
        details.tree open[number == 0] {
            summary { (breakable(&title)) }
            div.facts id=(anchor(Anchor::Tree(number))) { (facts) }
            (waiters(locks, forest, &tree.children, 1))
        }
    }
}

fn root_facts(held: &str, root: &WaitRoot, thread: &WaitingThread) -> Markup {
    html! {
        dl {
            (fact("does", &doing(root, Some(thread))))
            (fact("holds", held))
            (thread_facts(thread, Some(root)))
            @if let Some((statement, note)) = freeing(root) {
                dt { "free with" }
                dd {
                    @if !statement.is_empty() { code.statement { (breakable(&statement)) } }
                    @if !note.is_empty() { span.quiet { (breakable(&note)) } }
                }
            }
        }
    }
}

fn lock_fact(held: &str) -> Markup {
    html! { dl { (fact("holds", held)) } }
}

fn ring_facts(locks: &Locks, members: &[(u32, Option<&WaitEdge>)]) -> Markup {
    html! {
        ol {
            @for (at, (member, edge)) in members.iter().enumerate() {
                @let next = members[(at + 1) % members.len()].0;
                li {
                    strong { (breakable(&name(locks, *member))) } " waits for " (breakable(&name(locks, next)))
                    dl {
                        @if let Some(edge) = edge { (fact("wants", &wanted(edge))) }
                        @if let Some(thread) = locks.thread(*member) { (thread_facts(thread, None)) }
                    }
                }
            }
        }
    }
}

fn name(locks: &Locks, place: u32) -> String {
    locks.thread(place).map_or_else(String::new, who)
}

/// What is known of a thread beside what it waits for.
fn thread_facts(thread: &WaitingThread, root: Option<&WaitRoot>) -> Markup {
    let is_root = root.is_some();
    let is_idle = thread.is_idle_in_transaction || root.is_some_and(|root| root.doing.starts_with("idle"));
    let account = account(thread);
    html! {
        @if !account.is_empty() { (fact("who", &account)) }
        @if thread.connection_id.is_some() && let Some(tid) = thread.thread_os_id {
            (fact("thread", &tid.to_string()))
        }
        @if let Some(text) = transaction(thread) { (fact("transaction", &text)) }
        @if let Some(statement) = &thread.statement {
            dt { (runs_label(is_idle)) }
            dd { code { (breakable(statement)) } }
        }
        @if !thread.server_state.is_empty() { (fact("state", &thread.server_state)) }
        @if let Some(state) = thread.state { (fact("kernel", &state_text(state))) }
        @if !thread.stack.is_empty() {
            dt { "stack" }
            dd {
                details open[is_root && !is_idle] {
                    summary { (number::counted(thread.stack.len() as u64, "frame", "frames")) }
                    ol.frames { @for frame in &thread.stack { li { code { (narrow(frame)) } } } }
                }
            }
        }
    }
}

fn fact(label: &str, text: &str) -> Markup {
    html! { dt { (label) } dd { (breakable(text)) } }
}

/// Those who wait, as in the picture: some by themselves, the others in a table.
fn waiters(locks: &Locks, forest: &Forest<'_>, siblings: &[usize], level: usize) -> Markup {
    html! {
        @if level > LEVELS_SHOWN && !siblings.is_empty() {
            p.quiet { (forest.size(siblings)) " more behind it, further down." }
        } @else if !siblings.is_empty() {
            ul.waiters {
                @for item in shown(forest, locks, siblings, level) {
                    li { (waiter(locks, forest, &item, level)) }
                }
            }
        }
    }
}

fn waiter(locks: &Locks, forest: &Forest<'_>, item: &Sibling, level: usize) -> Markup {
    let rest = match item {
        Sibling::One(at, _) => return one(locks, forest, *at, level),
        Sibling::More(rest) => rest,
    };
    let places = &rest.places;
    html! {
        details {
            summary { (rest.label()) }
            div.facts id=(anchor(Anchor::More(places[0]))) {
                table.wide.waiters {
                    thead { tr { th { "who" } th { "waited" } th { "wants" } th { "runs" } } }
                    tbody { @for at in places.iter().take(ROWS_SHOWN) { (row(locks, forest, *at)) } }
                }
                @if places.len() > ROWS_SHOWN {
                    p.quiet {
                        (number::plain((places.len() - ROWS_SHOWN) as f64)) " more: "
                        code { "spindoctor locks --json" } " has all."
                    }
                }
            }
        }
    }
}

fn one(locks: &Locks, forest: &Forest<'_>, at: usize, level: usize) -> Markup {
    let node = forest.node(at);
    let unknown = WaitingThread::default();
    let thread = locks.thread(node.thread).unwrap_or(&unknown);
    html! {
        details {
            summary {
                strong { (breakable(&who(thread))) }
                @if !thread.user.is_empty() { " " (breakable(&thread.user)) }
                @if let Some(waited_s) = node.edge.waited_s.filter(|s| s.is_finite()) { ", " (seconds(waited_s)) }
                @if node.behind > 0 { ", " (holds_up(node.behind, node.children.len())) }
                @if node.is_repeated { ", stands in another tree, too" }
            }
            div.facts id=(anchor(Anchor::Waiter(at))) {
                dl { (fact("wants", &wanted(node.edge))) (thread_facts(thread, None)) }
            }
        }
        (waiters(locks, forest, &node.children, level + 1))
    }
}

fn row(locks: &Locks, forest: &Forest<'_>, at: usize) -> Markup {
    let node = forest.node(at);
    html! {
        @if let Some(thread) = locks.thread(node.thread) {
            tr {
                td { (narrow(&who(thread))) @if !thread.user.is_empty() { ", " (narrow(&thread.user)) } }
                td { @if let Some(waited_s) = node.edge.waited_s.filter(|s| s.is_finite()) { (seconds(waited_s)) } }
                td {
                    (narrow(&wanted(node.edge)))
                    @if node.behind > 0 { ", " (holds_up(node.behind, node.children.len())) }
                }
                td { code { (narrow(&running(thread))) } }
            }
        }
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let line: String =
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect());
    if line.ends_with('.') { line } else { format!("{line}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::common::browser;
    use crate::locks::examples;

    #[test]
    fn a_look_is_a_page_of_its_own_that_runs_nothing() {
        let page = render(&examples::row_pileup());
        for part in ["<h2>Who blocks whom</h2>", "class=\"waits\"", "KILL 12", "spindoctor.locks/1"] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(render(&examples::nobody()).contains("No thread waits for another one"));
        assert!(render(&examples::busy()).contains("<h2>Who blocks whom</h2>"), "short waits are shown, too");
        for (name, locks) in examples::all() {
            let page = render(&locks);
            for forbidden in ["<script", "<link", "<img", "src=", "url(", "@import"] {
                assert!(!page.contains(forbidden), "{name}: {forbidden}");
            }
            assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')), "{name}");
        }
    }

    #[test]
    fn no_width_cuts_the_page_or_breaks_its_words() {
        let pages = [
            ("rows", render(&examples::row_pileup())),
            ("chain", render(&examples::chain())),
            ("nobody", render(&examples::nobody())),
        ];
        assert_eq!(browser::faults(&pages), "");
    }

    #[test]
    fn every_card_of_the_picture_leads_to_a_place_on_the_page() {
        for (name, locks) in examples::all() {
            let page = section(&locks).into_string();
            let mut links = 0;
            for link in page.split("<a href=\"#").skip(1) {
                let (place, _) = link.split_once('"').unwrap();
                assert_eq!(page.matches(&format!(" id=\"{place}\"")).count(), 1, "{name}: {place}");
                links += 1;
            }
            assert_eq!(links > 0, !matches!(name, "nobody" | "busy"), "{name}");
        }
    }

    #[test]
    fn who_waits_is_all_on_the_page() {
        let page = section(&examples::row_pileup()).into_string();
        for id in [12, 101, 350, 600] {
            assert!(page.contains(&format!("connection {id}")), "{id}");
        }
        assert!(page.contains("KILL 12"));
    }

    #[test]
    fn hostile_strings_are_shown_and_not_obeyed() {
        let page = section(&examples::hostile()).into_string();
        assert!(!page.contains("<script") && !page.contains("<img"));
        assert!(!page.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}')));
    }

    #[test]
    fn nobody_who_waits_for_long_is_no_section() {
        assert_eq!(section(&examples::nobody()).into_string(), "");
        assert_eq!(section(&examples::busy()).into_string(), "");
    }
}
