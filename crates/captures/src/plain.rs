//! What pasting does to a text, undone: quote marks, prefixes of a log, indentation, HTML, escaped line ends, typographic
//! dashes, wrapped lines, line ends that are gone.
//!
//! Each step is taken only where a line that only a server or one of its tools writes stands out of place: what is in order
//! stays as it is.

use std::borrow::Cow;

use crate::rows::is_border;
use crate::{
    advisors, aliases, boxes, clock, collectors, container_status, double_spaced, exporter, expressions,
    group_members, heads, heartbeat, indented, intervals, kernel_log, kill_log, log_lines, markup,
    memory_limits, named_rows, numbered_blocks, one_line, perf_lines, plan_rows, printed, profile_rows,
    prose, python, replica_messages, reshaped, screens, slow_marks, status_page, summary, terminal,
    tool_tables, tuner, wrapped_lines, xml, yaml_rows,
};

/// Beginnings of lines, as servers and their tools write them, that stand nowhere within a line of an error log.
const ANCHORS: [&str; 20] = [
    "--Thread ",
    "---TRANSACTION ",
    "=====================",
    "---------------",
    "***************************",
    "OS WAIT ARRAY INFO: ",
    "MySQL thread id ",
    "MariaDB thread id ",
    "Trx id counter ",
    "RW-shared spins ",
    "Per second averages calculated ",
    "+----",
    "| Id ",
    "| ID ",
    "Stack trace of thread ",
    "Variable_name",
    "[mysqld]",
    "# Time: ",
    "# User@Host: ",
    "# Query_time: ",
];

/// Lines looked at, for what a text has in common.
const LOOKED_AT: usize = 2_000;

/// The text as it was before it was pasted.
pub(crate) fn undamaged(text: &str) -> String {
    let text = terminal::plain(text);
    let text = boxes::in_ascii(&text);
    let text = yaml_rows::as_vertical(&text);
    let text = unquoted(&text);
    let text = indented::without_indent(&text);
    let text = without_diff(&text);
    let text = without_code_marks(&text);
    let text = without_comment_marks(&text);
    let text = without_bullets(&text);
    let text = printed::as_python(&text);
    let text = python::with_tables(&text);
    let text = unescaped(&text);
    let text = xml::as_tables(&text);
    let text = markup::without_markup(&text);
    let text = without_markdown(&text);
    let text = status_page::as_lists(&text);
    let text = named_rows::as_vertical(&text);
    let text = tool_tables::as_printed(&text);
    let text = numbered_blocks::without_numbers(&text);
    let text = perf_lines::in_lines(&text);
    let text = one_line::in_lines(&text);
    let text = summary::as_lists(&text);
    let text = without_counts(&text);
    let text = without_numbers(&text);
    let text = collectors::without_prefixes(&text);
    let text = without_prefix(&text);
    let text = without_container(&text);
    let lines: Vec<Cow<'_, str>> = text.lines().map(|line| plain_line(line)).collect();
    let lines = container_status::with_names(double_spaced::closed_up(closed_up(lines)));
    let lines = memory_limits::with_limits(kernel_log::whole_lines(lines));
    let lines: Vec<Cow<'_, str>> = lines.into_iter().map(without_what_collected_it).collect();
    let lines = intervals::with_lists(wrapped_lines::joined(&lines));
    let lines = screens::as_lists(exporter::as_lists(tuner::as_lists(advisors::with_lists(lines))));
    let lines = expressions::with_names(aliases::with_names(slow_marks::with_marks(lines)));
    let lines = group_members::with_heads(heads::with_heads(reshaped::reshaped(kill_log::with_lists(lines))));
    let lines = replica_messages::with_names(plan_rows::with_head(profile_rows::with_tabs(lines)));
    let mut text = heads::with_row_numbers(lines).join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// A text of which more than a third of the lines have the `>` of an answered letter; those that have not are what somebody wrote beside it.
fn unquoted(text: &str) -> Cow<'_, str> {
    const LEVELS: usize = 4;
    let mut text = Cow::Borrowed(text);
    for _ in 0..LEVELS {
        let (mut all, mut quoted) = (0_usize, 0_usize);
        for line in text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT) {
            all += 1;
            quoted += usize::from(line.trim_start().starts_with('>'));
        }
        if quoted * 3 <= all {
            break;
        }
        let mut plain = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            match line.trim_start_matches([' ', '\t']).strip_prefix('>') {
                Some(inside) => plain.push_str(inside.strip_prefix(' ').unwrap_or(inside)),
                None => plain.push_str(line),
            }
        }
        text = Cow::Owned(plain);
    }
    text
}

