//! The formats of a snapshot of who blocks whom. Each is a function from finished [`Locks`] to text; none reads
//! anything or knows the others. The one list of them, [`FORMATS`], drives the command line, its help and its messages.

use std::collections::HashSet;

use spindoctor_model::stack::ThreadState;
use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitRoot, WaitingThread};

use super::forest::{Forest, Group, Tree};
use super::waits::Locks;
use super::{dot, html, json, svg, text};
use spindoctor_page::formats;
use spindoctor_page::number;
use spindoctor_page::text::Look;
use spindoctor_profile::{WaitedLatch, state_word};

/// A way to write a look.
pub type Format = formats::Format<fn(&Locks, Look) -> anyhow::Result<String>>;

/// Every format, in the order in which help names them; the first is what a terminal gets.
pub const FORMATS: &[Format] = &[
    Format {
        name: "text",
        help: "a tree for the terminal: each root and who waits behind it",
        extension: "txt",
        binary: false,
        render: |locks, look| Ok(text::render(locks, look)),
    },
    Format {
        name: "dot",
        help: "the graph for graphviz",
        extension: "dot",
        binary: false,
        render: |locks, _| Ok(dot::render(locks)),
    },
    Format {
        name: "svg",
        help: "a picture: open it in a browser",
        extension: "svg",
        binary: false,
        render: |locks, _| Ok(svg::render(locks)),
    },
    Format {
        name: "html",
        help: "a page: the picture, and below it all that is known of each thread",
        extension: "html",
        binary: false,
        render: |locks, _| Ok(html::render(locks)),
    },
    Format {
        name: "json",
        help: "schema spindoctor.locks/1: every wait",
        extension: "json",
        binary: false,
        render: |locks, _| Ok(json::render(locks)?),
    },
];

/// The trees for a terminal.
pub fn tree(locks: &Locks, look: Look) -> String {
    text::render(locks, look)
}

/// Of siblings that are alike, so many are shown; the others are counted.
const ALIKE_SHOWN: usize = 2;
/// Kinds of siblings that are shown on each level below the top; the others are counted. The last number is that of all
/// deeper levels: what matters is near the top.
const GROUPS_SHOWN: [usize; 3] = [6, 3, 2];
/// Levels below the top that are shown: deeper ones are counted.
pub const LEVELS_SHOWN: usize = 6;

/// Siblings as a picture shows them: some, and how many more there are.
pub enum Sibling {
    /// This one; true where it is the first of its kind.
    One(usize, bool),
    /// More like the ones before.
    More(Rest),
}

/// Siblings that are counted only.
pub struct Rest {
    /// Their places in the forest.
    pub places: Vec<usize>,
    /// `198 more like this`.
    pub count: String,
    /// `with 12 behind them, waiting 0.3 s to 61 s`
    pub waits: String,
}

/// What to show of siblings that stand so many levels below the top.
pub fn shown(forest: &Forest<'_>, locks: &Locks, siblings: &[usize], level: usize) -> Vec<Sibling> {
    let most = GROUPS_SHOWN[level.clamp(1, GROUPS_SHOWN.len()) - 1];
    let mut items = Vec::new();
    let mut others = Vec::new();
    for (number, Group { members }) in forest.groups(locks, siblings).into_iter().enumerate() {
        if number >= most {
            others.extend(members);
            continue;
        }
        // "1 more like this" takes as much room as itself.
        let count = if members.len() <= ALIKE_SHOWN + 1 { members.len() } else { ALIKE_SHOWN };
        let (first, rest) = members.split_at(count);
        items.extend(first.iter().enumerate().map(|(at, member)| Sibling::One(*member, at == 0)));
        if !rest.is_empty() {
            let is_one_statement = forest.are_of_one_statement(locks, &members);
            let how = if is_one_statement { "more like this" } else { "more want the same" };
            items.push(Sibling::More(Rest::new(forest, rest.to_vec(), how)));
        }
    }
    if !others.is_empty() {
        items.push(Sibling::More(Rest::new(forest, others, "more of other kinds")));
    }
    items
}

