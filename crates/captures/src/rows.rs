//! Tables as clients print them: `\G`, a frame, tabs, CSV, JSON; to rows by column name.
//!
//! Line by line, so that a file of any length can be read; each result set is given when the next one begins, or at the end.

use spindoctor_collect::mysql::Rows;

use crate::counted;
use crate::heads::is_number;
use crate::localised;
use crate::table_kind::{TableKind, kind};

/// Rows of one result set that are kept.
pub(crate) const MOST_ROWS: usize = 20_000;
/// Columns of one.
pub(crate) const MOST_COLUMNS: usize = 500;
/// Bytes of a cell that are kept: a status text is 1 MiB at most.
pub(crate) const LONGEST_CELL: usize = 1 << 20;
/// Bytes of one: 10,000 sessions with statements of 3 KiB have 30 MiB.
const MOST_BYTES: usize = 64 << 20;

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

/// A reader of tables.
#[derive(Debug, Default)]
pub struct Tables {
    form: Option<Form>,
    columns: Vec<String>,
    /// Rows end with a `|`, as the head does.
    is_closed: bool,
    /// Where the names begin, of [`Form::Columns`].
    starts: Vec<usize>,
    rows: Vec<Vec<Option<String>>>,
    /// Of a vertical row: the cell that a line without a name belongs to, and where names end.
    last: Option<(usize, usize)>,
    /// The first name of the list stands at the beginning of its line: blanks before names were lost.
    is_flush_left: bool,
    /// A row of which more lines come.
    open: String,
    /// Bytes of lines that were kept.
    kept: usize,
}

impl Tables {
    /// Takes a line; the result set that it ends, where it begins another one.
    pub fn take(&mut self, line: &str) -> Option<Rows> {
        self.kept += if self.form.is_some() { line.len() } else { 0 };
        if let Some(number) = row_number(line) {
            let ended = if number == 1 || self.form != Some(Form::Vertical) { self.finish() } else { None };
            self.form = Some(Form::Vertical);
            self.last = None;
            if self.has_room() {
                self.rows.push(vec![None; self.columns.len()]);
            }
            return ended;
        }
        match self.form {
            Some(Form::Vertical) if is_border(line) || is_framed_header(line) => {
                let ended = self.finish();
                self.begin(line);
                ended
            }
            Some(Form::Vertical) => {
                self.vertical(line);
                None
            }
            Some(form) => self.table(line, form),
            None => {
                self.begin(line);
                None
            }
        }
    }

    /// The result set so far; None where there is none.
    pub fn finish(&mut self) -> Option<Rows> {
        if !self.open.is_empty() {
            let line = std::mem::take(&mut self.open);
            self.row(&line, Form::Framed, true);
        }
        let mut rows = std::mem::take(&mut self.rows);
        let columns = match self.form {
            Some(Form::Vertical) => std::mem::take(&mut self.columns),
            _ => self.columns.clone(),
        };
        rows.retain(|row| row.iter().any(Option::is_some));
        (self.last, self.kept) = (None, 0);
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        rows.iter_mut().for_each(|row| row.resize(columns.len(), None));
        Some(Rows::new(columns, rows))
    }

    fn has_room(&self) -> bool {
        self.rows.len() < MOST_ROWS && self.kept < MOST_BYTES
    }

    fn begin(&mut self, line: &str) {
        let Some((form, columns)) = header(line) else { return };
        self.starts = starts(line);
        self.is_closed = line.trim_end().ends_with('|');
        (self.form, self.columns) = (Some(form), columns);
    }

