//! Who blocks whom, for a terminal: a block for each root, and below it the tree of waiting threads. Readable at 80
//! columns with 500 waiters: siblings that are alike are counted after the first two. A server on which few threads
//! wait, each for a moment, gets a line for each.

use anstyle::{AnsiColor, Style};
use spindoctor_model::wait_graph::{WaitRoot, WaitingThread};
use unicode_width::UnicodeWidthStr as _;

use super::forest::{Forest, Node, Top, Tree};
use super::view::{
    LEVELS_SHOWN, Sibling, account, cost, doing, freeing, held, holds_up, latches_text, lock, named_frames,
    remarks, ring_text, running, runs_label, seconds, shown, subject, transaction, up_to, verdict, wanted,
    who,
};
use super::waits::Locks;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened};

/// Where what a field says begins, after its indent.
const FIELD: usize = 11;
/// Columns of a statement that the block of a root shows; JSON and HTML have all of it.
const STATEMENT_SHOWN: usize = 160;
/// Columns of a name, an account or a lock in a line: MySQL's names have up to 64 letters.
const NAME_SHOWN: usize = 64;
/// Frames of a call stack that are shown.
const FRAMES_SHOWN: usize = 8;
/// Lines for roots that block few threads for a moment.
const BRIEF_SHOWN: usize = 5;
/// Blocks for roots that block more.
const TREES_SHOWN: usize = 20;

/// The look as text.
pub fn render(locks: &Locks, look: Look) -> String {
    let mut page = Page::new(look);
    let forest = Forest::from_locks(locks);
    page.line_with_right(&safe(&subject(locks)), &verdict(locks), STRONG, STRONG);
    let (brief, lasting): (Vec<&Tree<'_>>, Vec<&Tree<'_>>) =
        forest.trees.iter().partition(|tree| forest.is_brief(locks, tree));
    for (at, tree) in lasting.iter().take(TREES_SHOWN).enumerate() {
        page.blank();
        block(&mut page, locks, &forest, at + 1, tree);
    }
    if let Some(more) = lasting.get(TREES_SHOWN..).filter(|more| !more.is_empty()) {
        page.blank();
        let behind: u32 = more.iter().map(|tree| tree.behind).sum();
        let text = format!(
            "{} more block {} in all",
            more.len(),
            number::counted(behind.into(), "thread", "threads")
        );
        page.paragraph("", &text, PLAIN);
    }
    page.blank();
    if forest.trees.is_empty() {
        nobody(&mut page, locks);
    }
    few(&mut page, locks, &forest, &brief, !lasting.is_empty());
    if let Some(latches) = latches_text(locks) {
        page.hanging("", "  ", &safe(&latches), PLAIN);
    }
    for remark in remarks(locks) {
        page.hanging("", "  ", &safe(&remark), QUIET);
    }
    // A saved window was paid for when it was taken.
    if locks.took_ms > 0.0 {
        page.paragraph("", &format!("cost: {}", cost(locks)), QUIET);
    }
    page.finish()
}

fn nobody(page: &mut Page, locks: &Locks) {
    let calm = AnsiColor::Green.on_default().bold();
    match (locks.graph.notes.is_empty(), locks.threads_seen) {
        (true, Some(seen)) => {
            let seen = number::counted(seen, "thread waits", "threads wait");
            page.paragraph("", &format!("None of {seen} for another one."), calm);
        }
        (true, None) => page.paragraph("", "No thread waits for another one.", calm),
        (false, _) => page.paragraph("", "No wait was seen, but not everything could be checked:", STRONG),
    }
}