/// A text of which each line that is not empty has the mark of a diff in front.
fn without_diff(text: &str) -> Cow<'_, str> {
    /// One line, or one alone that is no rule, may be anything.
    const FEW: usize = 2;
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_marked = |mark: char| {
        let inside = |line: &str| line.strip_prefix(mark).is_some_and(|rest| !rest.starts_with(mark));
        // What begins with several of them is a rule or a border.
        lines().all(|line| line.starts_with(mark)) && lines().filter(|line| inside(line)).count() >= FEW
    };
    // A frame's border has hyphens behind its corner.
    let is_border = |line: &str| line.starts_with("+-");
    match ['+', '-'].into_iter().find(|mark| is_marked(*mark)) {
        Some(mark) if !lines().any(is_border) => Cow::Owned(
            text.lines().map(|line| format!("{}\n", line.strip_prefix(mark).unwrap_or(line))).collect(),
        ),
        _ => Cow::Borrowed(text),
    }
}

/// A text of which an editor of Markdown made code of each line, in a list or not: "- `| Id | User |`".
fn without_code_marks(text: &str) -> Cow<'_, str> {
    /// Fewer may be names in a sentence.
    const FEW: usize = 3;
    fn inside(line: &str) -> Option<&str> {
        let line = line.trim();
        let line = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(*mark)).unwrap_or(line).trim_start();
        let inside = line.strip_prefix('`')?.strip_suffix('`')?;
        (!inside.is_empty() && !inside.starts_with('`')).then_some(inside)
    }
    let is_of_server = |line: &str| ANCHORS.iter().any(|anchor| line.starts_with(anchor));
    let code = || text.lines().take(LOOKED_AT).filter_map(inside);
    if code().take(FEW).count() < FEW || !code().any(is_of_server) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.lines().map(|line| format!("{}\n", inside(line).unwrap_or(line))).collect())
}

/// A text of which each line that is not empty is a comment of SQL: what a file of statements quotes.
fn without_comment_marks(text: &str) -> Cow<'_, str> {
    /// Fewer lines may be what somebody wrote.
    const FEW: usize = 3;
    fn bare(line: &str) -> Option<&str> {
        line.strip_prefix("--").filter(|rest| rest.is_empty() || rest.starts_with(' '))
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    if lines().take(FEW).count() < FEW || !lines().all(|line| bare(line).is_some()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.lines().map(|line| format!("{}\n", bare(line).unwrap_or(line))).collect())
}

/// A text of which an editor made each line that is not empty an item of a list.
fn without_bullets(text: &str) -> Cow<'_, str> {
    /// Fewer lines may be a list.
    const FEW: usize = 5;
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_marked = |mark: &&str| lines().all(|line| line.trim_start().starts_with(*mark));
    match ["* ", "\u{2022} "].into_iter().find(is_marked).filter(|_| lines().take(FEW).count() == FEW) {
        Some(mark) => Cow::Owned(
            text.lines()
                .map(|line| format!("{}\n", line.trim_start().strip_prefix(mark).unwrap_or_default()))
                .collect(),
        ),
        None => Cow::Borrowed(text),
    }
}

