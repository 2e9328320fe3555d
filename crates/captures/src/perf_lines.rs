//! Reports of perf that stand in one line, because a page made blanks of their line ends: an entry a line again, with its call graph. Which
//! part of a graph belongs to which, its bars say: perf draws one for each level with more parts to come, in the line of a part and in one
//! above it, which has the part's own, too (tools/perf/ui/stdio/hist.c).
//!
//! ```text
//! # Children Self Command Shared Object Symbol # 99.8% 0.0% mysqld libc.so [.] start_thread | ---start_thread do_command |
//! --60.2%--row_search_mvcc | |--41.2%--buf_page_get_gen 99.8% 0.0% mysqld mysqld [.] do_command | ---do_command
//! ```

use std::borrow::Cow;

/// Shorter lines are lines of their own.
const SHORT: usize = 160;
/// Fewer entries may be what somebody wrote of one.
const FEW: usize = 2;
/// What stands before a function.
const MARKS: [&str; 2] = ["[.]", "[k]"];
/// Words between the shares of an entry and that mark: the names of a thread and of a file, which may have blanks, and counts.
const MOST_NAMES: usize = 6;
/// What of a graph is less is not listed, percent.
const LEAST_PERCENT: f64 = 0.5;
/// The column of a graph, and how far each of its levels is behind the one above.
const COLUMN: usize = 12;
const COLUMNS: usize = 2;
/// Parts of one graph that are read, and functions on the way to one of them.
const MOST_PARTS: usize = 2_000;
const LONGEST_WAY: usize = 100;
/// The longest name of a function that is kept, bytes.
const LONGEST_NAME: usize = 400;
/// Graphs that make a text longer by more are left out, bytes.
const MOST_BYTES: usize = 16 << 20;

/// A text with an entry of such a report a line.
pub(crate) fn in_lines(text: &str) -> Cow<'_, str> {
    let is_report = |line: &str| {
        line.len() >= SHORT
            && line.contains('%')
            && MARKS.iter().map(|mark| line.matches(mark).count()).sum::<usize>() >= FEW
    };
    if !text.lines().any(is_report) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        // With its graphs a text may be hundreds of times as long.
        let room = text.len().saturating_add(MOST_BYTES).saturating_sub(all.len());
        match is_report(line).then(|| entries(line, room)).flatten() {
            Some(entries) => all.push_str(&entries),
            None => {
                all.push_str(line);
                all.push('\n');
            }
        }
    }
    Cow::Owned(all)
}

/// `41.20%`, and its comma in other languages.
fn percent(word: &str) -> Option<f64> {
    let digits = word.strip_suffix('%').filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))?;
    digits.replace(',', ".").parse().ok().filter(|percent| (0.0..=100.0).contains(percent))
}

/// An entry: where its words begin, its own share, and where its function ends.
struct Entry {
    begin: usize,
    own: f64,
    end: usize,
}

/// The entries of a line in lines of their own, with graphs as far as there is room; None where it has too few.
fn entries(line: &str, room: usize) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut found: Vec<Entry> = Vec::new();
    for at in (0..words.len()).filter(|at| MARKS.contains(&words[*at])) {
        let from = found.last().map_or(0, |last| last.end).max(at.saturating_sub(MOST_NAMES));
        let Some(last) = (from..at).rev().find(|at| percent(words[*at]).is_some()) else { continue };
        let shares = (from..=last).rev().take_while(|at| percent(words[*at]).is_some()).count();
        let ends = |at: usize| {
            let word = words[at];
            let next = words.get(at + 1).copied().unwrap_or_default();
            word.starts_with(['|', '#'])
                || word.starts_with("--")
                || percent(word).is_some()
                || (word == "+" || word == "-") && percent(next).is_some()
        };
        let end = (at + 1..words.len()).find(|at| ends(*at)).unwrap_or(words.len());
        let own = percent(words[last]).unwrap_or_default();
        found.push(Entry { begin: last + 1 - shares, own, end });
    }
    let first = found.first().filter(|_| found.len() >= FEW)?;
    // What stands before is the report's head, or what somebody wrote.
    let mut all: String = words[..first.begin].join(" ").replace(" # ", "\n# ");
    all.push('\n');
    let is_of_callees = found.iter().all(|entry| entry.own == 0.0);
    for (at, entry) in found.iter().enumerate() {
        let end = found.get(at + 1).map_or(words.len(), |next| next.begin);
        let parts = graph(words.get(entry.end..end).unwrap_or_default());
        all.push_str(&words[entry.begin..entry.end].join(" "));
        all.push('\n');
        // What was called is below its caller: the first entry's graph has all of it.
        match is_of_callees {
            _ if all.len() >= room => {}
            true if at == 0 => add_own_shares(&mut all, &parts, room),
            true => {}
            false => add_graph(&mut all, &parts, room),
        }
    }
    Some(all)
}

