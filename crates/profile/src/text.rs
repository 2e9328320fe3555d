//! A profile for a terminal: readable at 80 columns, colour only as an accent.

use std::collections::{BTreeSet, HashMap, HashSet};

use anstyle::{AnsiColor, Style};
use spindoctor_model::stack::{Observation, StackSource, ThreadState};
use spindoctor_stacks::aggregate;
use unicode_width::UnicodeWidthStr as _;

use super::counted::{Counted, Label, LabelKind};
use super::formats::subject;
use super::json::{p50_and_max, summed};
use super::latches::latches;
use super::measures::work_text;
use super::tree::Tree;
use super::view::{View, state_word};
use spindoctor_page::number;
use spindoctor_page::number::{counted, percent};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, shortened, wrapped};

/// Places in the list of top frames.
pub const TOP: usize = 15;
/// Functions of a place: `pthread_cond_timedwait < os_event::timed_wait < os_event::wait_time_low < log_writer`.
const CHAIN: usize = 4;
/// The beginnings of names of functions that show how a thread waits and not for what: libc's, and the servers' own
/// condition variables.
const ANY_WAIT: [&str; 17] = [
    "pthread_cond_",
    "pthread_mutex_",
    "lll_lock",
    "futex",
    "syscall",
    "poll",
    "ppoll",
    "epoll_wait",
    "select",
    "nanosleep",
    "clock_nanosleep",
    "GI_",
    "libc.so",
    "os_event::",
    "my_cond_timedwait",
    "safe_cond_",
    "inline_mysql_cond_",
];
/// Places in the list of idle threads, and columns of the threads' names there.
const IDLE_PLACES: usize = 20;
const IDLE_NAMES: usize = 24;
/// Branches below this share of all are left out of the tree, and counted.
const LEAST_SHARE: f64 = 0.01;
/// Columns of the longest bar.
const BAR: usize = 30;
/// Where the bars begin.
const BARS: usize = 25;
/// Where the names of the tree begin: behind the share and the count.
const NAMES: usize = 18;
/// A branch is indented by two columns, up to here: a name needs room too.
const DEEPEST_INDENT: usize = 20;
/// Spinning functions, and chains of callers of each.
pub const SPINNERS: usize = 3;
/// Latches that are listed: those that cost most.
const LATCHES: usize = 6;
/// A healthy server spins less than this (the catalogue's `quota-blind-spin`: expected < 0.02).
const SPINNING: f64 = 0.02;
/// Columns of a group's name, where that is a statement.
const GROUP_SHOWN: usize = 300;

/// The profile as text.
pub fn render(view: &View<'_>, look: Look) -> String {
    let mut page = Page::new(look);
    let stacks = view.counted();
    head(&mut page, view);
    if view.observations.is_empty() {
        page.blank();
        page.paragraph("", "Nothing was seen: no thread ran, or the process ended at once.", STRONG);
        return page.finish();
    }
    states(&mut page, view, &stacks);
    spin(&mut page, view);
    waited_for(&mut page, view);
    let (busy, idle) = view.split_idle();
    let of = match idle.observations.is_empty() {
        true => String::new(),
        false => format!("of {}: ", counted(busy.thread_count() as u64, "busy thread", "busy threads")),
    };
    if !busy.observations.is_empty() {
        let stacks = busy.simplified();
        top(&mut page, &stacks, &of, view.on_cpu);
        tree(&mut page, &stacks, &of);
    }
    if !idle.observations.is_empty() {
        waiting(&mut page, &idle);
    }
    page.finish()
}

fn head(page: &mut Page, view: &View<'_>) {
    let profile = view.profile;
    let what = match view.on_cpu {
        true => counted(view.observations.len() as u64, "CPU sample", "CPU samples"),
        false => counted(view.snapshot_count() as u64, "snapshot", "snapshots"),
    };
    let left = format!(
        "{}, pid {}, {}",
        safe(subject(profile)),
        profile.process.pid,
        counted(view.thread_count() as u64, "thread", "threads")
    );
    let right = format!("{what} in {}", number::tenths(profile.seconds));
    page.line_with_right(&left, &right, STRONG, STRONG);
    page.paragraph("", &cost(view), QUIET);
    if let Some(work) = work_text(profile) {
        page.paragraph("", &format!("work: {work}"), PLAIN);
    }
    if let Some(few) = view.few_samples().filter(|_| view.on_cpu) {
        page.paragraph("", &few, STRONG);
    }
    for note in &profile.notes {
        page.hanging("", "  ", &format!("note: {}", safe(note)), QUIET);
    }
}

