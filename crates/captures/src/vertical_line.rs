//! Rows that a client printed with `\G`, of which a page lost the line ends: `*** 1. row *** Id: 7 User: app Host: h:1 db: NULL`. The
//! blanks in their place may be lost, too: `*** 1. row ***Id: 7User: appHost: h:1db: NULLCommand: Sleep`.

use std::ops::Range;

/// So many names of columns show rows: prose that quotes the stars may have a word with a colon.
const FEW: usize = 4;
/// Rows of one line that are read.
const MOST: usize = 10_000;
/// Stars before a row's number: a client prints 27, and a page may have lost some.
const FEW_STARS: usize = 3;

/// The columns of a process list, in their order.
const OF_PROCESS_LIST: [&str; 8] = ["Id:", "User:", "Host:", "db:", "Command:", "Time:", "State:", "Info:"];
/// What servers put behind them, each a number.
const BEHIND: [&str; 4] = [" Time_ms: ", " Rows_sent: ", " Rows_examined: ", " Progress: "];

/// Values that stand before a column's name where no blank parts them.
const VALUES: [&str; 4] = ["None", "NULL", "No", "Yes"];

/// Where the lines of such rows begin; None for a line that has none.
pub(crate) fn places(line: &str) -> Option<Vec<usize>> {
    let mut marks: Vec<Range<usize>> = Vec::new();
    for mark in line.match_indices(". row").filter_map(|(at, _)| mark(line, at)).take(MOST) {
        // The stars of one are not those of the next one, too.
        if marks.last().is_none_or(|last| last.end <= mark.start) {
            marks.push(mark);
        }
    }
    let mut places = Vec::new();
    let mut names = 0;
    for (number, mark) in marks.iter().enumerate() {
        let end = marks.get(number + 1).map_or(line.len(), |next| next.start);
        let row = &line[mark.end..end];
        let columns = columns_of_process_list(row).unwrap_or_else(|| columns(row));
        names += columns.len();
        // The first column may have a name that is known nowhere else: `ENGINE: INNODB`.
        let first = end - row.trim_start().len();
        places.extend([mark.start, first]);
        places.extend(columns.into_iter().map(|at| mark.end + at));
    }
    places.dedup();
    (names >= FEW).then_some(places)
}

/// The stars, the number and the stars around the `. row` that stands there.
fn mark(line: &str, at: usize) -> Option<Range<usize>> {
    let before = line[..at].trim_end_matches(|c: char| c.is_ascii_digit());
    let stars = before.strip_suffix(' ').filter(|_| before.len() < at)?;
    let start = stars.trim_end_matches('*').len();
    let behind = line[at..].strip_prefix(". row")?;
    let behind = behind.strip_prefix(' ').unwrap_or(behind).strip_prefix('*')?.trim_start_matches('*');
    (stars.len() - start >= FEW_STARS).then(|| start..line.len() - behind.len())
}

/// Where the columns of a session begin. Each is looked for behind the one before it: the statement, which may have any word, is the last.
fn columns_of_process_list(row: &str) -> Option<Vec<usize>> {
    if !row.trim_start().starts_with(OF_PROCESS_LIST[0]) {
        return None;
    }
    // A host may end in `db:`, which is no column where blanks part them.
    let has_blanks = row.contains(" User: ") && row.contains(" Command: ");
    let mut columns = Vec::with_capacity(OF_PROCESS_LIST.len());
    let mut from = 0;
    for name in OF_PROCESS_LIST {
        let is_one = |at: &usize| !has_blanks || row[..*at].trim_end().len() < *at || *at == 0;
        let at = row[from..].match_indices(name).map(|(at, _)| from + at).find(is_one)?;
        columns.push(at);
        from = at + name.len();
    }
    let numbers = BEHIND.iter().filter_map(|name| {
        let at = from + row[from..].rfind(name)?;
        row[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()).then_some(at + 1)
    });
    columns.extend(numbers);
    columns.sort_unstable();
    Some(columns)
}