/// A part of a graph: a function, or several of which each calls the one before it, or is called by it.
struct Part {
    /// None of the root, which has the entry's.
    share: Option<f64>,
    names: Vec<String>,
    /// More parts of the same level follow.
    is_pending: bool,
    above: Option<usize>,
    depth: usize,
}

/// The parts of a graph, by its words.
fn graph(words: &[&str]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let (mut bars, mut pending) = (0_usize, 0_usize);
    for &word in words {
        let bare = word.trim_start_matches('|');
        if bare.is_empty() {
            bars += 1;
            continue;
        }
        if !bare.starts_with("--") {
            if let Some(last) = parts.last_mut().filter(|last| last.names.len() < LONGEST_WAY) {
                add_name(&mut last.names, cut(bare));
            }
            bars = 0;
            continue;
        }
        if parts.len() >= MOST_PARTS {
            break;
        }
        let text = bare.trim_start_matches('-');
        let (share, first) = match text.split_once("%--") {
            Some((share, name)) => (percent(&format!("{share}%")), name),
            None => (None, text),
        };
        // Levels above this one with more parts to come.
        let pending_above = bars.saturating_sub(1) / 2;
        while pending > pending_above
            && let Some(at) = open.pop()
        {
            pending -= usize::from(parts[at].is_pending);
        }
        let above = open.last().copied();
        let depth = above.map_or(0, |at| parts[at].depth + 1);
        let is_pending = word.starts_with('|');
        pending += usize::from(is_pending);
        open.push(parts.len());
        parts.push(Part { share, names: vec![cut(first).to_owned()], is_pending, above, depth });
        bars = 0;
    }
    parts
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_NAME)]
}

/// Adds a function, or the rest of one that has blanks between its brackets.
fn add_name(names: &mut Vec<String>, word: &str) {
    let is_cut = |name: &str| {
        let count = |bracket: char| name.matches(bracket).count();
        count('(') > count(')') || count('<') > count('>')
    };
    match names.last_mut().filter(|last| last.len() < LONGEST_NAME && is_cut(last)) {
        Some(last) => {
            last.push(' ');
            last.push_str(word);
        }
        None => names.push(word.to_owned()),
    }
}

/// Adds a graph as perf draws it.
fn add_graph(all: &mut String, parts: &[Part], room: usize) {
    for part in parts {
        if all.len() >= room {
            return;
        }
        let column = COLUMN + part.depth.min(LONGEST_WAY) * COLUMNS;
        let indent = " ".repeat(column);
        match part.share {
            Some(share) => all.push_str(&format!("{indent}|--{share:.2}%--")),
            None => all.push_str(&format!("{indent}---")),
        }
        all.push_str(&part.names.join(&format!("\n{indent}        ")));
        all.push('\n');
    }
}

