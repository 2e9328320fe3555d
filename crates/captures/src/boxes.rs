//! Tables drawn with the characters of boxes (Unicode, U+2500 to U+257F), Markdown's without bars at their sides, and those whose
//! borders have blanks, as MySQL Workbench prints results as text: as a client draws them.
//!
//! ```text
//! │ Id │ User │                Id | User              | Id | User |
//! ├────┼──────┤                ---|-----:             + -- + ---- +
//! │ 12 │ app  │                12 | app               | 12 | app  |
//! ```

use std::borrow::Cow;

const BOXES: std::ops::RangeInclusive<char> = '\u{2500}'..='\u{257f}';

/// Lines from left to right: light, heavy, double, dashed.
fn is_rule(c: char) -> bool {
    matches!(
        c,
        '\u{2500}'
            | '\u{2501}'
            | '\u{2504}'
            | '\u{2505}'
            | '\u{2508}'
            | '\u{2509}'
            | '\u{254c}'
            | '\u{254d}'
            | '\u{2550}'
    )
}

/// Lines from top to bottom.
fn is_bar(c: char) -> bool {
    matches!(
        c,
        '\u{2502}'
            | '\u{2503}'
            | '\u{2506}'
            | '\u{2507}'
            | '\u{250a}'
            | '\u{250b}'
            | '\u{254e}'
            | '\u{254f}'
            | '\u{2551}'
    )
}