impl Rest {
    fn new(forest: &Forest<'_>, places: Vec<usize>, how: &str) -> Self {
        let mut waits = Vec::new();
        let behind = forest.size(&places) as usize - places.len();
        if behind > 0 {
            waits.push(format!("with {} behind them", number::plain(behind as f64)));
        }
        match forest.waited_s(&places).map(|(least, most)| (seconds(least), seconds(most))) {
            Some((least, most)) if least == most => waits.push(format!("waiting {least}")),
            Some((least, most)) => waits.push(format!("waiting {least} to {most}")),
            None => {}
        }
        Self {
            count: format!("{} {how}", number::plain(places.len() as f64)),
            waits: waits.join(", "),
            places,
        }
    }

    /// All of it in a line.
    pub fn label(&self) -> String {
        match self.waits.as_str() {
            "" => self.count.clone(),
            waits => format!("{}, {waits}", self.count),
        }
    }
}

/// For how long, to a tenth of a second. Where the server counts whole seconds (MySQL's process list and INNODB_TRX do),
/// 0 is less than one.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        _ if !seconds.is_finite() => "unknown".to_owned(),
        0.0 => "under 1 s".to_owned(),
        _ if seconds < 1.0 => number::duration(seconds),
        _ => number::duration((seconds * 10.0).round() / 10.0),
    }
}

/// The longest of several: `up to 61.4 s`.
pub fn up_to(longest_s: f64) -> String {
    if longest_s == 0.0 { seconds(longest_s) } else { format!("up to {}", seconds(longest_s)) }
}

/// Who a thread is: `connection 12`, or a thread of the server by its name.
pub fn who(thread: &WaitingThread) -> String {
    match (thread.connection_id, thread.thread_os_id, thread.name.as_str()) {
        (Some(connection), _, _) => format!("connection {connection}"),
        (None, Some(tid), "") => format!("thread {tid}"),
        (None, Some(tid), name) => format!("{name} (thread {tid})"),
        (None, None, "") => "a thread that the server does not name".to_owned(),
        (None, None, name) => name.to_owned(),
    }
}

/// Whose thread it is: `app@10.0.3.7`; empty for threads of the server itself.
pub fn account(thread: &WaitingThread) -> String {
    match (thread.user.as_str(), thread.host.as_str()) {
        ("", _) => String::new(),
        (user, "") => user.to_owned(),
        (user, host) => format!("{user}@{host}"),
    }
}

/// A lock in words: `row lock on sbtest.sbtest1 PRIMARY record 5`. The objects of most kinds say what they are.
pub fn lock(kind: LockKind, object: &str) -> String {
    let word = kind.label();
    let says_what_it_is = object.contains(" lock") || object.starts_with("tables ");
    match (kind, object) {
        (_, "") | (LockKind::Row, "a row") => word.to_owned(),
        (LockKind::Row | LockKind::Metadata, object) if !says_what_it_is => format!("{word} on {object}"),
        (_, object) => object.to_owned(),
    }
}

/// What a waiter wants: `EXCLUSIVE metadata lock on sbtest.sbtest1`.
pub fn wanted(edge: &WaitEdge) -> String {
    let mut text = lock(edge.kind, &edge.object);
    if !edge.mode.is_empty() {
        text = format!("{} {text}", edge.mode);
    }
    if !edge.wanted_in.is_empty() {
        text = format!("{text}, wanted in {}", edge.wanted_in);
    }
    if edge.is_inferred {
        text.push_str(" (holder inferred)");
    }
    text
}