/// What it took, in one sentence.
pub fn cost(view: &View<'_>) -> String {
    let profile = view.profile;
    let milliseconds = |ms: f64| number::quantity(ms, "ms");
    let mut parts = vec![format!("source {} at {} Hz", profile.source, number::plain(profile.hz))];
    if profile.source != StackSource::Cpu {
        let (capture, capture_max) = p50_and_max(profile, |cost| cost.capture_us);
        let (whole, whole_max) = p50_and_max(profile, |cost| cost.snapshot_us);
        parts.push(format!(
            "capture {} (max {}), with names {} (max {})",
            milliseconds(capture),
            milliseconds(capture_max),
            milliseconds(whole),
            milliseconds(whole_max)
        ));
    }
    let mut own = format!("own CPU {}", milliseconds(profile.own_cpu_us as f64 / 1e3));
    if profile.seconds > 0.0 {
        let share = profile.own_cpu_us as f64 / 1e6 / profile.seconds;
        own = format!("{own} ({} of one CPU)", percent(share));
    }
    parts.push(own);
    if profile.server_queries > 0 {
        parts.push(format!(
            "{}, answered in {}",
            counted(profile.server_queries, "query", "queries"),
            milliseconds(profile.server_busy_ms.ceil())
        ));
    }
    parts.push(match summed(profile, |cost| u64::from(cost.stopped)) {
        0 => "no thread stopped".to_owned(),
        stops => format!(
            "{} of threads, {} in all",
            counted(stops, "stop", "stops"),
            milliseconds(summed(profile, |cost| cost.stopped_us) as f64 / 1e3)
        ),
    });
    parts.push(match summed(profile, |cost| u64::from(cost.dropped)) {
        0 => "nothing dropped".to_owned(),
        dropped => format!("{dropped} dropped"),
    });
    format!("cost: {}", parts.join(", "))
}

fn states(page: &mut Page, view: &View<'_>, stacks: &[Counted<'_>]) {
    if view.on_cpu {
        return;
    }
    page.blank();
    heading(page, "states", "share of thread time");
    let longest = BAR.min(page.look.width.saturating_sub(BARS)).max(1);
    for (state, share) in shares_of_states(view, stacks) {
        let bar = "█".repeat(((share * longest as f64).round() as usize).clamp(1, longest));
        let bar = page.paint(accent(state), &bar);
        page.push(&format!("  {:<13}{:>8}  {bar}", state_label(state), percent(share)));
    }
}

/// Which share of the threads' time each state had, the largest first.
pub fn shares_of_states(view: &View<'_>, stacks: &[Counted<'_>]) -> Vec<(ThreadState, f64)> {
    let all = view.observations.len() as f64;
    let mut shares: Vec<(ThreadState, f64)> = Vec::new();
    for stack in stacks {
        match shares.iter_mut().find(|(state, _)| *state == stack.state) {
            Some((_, share)) => *share += stack.count as f64 / all,
            None => shares.push((stack.state, stack.count as f64 / all)),
        }
    }
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    shares
}

fn spin(page: &mut Page, view: &View<'_>) {
    let Some(share) = aggregate::spin_share(view.profile) else { return };
    page.blank();
    let style = if share.user >= SPINNING { AnsiColor::Red.on_default().bold() } else { STRONG };
    let text = format!(
        "spin share {} of {}, in the kernel {}",
        percent(share.user),
        counted(share.samples, "CPU sample", "CPU samples"),
        percent(share.kernel)
    );
    page.hanging("", "  ", &text, style);
    for spinner in aggregate::spinners(view.profile).iter().take(SPINNERS) {
        page.push(&format!("  {:>8}  {}", percent(spinner.share), shown_name(page, &spinner.function, 12)));
        for (chain, share) in spinner.callers.iter().take(SPINNERS) {
            let lead = format!("            {:>8}  ", percent(*share));
            let lines = wrapped(&format!("< {}", safe(chain)), page.look.width.saturating_sub(lead.width()));
            for (at, line) in lines.iter().take(2).enumerate() {
                let blank = " ".repeat(lead.width());
                let line = page.paint(QUIET, line);
                page.push(&format!("{}{line}", if at == 0 { &lead } else { &blank }));
            }
        }
    }
}

