//! Messages of a replica's parts that somebody pasted alone, without the name under which a status has them, become the fields of one.
//!
//! ```text
//! Could not execute Write_rows event on table shop.stock; Duplicate entry '7' for key 'PRIMARY', Error_code: 1062;
//! handler error HA_ERR_FOUND_DUPP_KEY; the event's master log b.000004, end_log_pos 817
//! ```

use crate::log_lines::is_of_log;
use crate::log_troubles;
use crate::rows::row_number;

/// Lines into which such a message is wrapped.
const MOST_WRAPPED: usize = 5;
/// Characters of a message that are read. A statement that it quotes may be longer.
const LONGEST: usize = 4_000;

/// Names of a status by which it has messages, or says whether its parts run: where one of them is there, nothing is missing.
const NAMES: [&str; 11] = [
    "slave_io_running",
    "slave_sql_running",
    "replica_io_running",
    "replica_sql_running",
    "last_errno",
    "last_io_errno",
    "last_io_error",
    "last_sql_errno",
    "last_sql_error",
    "service_state",
    "last_error_number",
];

const RECEIVER: &str = "Last_IO_Error";
const APPLIER: &str = "Last_SQL_Error";

/// A message.
struct Message {
    begins: &'static str,
    /// What else it has in its first line.
    has: &'static str,
    /// Whose it is.
    field: &'static str,
    /// What it has behind its beginning where it is whole, and how often.
    ends: &'static str,
    times: usize,
    /// Its number, where that does not stand in it.
    number: Option<u32>,
}

const fn of_applier(begins: &'static str, has: &'static str, ends: &'static str) -> Message {
    Message { begins, has, field: APPLIER, ends, times: 1, number: None }
}

const fn of_receiver(begins: &'static str, has: &'static str, ends: &'static str) -> Message {
    Message { begins, has, field: RECEIVER, ends, times: 1, number: Some(1236) }
}

/// The messages (sql/rpl_replica.cc, sql/log_event.cc, sql/rpl_source.cc; of MariaDB slave.cc, sql_repl.cc), in their order: one that is
/// within another stands behind it.
static MESSAGES: [Message; 9] = [
    // What the source says stands in quotes.
    Message {
        times: 2,
        ..of_receiver("Got fatal error 1236 from ", " when reading data from binary log", "'")
    },
    of_receiver("The slave is connecting using CHANGE MASTER TO MASTER_AUTO_POSITION = 1", "", " requires"),
    of_receiver("Cannot replicate because the ", " purged required binary logs", " binary logs"),
    of_applier("Coordinator stopped because there were error(s) in the worker(s)", "", "end_log_pos "),
    of_applier("Worker ", " failed executing transaction ", "end_log_pos "),
    of_applier("Could not execute ", " event on table ", "end_log_pos "),
    Message {
        number: Some(1594),
        ..of_applier("Relay log read failure: Could not parse relay log event entry", "", "")
    },
    Message {
        number: Some(1062),
        ..of_applier("Error 'Duplicate entry '", " on query. Default database: '", "'")
    },
    of_applier("Error '", " on query. Default database: '", "'"),
];

/// The lines of a text, with such messages as fields: of each part the first.
pub(crate) fn with_names(lines: Vec<String>) -> Vec<String> {
    // Below rows that have their numbers a field would be one of theirs.
    let has_list = || lines.iter().any(|line| has_name(line) || row_number(line).is_some());
    if !lines.iter().any(|line| begin(line).is_some()) || has_list() {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 2);
    let mut named: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let found = begin(line).filter(|(message, _)| !named.contains(&message.field));
        let Some((message, begins)) = found else {
            all.push(line.clone());
            at += 1;
            continue;
        };
        let (text, more) = whole(message, &line[begins..], &lines[at + 1..]);
        at += 1 + more;
        if log_troubles::is_of_node(&format!("{line} {text}").to_ascii_lowercase()) {
            all.push(text);
            continue;
        }
        named.push(message.field);
        let number = message.number.map(|number| number.to_string()).or_else(|| number(&text));
        let errno = message.field.replace("Error", "Errno");
        // A paragraph of its own, whatever stands around it.
        all.push(String::new());
        all.extend(number.map(|number| format!("{errno}: {number}")));
        all.push(format!("{}: {text}", message.field));
        all.push(String::new());
    }
    all
}

/// True for a line with a name of a status; a longer word is another one.
fn has_name(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let is_whole = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t', ':', '|', '=', ',', '"']);
    NAMES.iter().any(|name| lower.match_indices(name).any(|(at, _)| is_whole(&lower[at + name.len()..])))
}

/// Which message begins in a line, and where. A line of a log has a reader of its own.
fn begin(line: &str) -> Option<(&'static Message, usize)> {
    let found = MESSAGES.iter().find_map(|message| {
        let at = place(line, message.begins)?;
        // What it has may stand in the next line.
        let is_it = message.has.is_empty() || line[at..].contains(message.has);
        // Within a sentence the words may be somebody's own.
        let is_whole = || line[at..].starts_with(message.begins) || number(&line[at..]).is_some();
        (is_it && is_whole()).then_some((message, at))
    });
    found.filter(|_| !is_of_log(line))
}

