//! Process lists without their head, with commas, semicolons or tabs between the cells: what `mysql -B -N` prints, what a program made
//! of it, what `SELECT ... INTO OUTFILE` writes.
//!
//! ```text
//! 12,app,10.0.0.1:33,shop,Query,5,updating,"UPDATE t SET a = 1"
//! ```
//!
//! The first eight columns are those of every server. A row is known by its number, its command and the time behind it; what stands
//! behind the statement (MariaDB: the progress, Percona: counts of rows) is left out.
//!
//! And lists of InnoDB's transactions without theirs, in a frame or with tabs.

use crate::clock;
use crate::heads::{COMMANDS, is_number};
use crate::rows::{LONGEST_CELL, header_of, quoted_cells};
use crate::spaced::HEAD;
use crate::table_kind::{TableKind, kind};

/// `Id`, `User`, `Host`, `db`, `Command`, `Time`, `State`, `Info`
pub(crate) const COLUMNS: usize = 8;

/// What stands between cells.
const MARKS: [char; 3] = ['\t', ',', ';'];

/// Numbers behind the statement: Percona's server has three.
const MOST_BEHIND: usize = 3;

/// Lines of a statement in quotes. By judgement.
const MOST_LINES: usize = 40;

/// True for a row as a process list has: a number, a user, a word for the command, a time.
pub(crate) fn is_row(cells: &[&str]) -> bool {
    let [id, user, _, _, command, time, ..] = cells else { return false };
    let is_word = command.len() <= 32 && command.chars().all(|c| c.is_ascii_alphabetic() || " _".contains(c));
    cells.len() >= COLUMNS
        && is_number(id)
        && !user.is_empty()
        && is_word
        && command.starts_with(|c: char| c.is_ascii_uppercase())
        && (*time == "NULL" || is_number(time.strip_prefix('-').unwrap_or(time)))
}

/// True for such a row of a command that is known: what shows a list to be one of processes.
pub(crate) fn has_command(cells: &[&str]) -> bool {
    is_row(cells) && COMMANDS.contains(&cells[4])
}

fn texts(cells: &[String]) -> Vec<&str> {
    cells.iter().map(String::as_str).collect()
}

/// A row in one or more lines.
#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    lines: usize,
}

/// The lines of a text, with such lists as a client prints them. A text that has the head of a process list is as it was: its rows
/// have their head.
pub(crate) fn with_head(lines: Vec<String>) -> Vec<String> {
    let is_head =
        |line: &String| header_of(line).is_some_and(|names| kind(&names) == Some(TableKind::ProcessList));
    let is_known = |cells: &Vec<String>| has_command(&texts(cells));
    if !lines.iter().any(|line| row(line).is_some_and(|cells| is_known(&cells))) || lines.iter().any(is_head)
    {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 1);
    let mut at = 0;
    while at < lines.len() {
        let mut rows = Vec::new();
        let mut end = at;
        while let Some(row) = row_of_lines(&lines[end..]) {
            end += row.lines;
            rows.push(row.cells);
        }
        match rows.iter().any(is_known) {
            true => {
                all.push(HEAD.to_owned());
                all.extend(printed(&rows));
            }
            false => {
                end = end.max(at + 1);
                all.extend_from_slice(&lines[at..end]);
            }
        }
        at = end;
    }
    all
}

/// The row that the first of these lines is, or of which it is the beginning: a statement in quotes may have lines of its own.
fn row_of_lines(lines: &[String]) -> Option<Row> {
    let first = lines.first()?;
    let cells = row(first)?;
    Some(open_row(lines, first).unwrap_or(Row { cells, lines: 1 }))
}

/// The row that begins in the first of these lines and ends in another, where a cell's quote ends.
fn open_row(lines: &[String], first: &str) -> Option<Row> {
    let is_open = |text: &str, quote: char| text.matches(quote).count() % 2 == 1;
    let begins_cell = |quote: char| MARKS.iter().any(|mark| first.contains(&format!("{mark}{quote}")));
    let quote = ['"', '\''].into_iter().find(|quote| is_open(first, *quote) && begins_cell(*quote))?;
    let below = lines.iter().skip(1).take(MOST_LINES).take_while(|line| row(line).is_none());
    let more = 1 + below.map(|line| is_open(line, quote)).position(|ends| ends)?;
    let whole = lines[..=more].join("\n");
    row(&whole).map(|cells| Row { cells, lines: more + 1 })
}

