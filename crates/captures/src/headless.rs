//! Process lists without their head, with commas, semicolons or tabs between the cells: what `mysql -B -N` prints, what a program made
//! of it, what `SELECT ... INTO OUTFILE` writes.
//!
//! ```text
//! 12,app,10.0.0.1:33,shop,Query,5,updating,"UPDATE t SET a = 1"
//! ```
//!
//! The first eight columns are those of every server. A row is known by its number, its command and the time behind it; what stands
//! behind the statement (MariaDB: the progress, Percona: counts of rows) is left out.

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