/// Adds an entry for each part of a graph of what is called that has a share of its own, with those that it is called by.
fn add_own_shares(all: &mut String, parts: &[Part], room: usize) {
    let mut own: Vec<f64> = parts.iter().map(|part| part.share.unwrap_or_default()).collect();
    for part in parts {
        if let (Some(above), Some(share)) = (part.above, part.share) {
            own[above] -= share;
        }
    }
    for (at, share) in own.into_iter().enumerate().filter(|(_, share)| *share >= LEAST_PERCENT) {
        if all.len() >= room {
            return;
        }
        let mut names: Vec<&str> = Vec::new();
        let mut next = Some(at);
        while let Some(part) = next.and_then(|at| parts.get(at)).filter(|_| names.len() < LONGEST_WAY) {
            names.extend(part.names.iter().rev().map(String::as_str));
            next = part.above;
        }
        let Some((name, callers)) = names.split_first() else { continue };
        let is_entry = |name: &&str| name.starts_with("entry_SYSCALL") || name.starts_with("do_syscall");
        let (module, mark) = match callers.iter().any(is_entry) {
            true => ("[kernel]", "[k]"),
            false => ("mysqld", "[.]"),
        };
        all.push_str(&format!("{share:.2}% {share:.2}% mysqld {module} {mark} {name}\n"));
        let indent = " ".repeat(COLUMN);
        all.push_str(&format!("{indent}---{name}\n"));
        for caller in callers {
            all.push_str(&format!("{indent}   {caller}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    fn says(text: &str) -> String {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn entries_of_a_report_in_one_line_are_lines_again() {
        let text = "This is what perf says. # Overhead Command Shared Object Symbol # ........ ....... # 41.20% \
                    mysqld mysqld [.] ut_delay | ---ut_delay | |--30.00%--rw_lock_x_lock_func 12.10% mysqld [kernel.kallsyms] [k] _raw_spin_lock \
                    2.10% mysqld mysqld [.] PolicyMutex<TTASEventMutex<GenericPolicy> >::enter";
        let says = says(text);
        assert!(
            says.contains("written by perf report") && says.contains("41 % mysqld in ut_delay"),
            "{says}"
        );
        assert!(
            in_lines(text)
                .contains("\n2.10% mysqld mysqld [.] PolicyMutex<TTASEventMutex<GenericPolicy> >::enter\n")
        );
        assert!(in_lines(text).contains("\n# Overhead Command"));
    }

    #[test]
    fn where_no_entry_has_a_share_of_its_own_the_graph_says_it() {
        let text = "# Children Self Command Shared Object Symbol # ........ # 99.80% 0.00% mysqld libc.so.6 [.] start_thread | \
                    ---start_thread handle_one_connection do_command | --99.80%--dispatch_command JOIN::exec | |--90.10%--ha_innobase::index_next | | | \
                    --60.20%--row_search_mvcc | | | --46.60%--buf_page_optimistic_get | --9.10%--end_send 99.80% 0.00% mysqld mysqld [.] \
                    do_command | ---do_command";
        let says = says(text);
        for wanted in ["47 % mysqld in buf_page_optimistic_get", "30 % mysqld in ha_innobase::index_next"] {
            assert!(says.contains(wanted), "{says}");
        }
    }

    #[test]
    fn graphs_of_many_lines_do_not_fill_the_memory() {
        let way = "--90.00%--a ".repeat(LONGEST_WAY);
        let ends = "|--5.00%--b ".repeat(MOST_PARTS - LONGEST_WAY);
        let line = format!("9% 0% mysqld x [.] f | ---f {way}{ends}9% 0% mysqld x [.] g\n");
        let one = in_lines(&line).len();
        assert!(one > line.len() * 50, "{one}");
        let many = MOST_BYTES / one + 4;
        let text = line.repeat(many);
        let read = in_lines(&text).len();
        assert!(read < text.len() + MOST_BYTES + (1 << 20), "{read}");
        assert!(read < one * many, "{read}");
    }

    #[test]
    fn what_is_in_lines_stays_as_it_is() {
        let report = "    44.06%  mysqld   mysqld         [.] ut_delay\n    \
                      12.10%  mysqld   mysqld         [.] rec_get_offsets_func\n";
        assert!(matches!(in_lines(report), Cow::Borrowed(_)));
        // Two marks, and no shares.
        let prose = format!("{} we saw [.] a and [k] b, 100% sure", "words ".repeat(40));
        assert_eq!(in_lines(&prose), format!("{prose}\n"));
    }
}