/// The number of the session in a row of a process list whose command is known.
pub(crate) fn connection(line: &str) -> Option<String> {
    row(line).filter(|cells| has_command(&texts(cells)))?.into_iter().next()
}

/// The cells of a row of a process list.
fn row(line: &str) -> Option<Vec<String>> {
    let begins = line.trim_start().trim_start_matches(['"', '\'']);
    if !begins.starts_with(|c: char| c.is_ascii_digit()) || line.len() > LONGEST_CELL {
        return None;
    }
    let mark = begins.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['"', '\'', ' ']);
    let mark = mark.chars().next().filter(|mark| MARKS.contains(mark))?;
    if line.matches(mark).count() + 1 < COLUMNS {
        return None;
    }
    let cells = match mark {
        '\t' => line.split(mark).map(str::to_owned).collect(),
        mark => quoted_cells(line, mark, COLUMNS),
    };
    let cell = |cell: String| match cell.trim() {
        "\\N" => "NULL".to_owned(),
        cell => cell.to_owned(),
    };
    let mut cells: Vec<String> = cells.into_iter().map(cell).collect();
    let is_list = is_row(&texts(&cells));
    if mark != '\t' && cells.len() > COLUMNS {
        // Of a statement that stands in no quotes, what its commas parted; what may be numbers behind it stays apart.
        let numbers = cells.iter().skip(COLUMNS).rev().take_while(|cell| is_count(cell)).count();
        let end = cells.len() - numbers.min(MOST_BEHIND);
        let statement = cells[COLUMNS - 1..end].join(&format!("{mark} "));
        cells.splice(COLUMNS - 1..end, [statement]);
    }
    is_list.then_some(cells)
}

/// A progress or a count of rows.
fn is_count(cell: &str) -> bool {
    cell == "NULL" || is_number(&cell.replacen('.', "", 1))
}

/// The rows as a client prints them in batch mode. Behind the statement each row has the same number of cells: what one has more of
/// them is its statement's.
fn printed(rows: &[Vec<String>]) -> Vec<String> {
    let behind = rows.iter().map(|cells| cells.len() - COLUMNS).min().unwrap_or_default();
    let line = |cells: &Vec<String>| {
        let statement = cells[COLUMNS - 1..cells.len() - behind].join(", ");
        let cells = cells[..COLUMNS - 1].iter().chain([&statement]);
        cells.map(|cell| one_line(cell)).collect::<Vec<_>>().join("\t")
    };
    rows.iter().map(line).collect()
}

/// The first columns of `information_schema.INNODB_TRX`, which are those of every version.
const OF_TRANSACTION: [&str; 17] = [
    "trx_id",
    "trx_state",
    "trx_started",
    "trx_requested_lock_id",
    "trx_wait_started",
    "trx_weight",
    "trx_mysql_thread_id",
    "trx_query",
    "trx_operation_state",
    "trx_tables_in_use",
    "trx_tables_locked",
    "trx_lock_structs",
    "trx_lock_memory_bytes",
    "trx_rows_locked",
    "trx_rows_modified",
    "trx_concurrency_tickets",
    "trx_isolation_level",
];