/// Where a beginning stands in a line, with a large letter or, where a blog took it into a sentence, a small one.
fn place(line: &str, begins: &str) -> Option<usize> {
    let first = *begins.as_bytes().first().filter(|first| first.is_ascii())?;
    let mut places = line.match_indices(&begins[1..]).map(|(at, _)| at);
    let is_first =
        |at: &usize| at.checked_sub(1).is_some_and(|at| line.as_bytes()[at].eq_ignore_ascii_case(&first));
    line.find(begins).or_else(|| places.find(is_first).map(|at| at - 1))
}

/// The message with the lines below into which it was wrapped, and how many those are.
fn whole(message: &Message, first: &str, below: &[String]) -> (String, usize) {
    let mut text = first.trim().to_owned();
    let mut more = 0;
    let is_whole = |text: &str| {
        let behind = &text[message.begins.len().min(text.len())..];
        message.ends.is_empty() || behind.matches(message.ends).count() >= message.times
    };
    while more < MOST_WRAPPED && !is_whole(&text) {
        let next = below.get(more).filter(|line| !line.trim().is_empty() && !is_of_log(line));
        let Some(next) = next else { break };
        text = format!("{text} {}", next.trim());
        more += 1;
    }
    let text: String = text.chars().take(LONGEST).collect();
    (text.trim_end_matches(['`', '"', ' ', '*']).to_owned(), more)
}

/// The number of an error that its message has: `Error_code: 1062`, `fatal error 1236 from`.
fn number(text: &str) -> Option<String> {
    const SIGNS: [&str; 3] = ["Error_code: ", "fatal error ", "errno = "];
    SIGNS.iter().find_map(|sign| {
        let rest = text.rsplit_once(sign)?.1;
        let rest = rest.strip_prefix("MY-").unwrap_or(rest);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok().map(|number| number.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{recognise, window};

    /// The headlines about replication that a text gets.
    fn headlines(text: &str) -> Vec<String> {
        let findings = spindoctor_rules::diagnose(&window(&recognise("a.txt", text))).findings;
        findings.into_iter().filter(|one| one.cause == "replica-lag").map(|one| one.headline).collect()
    }

    const WRAPPED: &str = "Could not execute Write_rows event on table shop.stock;\nDuplicate entry '7' for key 'stock.PRIMARY', Error_code: \
                           1062;\nhandler error HA_ERR_FOUND_DUPP_KEY;\nthe event's master log b.000004, end_log_pos 817";

    #[test]
    fn a_message_that_stands_alone_is_an_error_of_a_replica() {
        let on_one_line = WRAPPED.replace('\n', " ");
        for text in [
            format!("The replica says:\nLast_Error: {WRAPPED}\n"),
            format!("{on_one_line}\n"),
            format!("We saw in its log:\n\n    {}\n", on_one_line.replacen("Could", "could", 1)),
            format!(
                "I always get an error 1062:\n`{on_one_line}`\n\nIt can be left out, but why does it come?\n"
            ),
            format!("Last_Errorの値:{on_one_line}\n\n   Last_SQL_Errorの値:{on_one_line}\n"),
            format!(
                "Worker 2 failed executing transaction 'a:7' at master log b.000004, end_log_pos 817; {on_one_line}\n"
            ),
        ] {
            let found = headlines(&text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("error 1062 (table shop.stock"), "{text}: {found:?}");
        }
        for text in [
            "\"Got fatal error 1236 from master when reading data from binary log:\n'The slave is connecting using CHANGE MASTER TO \
             MASTER_AUTO_POSITION = 1,\nbut the master has purged binary logs containing GTIDs that the slave requires.'\"\n",
            "java.io.IOException: Received error packet: errno = 1236, sqlstate = HY000 errmsg = The slave is connecting using CHANGE MASTER TO \
             MASTER_AUTO_POSITION = 1, but the master has purged binary logs containing GTIDs that the slave requires.\n",
        ] {
            let found = headlines(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("error 1236"), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_beginning_is_found_with_a_small_letter_and_not_within_a_word() {
        assert_eq!(place("it could not execute a", "Could not execute "), Some(3));
        assert_eq!(place("it could not execute: Could not execute a", "Could not execute "), Some(22));
        for line in ["ould not execute a", "éould not execute a", "c", ""] {
            assert_eq!(place(line, "Could not execute "), None, "{line}");
        }
    }

    #[test]
    fn what_the_source_says_is_read_whole() {
        let lines = [
            "Got fatal error 1236 from master when reading data from binary log:",
            "'Could not open",
            "log file'",
            "Why?",
        ];
        let named = with_names(lines.iter().map(|line| (*line).to_owned()).collect());
        let wanted = "Last_IO_Error: Got fatal error 1236 from master when reading data from binary log: 'Could not open log file'";
        assert_eq!(named, ["", "Last_IO_Errno: 1236", wanted, "", "Why?"]);
    }

    #[test]
    fn what_is_in_a_status_or_in_a_log_stays_where_it_is() {
        let one = WRAPPED.replace('\n', " ");
        for line in [
            format!("Last_SQL_Error: {one}"),
            format!("2024-03-04 10:11:12 7 [ERROR] Slave SQL: {one}, Internal MariaDB error code: 1062"),
            "We could not execute the event on table 7".to_owned(),
        ] {
            assert_eq!(with_names(vec![line.clone()]), [line]);
        }
        let status = vec!["Slave_SQL_Running: No".to_owned(), one.clone()];
        assert_eq!(with_names(status.clone()), status);
        let of_node = one.replace("b.000004", "FIRST");
        assert_eq!(headlines(&of_node), Vec::<String>::new());
    }
}
