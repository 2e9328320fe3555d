//! Process lists whose tabs a page made blanks: what a client prints in batch mode, pasted.
//!
//! ```text
//! Id User Host db Command Time State Info
//! 101 app 10.0.0.1:5123 shop Query 45 Waiting for table metadata lock SELECT * FROM orders WHERE id = 5
//! ```
//!
//! A row is known by its number, its command and the time behind it. Where the state ends and the statement begins its first word
//! says.

use crate::heads::{COMMANDS, is_number, is_statement_word};

/// Rows of a list without a head; fewer may be anything.
const FEW: usize = 2;

/// Words before the command: number, user (`system user`), host, database.
const MOST_BEFORE: usize = 5;

/// The head of a process list, with tabs between its names.
pub(crate) const HEAD: &str = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo";

/// The lines of a text, with such a list as a client prints it.
pub(crate) fn with_tabs(lines: Vec<String>) -> Vec<String> {
    let rows: Vec<Option<String>> = lines.iter().map(|line| row(line)).collect();
    let count = rows.iter().flatten().count();
    let has_head = lines.iter().any(|line| is_head(line));
    if count == 0 || count < FEW && !has_head {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 1);
    let mut in_list = false;
    for (line, row) in lines.into_iter().zip(rows) {
        let is_row = row.is_some();
        if is_row && !in_list {
            all.push(HEAD.to_owned());
        }
        match row {
            Some(row) => all.push(row),
            None if is_head(&line) => {}
            None => all.push(line),
        }
        in_list = is_row;
    }
    all
}

/// The names of a process list's columns, of which some may be missing, and no tab or bar between them.
fn is_head(line: &str) -> bool {
    const NAMES: [&str; 4] = ["id", "command", "time", "state"];
    let words: Vec<String> = line.split_whitespace().map(str::to_ascii_lowercase).collect();
    !line.contains(['\t', '|'])
        && words.len() <= 12
        && NAMES.iter().all(|name| words.iter().any(|word| word == name))
}

/// The number of the session in a row.
pub(crate) fn connection(line: &str) -> Option<String> {
    row(line)?.split('\t').next().map(str::to_owned)
}

fn row(line: &str) -> Option<String> {
    if line.contains(['\t', '|']) {
        return None;
    }
    let mut words = Vec::with_capacity(16);
    let mut at = 0;
    for word in line.split_whitespace().take(16) {
        at += line[at..].find(word)?;
        words.push((at, word));
        at += word.len();
    }
    let is_id = |word: &str| is_number(word) && word.len() <= 20;
    if !is_id(words.first()?.1) {
        return None;
    }
    // Commands of two words first: `Binlog Dump` is no command `Binlog`.
    let (place, command) = (1..words.len().min(MOST_BEFORE + 1)).find_map(|place| {
        let here = &line[words[place].0..];
        let of_command =
            |command: &&&str| here.strip_prefix(**command).is_some_and(|rest| rest.starts_with([' ']));
        COMMANDS
            .iter()
            .filter(of_command)
            .max_by_key(|command| command.len())
            .map(|command| (place, *command))
    })?;
    let mut behind = line[words[place].0 + command.len()..].split_whitespace();
    let time = behind.next().filter(|time| is_number(time.strip_prefix('-').unwrap_or(time)))?;
    let rest = line[words[place].0 + command.len()..].trim_start()[time.len()..].trim();
    let before: Vec<&str> = words[1..place].iter().map(|(_, word)| *word).collect();
    let (user, others) = match before.as_slice() {
        ["system" | "unauthenticated", "user", others @ ..] => (format!("{} user", before[0]), others),
        [user, others @ ..] => ((*user).to_owned(), others),
        [] => return None,
    };
    let (host, database) = match others {
        [] => ("", ""),
        [one] if one.contains([':', '.']) || *one == "localhost" => (*one, "NULL"),
        [one] => ("", *one),
        [host, database] => (*host, *database),
        _ => return None,
    };
    let (state, statement) = state_and_statement(rest);
    let id = words[0].1;
    Some(format!("{id}\t{user}\t{host}\t{database}\t{command}\t{time}\t{state}\t{statement}"))
}

/// What a session does, and its statement. MariaDB's progress and the counts of rows of Percona's server stand behind.
fn state_and_statement(rest: &str) -> (&str, &str) {
    let counted = rest.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
    let rest = match counted.is_empty() || counted.ends_with("NULL") {
        true => counted,
        false => rest,
    };
    if let Some(state) = rest.strip_suffix("NULL") {
        return (state.trim_end(), "NULL");
    }
    let mut at = 0;
    for (place, word) in rest.split_whitespace().enumerate() {
        at += rest[at..].find(word).unwrap_or_default();
        // Of a state's words none is written so but `update` and `checking`, which begin it.
        if is_statement_word(word) && (place > 0 || word.bytes().any(|byte| byte.is_ascii_uppercase())) {
            return (rest[..at].trim_end(), &rest[at..]);
        }
        at += word.len();
    }
    (rest, "NULL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        with_tabs(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn a_list_whose_tabs_are_blanks_has_its_columns() {
        let list = "Id User Host db Command Time State Info\n\
                    101 app 10.0.0.1:5123 shop Query 45 Waiting for table metadata lock SELECT * FROM orders WHERE id = 5\n\
                    102 app 10.0.0.1:5124 NULL Sleep 900 NULL\n103 app 10.0.0.1:5124 Execute 3 update INSERT INTO a VALUES (1)\n\
                    4 system user NULL Connect 77 Waiting for master to send event NULL 0.000\n\
                    9 repl db2:4711 NULL Binlog Dump 900 Master has sent all binlog to slave; waiting for more updates NULL\n\
                    5 event_scheduler localhost NULL Daemon 12 Waiting on empty queue NULL\n6 root localhost Query 0 init show processlist\n\
                    6 rows in set\n";
        assert_eq!(
            lines(list),
            [
                HEAD,
                "101\tapp\t10.0.0.1:5123\tshop\tQuery\t45\tWaiting for table metadata lock\tSELECT * FROM orders WHERE id = 5",
                "102\tapp\t10.0.0.1:5124\tNULL\tSleep\t900\t\tNULL",
                "103\tapp\t10.0.0.1:5124\tNULL\tExecute\t3\tupdate\tINSERT INTO a VALUES (1)",
                "4\tsystem user\t\tNULL\tConnect\t77\tWaiting for master to send event\tNULL",
                "9\trepl\tdb2:4711\tNULL\tBinlog Dump\t900\tMaster has sent all binlog to slave; waiting for more updates\tNULL",
                "5\tevent_scheduler\tlocalhost\tNULL\tDaemon\t12\tWaiting on empty queue\tNULL",
                "6\troot\tlocalhost\tNULL\tQuery\t0\tinit\tshow processlist",
                "6 rows in set",
            ]
        );
    }

    #[test]
    fn numbers_and_words_are_no_list() {
        for text in [
            "7 app db Query the 3 of us\n",
            "12 of us Sleep 9 hours\n",
            "7 Query 3\n",
            "Id Command Time State\n7 x\n",
        ] {
            assert_eq!(lines(text), text.lines().collect::<Vec<_>>(), "{text}");
        }
    }
}