/// Where the columns of another row begin, of a replica's status and of lists of locks: words with a capital and a line below, as
/// `Read_Master_Log_Pos:`.
fn columns(row: &str) -> Vec<usize> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let column = |(colon, _): (usize, &str)| {
        let before = row[..colon].trim_end_matches(is_of_word);
        let word = &row[before.len()..colon];
        let mut name = &word[word.find(|c: char| c.is_ascii_uppercase())?..];
        for value in VALUES {
            let rest = name.strip_prefix(value);
            name = rest.filter(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())).unwrap_or(name);
        }
        let is_begun = name.len() < word.len() || before.is_empty() || before.ends_with(' ');
        let is_ended = matches!(row[colon + 1..].chars().next(), None | Some(' '));
        (name.contains('_') && is_begun && is_ended).then_some(colon - name.len())
    };
    row.match_indices(':').filter_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;
    use crate::rows::STARS;
    use crate::threads::testing::sessions;

    #[test]
    fn sessions_in_one_line_are_rows_with_and_without_blanks_between_them() {
        let row = |number: u64, info: &str| {
            format!(
                "{STARS} {number}. row {STARS} Id: {number} User: app Host: shop-db:33060 db: shop Command: Query Time: 90 State: Waiting \
                 for table metadata lock Info: {info} Progress: 0.000 "
            )
        };
        let rows = format!(
            "mysql> SHOW PROCESSLIST\\G {}{}",
            row(7, "SELECT 'Id: 1 User: x' FROM a"),
            row(8, "DROP TABLE a")
        );
        let lost = rows.replace("shop-db", "h").replace(" Progress: 0.000", "");
        let lost = ["User:", "Host:", "db:", "Command:", "Time:", "State:", "Info:"]
            .iter()
            .fold(lost, |text, name| text.replacen(&format!(" {name}"), name, 1));
        let wanted =
            [(7_u64, "SELECT 'Id: 1 User: x' FROM a"), (8, "DROP TABLE a")].map(|(id, statement)| {
                (Some(id), "Waiting for table metadata lock".to_owned(), statement.to_owned())
            });
        assert_eq!(sessions(&rows), wanted);
        assert_eq!(sessions(&lost), wanted);
    }

    #[test]
    fn a_replicas_status_in_one_line_is_one() {
        let status = format!(
            "{STARS} 1. row {STARS} Slave_IO_State: Waiting for master to send event Master_Host: db7 Read_Master_Log_Pos: 9Relay_Log_Pos: \
             9 Slave_IO_Running: YesSlave_SQL_Running: No Last_SQL_Errno: 1062 Last_SQL_Error: Error 'Duplicate entry' on query. Default \
             database: 'shop' Seconds_Behind_Master: NULL Retrieved_Gtid_Set: 3e11fa47-71ca:1-5 1 row in set (0.00 sec)\n"
        );
        let parts = recognise("x", &status);
        assert_eq!(
            parts.iter().map(|part| part.kind).collect::<Vec<_>>(),
            [Kind::ReplicaStatus],
            "{parts:?}"
        );
        let lines: Vec<&str> =
            places(&status).unwrap().windows(2).map(|pair| status[pair[0]..pair[1]].trim()).collect();
        for line in [
            "Relay_Log_Pos: 9",
            "Slave_IO_Running: Yes",
            "Slave_SQL_Running: No",
            "Seconds_Behind_Master: NULL",
        ] {
            assert!(lines.contains(&line), "{line} in {lines:?}");
        }
    }

    #[test]
    fn the_first_column_of_a_list_of_locks_stands_below_the_stars() {
        let line = "SELECT * FROM performance_schema.data_lock_waits\\G *** 1. row*** ENGINE: INNODB REQUESTING_ENGINE_TRANSACTION_ID: 71 \
                    REQUESTING_THREAD_ID: 57 BLOCKING_ENGINE_TRANSACTION_ID: 70 BLOCKING_THREAD_ID: 56";
        let begins: Vec<&str> = places(line).unwrap().into_iter().map(|at| &line[at..at + 6]).collect();
        assert_eq!(begins, ["*** 1.", "ENGINE", "REQUES", "REQUES", "BLOCKI", "BLOCKI"]);
        let parts = recognise("x", line);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::LockWaits], "{parts:?}");
    }

    #[test]
    fn stars_in_prose_are_no_rows() {
        for text in [
            "as in *** 1. row *** of it: nothing, and more: nothing",
            "*** 1. row *** 2. row *** 3. row ***",
            ". row *. row **** 1. row *",
            "*** 1. row *é: Ä_B: *** 2. row *ß",
        ] {
            assert_eq!(places(text), None, "{text}");
        }
        let stars = "*** 1. row *** Id: 1 User: a Host: b db: c Command: d Time: 1 State: e Info: f*** 2. row *** 3. row ***  ";
        assert!(places(stars).unwrap().is_sorted());
    }
}