/// Roots that block a few threads for a moment: a line for each.
fn few(page: &mut Page, locks: &Locks, forest: &Forest<'_>, brief: &[&Tree<'_>], beside_others: bool) {
    if brief.is_empty() {
        return;
    }
    if !beside_others {
        let calm = AnsiColor::Green.on_default().bold();
        page.paragraph("", "No session is blocked for long: a few waits, each only a moment.", calm);
    }
    for tree in brief.iter().take(BRIEF_SHOWN) {
        let (holder, held) = match &tree.top {
            Top::Root(root) => {
                (root.thread.and_then(|place| locks.thread(place)), lock(root.kind, &root.object))
            }
            Top::Unseen { kind, object } => (None, lock(*kind, object)),
            Top::Ring(_) => continue,
        };
        let holder = holder.map_or_else(|| "somebody".to_owned(), who);
        let longest = forest.longest_wait_s(tree).map_or_else(String::new, |s| format!(", {}", seconds(s)));
        let behind = number::plain(tree.behind.into());
        let line = safe(&format!("{holder} blocks {behind}{longest}: {held}"));
        page.paragraph("    ", &shortened(&line, page.look.width - 6), QUIET);
    }
    if let Some(more) = brief.get(BRIEF_SHOWN..).filter(|more| !more.is_empty()) {
        let behind: u32 = more.iter().map(|tree| tree.behind).sum();
        page.paragraph("    ", &format!("{} more block {behind}", more.len()), QUIET);
    }
    page.blank();
}

fn block(page: &mut Page, locks: &Locks, forest: &Forest<'_>, rank: usize, tree: &Tree<'_>) {
    let lead = format!("{rank} ");
    let accent = AnsiColor::Red.on_default().bold();
    let held_up = holds_up(tree.behind, tree.children.len());
    let longest = forest.longest_wait_s(tree).map_or_else(String::new, up_to);
    match &tree.top {
        Top::Root(root) => match root.thread.and_then(|place| locks.thread(place)) {
            Some(thread) => {
                let named = shortened(&safe(&who(thread)), NAME_SHOWN);
                let named = if thread.connection_id.is_some() { capital(&named) } else { named };
                page.headline(&lead, accent, &format!("{named} {held_up}"), &longest);
                root_fields(page, &held(forest, tree, root), root, thread);
            }
            None => unseen(page, &lead, &held_up, &longest, &lock(root.kind, &root.object)),
        },
        Top::Unseen { kind, object } => unseen(page, &lead, &held_up, &longest, &lock(*kind, object)),
        Top::Ring(members) => {
            let count = members.len();
            let text = match tree.behind {
                0 => ring_text(count),
                behind => format!("{}, {} behind it", ring_text(count), number::plain(behind.into())),
            };
            page.headline(&lead, accent, &text, &longest);
            for (at, (member, edge)) in members.iter().enumerate() {
                let next = members[(at + 1) % count].0;
                let name = |place| locks.thread(place).map_or_else(String::new, who);
                let waits = edge.map_or_else(String::new, |edge| format!(": {}", wanted(edge)));
                let statement = locks.thread(*member).map_or_else(String::new, running);
                let text = format!("{} waits for {}{waits}", name(*member), name(next));
                page.hanging("    ", "  ", &shortened(&safe(&text), STATEMENT_SHOWN), PLAIN);
                page.paragraph(
                    "      ",
                    &shortened(&safe(&statement), page.look.width.saturating_sub(8)),
                    QUIET,
                );
            }
            page.paragraph("    ", RING_SHOWN, QUIET);
        }
    }
    if !tree.children.is_empty() {
        let bar = page.paint(QUIET, "    │");
        page.push(&bar);
        branches(page, locks, forest, &tree.children, "    ", 1);
    }
}

/// InnoDB looks for rings of row locks, and only for those (MySQL manual, Deadlock Detection).
const RING_SHOWN: &str = "nobody in it can go on by itself: InnoDB ends a ring of row locks where \
                         innodb_deadlock_detect is ON, any other one lasts until a timeout or a KILL";

fn unseen(page: &mut Page, lead: &str, held_up: &str, longest: &str, held: &str) {
    let accent = AnsiColor::Red.on_default().bold();
    page.headline(lead, accent, &format!("An owner that is not visible {held_up}"), longest);
    page.field("holds", &shortened(&safe(held), STATEMENT_SHOWN), FIELD);
}