/// What a root holds, as far as others want it: `row lock on shop.stock PRIMARY record 5, and 3 more`.
pub fn held(forest: &Forest<'_>, tree: &Tree<'_>, root: &WaitRoot) -> String {
    let wanted = tree.children.iter().map(|child| forest.node(*child).edge);
    let others: HashSet<(LockKind, &str)> = wanted
        .map(|edge| (edge.kind, edge.object.as_str()))
        .filter(|(_, object)| *object != root.object)
        .collect();
    let mut text = lock(root.kind, &root.object);
    if !others.is_empty() {
        text = format!("{text}, and {} more", number::plain(others.len() as f64));
    }
    if root.is_inferred {
        text.push_str(" (inferred)");
    }
    text
}

/// What a thread runs, in the fewest words: its statement, else the server's word for what it does, else its function.
pub fn running(thread: &WaitingThread) -> String {
    let statement = thread.statement.as_deref().unwrap_or_default();
    let function = named_frames(thread).first().map(String::as_str);
    let state = thread.state.map(state_text);
    [statement, &thread.server_state]
        .into_iter()
        .find(|text| !text.trim().is_empty())
        .or(function)
        .map(str::to_owned)
        .or(state)
        .unwrap_or_default()
}

/// Its frames without the innermost ones that have no name: the C library's on most systems.
pub fn named_frames(thread: &WaitingThread) -> &[String] {
    let nameless =
        thread.stack.iter().take_while(|frame| frame.contains(".so") && frame.contains("+0x")).count();
    if nameless < thread.stack.len() { &thread.stack[nameless..] } else { &thread.stack }
}

/// What its statement is called: an idle session runs nothing.
pub fn runs_label(is_idle: bool) -> &'static str {
    if is_idle { "last ran" } else { "runs" }
}

/// `disk read` for what the kernel and the frames say.
pub fn state_text(state: ThreadState) -> String {
    state_word(state).replace('_', " ")
}

/// What a root does, for how long: `idle in transaction for 61 s`; a thread that ended does nothing any more.
pub fn doing(root: &WaitRoot, thread: Option<&WaitingThread>) -> String {
    let Some(thread) = thread else { return "held; its owner is not visible".to_owned() };
    if thread.has_ended {
        return "ended, and never let go of it".to_owned();
    }
    let doing = match (root.doing.as_str(), thread.state) {
        ("", Some(state)) => state_text(state),
        ("", None) if thread.is_idle_in_transaction => "idle in transaction".to_owned(),
        ("", None) => thread.server_state.clone(),
        (doing, _) => doing.to_owned(),
    };
    match thread.since_s.filter(|_| !doing.is_empty() && thread.connection_id.is_some()) {
        Some(since_s) if doing.starts_with("idle") => format!("{doing} for {}", seconds(since_s)),
        Some(since_s) => format!("{doing} (statement: {})", seconds(since_s)),
        None => doing,
    }
}

/// What its transaction is: `open for 74 s; 3 rows changed, 5 locked`.
pub fn transaction(thread: &WaitingThread) -> Option<String> {
    let transaction = thread.transaction?;
    Some(format!(
        "open for {}; {} changed, {} locked",
        seconds(transaction.age_s),
        number::counted(transaction.rows_modified, "row", "rows"),
        number::plain(transaction.rows_locked as f64)
    ))
}

/// `blocks 201 threads, 1 of them directly`
pub fn holds_up(behind: u32, directly: usize) -> String {
    let threads = number::counted(behind.into(), "thread", "threads");
    match directly {
        directly if directly as u64 == u64::from(behind) => format!("blocks {threads}"),
        directly => format!("blocks {threads}, {} directly", number::plain(directly as f64)),
    }
}

/// What a ring is called: `A ring of 2 threads`; one that waits for itself is a ring, too.
pub fn ring_text(members: usize) -> String {
    match members {
        1 => "A thread that waits for itself".to_owned(),
        count => format!("A ring of {count} threads that wait for each other"),
    }
}

/// What would free those behind a root, and what that costs: never executed here.
pub fn freeing(root: &WaitRoot) -> Option<(String, String)> {
    match &root.free_with {
        Some(statement) => Some((statement.clone(), root.free_note.clone())),
        None if root.free_note.is_empty() => None,
        None => Some((String::new(), root.free_note.clone())),
    }
}