/// Lines that a client, a driver or a JSON string wrote as one, with `\n` for their ends.
fn unescaped(text: &str) -> Cow<'_, str> {
    // Below one of these pairs of characters stands a line of a server's own; statements in a tab-separated list have `\n` too.
    const BEGINS: [&str; 14] = [
        // Plans in JSON.
        r#"{\n  "query_block": "#,
        r#"{\n  "r_query_time_in_progress_ms": "#,
        r#"{\n  "query_optimization": "#,
        r#"{\n  "query": "/* select#"#,
        r"\n====",
        r"\n--------",
        r"\n--Thread",
        r"\n***************",
        r"\n+---",
        r"\n#0 ",
        r"\n#1 ",
        r"\nThread ",
        r"\n    -> ",
        r"\n[mysqld",
    ];
    let is_escaped = |line: &str| BEGINS.iter().any(|begins| line.contains(begins));
    let mut text = Cow::Borrowed(text);
    // A text in JSON in JSON has two levels.
    for _ in 0..2 {
        let halved = text.contains(r"\\n==") || text.contains(r"\\n--------");
        if !halved && !text.lines().any(is_escaped) {
            break;
        }
        let mut plain = String::with_capacity(text.len());
        for line in text.lines() {
            match is_escaped(line) || halved && line.contains(r"\\n") {
                true => without_escapes(line, &mut plain),
                false => plain.push_str(line),
            }
            plain.push('\n');
        }
        text = Cow::Owned(plain);
    }
    text
}

fn without_escapes(line: &str, plain: &mut String) {
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some('r') => {}
                Some('u') => {
                    let digits: String = characters.clone().take(4).collect();
                    match u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32) {
                        Some(character) if digits.len() == 4 => {
                            plain.push(character);
                            characters.by_ref().take(4).for_each(drop);
                        }
                        _ => plain.push_str(r"\u"),
                    }
                }
                Some(other) => plain.push(other),
                None => {}
            },
            other => plain.push(other),
        }
    }
}

/// Markdown of which an editor made plain text: a `\\` before what would be a mark, and a person's words in bold as a line of
/// their own.
fn without_markdown(text: &str) -> Cow<'_, str> {
    const BEGINS: [&str; 5] = [r"\---", r"\***", r"\*\*\*", r"\+--", r"\=="];
    // What stands before the functions of perf's reports.
    const WITHIN: [&str; 2] = [r"\[.\] ", r"\[k\] "];
    let is_bold = |line: &str| {
        let line = line.trim();
        line.len() > 4
            && line.strip_prefix("**").and_then(|line| line.strip_suffix("**")).is_some_and(|inside| {
                inside.starts_with(|c: char| !"* ".contains(c)) && !inside.ends_with(['*', ' '])
            })
    };
    let is_escaped =
        text.lines().any(|line| BEGINS.iter().any(|begins| line.trim_start().starts_with(begins)))
            || WITHIN.iter().any(|mark| text.contains(mark));
    if !is_escaped && !text.lines().any(is_bold) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().map(|line| if is_bold(line) { "" } else { line }) {
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            let is_mark = |next: &char| r"\`*_{}[]()#+-.!|<>=".contains(*next);
            if !(is_escaped && letter == '\\' && letters.peek().is_some_and(is_mark)) {
                plain.push(letter);
            } else if let Some(mark) = letters.next() {
                plain.push(mark);
            }
        }
        plain.push('\n');
    }
    Cow::Owned(plain)
}

/// Lines that a pager or a page counts from the first on, each of them, with blanks or a tab behind the number: `cat -n`.
fn without_counts(text: &str) -> Cow<'_, str> {
    /// Fewer lines may be the rows of a list.
    const FEW: usize = 8;
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_next = |(at, line): (usize, &str)| counted(line).is_some_and(|(number, _)| number == at + 1);
    if lines().take(FEW).count() < FEW || !lines().enumerate().all(is_next) {
        return without_counts_of_status(text).map_or(Cow::Borrowed(text), Cow::Owned);
    }
    let full = || lines().filter_map(counted).filter(|(_, rest)| !rest.trim().is_empty());
    let blanks = |rest: &str| rest.bytes().take_while(|byte| *byte == b' ').count();
    let width = full().map(|(_, rest)| blanks(rest)).min().unwrap_or(0);
    let bare = |line| counted(line).map_or("", |(_, rest)| rest.get(width..).unwrap_or_default());
    let bare = |line| str::strip_prefix(bare(line), '\t').unwrap_or(bare(line));
    Cow::Owned(text.lines().map(|line| format!("{}\n", bare(line))).collect())
}