/// Latches and mutexes by what they cost.
fn waited_for(page: &mut Page, view: &View<'_>) {
    let latches = latches(view.profile);
    if latches.is_empty() {
        return;
    }
    page.blank();
    heading(page, "latches", "threads asleep, CPUs that spin, what is waited for < who takes it");
    let known = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"));
    for latch in latches.iter().take(LATCHES) {
        let lead = format!("  {:>7} {:>7}  ", known(latch.threads_asleep), known(latch.cpus_spinning));
        let name = match latch.latch == latch.taken_in {
            true => safe(&latch.latch),
            false => format!("{} < {}", safe(&latch.latch), safe(&latch.taken_in)),
        };
        page.push(&format!("{lead}{}", shortened(&name, page.look.width.saturating_sub(lead.width()))));
    }
    if let Some(rest) = latches.get(LATCHES..).filter(|rest| !rest.is_empty()) {
        let text = format!("{:>17}  and {} more", "", rest.len());
        let text = page.paint(QUIET, &text);
        page.push(&text);
    }
}

/// The places that threads stand in, the most frequent first: the function that shows what they do, with as many of its callers
/// as there is room for, and how often.
pub fn places(stacks: &[Counted<'_>], on_cpu: bool, room: usize) -> Vec<(String, u64)> {
    // By what is shown: where there is no room for the callers that distinguish two places, they are one.
    let mut places: HashMap<String, u64> = HashMap::new();
    for stack in stacks {
        // What runs waits for nothing.
        let place = match on_cpu || matches!(stack.state, ThreadState::Running | ThreadState::Runnable) {
            true => &stack.labels[1..][stack.labels.len().saturating_sub(1 + CHAIN)..],
            false => innermost(&stack.labels),
        };
        *places.entry(chain(place.iter().rev(), room)).or_default() += stack.count;
    }
    let mut places: Vec<(String, u64)> = places.into_iter().collect();
    places.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    places
}

fn top(page: &mut Page, stacks: &[Counted<'_>], of: &str, on_cpu: bool) {
    let all = stacks.iter().map(|stack| stack.count).sum::<u64>().max(1) as f64;
    let places = places(stacks, on_cpu, page.look.width.saturating_sub(NAMES));
    page.blank();
    heading(page, "top frames", &format!("{of}share, observations, function < its callers"));
    for (shown, count) in places.iter().take(TOP) {
        page.push(&format!("  {:>7} {count:>6}  {shown}", percent(*count as f64 / all)));
    }
    if let Some(left_out) = places.get(TOP..).filter(|rest| !rest.is_empty()) {
        let count: u64 = left_out.iter().map(|(_, count)| count).sum();
        left(
            page,
            count,
            all,
            &format!("in {}", counted(left_out.len() as u64, "more place", "more places")),
        );
    }
}

/// The innermost function that shows what a thread does, and its callers.
fn innermost<'a, 'b>(labels: &'b [Label<'a>]) -> &'b [Label<'a>] {
    let functions = labels.get(1..).unwrap_or_default();
    let telling =
        functions.iter().rposition(|label| !is_any_wait(label)).map_or(functions.len(), |at| at + 1);
    &functions[telling.saturating_sub(CHAIN)..telling]
}

/// True for a function that every wait of its kind goes through.
fn is_any_wait(label: &Label<'_>) -> bool {
    let name = label.name.trim_start_matches('_');
    label.kind == LabelKind::Kernel || ANY_WAIT.iter().any(|begin| name.starts_with(begin))
}

/// `innermost < its caller < ...`, as many as there is room for.
fn chain<'a: 'b, 'b>(labels: impl Iterator<Item = &'b Label<'a>>, room: usize) -> String {
    let mut text = String::new();
    for name in labels.map(label) {
        let longer = if text.is_empty() { name } else { format!("{text} < {name}") };
        if longer.width() > room {
            return if text.is_empty() { shortened(&longer, room.saturating_sub(1)) } else { text };
        }
        text = longer;
    }
    text
}