fn root_fields(page: &mut Page, held: &str, root: &WaitRoot, thread: &WaitingThread) {
    let mut field = |label: &str, text: &str| {
        if !text.trim().is_empty() {
            page.field(label, &shortened(&safe(text), STATEMENT_SHOWN), FIELD);
        }
    };
    let account = account(thread);
    let tid =
        thread.thread_os_id.filter(|_| thread.connection_id.is_some()).map(|tid| format!("thread {tid}"));
    let who: Vec<&str> = [Some(account.as_str()), tid.as_deref()]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    field("who", &who.join(", "));
    field("does", &doing(root, Some(thread)));
    field("holds", held);
    if let Some(line) = transaction(thread) {
        field("open", line.strip_prefix("open for ").map_or(line.as_str(), |line| line));
    }
    field(
        runs_label(root.doing.starts_with("idle") || thread.is_idle_in_transaction),
        thread.statement.as_deref().unwrap_or(&thread.server_state),
    );
    // Where a thread waits for its client, its stack says nothing else.
    if !root.doing.starts_with("idle") {
        field("stack", &stack(named_frames(thread)));
    }
    match freeing(root) {
        Some((statement, note)) if statement.is_empty() => field("free with", &format!("nothing: {note}")),
        Some((statement, note)) => {
            field("free with", &statement);
            field("", &note);
        }
        None => {}
    }
}

/// The innermost frames, as many as two lines of a wide terminal hold.
fn stack(frames: &[String]) -> String {
    let mut text = String::new();
    for (at, frame) in frames.iter().enumerate() {
        let joint = if at == 0 { "" } else { " < " };
        if at == FRAMES_SHOWN || (at > 0 && text.width() + frame.width() + 6 > STATEMENT_SHOWN) {
            text.push_str(" < …");
            break;
        }
        text = format!("{text}{joint}{frame}");
    }
    text
}

/// Who waits, below the one who blocks them.
fn branches(
    page: &mut Page,
    locks: &Locks,
    forest: &Forest<'_>,
    siblings: &[usize],
    indent: &str,
    level: usize,
) {
    let items = shown(forest, locks, siblings, level);
    for (at, item) in items.iter().enumerate() {
        let is_last = at + 1 == items.len();
        let (branch, trunk) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let below = format!("{indent}{trunk}");
        match item {
            Sibling::One(place, is_first) => {
                let node = forest.node(*place);
                line(page, locks, node, &format!("{indent}{branch}"));
                if *is_first || node.behind > 0 {
                    let bar = if node.children.is_empty() { "" } else { "│ " };
                    let wants = match of_ring(locks, node) {
                        Some(member) => format!("wants of {member}: {}", wanted(node.edge)),
                        None => format!("wants {}", wanted(node.edge)),
                    };
                    quiet_line(page, &format!("{below}{bar}"), &wants);
                }
                if node.children.is_empty() {
                    continue;
                }
                if level < LEVELS_SHOWN {
                    branches(page, locks, forest, &node.children, &below, level + 1);
                } else {
                    let deeper = number::plain(node.behind.into());
                    quiet_line(
                        page,
                        &format!("{below}└─ "),
                        &format!("{deeper} more behind it, further down"),
                    );
                }
            }
            Sibling::More(rest) => more(page, &format!("{indent}{branch}"), &rest.label()),
        }
    }
}

/// Whom of a ring a thread waits for: the ring has several to wait for.
fn of_ring(locks: &Locks, node: &Node<'_>) -> Option<String> {
    let holder =
        node.edge.holder.filter(|holder| locks.cycles.iter().flatten().any(|member| member == holder))?;
    locks.thread(holder).map(who)
}