/// A line that begins with a count, without it.
fn counted(line: &str) -> Option<(usize, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    // Threads have numbers of their own.
    let is_own = ["Thread 0x", "LWP "].iter().any(|begins| rest.trim_start().starts_with(begins));
    let is_count = !is_own && (rest.is_empty() || rest.starts_with([' ', '\t']));
    Some((line[..digits].parse().ok().filter(|_| is_count)?, rest))
}

/// The same of lines of InnoDB's status below somebody's words, where a page wrapped some of them: what it wrapped has no count.
fn without_counts_of_status(text: &str) -> Option<String> {
    const FEW: usize = 8;
    let (mut count, mut wrapped, mut is_status, mut is_open) = (0_usize, 0_usize, false, false);
    let mut plain = String::new();
    for line in text.lines() {
        match counted(line).filter(|(number, _)| *number == count + 1) {
            Some((number, rest)) => {
                let rest = rest.strip_prefix([' ', '\t']).unwrap_or(rest);
                count = number;
                is_status |= ANCHORS.iter().any(|anchor| rest.starts_with(anchor));
                is_open = true;
                plain.push('\n');
                plain.push_str(rest);
            }
            None if is_open && !line.trim().is_empty() => {
                wrapped += 1;
                plain.push(' ');
                plain.push_str(line.trim());
            }
            None => {
                is_open = false;
                plain.push('\n');
                plain.push_str(line);
            }
        }
    }
    plain.push('\n');
    (count >= FEW && is_status && wrapped * 4 <= count).then(|| plain.trim_start_matches('\n').to_owned())
}

/// Lines that a page numbers, `12. `, `12: ` and the like, whatever the width of the number.
fn without_numbers(text: &str) -> Cow<'_, str> {
    /// Fewer lines may begin with numbers by chance.
    const FEW: usize = 5;
    // A lag with its hundredths, which grows.
    if text.lines().take(LOOKED_AT).any(heartbeat::is_line) {
        return Cow::Borrowed(text);
    }
    let numbered = |line: &str| {
        let bare = line.trim_start();
        let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
        let number: usize = bare[..digits].parse().ok()?;
        let rest = bare[digits..].strip_prefix(['.', ':', ')'])?;
        Some((number, rest.strip_prefix(' ').unwrap_or(rest).to_owned()))
    };
    let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).map(numbered).collect();
    let numbers: Vec<usize> = all.iter().flatten().map(|(number, _)| *number).collect();
    let rise = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
    if numbers.len() < FEW || numbers.len() * 10 < all.len() * 9 || rise * 10 < (numbers.len() - 1) * 9 {
        return Cow::Borrowed(text);
    }
    let plain = text.lines().map(|line| numbered(line).map_or_else(|| line.to_owned(), |(_, rest)| rest));
    Cow::Owned(plain.map(|line| line + "\n").collect())
}

/// A page where each line is a paragraph has an empty line behind each: where nearly no line follows another, all empty ones go; else
/// those between lines of a server of which none follows another. The one above what somebody wrote stays.
fn closed_up(lines: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    /// Fewer lines may be anything.
    const FEW: usize = 8;
    let is_full = |line: &&Cow<'_, str>| !line.is_empty();
    let is_of_server = |line: &Cow<'_, str>| ANCHORS.iter().any(|anchor| line.starts_with(anchor));
    let has_number = |line: &&Cow<'_, str>| line.split_whitespace().any(|word| word.parse::<f64>().is_ok());
    let full = lines.iter().take(LOOKED_AT).filter(is_full).count();
    let follow = lines
        .iter()
        .take(LOOKED_AT)
        .zip(lines.iter().skip(1))
        .filter(|(one, next)| is_full(one) && is_full(next))
        .count();
    let is_above_prose = |at: usize| lines.get(at + 1).is_some_and(|next| prose::is_prose(next));
    let mut goes = vec![full >= FEW && follow * 20 <= full; lines.len()];
    let mut from = 0;
    while from < lines.len() {
        let mut to = from;
        while to + 2 < lines.len()
            && !lines[to].is_empty()
            && lines[to + 1].is_empty()
            && !lines[to + 2].is_empty()
        {
            to += 2;
        }
        let run = &lines[from..=to];
        let is_of_tool = || run.iter().filter(has_number).count() >= FEW;
        if (to - from) / 2 + 1 >= FEW && (run.iter().any(is_of_server) || is_of_tool()) {
            goes[from..=to].fill(true);
        }
        from = to + 1;
    }
    let keeps: Vec<bool> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| !line.is_empty() || !goes[at] || is_above_prose(at))
        .collect();
    lines.into_iter().zip(keeps).filter_map(|(line, is_kept)| is_kept.then_some(line)).collect()
}

