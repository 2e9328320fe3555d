//! Heads that a list has lost: what a client prints above rows, put back where the rows alone were pasted.

use std::collections::BTreeSet;

use crate::counted::is_state;
use crate::rows::{LONGEST_CELL, framed, header_of, is_name, is_process_list, row_number};
use crate::table_kind::{ERRORS_OF_REPLICA, TableKind, kind};
use crate::{latches, named, rows};

/// Commands of a process list (sql/sql_parse.cc, command_name).
pub(crate) const COMMANDS: [&str; 20] = [
    "Sleep",
    "Query",
    "Execute",
    "Prepare",
    "Connect",
    "Connect Out",
    "Binlog Dump",
    "Binlog Dump GTID",
    "Daemon",
    "Killed",
    "Statistics",
    "Field List",
    "Fetch",
    "Init DB",
    "Ping",
    "Quit",
    "Refresh",
    "Slave_SQL",
    "Slave_IO",
    "Slave_worker",
];

/// Words with which statements begin.
pub(crate) const STATEMENTS: [&str; 26] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "ALTER", "CREATE", "DROP", "TRUNCATE",
    "COMMIT", "ROLLBACK", "BEGIN", "START", "SET", "SHOW", "CALL", "LOAD", "LOCK", "UNLOCK", "FLUSH",
    "OPTIMIZE", "ANALYZE", "CHECK", "KILL", "(SELECT",
];

/// True of a word that begins a statement, and is none of a state: `lock`, `for` and `flush` stand within states.
pub(crate) fn is_statement_word(word: &str) -> bool {
    const OF_STATES: [&str; 10] =
        ["lock", "flush", "commit", "set", "check", "start", "begin", "kill", "rollback", "load"];
    STATEMENTS.iter().any(|statement| word.eq_ignore_ascii_case(statement)) && !OF_STATES.contains(&word)
}

/// True for digits alone.
pub(crate) fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lists whose head was not copied with them get one. A row of a process list is known by its command and the time behind it, one of
/// status or variables by its name. Rows below a head have theirs; those above the first one are the end of another list.
pub(crate) fn with_heads(lines: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.into_iter().flat_map(rows_of_line).collect();
    // A plan beside the rows says nothing of theirs.
    let has_head = |line: &String| {
        line.contains('|') && header_of(line).is_some_and(|names| kind(&names) != Some(TableKind::Plan))
    };
    let below = match lines.iter().position(has_head) {
        Some(at) => lines.split_off(at),
        None => Vec::new(),
    };
    if !lines.iter().any(|line| head_of_row(line).is_some()) {
        lines.extend(below);
        return lines;
    }
    let mut whole = Vec::with_capacity(lines.len() + below.len() + 1);
    let mut in_rows = false;
    let mut list = Headless::default();
    for line in lines {
        let head = head_of_row(&line);
        let is_framed = line.trim_start().starts_with('|');
        match head.as_ref().filter(|_| !in_rows) {
            Some(head) if list.has_next(head, &line) => {
                while whole.last().is_some_and(|line: &String| line.trim().is_empty()) {
                    whole.pop();
                }
            }
            Some(head) => {
                whole.push(head.clone());
                list = Headless { head: head.clone(), ..Headless::default() };
            }
            None => {}
        }
        list.take(&line, head.is_some());
        in_rows = head.is_some() || in_rows && line.contains('|');
        // A log's time may stand before a row that ends with its bar.
        let cells = line.trim().strip_suffix('|').unwrap_or(line.trim()).trim_end();
        whole.push(if in_rows && !is_framed { format!("| {cells} |") } else { line });
    }
    whole.extend(below);
    whole
}

/// A list whose head was not copied, as far as its rows were seen.
#[derive(Debug, Default)]
struct Headless {
    head: String,
    ids: BTreeSet<String>,
    /// Below its last row stood nothing but empty lines and what that row goes on with.
    goes_on: bool,
    /// Its last row has no end yet: a statement has lines of its own.
    is_open: bool,
}