/// `201 threads wait`, `nobody waits`
pub fn verdict(locks: &Locks) -> String {
    match locks.waiting() {
        0 => "no session waits".to_owned(),
        1 => "1 thread waits".to_owned(),
        count => format!("{} threads wait", number::plain(count as f64)),
    }
}

/// Whom the look is of: `MySQL 9.7.4 on db17, pid 4310`.
pub fn subject(locks: &Locks) -> String {
    let server = if locks.server.is_empty() { "A server".to_owned() } else { locks.server.clone() };
    match locks.pid {
        Some(pid) => format!("{server}, pid {pid}"),
        None => server,
    }
}

/// Latches that are listed: the others are counted.
const LATCHES_SHOWN: usize = 5;

/// `latches: 41 threads asleep for rollback segment (taken in trx_undo_assign_undo), 1 thread asleep for page; 2 more latches have no more`;
/// none where no thread sleeps for one.
pub fn latches_text(locks: &Locks) -> Option<String> {
    let text = |latch: &WaitedLatch| {
        let threads = latch.threads_asleep.unwrap_or(0.0) as u64;
        let taken_in = match latch.latch == latch.taken_in {
            true => String::new(),
            false => format!(" (taken in {})", latch.taken_in),
        };
        format!("{} asleep for {}{taken_in}", number::counted(threads, "thread", "threads"), latch.latch)
    };
    let listed: Vec<String> = locks.latches.iter().take(LATCHES_SHOWN).map(text).collect();
    let rest = match locks.latches.len().saturating_sub(LATCHES_SHOWN) as u64 {
        0 => String::new(),
        1 => "; 1 more latch has no more".to_owned(),
        more => format!("; {more} more latches have no more"),
    };
    (!listed.is_empty()).then(|| format!("latches: {}{rest}", listed.join(", ")))
}

/// What a reader must know beside the trees: what was left out and why.
pub fn remarks(locks: &Locks) -> Vec<String> {
    let mut remarks = Vec::new();
    if locks.graph.left_out > 0 {
        let waits = number::counted(locks.graph.left_out, "wait is", "waits are");
        remarks.push(format!(
            "at least {waits} left out: a list was cut at its bound, or changed while it was read"
        ));
    }
    if locks.graph.moved_on > 0 {
        let waits = number::counted(locks.graph.moved_on, "wait was", "waits were");
        remarks.push(format!(
            "{waits} over when the look ended, and {} not shown",
            match locks.graph.moved_on {
                1 => "is",
                _ => "are",
            }
        ));
    }
    remarks.extend(locks.graph.notes.iter().cloned());
    remarks
}

/// What the look cost, in one clause.
pub fn cost(locks: &Locks) -> String {
    let stopped = match locks.threads_stopped {
        0 => "no thread stopped".to_owned(),
        count => format!("{} stopped", number::counted(count, "thread", "threads")),
    };
    let took = number::quantity(locks.took_ms.ceil(), "ms");
    match locks.server_queries {
        0 => format!("no query, {stopped}; took {took}"),
        count => format!(
            "{}, answered in {}, {stopped}; took {took}",
            number::counted(count, "query", "queries"),
            number::quantity(locks.server_ms.ceil(), "ms"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::locks::examples;

    #[test]
    fn hostile_names_steer_nothing_in_any_format() {
        for format in FORMATS {
            let text = (format.render)(&examples::hostile(), Look { width: 80, colour: false }).unwrap();
            let steers = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{2028}');
            assert!(!text.chars().any(steers), "{}", format.name);
        }
    }

    #[test]
    fn a_wait_of_no_whole_second_is_not_shown_to_be_none() {
        assert_eq!(seconds(0.0), "under 1 s");
        assert_eq!(seconds(0.004), "4 ms");
        assert_eq!(seconds(61.42), "61.4 s");
        assert_eq!(seconds(f64::NAN), "unknown");
    }
}