    fn vertical(&mut self, line: &str) {
        let at_row = self.rows.len().checked_sub(1);
        let Some(row) = at_row.and_then(|at| self.rows.get_mut(at)) else { return };
        let place = line.find(':').unwrap_or_default();
        // Names are written flush right; a statement's own line that looks as one is where no name ends.
        let field = line.split_once(':').filter(|(name, value)| {
            let name = name.trim();
            let is_in_place = || {
                (value.is_empty() || value.starts_with(' '))
                    && self.last.is_none_or(|(_, colon)| {
                        colon == place || self.is_flush_left && line.starts_with(name)
                    })
            };
            match is_name(name) {
                true => is_process_list(name) || is_of_locks(name) || is_in_place(),
                false => (is_of_locks_with_blanks(name) || counted::is_aggregate(name)) && is_in_place(),
            }
        });
        match field {
            Some((name, value)) => {
                let name = name.trim();
                let joined = joined_name(name).filter(|_| !counted::is_aggregate(name));
                let name = joined.unwrap_or_else(|| name.to_ascii_lowercase());
                let at = match self.columns.iter().position(|column| *column == name) {
                    Some(at) => at,
                    None if self.columns.len() < MOST_COLUMNS => {
                        self.columns.push(name);
                        self.columns.len() - 1
                    }
                    None => return,
                };
                if row.len() <= at {
                    row.resize(at + 1, None);
                }
                let value = value.strip_prefix(' ').unwrap_or(value);
                row[at] = Some(value.to_owned()).filter(|value| value != "NULL");
                if self.last.is_none() {
                    self.is_flush_left = line.starts_with(|c: char| !c.is_whitespace());
                }
                self.last = Some((at, place));
            }
            None => {
                if let Some((at, _)) = self.last
                    && let Some(Some(cell)) = row.get_mut(at)
                    && cell.len() < LONGEST_CELL
                    && self.kept < MOST_BYTES
                {
                    cell.push('\n');
                    cell.push_str(line);
                }
            }
        }
    }

    fn table(&mut self, line: &str, form: Form) -> Option<Rows> {
        if form == Form::Framed {
            if is_border(line) {
                return None;
            }
            if !self.open.is_empty() && self.is_row(line) {
                // The row above lost its end: it takes nothing of the rows below it.
                let cut = std::mem::take(&mut self.open);
                self.row(&cut, form, true);
            } else if !self.open.is_empty() && !is_framed_header(line) {
                self.more(line);
                return None;
            }
            if !line.trim_start().starts_with('|') {
                return None;
            }
        }
        if line.trim().is_empty() {
            return None;
        }
        if let Some((form, columns)) = header(line) {
            let ended = self.finish();
            self.starts = starts(line);
            self.is_closed = line.trim_end().ends_with('|');
            (self.form, self.columns) = (Some(form), columns);
            return ended;
        }
        self.row(line, form, false);
        None
    }

    /// True for a framed row that is whole: as many cells as the head has, the first of them a number as in the open row.
    fn is_row(&self, line: &str) -> bool {
        let line = line.trim();
        let begins_with_number = |line: &str| framed(line).first().is_some_and(|cell| is_number(cell));
        line.starts_with('|')
            && line.ends_with('|')
            && framed(line).len() == self.columns.len()
            && begins_with_number(line)
            && begins_with_number(&self.open)
    }

    /// A line of a framed row that began above.
    fn more(&mut self, line: &str) {
        if self.open.len() < LONGEST_CELL {
            self.open.push('\n');
            self.open.push_str(line);
        }
        if line.trim_end().ends_with('|') {
            let whole = std::mem::take(&mut self.open);
            self.row(&whole, Form::Framed, false);
        }
    }

