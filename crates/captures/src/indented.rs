//! Blocks that a letter indents, as Markdown has them for what a program printed.
//!
//! ```text
//! This is what the server says:
//!
//!     ---TRANSACTION 9071, ACTIVE 93 sec
//!     MySQL thread id 52, OS thread handle 140, query id 723 10.1.2.9 app
//! ```

use std::borrow::Cow;

use crate::prose;

/// Lines that are looked at for words of a letter.
const LOOKED_AT: usize = 2_000;

/// The text, with its blocks at the beginning of the line. What no letter stands around is as it was: a tool's own indentation.
pub(crate) fn without_indent(text: &str) -> Cow<'_, str> {
    let is_of_letter = |line: &str| !line.starts_with([' ', '\t']) && prose::is_prose(line);
    if !text.lines().any(is_indented) || !text.lines().take(LOOKED_AT).any(is_of_letter) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut plain = String::with_capacity(text.len());
    let mut at = 0;
    while at < lines.len() {
        let begins = at.checked_sub(1).is_none_or(|above| is_empty(lines[above]));
        let (length, is_block) = if begins { block(&lines[at..]) } else { (1, false) };
        let taken = &lines[at..at + length];
        let indent = if is_block { common(taken) } else { "" };
        for line in taken {
            plain.push_str(line.strip_prefix(indent).unwrap_or(line.trim_start()));
            plain.push('\n');
        }
        at += length;
    }
    Cow::Owned(plain)
}

fn is_empty(line: &str) -> bool {
    line.trim().is_empty()
}

fn is_indented(line: &str) -> bool {
    (line.starts_with("    ") || line.starts_with('\t')) && !is_empty(line)
}

/// How many lines belong together from the first of these on, and whether they are a block: below it stands an empty line.
fn block(lines: &[&str]) -> (usize, bool) {
    if !lines.first().is_some_and(|line| is_indented(line)) {
        return (1, false);
    }
    let rest = lines.iter().take_while(|line| is_indented(line) || is_empty(line)).count();
    let length = lines[..rest].iter().rposition(|line| is_indented(line)).map_or(rest, |last| last + 1);
    // Where it is none, what stands within it is none: it has the same end.
    if rest == lines.len() || length < rest { (length, true) } else { (rest, false) }
}

/// The blanks with which each line begins that is not empty.
fn common<'l>(lines: &[&'l str]) -> &'l str {
    let mut full = lines.iter().filter(|line| !is_empty(line));
    let Some(first) = full.next() else { return "" };
    let mut indent = &first[..first.len() - first.trim_start_matches([' ', '\t']).len()];
    for line in full {
        let same = indent.bytes().zip(line.bytes()).take_while(|(one, other)| one == other).count();
        indent = &indent[..same];
    }
    indent
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Since this morning our shop is slow. The server says:\n\n";
    const BEHIND: &str = "\n\nWhat else can we look at?\n";

    #[test]
    fn a_block_of_a_letter_stands_at_the_beginning_of_the_line() {
        let list = "  Id: 7\nUser: app\n\n  db: shop";
        for indent in ["    ", "\t", "      "] {
            let block = list.replace("\n", &format!("\n{indent}")).replace(&format!("{indent}\n"), "\n");
            let letter = format!("{BEFORE}{indent}{block}{BEHIND}");
            assert_eq!(without_indent(&letter), format!("{BEFORE}{list}{BEHIND}"));
        }
    }

    #[test]
    fn what_is_no_block_is_as_it_was() {
        for text in [
            // No letter stands around it.
            "    23.45%  mysqld  [.] ut_delay\n    11.20%  mysqld  [.] buf_page_get_gen\n",
            // It goes on with a line above or below.
            "Our application does not answer any more:\n    at com.example.Shop\nand this is all we have\n",
            "Our application does not answer any more:\n\n    at com.example.Shop\nand this is all we have\n",
        ] {
            assert_eq!(without_indent(text), text);
        }
    }
}