/// Threads that waited for work: a line for each place.
fn waiting(page: &mut Page, idle: &View<'_>) {
    let mut places: HashMap<Vec<Label<'_>>, BTreeSet<String>> = HashMap::new();
    let mut threads: HashMap<Vec<Label<'_>>, HashSet<u32>> = HashMap::new();
    let stacks: HashMap<u32, Vec<Label<'_>>> =
        idle.counted().iter().map(|stack| (stack.stack, idle.simple_labels(stack))).collect();
    // Where each thread waited most.
    let mut waits: HashMap<u32, HashMap<u32, (u32, &Observation)>> = HashMap::new();
    for seen in &idle.observations {
        waits.entry(seen.thread).or_default().entry(seen.stack).or_insert((0, seen)).0 += 1;
    }
    for stacks_of_thread in waits.values() {
        let most =
            stacks_of_thread.iter().max_by_key(|(stack, (count, _))| (*count, std::cmp::Reverse(**stack)));
        let Some((stack, (_, seen))) = most else { continue };
        let place = innermost(&stacks[stack]).to_vec();
        threads.entry(place.clone()).or_default().insert(seen.thread);
        places.entry(place).or_default().insert(safe(&idle.group(seen)));
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_by(|a, b| threads[&b.0].len().cmp(&threads[&a.0].len()).then_with(|| a.1.cmp(&b.1)));
    page.blank();
    let title = format!("idle: {}", counted(idle.thread_count() as u64, "thread", "threads"));
    heading(page, &title, "waited for work or for a client, nearly all the time");
    for (labels, groups) in places.iter().take(IDLE_PLACES) {
        let groups = shortened(&groups.iter().cloned().collect::<Vec<_>>().join(", "), IDLE_NAMES - 1);
        let lead = format!(
            "  {:>7}  {groups}{} ",
            threads[labels].len(),
            " ".repeat(IDLE_NAMES.saturating_sub(groups.width()))
        );
        let chain = chain(labels.iter().rev(), page.look.width.saturating_sub(lead.width()));
        page.push(&format!("{lead}{}", page.paint(QUIET, &chain)));
    }
    if let Some(rest) = places.get(IDLE_PLACES..).filter(|rest| !rest.is_empty()) {
        let count: usize = rest.iter().map(|(labels, _)| threads[labels].len()).sum();
        let text = format!("  {count:>7}  in {}", counted(rest.len() as u64, "more place", "more places"));
        let text = page.paint(QUIET, &text);
        page.push(&text);
    }
}

/// The tree, from the roots inwards; a way without a fork is one line.
fn tree(page: &mut Page, stacks: &[Counted<'_>], of: &str) {
    let tree = Tree::from_stacks(stacks);
    let all = tree.total().max(1) as f64;
    page.blank();
    heading(page, "stacks", &format!("{of}share, observations, outermost › innermost"));
    let by_weight = |at: usize| {
        let mut children = tree.nodes[at].children.clone();
        children.sort_by_key(|child| std::cmp::Reverse(tree.nodes[*child].total));
        children
    };
    // Depth first; the last of the list is next.
    let mut next: Vec<(usize, usize)> = by_weight(0).into_iter().rev().map(|child| (child, 0)).collect();
    let mut left_out = 0_u64;
    while let Some((start, level)) = next.pop() {
        let total = tree.nodes[start].total;
        if (total as f64) < LEAST_SHARE * all {
            left_out += total;
            continue;
        }
        let mut chain = vec![start];
        let mut last = start;
        while let [only] = tree.nodes[last].children[..]
            && tree.nodes[only].total == total
        {
            chain.push(only);
            last = only;
        }
        let names: Vec<String> = chain.iter().map(|at| label(&tree.nodes[*at].label)).collect();
        let node = &tree.nodes[last];
        let ends = if node.own > 0 && node.own < node.total {
            format!(" ({} here)", percent(node.own as f64 / all))
        } else {
            String::new()
        };
        let indent = NAMES + (level * 2).min(DEEPEST_INDENT);
        let lines =
            wrapped(&format!("{}{ends}", names.join(" › ")), page.look.width.saturating_sub(indent + 2));
        for (at, line) in lines.iter().enumerate() {
            let style = match at {
                0 if level == 0 => STRONG,
                _ => PLAIN,
            };
            let line = page.paint(style, line);
            match at {
                0 => {
                    let pad = " ".repeat(indent - NAMES);
                    let share = percent(total as f64 / all);
                    page.push(&format!("  {share:>7} {total:>6}  {pad}{line}"));
                }
                _ => page.push(&format!("{}{line}", " ".repeat(indent + 2))),
            }
        }
        next.extend(by_weight(last).into_iter().rev().map(|child| (child, level + 1)));
    }
    if left_out > 0 {
        left(page, left_out, all, &format!("in branches of less than {} each", percent(LEAST_SHARE)));
    }
}

/// What is not shown, counted.
fn left(page: &mut Page, count: u64, all: f64, what: &str) {
    let text = format!("  {:>7} {count:>6}  {what}", percent(count as f64 / all));
    let text = page.paint(QUIET, &text);
    page.push(&text);
}

/// A title, and what the columns below are, where there is room for it.
fn heading(page: &mut Page, title: &str, explained: &str) {
    let mut line = page.paint(STRONG, title);
    if title.width() + 2 + explained.width() <= page.look.width {
        line = format!("{line}  {}", page.paint(QUIET, explained));
    }
    page.push(&line);
}

/// A name with a mark for what is not a function of the process.
fn label(label: &Label<'_>) -> String {
    let name = safe(&label.name);
    match label.kind {
        LabelKind::Group => shortened(&name, GROUP_SHOWN),
        LabelKind::Kernel => format!("{name} [kernel]"),
        LabelKind::Inlined => format!("{name} [inlined]"),
        LabelKind::User | LabelKind::End => name,
    }
}

fn shown_name(page: &Page, name: &str, column: usize) -> String {
    shortened(&safe(name), page.look.width.saturating_sub(column + 1))
}

/// The word for a state, as people read it.
pub fn state_label(state: ThreadState) -> String {
    state_word(state).replace('_', " ")
}

/// Red for waits of one thread for another, yellow for disks, green for what runs, quiet for idle threads.
fn accent(state: ThreadState) -> Style {
    match state {
        ThreadState::Lock | ThreadState::Futex | ThreadState::Stopped => AnsiColor::Red.on_default(),
        ThreadState::DiskRead | ThreadState::DiskWrite | ThreadState::Sync => AnsiColor::Yellow.on_default(),
        ThreadState::Running | ThreadState::Runnable => AnsiColor::Green.on_default(),
        ThreadState::Condition | ThreadState::Blocked => PLAIN,
        ThreadState::NetworkIdle | ThreadState::Epoll | ThreadState::Sleep => QUIET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::{By, Choice};

    const TERMINAL: Look = Look { width: 80, colour: false };

    #[test]
    fn a_busy_server_reads_well_at_80_columns() {
        let profile = examples::busy();
        insta::assert_snapshot!(render(&View::new(&profile, &Choice::default()).unwrap(), TERMINAL));
    }

    #[test]
    fn statements_stand_at_the_roots_where_they_are_asked_for() {
        let profile = examples::busy();
        let choice = Choice { by: By::Digest, ..Choice::default() };
        insta::assert_snapshot!(render(&View::new(&profile, &choice).unwrap(), TERMINAL));
    }

    #[test]
    fn latches_are_listed_by_what_they_cost_and_what_is_not_known_is_a_dash() {
        let profile = examples::contended();
        let text = render(&View::new(&profile, &Choice::default()).unwrap(), TERMINAL);
        let from = text.find("latches").expect("a section");
        let lines: Vec<&str> = text[from..].lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "latches  threads asleep, CPUs that spin, what is waited for < who takes it",
                "     1.00       -  rollback segment < trx_undo_assign_undo",
                "     0.50       -  page < Buf_fetch::single_page",
            ]
        );
        let calm = examples::busy();
        assert!(!render(&View::new(&calm, &Choice::default()).unwrap(), TERMINAL).contains("latches"));
    }

    #[test]
    fn hostile_names_stay_in_their_line() {
        let profile = examples::hostile();
        insta::assert_snapshot!(render(&View::new(&profile, &Choice::default()).unwrap(), TERMINAL));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for profile in [examples::busy(), examples::hostile(), examples::recursive()] {
            for width in [50, 64, 80, 100] {
                for choice in [Choice::default(), Choice { full_names: true, ..Choice::default() }] {
                    let text = render(&View::new(&profile, &choice).unwrap(), Look { width, colour: false });
                    for line in text.lines() {
                        assert!(line.width() <= width, "{width} columns: {line}");
                    }
                }
            }
        }
    }
}