impl Headless {
    /// True for a row of the same list behind a gap: another look at the sessions has ids again that the list has already.
    fn has_next(&self, head: &str, row: &str) -> bool {
        self.goes_on
            && self.head == head
            && framed(row).first().is_some_and(|id| is_number(id) && !self.ids.contains(*id))
    }

    fn take(&mut self, line: &str, is_row: bool) {
        let ends = line.trim_end().ends_with('|');
        if is_row {
            self.ids.extend(framed(line).first().map(|id| (*id).to_owned()));
            (self.goes_on, self.is_open) = (true, line.trim_start().starts_with('|') && !ends);
        } else if self.is_open {
            self.is_open = !ends;
        } else if !line.trim().is_empty() {
            self.goes_on = false;
        }
    }
}

/// The rows of a process list that a page joined on one line: each begins with an id, and has a command and a time behind its
/// user, host and database. A line that is one row, or none, is itself.
fn rows_of_line(line: String) -> Vec<String> {
    /// Cells from the id to the command.
    const TO_COMMAND: usize = 4;
    let is_row = line.trim_start().starts_with('|') && line.len() <= LONGEST_CELL;
    if !is_row || line.matches('|').count() < 2 * TO_COMMAND {
        return vec![line];
    }
    let cells = framed(&line);
    let begins = |at: &usize| {
        let command = cells.get(at + TO_COMMAND).is_some_and(|cell| COMMANDS.contains(cell));
        command && is_number(cells[*at]) && cells.get(at + TO_COMMAND + 1).is_some_and(|cell| is_number(cell))
    };
    let starts: Vec<usize> = (0..cells.len()).filter(begins).collect();
    if starts.len() < 2 || starts[0] > 0 {
        return vec![line];
    }
    let is_closed = line.trim_end().ends_with('|');
    let ends = starts.iter().skip(1).copied().chain([cells.len()]);
    let row = |(from, to): (&usize, usize)| {
        let row = &cells[*from..to];
        // Between two rows stands the blank that was a line end.
        let row = row.strip_suffix(&[""]).filter(|_| to < cells.len()).unwrap_or(row);
        let end = if to < cells.len() || is_closed { " |" } else { "" };
        format!("| {}{end}", row.join(" | "))
    };
    starts.iter().zip(ends).map(row).collect()
}

/// The head of a list of variables or of status whose row this is.
fn head_of_pair(line: &str) -> Option<String> {
    let is_framed = line.trim_start().starts_with('|') && line.trim_end().ends_with('|');
    match framed(line)[..] {
        [name, value] if is_framed && named::is_known(name) && is_name(name) && !value.is_empty() => {
            Some("| Variable_name | Value |".to_owned())
        }
        _ => None,
    }
}

/// The head of a list of latches (`SHOW ENGINE INNODB MUTEX`) whose row this is.
fn head_of_latch(line: &str) -> Option<String> {
    match framed(line)[..] {
        ["InnoDB", _, status] if line.trim_start().starts_with('|') && latches::is_count(status) => {
            Some("| Type | Name | Status |".to_owned())
        }
        _ => None,
    }
}

/// The head that a row of a process list, of a list of names and values, or of one of latches has lost.
fn head_of_row(line: &str) -> Option<String> {
    if let Some(head) = head_of_pair(line).or_else(|| head_of_latch(line)) {
        return Some(head);
    }
    /// What stands in a list before the command, and behind it.
    const BEFORE: [&str; 4] = ["Id", "User", "Host", "db"];
    const FROM: [&str; 4] = ["Command", "Time", "State", "Info"];
    if line.len() > LONGEST_CELL || line.matches('|').count() < FROM.len() - 1 {
        return None;
    }
    let cells = framed(line);
    let is_number = |cell: &str| !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit());
    let is_open = line.trim_start().starts_with('|') && !line.trim_end().ends_with('|');
    let at = (0..cells.len().saturating_sub(FROM.len() - 1))
        .find(|&at| COMMANDS.contains(&cells[at]) && is_number(cells[at + 1]));
    let Some(at) = at else {
        return names_by_state(&cells).map(|names| framed_head(&names, is_open));
    };
    // The four before the command, where the first of them is an id; else an id alone at the beginning.
    let first = at.checked_sub(BEFORE.len()).filter(|&first| is_number(cells[first]));
    let name = |place: usize| match (place.checked_sub(at), first) {
        (Some(behind), _) => FROM.get(behind).map(|name| (*name).to_owned()),
        (None, Some(first)) => place.checked_sub(first).map(|place| BEFORE[place].to_owned()),
        (None, None) => (place == 0 && is_number(cells[0])).then(|| BEFORE[0].to_owned()),
    };
    let names: Vec<String> =
        (0..cells.len()).map(|place| name(place).unwrap_or_else(|| format!("left_out_{place}"))).collect();
    Some(framed_head(&names, is_open))
}

