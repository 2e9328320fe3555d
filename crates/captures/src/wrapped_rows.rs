//! Rows of a process list in a frame that a letter's program wrapped within a cell before the statement's: in a line each again.
//!
//! ```text
//! | 2073 | app | localhost | shop | Query |
//! 4 | Copying to tmp table | SELECT a FROM b
//! WHERE c |
//! ```
//!
//! Below a head that is whole a row that ends within a cell is read as it is: it ends where it has all the cells of the head.

use crate::headless::{COLUMNS, has_command};
use crate::heads::is_number;
use crate::rows::{framed, header_of};

/// Lines of a row. By judgement.
const MOST_LINES: usize = 40;

/// The lines of a text, with such rows and their head in one line each.
pub(crate) fn whole(lines: Vec<String>) -> Vec<String> {
    let lines = with_whole_heads(lines);
    let is_whole_head = |line: &String| {
        let names = line.trim_start().starts_with('|').then(|| header_of(line)).flatten();
        names.is_some_and(|names| names.iter().any(|name| name == "info"))
    };
    let has_head = lines.iter().any(is_whole_head);
    let is_short = |line: &String| {
        begins(line) && framed(line).len() < COLUMNS && (!has_head || line.trim_end().ends_with('|'))
    };
    if !lines.iter().any(is_short) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut at = 0;
    let mut has_wrapped = false;
    while let Some(line) = lines.get(at) {
        match is_short(line).then(|| row(&lines[at..])).flatten() {
            Some((row, taken)) => {
                has_wrapped = true;
                all.push(row);
                at += taken;
            }
            None => {
                all.push(line.clone());
                at += 1;
            }
        }
    }
    if has_wrapped {
        // The frame's borders were wrapped, too.
        let is_piece = |line: &str| line.len() >= 2 && line.bytes().all(|byte| b"+-".contains(&byte));
        all.retain(|line| !is_piece(line.trim()));
    }
    all
}

/// The lines with each head in one line that was cut between two columns: `| Id | State | Info` above `| Progress |`. Its rows would else have
/// a cell more than it.
fn with_whole_heads(lines: Vec<String>) -> Vec<String> {
    let joined = |at: usize| {
        let (line, next) = (lines.get(at)?.trim_end(), lines.get(at + 1)?.trim());
        let is_cut = line.trim_start().starts_with('|')
            && !line.ends_with('|')
            && next.starts_with('|')
            && next.ends_with('|');
        let names = |line: &str| header_of(line).map(|names| names.len());
        let whole = is_cut.then(|| format!("{line} {next}"))?;
        (names(&whole)? > names(line)?).then_some(whole)
    };
    if (0..lines.len()).all(|at| joined(at).is_none()) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let head = joined(at);
        at += if head.is_some() { 2 } else { 1 };
        all.push(head.unwrap_or_else(|| line.clone()));
    }
    all
}

/// True for the first line of a row, or of a head.
fn begins(line: &str) -> bool {
    let first = line.trim_start().strip_prefix('|').and_then(|rest| rest.split('|').next());
    first.is_some_and(|cell| is_number(cell.trim()) || cell.trim() == "Id")
}

/// The row or the head that begins in the first of these lines, and how many of them it has.
fn row(lines: &[String]) -> Option<(String, usize)> {
    let mut whole = lines.first()?.trim_end().to_owned();
    for (at, line) in lines.iter().enumerate().skip(1).take(MOST_LINES) {
        if line.trim().is_empty() || begins(line) {
            return None;
        }
        whole.push(' ');
        whole.push_str(line.trim());
        let cells = framed(&whole);
        let is_head = || header_of(&whole).is_some_and(|names| names.iter().any(|name| name == "info"));
        if whole.ends_with('|') && cells.len() >= COLUMNS && (has_command(&cells) || is_head()) {
            return Some((whole, at + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::testing::sessions;

    #[test]
    fn rows_that_a_letter_wrapped_are_whole_with_their_head_and_without() {
        let rows = "| 71 | app | localhost | shop | Query |\n4 | Copying to tmp table | SELECT a.*,\nMAX(b) FROM a\nWHERE c |\n\
                    | 72 | app | localhost | shop | Query | 3 | Waiting for table\nmetadata lock | ALTER TABLE a ADD b INT |\n";
        let wanted = [
            (Some(71), "Copying to tmp table".to_owned(), "SELECT a.*, MAX(b) FROM a WHERE c".to_owned()),
            (Some(72), "Waiting for table metadata lock".to_owned(), "ALTER TABLE a ADD b INT".to_owned()),
        ];
        assert_eq!(sessions(&format!("The ISP sent this:\n\n{rows}\nPlain, eh?\n")), wanted);
        let border = "+----+-----+-----------+------+-------+\n------+----------+------+\n";
        let head = "| Id | User | Host | db | Command |\nTime | State | Info |\n";
        assert_eq!(sessions(&format!("{border}{head}{border}{rows}{border}")), wanted);
    }

    #[test]
    fn a_head_that_was_cut_between_two_columns_is_whole() {
        let list = "| Id | User | Host | db | Command | Time | State | Info\n      | Progress |\n\
                    | 71 | app | localhost | shop | Query | 4 | updating | DELETE FROM a WHERE (b='') | 0.000 |\n\
                    | 72 | app | localhost | shop | Query | 3 | updating | UPDATE a SET b = 1\n      | 0.000 |\n";
        let statements: Vec<String> =
            sessions(list).into_iter().map(|(_, _, statement)| statement.trim().to_owned()).collect();
        assert_eq!(statements, ["DELETE FROM a WHERE (b='')", "UPDATE a SET b = 1"]);
    }

    #[test]
    fn what_is_no_list_and_what_has_its_head_stays_as_it_is() {
        for text in [
            "| 1 | apples | red |\nand | pears | too | and | more | of | it | x |\n",
            "| Id | User | Info |\n| 1 | a | SELECT 1\nFROM t |\n",
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(whole(lines.clone()), lines);
        }
    }
}
