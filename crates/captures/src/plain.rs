//! What pasting does to a text, undone: quote marks, prefixes of a log, indentation, HTML, escaped line ends, typographic
//! dashes, wrapped lines, line ends that are gone.
//!
//! Each step is taken only where a line that only a server or one of its tools writes stands out of place: what is in order
//! stays as it is.

use std::borrow::Cow;

use crate::{
    boxes, collectors, exporter, heads, heartbeat, intervals, kernel_log, log_lines, markup, one_line,
    printed, python, reshaped, screens, slow_marks, summary, terminal, tuner, xml,
};

/// Beginnings of lines, as servers and their tools write them, that stand nowhere within a line of an error log.
const ANCHORS: [&str; 16] = [
    "--Thread ",
    "---TRANSACTION ",
    "=====================",
    "---------------",
    "***************************",
    "OS WAIT ARRAY INFO: ",
    "MySQL thread id ",
    "Trx id counter ",
    "RW-shared spins ",
    "Per second averages calculated ",
    "+----",
    "| Id ",
    "| ID ",
    "Stack trace of thread ",
    "Variable_name",
    "[mysqld]",
];

/// Lines looked at, for what a text has in common.
const LOOKED_AT: usize = 2_000;

/// The text as it was before it was pasted.
pub(crate) fn undamaged(text: &str) -> String {
    let text = terminal::plain(text);
    let text = boxes::in_ascii(&text);
    let text = unquoted(&text);
    let text = without_diff(&text);
    let text = printed::as_python(&text);
    let text = python::with_tables(&text);
    let text = unescaped(&text);
    let text = xml::as_tables(&text);
    let text = markup::without_markup(&text);
    let text = without_markdown(&text);
    let text = one_line::in_lines(&text);
    let text = summary::as_lists(&text);
    let text = without_numbers(&text);
    let text = collectors::without_prefixes(&text);
    let text = without_prefix(&text);
    let text = without_container(&text);
    let lines: Vec<Cow<'_, str>> = text.lines().map(|line| plain_line(line)).collect();
    let lines = kernel_log::whole_lines(closed_up(lines));
    let lines: Vec<Cow<'_, str>> = lines.into_iter().map(without_what_collected_it).collect();
    let lines = screens::as_lists(exporter::as_lists(intervals::with_lists(joined(&lines))));
    let lines = slow_marks::with_marks(lines);
    let lines = heads::with_heads(reshaped::reshaped(lines));
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

/// Lines that a client, a driver or a JSON string wrote as one, with `\n` for their ends.
fn unescaped(text: &str) -> Cow<'_, str> {
    // Below one of these pairs of characters stands a line of a server's own; statements in a tab-separated list have `\n` too.
    const BEGINS: [&str; 13] = [
        // Plans in JSON.
        r#"{\n  "query_block": "#,
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
    let is_bold = |line: &str| {
        let line = line.trim();
        line.len() > 4
            && line.strip_prefix("**").and_then(|line| line.strip_suffix("**")).is_some_and(|inside| {
                inside.starts_with(|c: char| !"* ".contains(c)) && !inside.ends_with(['*', ' '])
            })
    };
    let is_escaped =
        text.lines().any(|line| BEGINS.iter().any(|begins| line.trim_start().starts_with(begins)));
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

/// A page where each line is a paragraph has an empty line behind each: where nearly no line follows another, all empty ones go.
fn closed_up(lines: Vec<Cow<'_, str>>) -> Vec<Cow<'_, str>> {
    /// Fewer lines may be anything.
    const FEW: usize = 8;
    let is_full = |line: &&Cow<'_, str>| !line.is_empty();
    let full = lines.iter().take(LOOKED_AT).filter(is_full).count();
    let follow = lines
        .iter()
        .take(LOOKED_AT)
        .zip(lines.iter().skip(1))
        .filter(|(one, next)| is_full(one) && is_full(next))
        .count();
    match full >= FEW && follow * 20 <= full {
        true => lines.into_iter().filter(|line| !line.is_empty()).collect(),
        false => lines,
    }
}

/// A line of a server's log without what collected it: `db-1  | `, `Feb 12 09:52:22 db1 mysqld[4711]: `, `2018-02-12T09:52:22Z stdout F `.
fn without_what_collected_it(line: Cow<'_, str>) -> Cow<'_, str> {
    match log_lines::begins(&line) {
        Some(at) if at > 0 => Cow::Owned(line[at..].to_owned()),
        _ => line,
    }
}

/// Where the lines of a text begin behind something that was put before each: a quote mark, a log's time, an indentation.
fn without_prefix(text: &str) -> Cow<'_, str> {
    // Its headings have dashes at both ends.
    if text.lines().take(LOOKED_AT).any(tuner::is_head) {
        return Cow::Borrowed(text);
    }
    let mut at = [0_usize; 160];
    for line in text.lines().take(LOOKED_AT) {
        let line = typographic(line);
        let first = ANCHORS.iter().filter_map(|anchor| Some((line.find(anchor)?, anchor))).min();
        if let Some((bytes, _)) = first {
            // Of a rule, the first of its characters counts.
            let rule = line[bytes..].chars().next().unwrap_or_default();
            let before = line[..bytes].trim_end_matches(rule).chars().count();
            if let Some(count) = at.get_mut(before) {
                *count += 1;
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

/// The lines without the name that docker-compose puts before each (`db_1  | `), where most have the same one.
fn without_container(text: &str) -> Cow<'_, str> {
    const LONGEST_NAME: usize = 60;
    fn name(line: &str) -> Option<&str> {
        let (name, _) = line.split_once(" | ")?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let plain = name.trim_end();
        (!plain.is_empty() && name.len() <= LONGEST_NAME && plain.chars().all(is_name)).then_some(name)
    }
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).take(LOOKED_AT);
    let Some(first) = lines().find_map(name) else { return Cow::Borrowed(text) };
    let (all, same) =
        lines().fold((0, 0), |(all, same), line| (all + 1, same + usize::from(name(line) == Some(first))));
    let bare = |line| str::strip_prefix(line, first).and_then(|rest: &str| rest.strip_prefix(" | "));
    let is_log = || lines().filter_map(bare).any(log_lines::is_of_log);
    if same < 2 || same * 2 <= all || !is_log() {
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
        Cow::Owned(line) => Cow::Owned(line.trim_end_matches(' ').to_owned()),
    }
}

/// Beginnings of lines of which it is known how they end.
const ENDS: [(&str, &str); 4] = [
    ("--Thread ", "the semaphore:"),
    ("------- TRX HAS BEEN WAITING ", "TO BE GRANTED:"),
    ("a writer (thread id ", "exclusive"),
    ("number of readers ", "lock_word: "),
];

/// True where behind the number of its statement a connection's line has nothing: its host, user and state were wrapped.
fn ends_with_query_id(line: &str) -> bool {
    line.rsplit_once(" query id ").is_some_and(|(_, id)| heads::is_number(id.trim()))
}

/// True for what a connection's line ends with: `localhost 127.0.0.1 app update`, and no statement.
fn is_tail(line: &str) -> bool {
    /// Words with which statements begin that no list of transactions shows often.
    const MORE_STATEMENTS: [&str; 8] =
        ["EXPLAIN", "DESCRIBE", "DESC", "USE", "XA", "PREPARE", "EXECUTE", "DO"];
    /// What a status prints below a connection.
    const OTHERS: [&str; 5] = ["Trx ", "TABLE LOCK", "RECORD LOCKS", "---", "***"];
    /// A host, an address, a user and a state are shorter, bytes. By judgement.
    const LONGEST: usize = 200;
    let line = line.trim();
    let first = line.split(' ').next().unwrap_or_default();
    let is_statement = heads::STATEMENTS
        .iter()
        .chain(&MORE_STATEMENTS)
        .any(|statement| first.eq_ignore_ascii_case(statement));
    line.len() <= LONGEST
        && line.split_whitespace().count() >= 2
        && !is_statement
        && !OTHERS.iter().any(|other| line.starts_with(other))
        && line.chars().all(|c| c.is_alphanumeric() || " .-_:@%".contains(c))
}

/// How many lines stand between a connection and its statement where somebody wrote `SQL:` above it.
fn labels(lines: &[Cow<'_, str>]) -> usize {
    let empty = lines.iter().take_while(|line| line.trim().is_empty()).count();
    match lines.get(empty) {
        Some(label) if label.trim() == "SQL:" => empty + 1,
        _ => 0,
    }
}

/// Lines that were wrapped, in one again: those of which it is known how they end.
fn joined(lines: &[Cow<'_, str>]) -> Vec<String> {
    let mut whole = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let mut line = line.to_string();
        at += 1;
        if ["MySQL thread id ", "MariaDB thread id "].iter().any(|begins| line.starts_with(begins)) {
            if let Some(tail) = lines.get(at).filter(|next| ends_with_query_id(&line) && is_tail(next)) {
                line = format!("{line} {}", tail.trim());
                at += 1;
            }
            at += labels(&lines[at..]);
        }
        let end = ENDS.iter().find(|(begins, _)| line.starts_with(begins)).map(|(_, end)| *end);
        if let Some(end) = end.filter(|end| !line.contains(end)) {
            // Wrapped at a blank, or within a word.
            let next: String =
                lines[at..].iter().take(2).map(|next| next.trim()).collect::<Vec<_>>().join(" ");
            for (taken, separator) in [(1, " "), (1, ""), (2, " ")] {
                let Some(more) = lines.get(at..at + taken) else { continue };
                let more = more.iter().map(|line| line.trim()).collect::<Vec<_>>().join(separator);
                let candidate = format!("{line}{separator}{more}");
                if candidate.contains(end) && !next.is_empty() && candidate.len() < 400 {
                    line = candidate;
                    at += taken;
                    break;
                }
            }
        }
        whole.push(line);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "--Thread 140406675191552 has waited at row0purge.cc line 862 for 18.00 seconds the semaphore:\n\
                         S-lock on RW-latch at 0x3ca8738 created in file dict0dict.cc line 1183\n\
                         a writer (thread id 140406373218048) has reserved it in mode  exclusive\n\
                         number of readers 0, waiters flag 1, lock_word: 0\n\
                         ------------\nTRANSACTIONS\n------------\n\
                         ---TRANSACTION 421, not started\n";

    #[test]
    fn what_is_in_order_stays_as_it_is() {
        assert_eq!(undamaged(PLAIN), PLAIN);
    }

    #[test]
    fn every_prefix_is_taken_away() {
        for prefix in
            ["> ", ">> ", "    ", "\t", "db-1  | ", "Feb 12 09:52:22 db1 mysqld[4711]: ", "# ", "12: "]
        {
            let damaged: String = PLAIN.lines().map(|line| format!("{prefix}{line}\n")).collect();
            assert_eq!(undamaged(&damaged), PLAIN, "{prefix}");
            let trimmed: String = damaged.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            assert_eq!(undamaged(&trimmed), PLAIN, "{prefix}");
        }
    }

    #[test]
    fn a_table_with_one_line_that_is_known_loses_its_prefix_too() {
        let list = "| Id | User | Info |\n|  7 | app | DO 1 |\n";
        for prefix in ["> ", "    ", "> > "] {
            let damaged: String = list.lines().map(|line| format!("{prefix}{line}\n")).collect();
            assert_eq!(undamaged(&damaged), list, "{prefix}");
        }
    }

    #[test]
    fn a_blog_and_a_string_give_the_text_back() {
        let blog = PLAIN.replace("---TRANSACTION", "&#8212;TRANSACTION").replace("--Thread", "&#8211;Thread");
        assert_eq!(undamaged(&blog), PLAIN);
        assert_eq!(
            undamaged(&PLAIN.replace("---TRANSACTION", "\u{2014}TRANSACTION").replace(':', "\u{ff1a}")),
            PLAIN
        );
        let string = PLAIN.replace('\n', "\\n");
        assert_eq!(undamaged(&string), PLAIN.to_owned() + "\n");
        assert_eq!(
            undamaged(&format!("<pre>{}</pre>", PLAIN.replace('<', "&lt;"))).trim_end(),
            PLAIN.trim_end()
        );
    }

    #[test]
    fn an_answered_letter_has_several_levels() {
        let list = "Id\tUser\tInfo\n7\tapp\tDO 1\n8\tapp\tDO 2\n";
        let quoted: String = list.lines().map(|line| format!(">> {line}\n")).collect();
        let letter = undamaged(&format!("> On Monday ops wrote:\n{quoted}> can you look?\nI can.\n"));
        assert!(letter.contains(list), "{letter}");
        assert!(letter.contains("\nI can.\n"), "{letter}");
    }

    #[test]
    fn the_mark_of_a_diff_is_taken_off_where_each_line_has_it() {
        let list =
            "+----+------+\n| Id | Info |\n+----+------+\n|  7 | DO 1 |\n|  8 | DO 2 |\n+----+------+\n";
        for mark in ["+", "-", "> "] {
            let diff: String = list.lines().map(|line| format!("{mark}{line}\n")).collect();
            assert_eq!(undamaged(&diff), list, "{mark}");
        }
        assert_eq!(undamaged(list), list);
        let options = "--key_buffer_size=1\n--port=2\n";
        assert_eq!(undamaged(options), options);
    }

    #[test]
    fn a_connection_s_line_that_was_wrapped_is_whole_and_a_label_is_no_statement() {
        let whole = "MySQL thread id 62, OS thread handle 17320, query id 51157 localhost 127.0.0.1 app update\ninsert into a values (1)\n";
        let wrapped = whole.replace(" localhost", "\nlocalhost").replace("\ninsert", "\n\nSQL:\ninsert");
        assert_eq!(undamaged(&wrapped), whole);
        let bare = "MySQL thread id 62, OS thread handle 17320, query id 51157\nselect a\n";
        assert_eq!(undamaged(bare), bare);
    }

    #[test]
    fn wrapped_lines_are_joined() {
        let wrapped = PLAIN
            .replace("18.00 seconds the", "18.00 seconds\nthe")
            .replace("mode  exclusive", "mode\nexclusive");
        assert_eq!(undamaged(&wrapped), PLAIN.replace("mode  exclusive", "mode exclusive"));
    }
}
