//! Tables as clients print them: `\G`, a frame, tabs, CSV, JSON; to rows by column name.
//!
//! Line by line, so that a file of any length can be read; each result set is given when the next one begins, or at the end.

mod cells;
mod head;

use cells::rows_of_line;
use head::{header, is_of_locks, is_of_locks_with_blanks, joined_name, starts};
use spindoctor_collect::mysql::Rows;

use crate::heads::is_number;
use crate::{counted, prose};

pub(crate) use cells::{framed, quoted_cells};
pub use head::{Form, form};
pub(crate) use head::{STARS, header_of, is_border, is_framed_header, is_name, is_process_list, row_number};

/// Rows of one result set that are kept.
pub(crate) const MOST_ROWS: usize = 20_000;
/// Columns of one.
pub(crate) const MOST_COLUMNS: usize = 500;
/// Bytes of a cell that are kept: a status text is 1 MiB at most.
pub(crate) const LONGEST_CELL: usize = 1 << 20;
/// Bytes of a line of which cells are made: each empty cell takes 24 bytes, so that one line of 64 MiB of bars would take 1.5 GiB.
const LONGEST_LINE: usize = 4 * LONGEST_CELL;
/// Bytes of one: 10,000 sessions with statements of 3 KiB have 30 MiB.
const MOST_BYTES: usize = 64 << 20;

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

/// How clients write that a cell has no value: the server's own ones, mycli and DataGrip, DBeaver, SQLyog and HeidiSQL, Python's.
const NULLS: [&str; 9] = ["NULL", "\\N", "---", "<null>", "[NULL]", "(NULL)", "(null)", "null", "None"];

/// A framed row of so many cells without what somebody wrote behind it: `| a | 7 |   # as expected`.
fn without_remark(line: &str, wanted: usize) -> &str {
    const MARKS: [&str; 6] = ["#", "//", "--", "<-", "<=", "\u{2190}"];
    let Some((row, remark)) = line.rsplit_once('|') else { return line };
    let is_remark = MARKS.iter().any(|mark| remark.trim_start().starts_with(mark));
    match is_remark && framed(line).len() == wanted + 1 {
        true => &line[..=row.len()],
        false => line,
    }
}

/// A value below its name without what somebody wrote far behind it, or behind a word or a time: `3            # the one that waits`,
/// `71 -- the one that waits`.
fn without_remark_behind(value: &str) -> &str {
    const FAR: &str = "   #";
    const MARKS: [&str; 6] = [" -- ", " # ", " // ", " <-", " <=", " \u{2190}"];
    let is_short = |before: &&str| (1..=2).contains(&before.split_whitespace().count());
    let before = |mark: &str| value.split_once(mark).map(|(before, _)| before);
    let far = before(FAR).filter(|before| !before.trim().is_empty());
    let near = || MARKS.iter().find_map(|mark| before(mark).filter(is_short));
    far.or_else(near).map_or(value, str::trim_end)
}

/// A line without one blank at its beginning.
fn behind_one_blank(line: &str) -> &str {
    line.strip_prefix(' ').unwrap_or(line)
}