/// The lines of a text, with lists of InnoDB's transactions that have lost their head as a client prints them in batch mode. A text that
/// has such a head is as it was.
pub(crate) fn with_head_of_transactions(lines: Vec<String>) -> Vec<String> {
    let is_head =
        |line: &String| header_of(line).is_some_and(|names| kind(&names) == Some(TableKind::Transactions));
    let rows: Vec<Option<String>> = lines.iter().map(|line| transaction(line)).collect();
    if rows.iter().all(Option::is_none) || lines.iter().any(is_head) {
        return lines;
    }
    let is_row = |at: usize| rows.get(at).is_some_and(Option::is_some);
    let mut all = Vec::with_capacity(lines.len() + 1);
    let mut is_below_head = false;
    for (at, line) in lines.iter().enumerate() {
        // The border of rows that are printed in a frame.
        let is_border = line.starts_with("+-") && (is_row(at + 1) || at > 0 && is_row(at - 1));
        match &rows[at] {
            Some(row) => {
                if !is_below_head {
                    all.push(OF_TRANSACTION.join("\t"));
                }
                all.push(row.clone());
                is_below_head = true;
            }
            None if is_border => {}
            None => {
                all.push(line.clone());
                is_below_head = false;
            }
        }
    }
    all
}

/// A row of InnoDB's transactions with the columns that are known, tabs between them: of a frame, or as batch mode prints it.
fn transaction(line: &str) -> Option<String> {
    const STATES: [&str; 4] = ["RUNNING", "LOCK WAIT", "ROLLING BACK", "COMMITTING"];
    /// MySQL 8.0 has 25. By judgement.
    const MOST_COLUMNS: usize = 30;
    if !STATES.iter().any(|state| line.contains(state)) || line.len() > LONGEST_CELL {
        return None;
    }
    let cells: Vec<String> = match line.trim().strip_prefix('|') {
        Some(framed) => framed.trim_end_matches('|').split(" | ").map(one_line).collect(),
        None => line.split('\t').map(one_line).collect(),
    };
    let is_whole = (OF_TRANSACTION.len()..=MOST_COLUMNS).contains(&cells.len());
    let is_transaction = is_whole
        && STATES.contains(&cells[1].as_str())
        && clock::time(&cells[2]).is_some()
        && is_number(&cells[6])
        && cells[9..15].iter().all(|cell| is_number(cell));
    is_transaction.then(|| cells[..OF_TRANSACTION.len()].join("\t"))
}