    fn row(&mut self, line: &str, form: Form, is_last: bool) {
        let wanted = self.columns.len();
        let cells: Vec<String> = match form {
            Form::Columns => self.by_columns(line),
            Form::Parted('\t') => line.split('\t').map(str::to_owned).collect(),
            Form::Parted(mark) => quoted_cells(line, mark, wanted),
            _ => framed(line).into_iter().map(str::to_owned).collect(),
        };
        let mut cells = cells;
        let is_open = matches!(form, Form::Parted(_)) || form == Form::Framed && !self.is_closed;
        if is_open && cells.len() + 1 == wanted {
            // The blanks at the end of a line were lost, and with them an empty cell; or each line was cut within one.
            cells.push(String::new());
        }
        if form == Form::Framed && self.is_closed && !is_last && !line.trim_end().ends_with('|') {
            line.clone_into(&mut self.open);
            return;
        }
        if cells.len() < wanted {
            if form == Form::Framed && is_last {
                // A text that was cut in its last row.
                self.keep(cells, "");
            }
            return;
        }
        if form == Form::Framed
            && let Some(rows) = rows_of_line(&cells, wanted)
        {
            rows.into_iter().for_each(|row| self.keep(row, "|"));
            return;
        }
        let parted = match form {
            Form::Parted(mark) => mark.to_string(),
            _ => "|".to_owned(),
        };
        self.keep(cells, &parted);
    }

    /// A statement may hold what parts the cells: what is too much is its.
    fn keep(&mut self, mut cells: Vec<String>, parted: &str) {
        /// Columns that hold statements or other long texts.
        const LONG: [&str; 9] = [
            "info",
            "processlist_info",
            "value",
            "status",
            "query",
            "trx_query",
            "current_statement",
            "waiting_query",
            "blocking_query",
        ];
        let wanted = self.columns.len();
        let too_many = cells.len().saturating_sub(wanted);
        if too_many > 0 {
            let at = self.columns.iter().position(|name| LONG.contains(&name.as_str())).unwrap_or(wanted - 1);
            let whole = cells[at..=at + too_many].join(parted);
            cells.splice(at..=at + too_many, [whole]);
        }
        if self.has_room() {
            let cell = |cell: String| match cell.trim() {
                "NULL" | "\\N" | "---" => None,
                _ => Some(cell.trim().to_owned()),
            };
            // Where a letter's line was too long the client wrapped it, within any cell: a statement alone has lines of its own.
            for (text, column) in cells.iter_mut().zip(&self.columns) {
                if text.contains('\n') && !LONG.contains(&column.as_str()) {
                    *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                }
            }
            self.rows.push(cells.into_iter().map(cell).collect());
        }
    }

    /// Cells below the beginnings of the names; none where a cell reaches over one.
    fn by_columns(&self, line: &str) -> Vec<String> {
        let letters: Vec<char> = line.chars().collect();
        let last = self.starts.len().saturating_sub(1);
        let cell = |(at, &start): (usize, &usize)| {
            let is_parted = start == 0 || letters.get(start - 1).is_none_or(|c| c.is_whitespace());
            let end = if at == last { letters.len() } else { self.starts[at + 1].min(letters.len()) };
            let cell: String =
                letters.get(start.min(letters.len())..end).unwrap_or_default().iter().collect();
            is_parted.then(|| cell.trim().to_owned())
        };
        self.starts.iter().enumerate().map_while(cell).collect()
    }
}

/// The result sets of a text.
#[cfg(test)]
pub(crate) fn tables(text: &str) -> Vec<Rows> {
    if let Some(sets) = crate::json::json(text) {
        return sets;
    }
    let mut tables = Tables::default();
    let mut all: Vec<Rows> = text.lines().filter_map(|line| tables.take(line)).collect();
    all.extend(tables.finish());
    all
}

/// What stands on both sides of a row's number.
pub(crate) const STARS: &str = "***************************";