/// A line of a server's log without what collected it: `db-1  | `, `Feb 12 09:52:22 db1 mysqld[4711]: `, `2018-02-12T09:52:22Z stdout F `.
fn without_what_collected_it(line: Cow<'_, str>) -> Cow<'_, str> {
    match log_lines::begins(&line) {
        Some(at) if at > 0 => Cow::Owned(line[at..].to_owned()),
        Some(_) => line,
        None => match of_log_within(&line).or_else(|| quoted_error(&line)).map(str::to_owned) {
            Some(inside) => Cow::Owned(inside),
            None => line,
        },
    }
}

/// How lines of a log begin that have no level behind a time: there may be many indented lines of other kinds.
const OF_LOG: [&str; 18] = [
    "InnoDB: ",
    "Plugin 'InnoDB' ",
    "Unknown/unsupported storage engine",
    "[",
    "mysql",
    "mariadb",
    "xtrabackup: ",
    "mariabackup: ",
    "WSREP_SST: ",
    "ERROR ",
    "Error ",
    "error ",
    "warning ",
    "Fatal error: ",
    "Attempting backtrace",
    "stack_bottom = ",
    "Version: '",
    "Can't ",
];

/// The line of a log without a level that a letter quotes, or a page indents or makes an item of a list, alone among others, or that a
/// container's name stands before; None where the line is one as it stands.
fn of_log_within(line: &str) -> Option<&str> {
    const MARKS: [&str; 3] = ["- ", "* ", "\u{2022} "];
    let inside = line.trim_start_matches([' ', '\t', '>']);
    let item = MARKS.iter().find_map(|mark| inside.strip_prefix(*mark));
    let inside = item.map_or(inside, str::trim_start);
    let inside = collectors::container(inside).map_or(inside, str::trim_start);
    let begins = || {
        let has_time = || inside.starts_with(|c: char| c.is_ascii_digit()) && clock::time(inside).is_some();
        OF_LOG.iter().any(|begin| inside.starts_with(begin)) || has_time()
    };
    let is_damaged = inside.len() < line.len() && begins() && !log_lines::is_of_log(line);
    (is_damaged && log_lines::is_of_log(inside)).then_some(inside)
}

/// An error of a server's that somebody quotes in a sentence, without its time, to the end of the line.
fn quoted_error(line: &str) -> Option<&str> {
    log_lines::quoted_error(line).map(|at| &line[at..])
}

/// Where the lines of a text begin behind something that was put before each: a quote mark, a log's time, an indentation.
fn without_prefix(text: &str) -> Cow<'_, str> {
    // Its headings have dashes at both ends.
    if text.lines().take(LOOKED_AT).any(tuner::is_head) {
        return Cow::Borrowed(text);
    }
    let mut at = [0_usize; 160];
    // A prefix of some places has letters or digits in it: a name, a time.
    let mut has_letters = [false; 160];
    // The bars of a table are none: below its head Markdown has dashes, which are no rule.
    let is_of_table = |line: &&str| line.trim_start().starts_with('|') && is_border(line);
    for line in text.lines().take(LOOKED_AT).filter(|line| !is_of_table(line)) {
        let line = typographic(line);
        let first = ANCHORS.iter().filter_map(|anchor| Some((line.find(anchor)?, anchor))).min();
        if let Some((bytes, _)) = first {
            // Of a rule, the first of its characters counts.
            let rule = line[bytes..].chars().next().unwrap_or_default();
            let before = line[..bytes].trim_end_matches(rule).chars().count();
            // What escapes a `#` is no prefix of the other lines.
            let is_escape = line[..bytes] == *"\\";
            // Behind a time and a level it is a line of a log, as above each view of a cluster, and around what a script says of an error.
            let is_of_log = log_lines::begins(&line) == Some(0);
            if let Some(count) = at.get_mut(before).filter(|_| !is_escape && !is_of_log) {
                *count += 1;
                has_letters[before] |= line[..bytes].chars().any(char::is_alphanumeric);
            }
        }
    }
    let (most, count) =
        at.iter().enumerate().max_by_key(|(place, count)| (**count, usize::MAX - place)).unwrap_or((0, &0));
    if most == 0 || *count <= at[0] || (*count < 2 && !is_same_before(text, most)) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        match line.char_indices().nth(most) {
            // It has no prefix: what somebody wrote beside the others.
            Some((cut, _)) if !has_letters[most] && line[..cut].chars().any(char::is_alphanumeric) => {
                plain.push_str(line);
            }
            Some((cut, _)) => plain.push_str(&line[cut..]),
            // An empty line of the text: its prefix may have lost the blanks at its end.
            None if line.trim().chars().all(|c| !c.is_alphanumeric()) => {}
            None if line.chars().count() <= most => {}
            None => plain.push_str(line),
        }
        plain.push('\n');
    }
    Cow::Owned(plain)
}