/// A cell without tabs and line ends.
pub(crate) fn one_line(cell: &str) -> String {
    cell.trim().replace(['\t', '\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        with_head(text.lines().map(str::to_owned).collect())
    }

    const ROWS: [&str; 3] = [
        "12\tapp\t10.0.0.1:33\tshop\tQuery\t5\tupdating\tUPDATE t SET a = 1, b = 2",
        "13\tapp\t10.0.0.1:34\tNULL\tSleep\t900\t\tNULL",
        "4\tsystem user\t\tNULL\tConnect\t77\tWaiting for master to send event\tNULL",
    ];

    #[test]
    fn a_list_without_its_head_gets_it_whatever_stands_between_its_cells() {
        let wanted = [HEAD, ROWS[0], ROWS[1], ROWS[2], "", "end"];
        for list in [
            "12,app,10.0.0.1:33,shop,Query,5,updating,\"UPDATE t SET a = 1, b = 2\"\n13,app,10.0.0.1:34,NULL,Sleep,900,,NULL\n\
             4,system user,,NULL,Connect,77,Waiting for master to send event,NULL\n\nend\n",
            "\"12\",\"app\",\"10.0.0.1:33\",\"shop\",\"Query\",\"5\",\"updating\",\"UPDATE t SET a = 1, b = 2\"\n\
             \"13\",\"app\",\"10.0.0.1:34\",\\N,\"Sleep\",\"900\",\"\",\\N\n\
             \"4\",\"system user\",\"\",\\N,\"Connect\",\"77\",\"Waiting for master to send event\",\\N\n\nend\n",
            "12, app, 10.0.0.1:33, shop, Query, 5, updating, UPDATE t SET a = 1, b = 2\n13, app, 10.0.0.1:34, NULL, Sleep, 900, , NULL\n\
             4, system user, , NULL, Connect, 77, Waiting for master to send event, NULL\n\nend\n",
            "12;app;10.0.0.1:33;shop;Query;5;updating;UPDATE t SET a = 1, b = 2;0.000\n13;app;10.0.0.1:34;NULL;Sleep;900;;NULL;0.000\n\
             4;system user;;NULL;Connect;77;Waiting for master to send event;NULL;0.000\n\nend\n",
            "12,app,10.0.0.1:33,shop,Query,5,updating,\"UPDATE t SET a = 1, b = 2\",0,1\n13,app,10.0.0.1:34,NULL,Sleep,900,,NULL,0,0\n\
             4,system user,,NULL,Connect,77,Waiting for master to send event,NULL,0,0\n\nend\n",
            "12\tapp\t10.0.0.1:33\tshop\tQuery\t5\tupdating\tUPDATE t SET a = 1, b = 2\t0.000\n\
             13\tapp\t10.0.0.1:34\t\\N\tSleep\t900\t\t\\N\t0.000\n\
             4\tsystem user\t\tNULL\tConnect\t77\tWaiting for master to send event\tNULL\t0.000\n\nend\n",
        ] {
            assert_eq!(lines(list), wanted, "{list}");
        }
    }

    #[test]
    fn a_statement_in_quotes_has_lines_and_one_without_keeps_its_numbers() {
        let list = "12,app,h:1,shop,Query,5,updating,\"UPDATE t\nSET a = 'x'\"\n13,app,h:1,shop,Query,5,init,SELECT a LIMIT 5,10\n\
                    14,app,h:1,shop,Sleep,5,,NULL\n";
        assert_eq!(
            lines(list)[1..],
            [
                "12\tapp\th:1\tshop\tQuery\t5\tupdating\tUPDATE t SET a = 'x'",
                "13\tapp\th:1\tshop\tQuery\t5\tinit\tSELECT a LIMIT 5, 10",
                "14\tapp\th:1\tshop\tSleep\t5\t\tNULL",
            ]
        );
    }

    const TRANSACTIONS: [&str; 2] = [
        "34821\tLOCK WAIT\t2024-05-02 08:01:40\t34821:2:4:3\t2024-05-02 08:01:41\t2\t34\tUPDATE t SET a = 1\tstarting index read\t1\t1\t2\t1136\t1\t0\t0\tREPEATABLE READ",
        "34820\tRUNNING\t2024-05-02 08:00:11\tNULL\tNULL\t903\t33\tNULL\tNULL\t0\t1\t2\t1136\t900\t1\t0\tREPEATABLE READ",
    ];

    #[test]
    fn transactions_without_their_head_get_it() {
        let wanted = [
            "before".to_owned(),
            OF_TRANSACTION.join("\t"),
            TRANSACTIONS[0].into(),
            TRANSACTIONS[1].into(),
            "after".into(),
        ];
        let of_8_0 = |row: &str| format!("{row}\t1\t1\tNULL\t0\t0\t0\t0\t1");
        let batch = TRANSACTIONS.map(of_8_0).join("\n");
        let framed: Vec<String> =
            TRANSACTIONS.iter().map(|row| format!("| {} |", of_8_0(row).replace('\t', " | "))).collect();
        let border = format!("+{}+", "-".repeat(80));
        let framed = format!("{border}\n{}\n{border}", framed.join("\n"));
        for list in [batch, framed] {
            let lines = format!("before\n{list}\nafter").lines().map(str::to_owned).collect();
            assert_eq!(with_head_of_transactions(lines), wanted, "{list}");
        }
        for other in ["RUNNING\tjobs\t2024-05-02 08:01:40", "| 1 | RUNNING | 2024-05-02 08:00:11 |"] {
            let lines = vec![other.to_owned()];
            assert_eq!(with_head_of_transactions(lines.clone()), lines);
        }
    }

    #[test]
    fn what_has_a_head_and_what_is_another_list_stays_as_it_is() {
        for text in [
            "Id,User,Host,db,Command,Time,State,Info\n12,app,h:1,shop,Query,5,updating,DO 1\n",
            "12,Smith,London,GB,Manager,5,a,b\n13,Miller,Berlin,DE,Clerk,7,a,b\n",
            "12,app,h:1,shop,Query,the,answer,is\n",
            "1,2,3,4,5,6,7,8\n",
            "12,app,h:1,shop,Query,5\n",
        ] {
            assert_eq!(lines(text), text.lines().collect::<Vec<_>>(), "{text}");
        }
    }
}