/// `*************************** 12. row ***************************`
pub(crate) fn row_number(line: &str) -> Option<u64> {
    let inside = line.trim().strip_prefix("***")?.trim_matches('*').trim();
    inside.strip_suffix(". row")?.parse().ok()
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

fn header(line: &str) -> Option<(Form, Vec<String>)> {
    // Heads are short: the widest, of a replica's status, has some 60 names.
    if line.len() > 6_000 {
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
fn joined_name(name: &str) -> Option<String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "_ -./()#".contains(c);
    if name.len() > 64 || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_letter)
    {
        return None;
    }
    let words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    Some(words.collect::<Vec<_>>().join("_").to_ascii_lowercase())
}

fn starts(line: &str) -> Vec<usize> {
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

/// The cells of a framed row, without what parts them.
pub(crate) fn framed(line: &str) -> Vec<&str> {
    let line = line.trim();
    let inside = line.strip_prefix('|').unwrap_or(line);
    inside.strip_suffix('|').unwrap_or(inside).split('|').map(str::trim).collect()
}

/// The rows of a line into which several were joined, as where a page lost the line ends: each as wide as the head, with the blank
/// that was a line end between them, and a number in front. None where it is one row.
fn rows_of_line(cells: &[String], wanted: usize) -> Option<Vec<Vec<String>>> {
    // A width and the blank behind it, again and again; behind the last stands none.
    let is_whole = wanted >= 2 && cells.len() > wanted && (cells.len() + 1).is_multiple_of(wanted + 1);
    let rows = || cells.chunks(wanted + 1);
    let is_row = |row: &[String]| {
        row.first().is_some_and(|cell| is_number(cell.trim()))
            && row.get(wanted).is_none_or(|blank| blank.trim().is_empty())
    };
    (is_whole && rows().all(is_row)).then(|| rows().map(|row| row[..wanted].to_vec()).collect())
}

/// The cells of a row of CSV, as many as wanted where one way of reading its quotes gives so many.
pub(crate) fn quoted_cells(line: &str, mark: char, wanted: usize) -> Vec<String> {
    let cells = quoted(line, mark, true);
    if cells.len() == wanted {
        return cells;
    }
    // Some tools write texts in quotes without doubling the quotes within them.
    let plain = quoted(line, mark, false);
    if plain.len() == wanted { plain } else { cells }
}

/// The cells of a row of CSV. A quote closes before a mark or at the end of the line alone; of two in front of a mark the second
/// closes where quotes are not doubled.
fn quoted(line: &str, mark: char, is_doubled: bool) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    // Some tools quote as SQL does: the first cell that is quoted shows it.
    let quote =
        line.split(mark).find_map(|cell| cell.trim_start().chars().next().filter(|c| "'\"".contains(*c)));
    let quote = quote.unwrap_or('"');
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let Some(cell) = cells.last_mut() else { break };
        let rest = letters.as_str();
        let ends = |rest: &str| {
            let rest = rest.trim_start_matches(' ');
            rest.is_empty() || rest.starts_with(mark)
        };
        match letter {
            letter if letter == quote && is_quoted => match rest.strip_prefix(quote) {
                Some(behind) if is_doubled || !ends(behind) => {
                    cell.push(quote);
                    letters.next();
                }
                _ if ends(rest) => is_quoted = false,
                _ => cell.push(letter),
            },
            letter if letter == quote && cell.trim().is_empty() => {
                is_quoted = true;
                cell.clear();
            }
            '\\' if is_quoted => cell.extend(letters.next()),
            letter if letter == mark && !is_quoted => cells.push(String::new()),
            letter => cell.push(letter),
        }
    }
    cells
}

