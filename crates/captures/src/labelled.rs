//! Process lists in which each value stands behind its name: typed by hand from a console, or as a program logs them.
//!
//! ```text
//! id 12 user app host 10.0.0.4 cmd Query time 31 state Sending data info SELECT a
//! id=12 user=app command=Query time=31 state="Sending data" info="SELECT a"
//! ```
//!
//! How the first name is parted from its value so are the others; a name that came already is a word of a value.

use crate::counted::is_state;
use crate::headless::one_line;
use crate::heads::{COMMANDS, is_number};
use crate::rows::{LONGEST_CELL, header_of};
use crate::spaced::HEAD;
use crate::table_kind::{TableKind, kind};

/// Rows of a list; fewer may be anything.
const FEW: usize = 2;
/// Names of a row; fewer may be a sentence.
const FEWEST_NAMES: usize = 4;

/// The columns of a process list, in its order, and how people call them.
const NAMES: [&[&str]; 8] = [
    &["id", "pid", "conn", "connection", "thread"],
    &["user"],
    &["host"],
    &["db", "database", "schema"],
    &["command", "cmd"],
    &["time", "secs"],
    &["state", "status"],
    &["info", "sql", "statement", "query"],
];
const USER: usize = 1;
const COMMAND: usize = 4;
const TIME: usize = 5;
const STATE: usize = 6;
const INFO: usize = 7;

/// The lines of a text, with such a list as a client prints it in batch mode.
pub(crate) fn with_tabs(lines: Vec<String>) -> Vec<String> {
    let rows: Vec<Option<String>> = lines.iter().map(|line| row(line)).collect();
    let is_head =
        |line: &String| header_of(line).is_some_and(|names| kind(&names) == Some(TableKind::ProcessList));
    if rows.iter().flatten().count() < FEW || lines.iter().any(is_head) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 1);
    let mut in_list = false;
    for (line, row) in lines.into_iter().zip(rows) {
        let is_row = row.is_some();
        if is_row && !in_list {
            all.push(HEAD.to_owned());
        }
        all.push(row.unwrap_or(line));
        in_list = is_row;
    }
    all
}