/// The names in a frame; open at its end, where the rows are.
fn framed_head(names: &[String], is_open: bool) -> String {
    format!("| {}{}", names.join(" | "), if is_open { "" } else { " |" })
}

/// The names of the columns of a row without a command: its state has several words and is a server's, and behind it stands a
/// statement. At its beginning stands an id, or the state.
fn names_by_state(cells: &[&str]) -> Option<Vec<String>> {
    let is_statement = |cell: &str| {
        let first = cell.split_whitespace().next().unwrap_or_default();
        cell == "NULL" || STATEMENTS.iter().any(|statement| first.eq_ignore_ascii_case(statement))
    };
    let is_here =
        |at: &usize| cells[*at].contains(' ') && is_state(cells[*at]) && is_statement(cells[at + 1]);
    let at = (0..cells.len().saturating_sub(1)).find(is_here)?;
    // Of two numbers at the beginning it is not known which one is the connection's.
    if at > 0 && !is_number(cells[0]) || at == 2 && is_number(cells[1]) {
        return None;
    }
    let name = |place: usize| match place {
        place if place == at => "State".to_owned(),
        place if place == at + 1 => "Info".to_owned(),
        0 => "Id".to_owned(),
        place if place + 1 == at && is_number(cells[place]) => "Time".to_owned(),
        place => format!("left_out_{place}"),
    };
    Some((0..cells.len()).map(name).collect())
}

/// By how much a replica is late, which a loop writes alone.
const BEHIND: [&str; 2] = ["seconds_behind_master", "seconds_behind_source"];

/// Names of a replica's status (sql/rpl_replica.cc), of which a page shows each in a row of its own beside its value.
const OF_REPLICA: [&str; 26] = [
    "slave_io_state",
    "replica_io_state",
    "slave_io_running",
    "replica_io_running",
    "slave_sql_running",
    "replica_sql_running",
    "slave_sql_running_state",
    "replica_sql_running_state",
    "seconds_behind_master",
    "seconds_behind_source",
    "master_host",
    "source_host",
    "master_port",
    "source_port",
    "master_log_file",
    "source_log_file",
    "read_master_log_pos",
    "read_source_log_pos",
    "exec_master_log_pos",
    "exec_source_log_pos",
    "last_io_errno",
    "last_io_error",
    "last_sql_errno",
    "last_sql_error",
    "last_error",
    "relay_log_space",
];

/// The lines of a text, with the status of a replica that stands in two columns as `\G` prints it: `| Slave_IO_Running | Yes |`,
/// `Slave_IO_Running = Yes`, or with a tab or blanks between the two.
fn with_colons(lines: Vec<String>) -> Vec<String> {
    /// Fewer may be anything.
    const FEW: usize = 2;
    if lines.iter().filter(|line| pair_of_replica(line).is_some()).count() < FEW {
        return lines;
    }
    let colon = |line: String| match pair_of_replica(&line) {
        Some((name, value)) => format!("{name}: {value}"),
        None => line,
    };
    lines.into_iter().map(colon).collect()
}