/// True for what may be the name of a column.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True for a column of the lists of lock waits, of locks and of transactions: where a page mixed tabs and blanks, their names do not
/// end in one place.
fn is_of_locks(name: &str) -> bool {
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
fn is_of_locks_with_blanks(name: &str) -> bool {
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
    use super::*;

    fn cells(text: &str) -> Vec<Vec<(String, String)>> {
        let columns = ["Id", "User", "Command", "Time", "State", "Info"];
        tables(text)
            .iter()
            .flat_map(|rows| {
                rows.iter()
                    .map(|row| {
                        let named = |name: &&str| Some((name.to_string(), row.text(name)?.to_owned()));
                        columns.iter().filter_map(named).collect()
                    })
                    .collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn every_form_of_a_list_gives_the_same_rows() {
        let vertical = "*************************** 1. row ***************************\n     Id: 7\n   User: app\n\
                        Command: Query\n   Time: 3\n  State: Sending data\n   Info: SELECT a\n*************************** 2. row \
                        ***************************\n     Id: 8\n   User: root\nCommand: Sleep\n   Time: 9\n  State: \n   Info: NULL\n";
        let framed = "+----+------+---------+------+--------------+----------+\n\
                      | Id | User | Command | Time | State        | Info     |\n\
                      +----+------+---------+------+--------------+----------+\n\
                      |  7 | app  | Query   |    3 | Sending data | SELECT a |\n\
                      |  8 | root | Sleep   |    9 |              | NULL     |\n\
                      +----+------+---------+------+--------------+----------+\n2 rows in set (0.00 sec)\n";
        let tabbed = "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tQuery\t3\tSending data\tSELECT a\n8\troot\tSleep\t9\t\tNULL\n";
        let csv = "\"Id\",\"User\",\"Command\",\"Time\",\"State\",\"Info\"\n7,app,Query,3,\"Sending data\",\"SELECT a\"\n\
                   8,root,Sleep,9,,NULL\n";
        let json = r#"[{"Id":7,"User":"app","Command":"Query","Time":3,"State":"Sending data","Info":"SELECT a"},
                      {"Id":8,"User":"root","Command":"Sleep","Time":9,"State":"","Info":null}]"#;
        let columns = "Id  User  Command  Time  State         Info\n7   app   Query    3     Sending data  SELECT a\n\
                       8   root  Sleep    9                   NULL\n";
        let wanted = cells(vertical);
        assert_eq!(wanted[0].len(), 6);
        assert_eq!(wanted[0][5], ("Info".to_owned(), "SELECT a".to_owned()));
        assert_eq!(wanted[1].len(), 5, "no statement");
        for text in [framed, tabbed, csv, json, columns] {
            assert_eq!(cells(text), wanted, "{text}");
        }
        let bare: String =
            framed.lines().filter(|line| !is_border(line)).map(|line| format!("{line}\n")).collect();
        assert_eq!(cells(&bare), wanted);
    }

    #[test]
    fn a_statement_may_hold_anything() {
        let vertical = "*************************** 1. row ***************************\n     Id: 7\n   Info: SELECT a\nFROM t\n\
                        WHERE x: 1\nfoo: bar\n\n  State: x\n";
        assert_eq!(cells(vertical)[0][2].1, "SELECT a\nFROM t\nWHERE x: 1\nfoo: bar\n");
        let framed = "| Id | Info | State |\n| 5 | SELECT 'a|b',\n 'c|d',\n 1 | x |\n| 6 | DO 1 | y |\n";
        let rows = cells(framed);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[0][1].1, "x");
        assert!(rows[0][2].1.starts_with("SELECT 'a|b',"), "{rows:?}");
    }

    #[test]
    fn what_other_clients_print_gives_rows() {
        let shell = r#"{"hasData": true, "rows": [{"Id": 7, "Command": "Query", "Info": "DO 1"}], "warningCount": 0}
            {"hasData": true, "rows": [{"Variable_name": "version", "Value": "8.0.36"}]}"#;
        let sets = tables(shell);
        assert_eq!(sets.len(), 2);
        assert_eq!(sets[0].first().unwrap().text("info"), Some("DO 1"));
        assert_eq!(sets[1].first().unwrap().text("value"), Some("8.0.36"));
        let by_row = "{\"Id\": 7, \"Command\": \"Query\"}\n{\"Id\": 8, \"Command\": \"Sleep\"}\n";
        assert_eq!(tables(by_row)[0].len(), 2);
        let workbench = "# Id, User, Command, Time, State, Info\n'7', 'app', 'Query', '3', NULL, 'UPDATE a SET b = \\'x, y\\''\n";
        let row = &tables(workbench)[0];
        let row = row.first().unwrap();
        assert_eq!((row.text("state"), row.text("info")), (None, Some("UPDATE a SET b = 'x, y'")));
        let markdown = "| Id | Command | Info |\n|----|:-------:|------|\n| 7 | Query | DO 1 |\n";
        assert_eq!(tables(markdown)[0].len(), 1);
        let page = "Processes \tID \tUser \tHost \tDatabase \tCommand \tTime \tStatus \tProgress \tSQL query\n\
                    Kill \t71 \twp \tlocalhost \twp \tQuery \t95 \tLocked \t--- \tUPDATE a SET b = 1\n\
                    Kill \t72 \twp \tlocalhost \twp \tSleep \t94 \t--- \t--- \t---\n";
        let sets = tables(page);
        let rows: Vec<_> = sets[0].iter().map(|row| (row.text("state"), row.text("info"))).collect();
        assert_eq!(rows, [(Some("Locked"), Some("UPDATE a SET b = 1")), (None, None)]);
    }

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

    #[test]
    fn rows_that_were_joined_on_one_line_are_rows_each() {
        let rows = cells(
            "| Id | User | Info |\n| 1 | a | SELECT 1 | | 2 | b | SELECT 2 | | 3 | c | SELECT 3 |\n| 4 | d | SELECT a || b |\n",
        );
        let ids: Vec<&str> = rows.iter().map(|row| row[0].1.as_str()).collect();
        assert_eq!(ids, ["1", "2", "3", "4"]);
        assert_eq!(rows[3][2].1, "SELECT a||b");
    }

    #[test]
    fn a_row_without_its_end_takes_no_row_below_it() {
        let rows = cells(
            "| Id | User | Info |\n| 1 | a | SELECT 1\nFROM t\n| 2 | b | SELECT 2 |\n| 3 | c | SELECT 3 |\n",
        );
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!(rows[0][2].1, "SELECT 1\nFROM t");
        assert_eq!(rows[1][2].1, "SELECT 2");
    }

    #[test]
    fn cells_in_single_quotes_are_read_where_the_first_cell_is_a_number() {
        let rows = cells(
            "Id, User, Command, Time, State, Info\n\
             177, 'app', 'Query', 23994, 'Waiting for table metadata lock', 'SELECT a FROM t WHERE b = 'x' AND c = 'y''\n\
             178, 'app', 'Query', 3, '', 'SELECT ''a, b'''\n",
        );
        assert_eq!(rows[0][1].1, "app");
        assert_eq!(rows[0][4].1, "Waiting for table metadata lock");
        assert_eq!(rows[0][5].1, "SELECT a FROM t WHERE b = 'x' AND c = 'y'");
        assert_eq!(rows[1][5].1, "SELECT 'a, b'");
        let more = cells("Id, User, Info, Time\n5, 'app', 'SELECT 'x'', 7\n");
        assert_eq!((more[0][2].1.as_str(), more[0][3].1.as_str()), ("7", "SELECT 'x'"));
    }

    #[test]
    fn a_row_that_was_cut_has_what_there_is() {
        let rows = cells("| Id | User | Command | Time | State | Info |\n| 5 | app | Query | 3 | upda");
        assert_eq!(rows[0].last().map(|(name, _)| name.as_str()), Some("State"));
    }

    #[test]
    fn a_cell_that_a_letter_wrapped_is_one_line_and_a_statement_keeps_its_lines() {
        let rows = cells(
            "| Id | State | Info |\n| 5 | Waiting for table\nmetadata lock | ALTER TABLE a\nADD b INT |\n",
        );
        assert_eq!(rows[0][1].1, "Waiting for table metadata lock");
        assert_eq!(rows[0][2].1, "ALTER TABLE a\nADD b INT");
    }

    #[test]
    fn each_look_is_a_table_of_its_own() {
        let look = "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tQuery\t3\tx\tDO 1\n";
        assert_eq!(tables(&look.repeat(3)).len(), 3);
        assert!(tables("hello world\nthis is a | text\n").is_empty());
    }
}
