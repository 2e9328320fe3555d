//! What somebody wrote in words beside what a server printed: below a list, a statement that was cut, a status.

use crate::heads::STATEMENTS;

/// Words with which a further line of a statement begins.
const CLAUSES: [&str; 24] = [
    "FROM",
    "WHERE",
    "ORDER",
    "GROUP",
    "HAVING",
    "LIMIT",
    "UNION",
    "JOIN",
    "LEFT",
    "RIGHT",
    "INNER",
    "CROSS",
    "NATURAL",
    "VALUES",
    "ADD",
    "MODIFY",
    "CHANGE",
    "PRIMARY",
    "FOREIGN",
    "REFERENCES",
    "CONSTRAINT",
    "PARTITION",
    "UNIQUE",
    "KEY",
];
/// Lines of a status that are sentences, or nearly: most of them of a foreign key error (dict0dict.cc, row0ins.cc).
const OF_STATUS: [&str; 10] = [
    "Per second averages ",
    "Total number of lock structs ",
    "You have defined ",
    "Cannot find ",
    "Cannot resolve ",
    "There is no index ",
    "Note that the internal ",
    "Trying to add ",
    "But in parent ",
    "But the parent ",
];

/// True for a line that begins as a sentence does and has hardly anything but words.
pub(crate) fn is_prose(line: &str) -> bool {
    /// Fewer words may be anything. By judgement.
    const FEWEST: usize = 4;
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    let of_statement =
        STATEMENTS.iter().chain(&CLAUSES).any(|statement| first.eq_ignore_ascii_case(statement));
    if of_statement || OF_STATUS.iter().any(|begins| line.starts_with(begins)) {
        return false;
    }
    if is_of_other_script(line) {
        return true;
    }
    let (mut words, mut plain) = (0_usize, 0_usize);
    for word in line.split_whitespace() {
        words += 1;
        plain += usize::from(is_word(word));
    }
    // Of six words one may be a number or a name.
    is_capitalised(first) && words >= FEWEST && plain * 5 > words * 4
}

/// True for what somebody wrote below a value or a row that goes on: below an empty line, or where no quote is open.
pub(crate) fn ends(value: &str, line: &str) -> bool {
    /// Bytes of a value whose quotes are counted: each of its lines asks for it. By judgement.
    const LONGEST: usize = 16 << 10;
    let has_no_open_quote = || value.len() <= LONGEST && value.matches('\'').count().is_multiple_of(2);
    is_prose(line) && (value.ends_with('\n') || has_no_open_quote())
}

/// True below an empty line for what somebody wrote.
pub(crate) fn begins(lines: &[&str], at: usize) -> bool {
    at > 0 && lines[at - 1].trim().is_empty() && is_prose(lines[at])
}

/// `However,`, `I`: a capital, and no other.
fn is_capitalised(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase) && !letters.any(char::is_uppercase)
}

/// `server's`, `memory,`
fn is_word(word: &str) -> bool {
    let bare = word.trim_matches(['.', ',', ':', ';', '!', '?', '"', '\'', '(', ')']);
    !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || "'\u{2019}-".contains(c))
}

/// A sentence in a script that no statement is written in: most of its letters are none of ASCII.
fn is_of_other_script(line: &str) -> bool {
    /// Fewer letters may be a name. By judgement.
    const FEWEST: usize = 6;
    let begins = line.chars().next().is_some_and(|c| !c.is_ascii() && c.is_alphabetic());
    let letters = line.chars().filter(|c| !c.is_ascii() && c.is_alphabetic()).count();
    begins && letters >= FEWEST && letters * 2 > line.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Said;
    use crate::recognise::tests::said;

    /// Below what was pasted, as in a letter.
    const LETTER: &str = "\n\nWhat can we do about it? Our shop has four web servers and one database of\n\
                          32 GB.\n\nMany thanks for any help,\nPaul\n";

    #[test]
    fn sentences_are_prose_and_what_servers_and_statements_say_is_not() {
        for prose in [
            "The application was not changed since last week.",
            "I have seen this twice, always at 10:00 in the morning",
            "この問題をどう解決すればよいですか",
        ] {
            assert!(is_prose(prose), "{prose}");
        }
        for other in [
            "From orders as o join items",
            "Where name like surname and more",
            "Record lock, heap no 2 PHYSICAL RECORD: n_fields 4; compact format; info bits 0",
            "Main thread process no. 4127, id 1157, state: sleeping",
            "Total large memory allocated 137363456",
            "Total number of lock structs in row lock hash table 2",
            "AND deleted IS NULL OR something",
            "Cannot find an index in the referenced table where the",
            "",
        ] {
            assert!(!is_prose(other), "{other}");
        }
    }

    #[test]
    fn what_somebody_wrote_below_rows_is_no_part_of_the_last_statement() {
        let rows = "*************************** 1. row ***************************\n     Id: 7\n   User: app\n\
                    Command: Query\n   Time: 3\n  State: Sending data\n   Info: SELECT a\nFROM b\n\nWHERE c = 1";
        let framed = "| Id | User | Command | Time | State | Info |\n| 6 | app | Query | 4 | Sending data | SELECT 1 |\n\
                      | 7 | app | Query | 3 | Sending data | SELECT a\nFROM b\n\nWHERE c = 1";
        for (list, letter) in [(rows, LETTER), (framed, LETTER), (rows, &LETTER[1..]), (framed, &LETTER[1..])]
        {
            let said = said(&format!("{list}{letter}"));
            let Some(Said::Threads(threads)) = said.first() else { panic!("{said:?}") };
            let info = threads.last().and_then(|thread| thread.statement.clone()).unwrap_or_default();
            let words: Vec<&str> = info.split_whitespace().collect();
            assert_eq!(words.join(" "), "SELECT a FROM b WHERE c = 1", "{list}");
        }
    }

    #[test]
    fn a_number_at_the_end_of_a_letter_s_rows_is_one() {
        let rows = "*************************** 1. row ***************************\n                    trx_id: 5071\n\
                    \x20                trx_state: RUNNING\n               trx_started: 2023-04-05 10:11:12\n\
                    \x20      trx_mysql_thread_id: 71\n         trx_rows_modified: 9";
        let said = said(&format!("{rows}{LETTER}"));
        let transactions = said.iter().find_map(|said| match said {
            Said::Transactions(transactions) => transactions.first(),
            _ => None,
        });
        assert_eq!(transactions.map(|transaction| transaction.rows_modified), Some(9), "{said:?}");
    }

    #[test]
    fn a_connection_at_the_end_of_a_status_has_no_statement_of_a_letter() {
        let status = "---TRANSACTION 9071, ACTIVE 93 sec\n2 lock struct(s), heap size 1136, 1 row lock(s), undo log entries 1\n\
                      MySQL thread id 52, OS thread handle 140, query id 723 10.1.2.9 reports";
        for prefix in ["", "// ", "    "] {
            let status: String = status.lines().map(|line| format!("{prefix}{line}\n")).collect();
            let said = said(&format!("{status}{LETTER}"));
            let threads = said.iter().find_map(|said| match said {
                Said::SomeThreads(threads) | Said::Threads(threads) => threads.first(),
                _ => None,
            });
            let thread = threads.unwrap_or_else(|| panic!("{said:?}"));
            assert_eq!((thread.connection_id, thread.statement.as_deref()), (Some(52), None), "{status}");
        }
    }
}