fn pair_of_replica(line: &str) -> Option<(&str, &str)> {
    let bare = line.trim().trim_matches('|').trim();
    let end = bare.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let is_known = |name: &str| OF_REPLICA.iter().any(|known| name.eq_ignore_ascii_case(known));
    let (name, rest) = bare.split_at(end);
    if !is_known(name) || !rest.starts_with([' ', '\t', '|', '=']) {
        return None;
    }
    let value = rest.trim_start_matches([' ', '\t']).trim_start_matches(['|', '=']).trim();
    // What has further columns is the head of a table.
    let is_head = value.contains(['|', '\t']) || value.split([' ', ',']).any(is_known);
    (!is_head && !value.is_empty()).then_some((name, value))
}

/// Fields of fewer than this are prose, those of a process list of fewer than [`FEWEST_OF_LIST`]: its names are common words.
const FEWEST: usize = 2;
const FEWEST_OF_LIST: usize = 4;
/// Lines of a value that has several.
const LONGEST_VALUE: usize = 2;

/// Fields of a row that `\G` printed, of which the line with the row's number was not copied: `Slave_IO_Running: Yes`. They get one,
/// and the foot that ends them; a list of status or variables is written with tabs instead.
pub(crate) fn with_row_numbers(lines: Vec<String>) -> Vec<String> {
    let mut lines = with_colons(lines);
    // A list that has the numbers has them for all its rows: what looks as a field below one is a statement's line.
    let below = match lines.iter().position(|line| row_number(line).is_some()) {
        Some(at) => lines.split_off(at),
        None => Vec::new(),
    };
    if !lines.iter().any(|line| field(line).is_some()) {
        lines.extend(below);
        return lines;
    }
    let mut whole = Vec::with_capacity(lines.len() + below.len() + 2);
    let mut at = 0;
    while at < lines.len() {
        let length = run(&lines[at..]);
        let run = &lines[at..at + length.max(1)];
        let fields: Vec<Option<(&str, &str)>> = run.iter().map(|line| field(line)).collect();
        match kind_of_run(&fields) {
            Some(TableKind::Named) => {
                whole.extend(fields.iter().flatten().map(|(name, value)| format!("{name}\t{value}")));
            }
            Some(_) => number_rows(run, &fields, &mut whole),
            None => whole.extend(run.iter().cloned()),
        }
        at += run.len();
    }
    whole.extend(below);
    whole
}

/// The name and the value of `   Slave_IO_Running: Yes`; a name alone, where the value is empty.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    let name = name.trim();
    let is_apart = rest.is_empty() || rest.starts_with(' ');
    (is_apart && name.len() >= 2 && is_name(name)).then_some((name, rest.trim()))
}

/// How many lines from the first on are fields, with those that go on with a value. 0 where the first is none.
fn run(lines: &[String]) -> usize {
    let mut length = 0;
    while length < lines.len() {
        if field(&lines[length]).is_some() {
            length += 1;
            continue;
        }
        let more = lines[length..]
            .iter()
            .take(LONGEST_VALUE)
            .take_while(|line| !line.is_empty() && field(line).is_none());
        let more = more.count();
        let next = lines.get(length + more).and_then(|line| field(line));
        match next.filter(|(name, _)| length > 0 && more > 0 && name.contains('_')) {
            Some(_) => length += more,
            None => break,
        }
    }
    length
}

fn kind_of_run(fields: &[Option<(&str, &str)>]) -> Option<TableKind> {
    let names: BTreeSet<String> =
        fields.iter().flatten().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let names: Vec<String> = names.into_iter().collect();
    // One name alone is enough where it is nobody else's, and has a value.
    let is_error = |(name, value): &(&str, &str)| {
        !value.is_empty() && ERRORS_OF_REPLICA.iter().any(|error| name.eq_ignore_ascii_case(error))
    };
    let is_behind = |(name, value): &(&str, &str)| {
        is_count(value) && BEHIND.iter().any(|behind| name.eq_ignore_ascii_case(behind))
    };
    if names.len() < FEWEST && !fields.iter().flatten().any(|field| is_error(field) || is_behind(field)) {
        return None;
    }
    let known = names.iter().filter(|name| named::is_known(name) && name.contains('_')).count();
    let is_list = || names.iter().all(|name| is_process_list(name)) && names.len() >= FEWEST_OF_LIST;
    match kind(&names) {
        Some(TableKind::ProcessList) => is_list().then_some(TableKind::ProcessList),
        Some(TableKind::Named | TableKind::Status | TableKind::SessionCounts) => None,
        Some(kind) => Some(kind),
        None => (known >= FEWEST && known * 2 > names.len()).then_some(TableKind::Named),
    }
}

