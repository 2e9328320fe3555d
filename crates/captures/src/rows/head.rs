//! How a table begins: the number of a row, a border, the names of its columns.

use super::{MOST_COLUMNS, framed};
use crate::counted;
use crate::localised;
use crate::table_kind::{TableKind, kind};

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `*** 1. row ***`, `Name: value`
    Vertical,
    /// `| a | b |`
    Framed,
    /// Cells with this character between them.
    Parted(char),
    /// Cells below the beginnings of the columns' names.
    Columns,
}

/// What stands on both sides of a row's number.
pub(crate) const STARS: &str = "***************************";

/// `*************************** 12. row ***************************`; a page may have put blanks between the stars,
/// and an editor of Markdown a backslash before the full stop and the stars.
pub(crate) fn row_number(line: &str) -> Option<u64> {
    let line = line.trim();
    let stars = line.strip_prefix("***").or_else(|| line.strip_prefix(r"\*\*\*"))?;
    let number = stars.trim_matches(['*', ' ', '\\']).strip_suffix(". row")?;
    number.strip_suffix('\\').unwrap_or(number).parse().ok()
}

/// `+----+------+`, and in Markdown `|----|:----:|`
pub(crate) fn is_border(line: &str) -> bool {
    let line = line.trim();
    line.len() >= 3
        && line.starts_with(['+', '|'])
        && line.contains("--")
        && line.trim_matches(['+', '-', ' ', '=', '|', ':']).is_empty()
}

/// `| Id | User | ...`
pub(crate) fn is_framed_header(line: &str) -> bool {
    line.trim_start().starts_with('|') && header(line).is_some()
}

/// The columns that a line names, where it is the head of a table that is known.
pub(crate) fn header_of(line: &str) -> Option<Vec<String>> {
    header(line).map(|(_, columns)| columns)
}

/// How a table is written that a line begins, and the columns that the line names, in lower case: none of them where the line is
/// the first of a row or a border.
pub fn form(line: &str) -> Option<(Form, Vec<String>)> {
    match line {
        line if row_number(line).is_some() => Some((Form::Vertical, Vec::new())),
        line if is_border(line) => Some((Form::Framed, Vec::new())),
        line => header(line),
    }
}

/// How phpMyAdmin's page of processes names what a process list has.
const PHPMYADMIN: [(&str, &str); 3] = [("Database", "db"), ("Status", "state"), ("SQL query", "info")];

pub(super) fn header(line: &str) -> Option<(Form, Vec<String>)> {
    // Heads are short: the widest, of a replica's status, has some 60 names. Docker's list of containers has a column COMMAND, too.
    if line.len() > 6_000 || line.contains("CONTAINER ID") {
        return None;
    }
    let named = |cells: Vec<&str>| -> Option<Vec<String>> {
        fn bare(cell: &str) -> &str {
            cell.trim().trim_matches(['"', '\'', '`'])
        }
        if cells.len() < 2 || cells.len() > MOST_COLUMNS {
            return None;
        }
        if let Some(names) = localised::names(&cells) {
            return Some(names);
        }
        let is_page = cells.iter().any(|cell| cell.trim() == "SQL query");
        let plain = |cell: &str| match PHPMYADMIN.iter().find(|(name, _)| is_page && *name == bare(cell)) {
            Some((_, plain)) => (*plain).to_owned(),
            None => bare(cell).to_ascii_lowercase(),
        };
        // Who made a list shorter left a column out: `| Id | ... | Time | State |`.
        let named = |(at, cell): (usize, &str)| match cell.trim() {
            "..." | "\u{2026}" | ".." => format!("left_out_{at}"),
            _ => plain(cell),
        };
        let names: Vec<String> = cells.into_iter().enumerate().map(named).collect();
        match names.iter().all(|name| is_name(name)) {
            true => kind(&names).is_some().then_some(names),
            false if counted::is_list(&names) => Some(names),
            false => without_blanks(&names),
        }
    };
    let trimmed = line.trim();
    // MySQL Workbench copies rows with the names behind a `#`.
    let trimmed = trimmed.strip_prefix("# ").filter(|rest| rest.contains(", ")).unwrap_or(trimmed);
    // Jira writes a head with two bars between its names.
    if let Some(inside) = trimmed.strip_prefix("||") {
        return named(inside.trim_end_matches('|').split("||").collect()).map(|names| (Form::Framed, names));
    }
    if trimmed.starts_with('|') {
        return named(framed(trimmed)).map(|names| (Form::Framed, names));
    }
    for mark in ['\t', ',', ';', '|'] {
        if line.contains(mark)
            && let Some(names) = named(trimmed.split(mark).collect())
        {
            return Some((Form::Parted(mark), names));
        }
    }
    let words: Vec<&str> = trimmed.split_whitespace().collect();
    // Two words alone may be the beginning of a sentence.
    if words.len() < 4 {
        return None;
    }
    named(words).map(|names| (Form::Columns, names))
}

/// The names of a head of which some have blanks, as the manual's and people's own queries give them (`waiting trx id`), with `_` for
/// the blanks. None where they are of no list of locks, of transactions or of processes: what a sentence has between its commas has
/// blanks, too.
fn without_blanks(names: &[String]) -> Option<Vec<String>> {
    /// A sentence has fewer words of a process list that stand alone. By judgement.
    const FEWEST_OF_LIST: usize = 4;
    let names: Vec<String> = names.iter().map(|name| joined_name(name)).collect::<Option<_>>()?;
    let is_list = || names.iter().filter(|name| is_process_list(name)).count() >= FEWEST_OF_LIST;
    let is_known = match kind(&names)? {
        TableKind::LockWaits
        | TableKind::TableLockWaits
        | TableKind::MetadataLocks
        | TableKind::MetadataLockInfo
        | TableKind::DataLocks
        | TableKind::Transactions => true,
        TableKind::ProcessList => is_list(),
        _ => false,
    };
    is_known.then_some(names)
}