/// A text with each such table in a frame of `+`, `-` and `|`.
pub(crate) fn in_ascii(text: &str) -> Cow<'_, str> {
    if text.lines().any(is_border) {
        Cow::Owned(text.lines().map(|line| drawn(line) + "\n").collect())
    } else if text.lines().any(is_rule_of_markdown) {
        Cow::Owned(with_sides(text))
    } else if text.lines().any(|line| border_with_blanks(line).is_some()) {
        Cow::Owned(text.lines().map(without_blanks).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Where `+ ---- + ------ +` begins in a line: something may stand before it, such as the mark of a letter that is quoted.
fn border_with_blanks(line: &str) -> Option<usize> {
    let at = line.find("+ --")?;
    let border = line[at..].trim_end();
    (border.ends_with(" +") && border.bytes().all(|byte| b"+- ".contains(&byte))).then_some(at)
}

/// A line, with such a border in it closed: `+------+--------+`.
fn without_blanks(line: &str) -> String {
    match border_with_blanks(line) {
        Some(at) => format!("{}{}\n", &line[..at], line[at..].trim_end().replace(' ', "-")),
        None => format!("{line}\n"),
    }
}

/// `├────┼──────┤`: where columns meet a rule. A rule alone may stand below a heading.
fn is_border(line: &str) -> bool {
    /// Of a tree of processes or folders a line has two.
    const FEWEST_RULES: usize = 3;
    let line = line.trim();
    let is_meeting = |c: char| BOXES.contains(&c) && !is_rule(c);
    line.chars().all(|c| BOXES.contains(&c) || c == ' ')
        && line.chars().filter(|c| is_rule(*c)).count() >= FEWEST_RULES
        && line.chars().any(is_meeting)
}

fn drawn(line: &str) -> String {
    if is_border(line) {
        let ends_with_rule = |c: Option<char>| c.is_some_and(is_rule);
        let line = line.trim();
        let ascii: String = line.chars().map(|c| if is_rule(c) || c == ' ' { '-' } else { '+' }).collect();
        return match ends_with_rule(line.chars().next()) {
            true => format!("+{ascii}+"),
            false => ascii,
        };
    }
    if !line.contains(is_bar) {
        return line.to_owned();
    }
    let begins_with_bar = line.trim_start().starts_with(is_bar);
    let ascii = line.replace(is_bar, "|");
    if begins_with_bar { ascii } else { format!("| {ascii} |") }
}

/// `---|---:|:---`
fn is_rule_of_markdown(line: &str) -> bool {
    const SHORTEST: usize = 3;
    let line = line.trim();
    let is_cell = |cell: &str| {
        let dashes = cell.trim().trim_matches(':');
        dashes.len() >= SHORTEST && dashes.bytes().all(|byte| byte == b'-')
    };
    line.contains('|') && line.split('|').all(is_cell)
}

/// A text with bars at the sides of the tables of Markdown that have none: the line above the rule, and those below with bars.
fn with_sides(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut whole = String::with_capacity(text.len() + lines.len() * 4);
    let mut in_table = false;
    for (at, line) in lines.iter().enumerate() {
        let is_rule = is_rule_of_markdown(line);
        let is_head = lines.get(at + 1).is_some_and(|next| is_rule_of_markdown(next));
        in_table = (is_rule || is_head || in_table) && line.contains('|');
        match line.trim_start().starts_with('|') {
            false if in_table => whole.push_str(&format!("| {} |\n", line.trim())),
            _ => whole.extend([line, "\n"]),
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Said;
    use crate::recognise;

    /// The states of the sessions of a text.
    fn states(text: &str) -> Vec<String> {
        let parts = recognise("x", text);
        let said = parts.iter().flat_map(|part| &part.moments).flat_map(|moment| &moment.said);
        let threads =
            said.filter_map(|said| if let Said::Threads(threads) = said { Some(threads) } else { None });
        threads.flatten().map(|thread| thread.state.clone()).collect()
    }

    #[test]
    fn a_table_in_boxes_is_one_in_a_frame_in_colours_and_without_sides_too() {
        let light = "MariaDB, in colours\n\
             ┌────┬──────┬─────────┬──────┬──────────────┬──────────┐\n\
             │\x1b[1m Id \x1b[0m│\x1b[1m User \x1b[0m│ Command │ Time │ State        │ Info     │\n\
             ├────┼──────┼─────────┼──────┼──────────────┼──────────┤\n\
             │ 12 │ app  │ Query   │    5 │\x1b[31m Sending data \x1b[0m│ SELECT 1 │\n\
             │ 13 │ app  │ Sleep   │    9 │              │ NULL     │\n\
             └────┴──────┴─────────┴──────┴──────────────┴──────────┘\n2 rows\n";
        let heavy = light.replace('│', "┃").replace('─', "━").replace('┼', "╋");
        let double = light.replace('│', "║").replace('─', "═");
        let bare = " Id │ User │ Command │ Time │ State        │ Info\n\
                    ────┼──────┼─────────┼──────┼──────────────┼──────────\n \
                    12 │ app  │ Query   │    5 │ Sending data │ SELECT 1\n \
                    13 │ app  │ Sleep   │    9 │              │ NULL\n";
        let markdown = "Id | User | Command | Time | State | Info\n---|---|---|---:|:---|---\n\
                        12 | app | Query | 5 | Sending data | SELECT 1\n13 | app | Sleep | 9 | | NULL\n\nBye\n";
        for text in [light, &heavy, &double, bare, markdown] {
            assert_eq!(states(text), ["Sending data", ""], "{text}\n{}", in_ascii(text));
        }
    }

    #[test]
    fn a_table_whose_borders_have_blanks_is_one_in_a_frame_and_quoted_too() {
        let border = "+ ------- + --------- + ------------ + --------- + --------------------------------- + ------------- +\n";
        let text = format!(
            "{border}| Id      | User      | Command      | Time      | State                             | Info          |\n{border}\
             | 12      | app       | Query        | 5         | Waiting for table metadata lock   | SELECT 1      |\n\
             | 13      | app       | Sleep        | 9         |                                   |               |\n{border}2 rows\n"
        );
        let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
        for text in [&text, &quoted] {
            assert_eq!(states(text), ["Waiting for table metadata lock", ""], "{}", in_ascii(text));
        }
    }

    #[test]
    fn trees_and_rules_stay_as_they_are() {
        for text in [
            "a + -- + b\n",
            "1 + --2 +\n",
            "systemd─┬─cron\n        ├─mysqld───40*[{mysqld}]\n",
            "Head\n────────\ntext\n",
            "a │ b\n",
            "--- | and\n",
        ] {
            assert_eq!(in_ascii(text), text);
        }
    }
}