/// The column that a word names.
fn column(word: &str) -> Option<usize> {
    NAMES.iter().position(|names| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// True of a name that is written as the first: in small letters, in capitals, with a capital.
fn is_alike(first: &str, name: &str) -> bool {
    let is_capital =
        |at: usize| move |word: &str| word.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase);
    [0, 1].into_iter().all(|at| is_capital(at)(first) == is_capital(at)(name))
}

fn row(line: &str) -> Option<String> {
    let line = line.trim();
    let length = line.bytes().take_while(u8::is_ascii_alphabetic).count();
    let first = &line[..length];
    let parts = line[length..].chars().next().filter(|c| " =:".contains(*c))?;
    if line.len() > LONGEST_CELL || column(first) != Some(0) {
        return None;
    }
    let mut cells: [Option<&str>; 8] = [None; 8];
    // The column whose value is read, and where it begins.
    let mut open = (0, length + 1);
    let mut at = length + 1;
    while at < line.len() {
        let value = line[open.1..].trim_start();
        if value.starts_with('"') && at <= line.len() - value.len() {
            // What stands in quotes has no names.
            let begins = line.len() - value.len() + 1;
            let Some(end) = line[begins..].find('"') else { break };
            cells[open.0] = Some(&line[begins..begins + end]);
            at = begins + end + 1;
        }
        let rest = &line[at..];
        let word = rest.trim_start_matches([' ', ',', ';']);
        let begins = line.len() - word.len();
        let is_apart = begins > at || at == 0 || open.1 == at;
        let name = &word[..word.bytes().take_while(u8::is_ascii_alphabetic).count()];
        let behind = &word[name.len()..];
        let found = column(name).filter(|column| {
            let is_end_of_statement = *column == INFO && behind.trim_start().starts_with("end");
            is_apart
                && cells[*column].is_none()
                && *column != open.0
                && behind.starts_with(parts)
                && is_alike(first, name)
                && !is_end_of_statement
        });
        match found {
            Some(column) => {
                cells[open.0] = cells[open.0].or_else(|| Some(line[open.1..begins].trim()));
                open = (column, begins + name.len() + 1);
                at = open.1;
                if column == INFO && !line[at..].trim_start().starts_with('"') {
                    break;
                }
            }
            None => {
                let next = word.find([' ', ',', ';']).unwrap_or(word.len());
                at = begins + next.max(1).min(word.len());
                if word.is_empty() {
                    break;
                }
            }
        }
    }
    cells[open.0] = cells[open.0].or_else(|| line.get(open.1..).map(str::trim));
    let named = cells.iter().flatten().count();
    let cell = |at: usize| match cells[at].unwrap_or_default().trim().trim_end_matches([',', ';']) {
        "-" | "NULL" | "null" | "" => None,
        cell => Some(cell),
    };
    let time = cell(TIME)?.trim_end_matches(['s', ' ']);
    let is_session = match cell(COMMAND) {
        Some(command) => COMMANDS.contains(&command),
        None => cell(STATE).is_some_and(is_state) && cell(USER).is_some(),
    };
    if named < FEWEST_NAMES || !cell(0).is_some_and(is_number) || !is_number(time) || !is_session {
        return None;
    }
    let text = |at: usize| match (at, cell(at)) {
        (TIME, _) => time.to_owned(),
        (_, Some(cell)) => one_line(cell),
        (COMMAND | STATE, None) => String::new(),
        (_, None) => "NULL".to_owned(),
    };
    Some((0..NAMES.len()).map(text).collect::<Vec<_>>().join("\t"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> Vec<String> {
        with_tabs(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_list_that_was_typed_or_logged_is_one_of_a_client() {
        let wanted = [
            HEAD,
            "12\tetl\t10.0.0.9\tNULL\tSleep\t3602\t\tNULL",
            "13\tapp\t10.0.0.4\tNULL\tQuery\t31\tWaiting for table metadata lock\tALTER TABLE a ADD time int",
            "14\tapp\t10.0.0.4\tNULL\tQuery\t9\tquery end\tINSERT INTO a VALUES (1)",
            "and so on",
        ];
        for text in [
            "id 12  user etl      host 10.0.0.9   cmd Sleep  time 3602  state -   info NULL\n\
             id 13 user app host 10.0.0.4 cmd Query time 31 state Waiting for table metadata lock info ALTER TABLE a ADD time int\n\
             id 14 user app host 10.0.0.4 cmd Query time 9 state query end  info INSERT INTO a VALUES (1)\nand so on\n",
            "id=12 user=etl host=10.0.0.9 command=Sleep time=3602 state=\"\" info=\"\"\n\
             id=13 user=app host=10.0.0.4 command=Query time=31 state=\"Waiting for table metadata lock\" info=\"ALTER TABLE a ADD time int\"\n\
             id=14 user=app host=10.0.0.4 command=Query info=\"INSERT INTO a VALUES (1)\" time=9 state=\"query end\"\nand so on\n",
            "Id: 12, User: etl, Host: 10.0.0.9, Command: Sleep, Time: 3602s, State: , Info: NULL\n\
             Id: 13, User: app, Host: 10.0.0.4, Command: Query, Time: 31, State: Waiting for table metadata lock, Info: ALTER TABLE a ADD time int\n\
             Id: 14, User: app, Host: 10.0.0.4, Command: Query, Time: 9, State: query end, Info: INSERT INTO a VALUES (1)\nand so on\n",
        ] {
            assert_eq!(lines(text), wanted, "{text}");
        }
    }

    #[test]
    fn sentences_and_single_lines_are_no_list() {
        for text in [
            "id 12 user app cmd Query time 5\n",
            "id 12 of the user, at that time in a state\nid 13 of the user, at that time in a state\n",
            "id=4 time=7 status=ok user=bob\nid=5 time=7 user=bob\n",
            "thread 5 user x\nthread 6 user y\n",
        ] {
            let plain: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(lines(text), plain, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(text in "(id|Id:|id=|user|state|info|é|\"|,|;| |12|query|Query|=|:){0,24}") {
            row(&text);
            row(&format!("id={text}"));
            row(&format!("id {text}"));
        }
    }
}