/// `waiting_trx_id` of `Waiting trx id`, `wait_time_s` of `wait time (s)`; None for what is no name.
pub(super) fn joined_name(name: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_ -./()#".contains(c);
    if name.len() > 64 || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_letter)
    {
        return None;
    }
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    Some(words.collect::<Vec<_>>().join("_").to_ascii_lowercase())
}

pub(super) fn starts(line: &str) -> Vec<usize> {
    let mut before = ' ';
    let mut starts = Vec::new();
    for (at, letter) in line.chars().enumerate() {
        if before.is_whitespace() && !letter.is_whitespace() {
            starts.push(at);
        }
        before = letter;
    }
    starts
}

/// True for what may be the name of a column.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True for a column of the lists of lock waits, of locks and of transactions: where a page mixed tabs and blanks, their names do not
/// end in one place.
pub(super) fn is_of_locks(name: &str) -> bool {
    const BEGINS: [&str; 9] = [
        "waiting_",
        "blocking_",
        "requesting_",
        "locked_",
        "owner_",
        "trx_",
        "sql_kill_",
        "lock_",
        "object_",
    ];
    let name = name.to_ascii_lowercase();
    BEGINS.iter().any(|begins| name.starts_with(begins))
}

/// True for such a column whose name has blanks: `waiting trx id`, `wait time (s)`.
pub(super) fn is_of_locks_with_blanks(name: &str) -> bool {
    joined_name(name).is_some_and(|name| is_of_locks(&name) || name.starts_with("wait_"))
}

/// The columns of the process list of every server (Percona and MariaDB have more of them).
pub(crate) fn is_process_list(name: &str) -> bool {
    const COLUMNS: [&str; 21] = [
        "id",
        "user",
        "host",
        "db",
        "command",
        "time",
        "time_ms",
        "state",
        "info",
        "progress",
        "stage",
        "max_stage",
        "memory_used",
        "max_memory_used",
        "examined_rows",
        "query_id",
        "info_binary",
        "tid",
        "rows_sent",
        "rows_examined",
        "rows_read",
    ];
    COLUMNS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use spindoctor_collect::mysql::Rows;

    use super::*;
    use crate::rows::tables;
    use crate::rows::tests::cells;

    #[test]
    fn names_with_blanks_are_names_of_lists_of_locks() {
        let names =
            "waiting trx id,waiting thread,waiting query,blocking trx id,blocking thread,blocking query";
        let cells = ["5142", "47", "UPDATE a SET b = 1", "5132", "46", "NULL"];
        let head = |mark: &str| names.replace(',', mark);
        let vertical = names.split(',').zip(cells).map(|(name, cell)| format!("{name:>16}: {cell}\n"));
        for list in [
            format!("| {} |\n| {} |\n", head(" | "), cells.join(" | ")),
            format!("{}\n{}\n", head(" | "), cells.join(" | ")),
            format!("{}\n{}\n", head("\t"), cells.join("\t")),
            format!("\"{}\"\n\"{}\"\n", head("\",\""), cells.join("\",\"")),
            format!("{STARS} 1. row {STARS}\n{}", vertical.collect::<String>()),
        ] {
            let sets = tables(&list);
            let row = sets.first().and_then(Rows::first).unwrap_or_else(|| panic!("no row of {list}"));
            let texts = ["waiting_trx_id", "waiting_thread", "blocking_thread", "blocking_query"];
            let found = texts.map(|name| row.text(name));
            assert_eq!(found, [Some("5142"), Some("47"), Some("46"), None], "{list}");
        }
        let alias = "| Waiting Thread | Wait Time (s) | Blocking Thread |\n| 5 | 7 | 6 |\n";
        assert_eq!(tables(alias)[0].names(), ["waiting_thread", "wait_time_s", "blocking_thread"]);
    }

    #[test]
    fn a_table_of_jira_has_two_bars_in_its_head() {
        let rows = cells(
            "||Id||User||Command||Time||State||Info||\n|7|app|Query|3|updating|UPDATE a SET b = 1|\n|8|app|Sleep|9| | |\n",
        );
        let texts: Vec<&str> = rows[0].iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["7", "app", "Query", "3", "updating", "UPDATE a SET b = 1"]);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn a_row_s_number_stands_between_stars_with_blanks_or_without() {
        for line in [
            "*************************** 7. row ***************************",
            "*** 7. row ******************** *******",
            r"*** 7\. row ***",
            r"\*\*\*\* 7\. row \*\*\*\*",
        ] {
            assert_eq!(row_number(line), Some(7), "{line}");
        }
        assert_eq!(row_number("*** 7 rows ***"), None);
    }

    #[test]
    fn sentences_with_commas_or_bars_are_no_heads() {
        for text in [
            "Time, User, and the state of it\n1, 2, 3\n",
            "the waiting thread, the blocking thread\n1, 2\n",
            "| Time of day | User | What happened |\n| 1 | 2 | 3 |\n",
            "waiting for a lock, blocking others\n1, 2\n",
        ] {
            assert!(tables(text).is_empty(), "{text}");
        }
        let statement = "*************************** 1. row ***************************\n     Id: 7\n   Info: SELECT a\n\
                         waiting for: b\n  blocking thread x: 1\n  State: x\n";
        assert_eq!(cells(statement)[0].len(), 3);
    }
}