/// `├─ connection 44, admin, 61.4 s, blocks 200: ALTER TABLE …`
fn line(page: &mut Page, locks: &Locks, node: &Node<'_>, lead: &str) {
    let Some(thread) = locks.thread(node.thread) else { return };
    let mut named = vec![shortened(&safe(&who(thread)), NAME_SHOWN)];
    if !thread.user.is_empty() {
        named.push(shortened(&safe(&thread.user), NAME_SHOWN / 2));
    }
    named.extend(node.edge.waited_s.filter(|s| s.is_finite()).map(seconds));
    if node.behind > 0 {
        named.push(format!("blocks {}", number::plain(node.behind.into())));
    }
    if node.is_repeated {
        named.push("shown above".to_owned());
    }
    let named = named.join(", ");
    let room = page.look.width.saturating_sub(lead.width());
    let named = shortened(&named, room.saturating_sub(1));
    let style = if node.behind > 0 { STRONG } else { PLAIN };
    let painted = format!("{}{}", page.paint(QUIET, lead), page.paint(style, &named));
    let runs = if node.is_repeated { String::new() } else { safe(&running(thread)) };
    let left = room.saturating_sub(named.width() + 2);
    match runs.trim() {
        "" => page.push(&painted),
        _ if left < LEAST_STATEMENT => page.push(&painted),
        runs => page.push(&format!("{painted}: {}", shortened(runs, left.saturating_sub(1)))),
    }
}

/// Columns that a statement needs to say anything.
const LEAST_STATEMENT: usize = 8;

fn more(page: &mut Page, lead: &str, text: &str) {
    let room = page.look.width.saturating_sub(lead.width() + 1);
    let line =
        format!("{}{}", page.paint(QUIET, lead), page.paint(Style::new().italic(), &shortened(text, room)));
    page.push(&line);
}

fn quiet_line(page: &mut Page, lead: &str, text: &str) {
    let room = page.look.width.saturating_sub(lead.width() + 1);
    let line = page.paint(QUIET, &format!("{lead}{}", shortened(&safe(text), room)));
    page.push(&line);
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::locks::examples;

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn an_idle_client_behind_an_alter_and_200_readers_is_named_on_one_screen() {
        insta::assert_snapshot!(render(&examples::chain(), TERMINAL));
    }

    #[test]
    fn five_hundred_waiters_for_a_row_fit_a_screen() {
        let text = render(&examples::row_pileup(), TERMINAL);
        assert!(text.lines().count() <= 24, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_server_on_which_few_wait_for_a_moment_is_shown_in_a_few_calm_lines() {
        insta::assert_snapshot!(render(&examples::busy(), TERMINAL));
        insta::assert_snapshot!(render(&examples::nobody(), TERMINAL));
    }

    #[test]
    fn owners_that_ended_or_are_not_visible_are_shown_as_what_they_are() {
        insta::assert_snapshot!(render(&examples::mutexes(), TERMINAL));
    }

    #[test]
    fn latches_that_threads_sleep_for_are_listed_the_one_of_most_first() {
        let text = render(&examples::latches(), TERMINAL);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let listed = "latches: 41 threads asleep for rollback segment (taken in trx_undo_assign_undo), \
                      7 threads asleep for lock_print_info_all_transactions, 3 threads asleep for latch 2";
        assert!(text.contains(listed), "{text}");
        assert!(text.contains("3 threads asleep for latch 4; 2 more latches have no more"), "{text}");
        assert!(!render(&examples::row_pileup(), TERMINAL).contains("latches"));
    }

    #[test]
    fn a_ring_is_distinguished_from_a_root() {
        insta::assert_snapshot!(render(&examples::ring(), TERMINAL));
    }

    #[test]
    fn many_kinds_of_waits_and_a_long_chain_stay_readable() {
        insta::assert_snapshot!(render(&examples::many_kinds(), TERMINAL));
        insta::assert_snapshot!(render(&examples::deep(), TERMINAL));
        insta::assert_snapshot!(render(&examples::two_roots(), TERMINAL));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_none_steers_it() {
        for (name, locks) in examples::all() {
            for width in [50, 64, 80, 120] {
                for line in render(&locks, Look { width, colour: false }).lines() {
                    assert!(line.width() <= width, "{name}, {width} columns: {line}");
                    assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{name}: {line}");
                }
            }
        }
    }
}