/// Each row of a run with its number: a name that comes again begins another one. A number does not go on in the next line: what stands
/// below it, as the time that a loop writes, is no part of the row.
fn number_rows(run: &[String], fields: &[Option<(&str, &str)>], whole: &mut Vec<String>) {
    let mut number = 0;
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut goes_on = true;
    for (line, field) in run.iter().zip(fields) {
        let Some((name, value)) = field else {
            whole.extend(goes_on.then(|| line.clone()));
            continue;
        };
        if number == 0 || !seen.insert(name) {
            number += 1;
            seen = BTreeSet::from([*name]);
            whole.push(format!("{} {number}. row {}", rows::STARS, rows::STARS));
        }
        goes_on = !is_count(value);
        whole.push(format!("{name}: {value}"));
    }
    whole.push("1 row in set (0.00 sec)".to_owned());
}

/// True for a number, and for NULL.
fn is_count(value: &str) -> bool {
    value.eq_ignore_ascii_case("null") || value.parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        with_row_numbers(text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn fields_without_their_row_get_one_and_what_stands_below_is_none_of_them() {
        let found = lines(
            "Hello,\n  Slave_IO_Running: Yes\n Slave_SQL_Running: No\n  Last_SQL_Error: a table\nis missing\n  Last_IO_Errno: 0\n\nWhat now?\n",
        );
        let star = format!("{} 1. row {}", rows::STARS, rows::STARS);
        assert_eq!(
            found,
            [
                "Hello,",
                star.as_str(),
                "Slave_IO_Running: Yes",
                "Slave_SQL_Running: No",
                "Last_SQL_Error: a table",
                "is missing",
                "Last_IO_Errno: 0",
                "1 row in set (0.00 sec)",
                "",
                "What now?"
            ]
        );
    }

    #[test]
    fn the_status_of_a_replica_in_two_columns_is_what_a_client_prints() {
        for (begin, between, end) in [
            ("| ", " | ", " |"),
            ("", "\t", ""),
            ("", "   ", ""),
            ("", " = ", ""),
            ("", " ", ""),
            ("  ", ": ", ""),
        ] {
            let pairs = [
                ("Slave_IO_Running", "Yes"),
                ("Slave_SQL_Running", "No"),
                ("Last_SQL_Errno", "1062"),
                (
                    "Last_SQL_Error",
                    "Could not execute Write_rows event on table shop.stock; Duplicate entry '7'",
                ),
            ];
            let text: String =
                pairs.iter().map(|(name, value)| format!("{begin}{name}{between}{value}{end}\n")).collect();
            let parts = crate::recognise("x", &text);
            assert_eq!(parts[0].kind, crate::Kind::ReplicaStatus, "{text}: {parts:?}");
            let window = crate::window(&parts);
            let channels = window.latest(|sample| &sample.server.replication).expect("a channel");
            assert_eq!(
                (channels[0].applier_running.as_str(), channels[0].applier_errno),
                ("No", Some(1062)),
                "{text}"
            );
        }
        let alone = "               Last_SQL_Errno: 1062\n               Last_SQL_Error: Duplicate entry '7' for key 'PRIMARY'\n";
        let parts = crate::recognise("x", alone);
        let window = crate::window(&parts);
        let channels = window.latest(|sample| &sample.server.replication).expect("a channel");
        assert_eq!((channels[0].applier_running.as_str(), channels[0].applier_errno), ("No", Some(1062)));
        let head = "Slave_IO_State\tMaster_Host\tMaster_User\nWaiting\tdb7\trepl\n";
        assert_eq!(lines(head), head.lines().collect::<Vec<_>>());
    }

    #[test]
    fn what_a_loop_keeps_of_a_replicas_status_is_several_looks_of_which_the_last_counts() {
        let few = "Slave_IO_Running: Yes\nSlave_SQL_Running: Yes\nSeconds_Behind_Master: ";
        for (text, behind_s, before) in [
            (format!("{few}0\n{few}340\n{few}811\n"), Some(811.0), "2 looks"),
            (format!("{few}0\nFri May  3 07:11:09 UTC 2024\n{few}812\n"), Some(812.0), "1 look"),
            ("Seconds_Behind_Source: 700\nSeconds_Behind_Source: 29\n".to_owned(), Some(29.0), "700 s"),
            (
                "Seconds_Behind_Master: 4\nFri May 3\nSeconds_Behind_Master: 950\n".to_owned(),
                Some(950.0),
                "4 s",
            ),
            ("  Seconds_Behind_Master: 7200\n".to_owned(), Some(7200.0), ""),
        ] {
            let parts = crate::recognise("x", &text);
            let window = crate::window(&parts);
            let channels = window.latest(|sample| &sample.server.replication).expect("a channel");
            assert_eq!(
                channels.iter().map(|channel| channel.behind_s).collect::<Vec<_>>(),
                [behind_s],
                "{text}"
            );
            assert!(parts[0].says.concat().contains(before), "{text}: {:?}", parts[0].says);
        }
        let prose = "Seconds_Behind_Master: what does it mean?\n";
        assert_eq!(lines(prose), prose.lines().collect::<Vec<_>>());
        let two = "Connection_name: a\nSlave_IO_Running: Yes\nSeconds_Behind_Master: 1\nConnection_name: b\nSlave_IO_Running: Yes\nSeconds_Behind_Master: 900\n";
        let parts = crate::recognise("x", two);
        let window = crate::window(&parts);
        let channels = window.latest(|sample| &sample.server.replication).expect("channels");
        assert_eq!(channels.len(), 2, "{parts:?}");
    }

    #[test]
    fn rows_of_one_list_with_a_gap_between_them_have_one_head_and_another_look_has_its_own() {
        let heads = |text: &str| {
            let lines = with_heads(text.lines().map(str::to_owned).collect());
            lines.iter().filter(|line| line.starts_with("| Id |")).count()
        };
        let first = "| 71 | app | h:1 | shop | Query | 85 | Waiting for TOI DDL | UPDATE a\nSET b = 1,\nc = 'x | 0 |\n";
        let open = first.replace("'x | 0 |", "'x");
        let second = "| 72 | app | h:2 | shop | Query | 9 | Sending data | SELECT 1";
        for (text, wanted) in [
            (format!("{first}{second}\n"), 1),
            (format!("{open}{second}\n"), 1),
            (format!("{second} |\n\n\n{} |\n", second.replace("72", "73")), 1),
            (format!("{second} |\n\n{second} |\n"), 2),
            (format!("{second} |\nten minutes later:\n{} |\n", second.replace("72", "73")), 2),
        ] {
            assert_eq!(heads(&text), wanted, "{text}");
        }
    }

    #[test]
    fn rows_without_a_command_are_known_by_their_state_and_statement() {
        let head = |line: &str| head_of_row(line);
        for (row, wanted) in [
            ("| 18 | Waiting for global read lock | update a set b = 1 |", "| Id | State | Info |"),
            (
                "| 18 | app | 31 | Waiting for table metadata lock | ALTER TABLE a ADD b INT |",
                "| Id | left_out_1 | Time | State | Info |",
            ),
            (
                "Waiting for table level lock | SELECT a | 7 | 0 |",
                "| State | Info | left_out_2 | left_out_3 |",
            ),
        ] {
            assert_eq!(head(row).as_deref(), Some(wanted), "{row}");
        }
        for row in [
            "| 55 | 14 | Waiting for global read lock | UPDATE a SET b = 1 |",
            "| 18 | update | select | third |",
            "| Waiting for table metadata lock | 312 |",
            "| order 18 | Waiting for table metadata lock | SELECT a |",
        ] {
            assert_eq!(head(row), None, "{row}");
        }
    }

    #[test]
    fn rows_of_a_list_that_a_page_joined_on_one_line_are_rows_again() {
        let text = "| 71 | app | h:1 | shop | Query | 85 | Sending data | SELECT 1 | 72 | app | h:2 | NULL | Query | 84 | init | SELECT 2 | | 73 | \
             app | h:3 | NULL | Sleep | 2 | | NULL\n| 74 | app | h:4 | NULL | Query | 29 | Waiting for global read lock | FLUSH TABLES |\n";
        let found = with_heads(text.lines().map(str::to_owned).collect());
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(found[0], "| Id | User | Host | db | Command | Time | State | Info |");
        assert_eq!(found[2], "| 72 | app | h:2 | NULL | Query | 84 | init | SELECT 2 |");
        assert_eq!(found[3], "| 73 | app | h:3 | NULL | Sleep | 2 |  | NULL");
        let read = crate::rows::tables(&found.join("\n"));
        assert_eq!(read[0].len(), 4);
    }

    #[test]
    fn behind_the_last_bar_of_a_row_that_has_a_time_in_front_stands_nothing() {
        let text = "[2024-05-02 08:01:40]| 71 | app | h:1 | shop | Query | 85 | Sending data | SELECT a | 4 | 0 |\n\
                    [2024-05-02 08:01:40]| 72 | app | h:2 | shop | Query | 86 | updating | UPDATE b SET c = 1 | 0 | 0 |\n";
        let statements: Vec<String> =
            crate::threads::testing::sessions(text).into_iter().map(|(_, _, statement)| statement).collect();
        assert_eq!(statements, ["SELECT a", "UPDATE b SET c = 1"]);
    }

    #[test]
    fn the_end_of_a_list_above_another_one_gets_a_head_of_its_own() {
        let border = "+----+-----+-----+------+---------+------+--------------+----------+\n";
        let text = format!(
            "| 71 | app | h:1 | shop | Query   |   85 | Sending data | SELECT a |\n{border}31 rows in set (0.00 sec)\n\n\
             MariaDB [shop]> show processlist;\n{border}\
             | Id | User | Host | db  | Command | Time | State        | Info     |\n{border}\
             | 72 | app | h:2 | shop | Query   |   86 | updating     | SELECT b |\n{border}1 row in set (0.00 sec)\n"
        );
        let sessions = crate::threads::testing::sessions(&text);
        let wanted =
            |id: u64, state: &str, statement: &str| (Some(id), state.to_owned(), statement.to_owned());
        assert_eq!(sessions, [wanted(71, "Sending data", "SELECT a"), wanted(72, "updating", "SELECT b")]);
    }

    #[test]
    fn a_name_that_comes_again_begins_a_row() {
        let row = "Id: 7\nUser: app\nCommand: Query\nTime: 3\nState: updating\n";
        let found = lines(&row.repeat(2));
        assert_eq!(found.iter().filter(|line| row_number(line).is_some()).count(), 2, "{found:?}");
    }

    #[test]
    fn a_list_of_status_with_colons_is_one_with_tabs() {
        assert_eq!(
            lines("Threads_running: 5\nThreads_connected: 512\nUptime: 4711\n"),
            ["Threads_running\t5", "Threads_connected\t512", "Uptime\t4711"]
        );
    }

    #[test]
    fn prose_and_lists_that_have_their_numbers_stay_what_they_are() {
        for text in [
            "Time: 3pm\nHost: my laptop\nUser: me\n",
            "Version: 8.0\nSystem: Linux\n",
            "*** 1. row ***\n     Id: 7\n   Info: SELECT a\nfoo\nSlave_IO_Running: 3\nSlave_SQL_Running: 4\n",
        ] {
            assert_eq!(lines(text), text.lines().collect::<Vec<_>>());
        }
    }
}