/// A reader of tables.
#[derive(Debug, Default)]
pub struct Tables {
    form: Option<Form>,
    columns: Vec<String>,
    /// Rows end with a `|`, as the head does.
    is_closed: bool,
    /// What stands before the first name of the head, and before each row: a page indented the list.
    indent: String,
    /// Where the names begin, of [`Form::Columns`].
    starts: Vec<usize>,
    rows: Vec<Vec<Option<String>>>,
    /// Of a vertical row: the cell that a line without a name belongs to, and where names end.
    last: Option<(usize, usize)>,
    /// The first name of the list stands at the beginning of its line, or one blank from it: the blanks before names were lost, or a
    /// page made one of several.
    is_flush_left: bool,
    /// Somebody wrote something below the last value, which no line goes on with any more.
    is_over: bool,
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
            (self.last, self.is_over) = (None, false);
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
        if self.form == Some(Form::Vertical) {
            // Empty lines below the last value.
            for cell in rows.iter_mut().flatten().flatten() {
                cell.truncate(cell.trim_end_matches('\n').len());
            }
        }
        (self.last, self.is_over, self.kept) = (None, false, 0);
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
        self.head(line, form, columns);
    }

    fn head(&mut self, line: &str, form: Form, columns: Vec<String>) {
        self.starts = starts(line);
        self.is_closed = line.trim_end().ends_with('|');
        line[..line.len() - line.trim_start().len()].clone_into(&mut self.indent);
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
                        colon == place || self.is_flush_left && behind_one_blank(line).starts_with(name)
                    })
            };
            // Below a row somebody may have written such a word, too: `Time: 10:15`.
            let is_new = || {
                let at = self.columns.iter().position(|column| column.eq_ignore_ascii_case(name));
                at.and_then(|at| row.get(at)).is_none_or(Option::is_none)
            };
            match is_name(name) {
                true => (is_process_list(name) || is_of_locks(name)) && is_new() || is_in_place(),
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
                let is_long = LONG.contains(&self.columns[at].as_str());
                let value = if is_long { value } else { without_remark_behind(value) };
                row[at] = Some(value.to_owned()).filter(|value| !NULLS.contains(&value.trim()));
                if self.last.is_none() {
                    self.is_flush_left = behind_one_blank(line).starts_with(|c: char| !c.is_whitespace());
                }
                (self.last, self.is_over) = (Some((at, place)), false);
            }
            None => {
                if let Some((at, _)) = self.last
                    && let Some(Some(cell)) = row.get_mut(at)
                    && cell.len() < LONGEST_CELL
                    && self.kept < MOST_BYTES
                    && !self.is_over
                {
                    let is_below_number = is_number(cell.trim()) && !line.trim().is_empty();
                    if is_below_number || prose::ends(cell, line) {
                        self.is_over = true;
                        return;
                    }
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
            self.head(line, form, columns);
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
        if prose::ends(&self.open, line) {
            // The row was cut, and somebody wrote something below it.
            let cut = std::mem::take(&mut self.open);
            self.row(&cut, Form::Framed, true);
            return;
        }
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
        let line = &line[..line.floor_char_boundary(LONGEST_LINE)];
        let line = match form == Form::Framed && self.is_closed {
            true => without_remark(line, wanted),
            false => line,
        };
        let cells: Vec<String> = match form {
            Form::Columns => self.by_columns(line),
            Form::Parted('\t') => {
                let line = line.strip_prefix(self.indent.as_str()).unwrap_or(line);
                line.split('\t').map(str::to_owned).collect()
            }
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
        let wanted = self.columns.len();
        if self.is_left_out(&cells) {
            return;
        }
        let too_many = cells.len().saturating_sub(wanted);
        if too_many > 0 {
            let at = self.columns.iter().position(|name| LONG.contains(&name.as_str())).unwrap_or(wanted - 1);
            let whole = cells[at..=at + too_many].join(parted);
            cells.splice(at..=at + too_many, [whole]);
        }
        if self.has_room() {
            let cell =
                |cell: String| Some(cell.trim()).filter(|cell| !NULLS.contains(cell)).map(str::to_owned);
            // Where a letter's line was too long the client wrapped it, within any cell: a statement alone has lines of its own.
            for (text, column) in cells.iter_mut().zip(&self.columns) {
                if text.contains('\n') && !LONG.contains(&column.as_str()) {
                    *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                }
            }
            self.rows.push(cells.into_iter().map(cell).collect());
        }
    }

    /// True for a row that stands for those that somebody left out: its first cell and most others are dots, columns that were left out aside.
    fn is_left_out(&self, cells: &[String]) -> bool {
        let is_dots = |cell: &str| ["...", "\u{2026}", ".."].contains(&cell.trim());
        let named = || cells.iter().zip(&self.columns).filter(|(_, name)| !name.starts_with("left_out_"));
        let is_nothing = |cell: &str| is_dots(cell) || cell.trim().is_empty();
        named().next().is_some_and(|(first, _)| is_dots(first))
            && (named().all(|(cell, _)| is_nothing(cell))
                || named().filter(|(cell, _)| is_dots(cell)).count() * 2 > named().count())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The cells of a text's tables, row by row, with the names of their columns.
    pub(super) fn cells(text: &str) -> Vec<Vec<(String, String)>> {
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
    fn what_somebody_wrote_behind_a_row_is_no_part_of_it() {
        let list = "| Id | User | Info |\n| 7 | app | SELECT a |     # slow\n| 8 | app | SELECT b | <- and this\n| 9 | app | SELECT c | -- and\n";
        let rows = cells(list);
        let statements: Vec<&str> = rows.iter().map(|row| row[2].1.as_str()).collect();
        assert_eq!(statements, ["SELECT a", "SELECT b", "SELECT c"]);
        // A statement with a bar, in lines of its own.
        let open = "| Id | User | Info |\n| 7 | app | SELECT a | b\nFROM c |\n";
        assert_eq!(cells(open)[0][2].1, "SELECT a|b\nFROM c");
        let list = "*** 1. row ***\n   Id: 7 -- the slow one\n State: init  # it\n  Info: SELECT -- all\n";
        let row = cells(list).remove(0).into_iter().map(|(_, cell)| cell).collect::<Vec<_>>();
        assert_eq!(row, ["7", "init", "SELECT -- all"]);
    }

    #[test]
    fn a_cell_without_a_value_is_none_however_a_client_writes_it() {
        for null in NULLS {
            let list = format!("| Id | User | Info |\n| 7 | app | {null} |\n");
            assert_eq!(cells(&list)[0].len(), 2, "{list}");
        }
        assert_eq!(cells("*** 1. row ***\n  Id: 7\nInfo: <null>\n")[0].len(), 1);
    }

    #[test]
    fn a_word_of_a_letter_that_is_a_column_s_name_changes_no_row() {
        let list = "*************************** 1. row ***************************\n     Id: 7\n   User: app\nCommand: Query\n\
                    \x20  Time: 31\n  State: init\n   Info: SELECT a\n\nTime: ten to nine\nUser: who is that?\n";
        let rows = cells(list);
        let of =
            |name: &str| rows[0].iter().find(|(column, _)| column == name).map(|(_, cell)| cell.as_str());
        assert_eq!((of("Time"), of("User")), (Some("31"), Some("app")));
    }

    #[test]
    fn rows_that_a_page_indented_by_a_tab_stand_below_their_names() {
        let list = "\tId\tUser\tCommand\tTime\tState\tInfo\n\t7\tapp\tQuery\t3\tinit\tSELECT a\n";
        assert_eq!(cells(list), cells(&list.replace("\tId", "Id").replace("\t7", "7")));
    }

    #[test]
    fn a_row_of_dots_is_no_session_and_a_session_with_dots_is_one() {
        let list = "| Id | User | Command | Time | State | Info |\n| 7 | app | Sleep | 90 | | NULL |\n\
                    | ... | ... | Sleep | ... | | ... |\n| ... | | | | | |\n| 8 | ... | ... | ... | ... | SELECT b |\n";
        let rows = cells(list);
        let ids: Vec<&str> = rows.iter().map(|row| row[0].1.as_str()).collect();
        assert_eq!(ids, ["7", "8"]);
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
        assert_eq!(cells(vertical)[0][2].1, "SELECT a\nFROM t\nWHERE x: 1\nfoo: bar");
        let framed = "| Id | Info | State |\n| 5 | SELECT 'a|b',\n 'c|d',\n 1 | x |\n| 6 | DO 1 | y |\n";
        let rows = cells(framed);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!(rows[0][1].1, "x");
        assert!(rows[0][2].1.starts_with("SELECT 'a|b',"), "{rows:?}");
    }

    #[test]
    fn names_before_which_a_page_left_one_blank_are_names() {
        let list = "*************************** 1. row ***************************\n thd_id: 30\n conn_id: 9\n state: User sleep\n\
                    current_statement: SELECT a\n";
        let sets = tables(list);
        let row = sets[0].first().unwrap();
        let found = ["thd_id", "conn_id", "state", "current_statement"].map(|name| row.text(name));
        assert_eq!(found, [Some("30"), Some("9"), Some("User sleep"), Some("SELECT a")]);
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
    fn of_a_line_without_end_no_more_cells_are_made_than_its_beginning_has() {
        let head = "Id\tUser\tCommand\tTime\tState\tInfo\n";
        let row = format!("7\tapp\tQuery\t3\tx\tDO 1{}é\n", "\t".repeat(2 * LONGEST_LINE));
        let rows = cells(&format!("{head}{row}"));
        assert_eq!(rows.len(), 1);
        assert!(rows[0][5].1.len() <= LONGEST_LINE, "{}", rows[0][5].1.len());
    }

    #[test]
    fn each_look_is_a_table_of_its_own() {
        let look = "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tQuery\t3\tx\tDO 1\n";
        assert_eq!(tables(&look.repeat(3)).len(), 3);
        assert!(tables("hello world\nthis is a | text\n").is_empty());
    }
}