/// The lines without the name that docker-compose puts before each (`db_1  | `), where half of them have the same one; a page may have
/// indented them.
fn without_container(text: &str) -> Cow<'_, str> {
    const LONGEST_NAME: usize = 60;
    fn name(line: &str) -> Option<&str> {
        let (name, _) = line.split_once(" | ")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let plain = name.trim();
        (!plain.is_empty() && name.len() <= LONGEST_NAME && plain.chars().all(is_name)).then_some(name)
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT);
    let Some(first) = lines().find_map(name) else { return Cow::Borrowed(text) };
    let (all, same) =
        lines().fold((0, 0), |(all, same), line| (all + 1, same + usize::from(name(line) == Some(first))));
    let bare = |line| str::strip_prefix(line, first).and_then(|rest: &str| rest.strip_prefix(" | "));
    let is_log = || lines().filter_map(bare).any(log_lines::is_of_log);
    if same < 2 || same * 2 < all || !is_log() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        plain.push_str(bare(line).unwrap_or(line));
        plain.push('\n');
    }
    Cow::Owned(plain)
}

/// True where each line begins with the same so many characters.
fn is_same_before(text: &str, columns: usize) -> bool {
    let mut lines = text.lines().take(LOOKED_AT).filter(|line| !line.trim().is_empty());
    let Some(first) = lines.next() else { return false };
    lines.all(|line| line.chars().take(columns).eq(first.chars().take(columns)))
}

/// A blog's dashes are hyphens again.
fn typographic(line: &str) -> Cow<'_, str> {
    if line.is_ascii() {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut leads = true;
    for character in line.chars() {
        let is_dash = matches!(character, '\u{2010}'..='\u{2015}' | '\u{2212}' | '-' | ' ' | '\u{a0}' | '>');
        match character {
            // WordPress makes one dash of two hyphens, and a longer one of three.
            '\u{2013}' if leads => plain.push_str("--"),
            '\u{2014}' if leads => plain.push_str("---"),
            '\u{2010}' | '\u{2011}' | '\u{2012}' | '\u{2212}' if leads => plain.push('-'),
            '\u{a0}' | '\u{2002}' | '\u{2003}' | '\u{2009}' => plain.push(' '),
            '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{feff}' | '\u{ad}' => {}
            '\u{ff1a}' => plain.push(':'),
            '\u{ff0c}' => plain.push_str(", "),
            other => plain.push(other),
        }
        leads &= is_dash;
    }
    Cow::Owned(plain)
}

fn plain_line(line: &str) -> Cow<'_, str> {
    match typographic(line) {
        Cow::Borrowed(line) => Cow::Borrowed(line.trim_end_matches(' ')),
        Cow::Owned(line) => Cow::Owned(with_quotes(line.trim_end_matches(' '))),
    }
}

/// A line of a log with the quotes that a server writes, where a page made other ones of them: `Plugin \u{2018}InnoDB\u{2019}`.
fn with_quotes(line: &str) -> String {
    match log_lines::behind_level(line) {
        Some(_) => line.replace(['\u{2018}', '\u{2019}'], "'").replace(['\u{201c}', '\u{201d}'], "\""),
        None => line.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
