//! Result sets as Python prints them: lists of tuples and of dicts, one row or a whole list a time, as tables that a client prints.
//!
//! ```text
//! [(12, 'app', '10.0.0.1:3306', 'shop', 'Query', 5, 'updating', 'UPDATE ...'), ...]
//! [{'Id': 12, 'User': 'app', ...}, ...]
//! ```
//!
//! Tuples have no names: eight cells or more of which the first is a number and the fifth a command are rows of a process list, two of
//! which the first is a name that is known are a variable. Rows of dicts are what their names say.

mod values;

use std::borrow::Cow;
use std::collections::HashMap;

use values::{Cell, Reader, Value};

use crate::headless::{COLUMNS, has_command, is_row, one_line};
use crate::named;
use crate::rows::{MOST_COLUMNS, MOST_ROWS, header_of, is_process_list};
use crate::spaced::HEAD;
use crate::table_kind::{TableKind, kind};

/// Places of a line where a list may begin.
const PLACES: usize = 4;
/// How far into a line a list begins behind what a log or a prompt put before it, bytes. By judgement.
const FARTHEST: usize = 200;
/// Names of variables or of a process list, fewer of which may be anything.
const FEWEST: usize = 4;
const FEWEST_VARIABLES: usize = 2;
/// One of so many names of variables is known, or more. By judgement.
const KNOWN: usize = 4;

/// A text with the tables that its lists stand for.
pub(crate) fn with_tables(text: &str) -> Cow<'_, str> {
    let mut whole = String::new();
    // What stands above here is in `whole`, or in the rows that are open.
    let mut copied = 0;
    let mut at = 0;
    // What is read of values that are no table, bytes: a text with nothing but beginnings is not read again and again.
    let mut left = text.len().saturating_mul(4).saturating_add(1 << 16);
    let mut open = Open::default();
    while at < text.len() {
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
        let found = table_at(text, at, end, &open, &mut left);
        if !open.goes_on(found.as_ref()) {
            open.close(text, at, &mut copied, &mut whole);
        }
        match found {
            Some((Table::Row(row), end)) => {
                if open.rows.is_empty() {
                    whole.push_str(&text[copied..at]);
                    copied = at;
                }
                open.rows.push(row);
                at = end;
            }
            Some((Table::Whole(printed), end)) => {
                whole.push_str(&text[copied..at]);
                whole.push_str(&printed);
                (at, copied) = (end, end);
            }
            None => at = end,
        }
    }
    open.close(text, at, &mut copied, &mut whole);
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    whole.push_str(&text[copied..]);
    Cow::Owned(whole)
}

/// Rows that were printed one by one, up to what is none of them.
#[derive(Default)]
struct Open {
    rows: Vec<Row>,
}

impl Open {
    fn goes_on(&self, found: Option<&(Table, usize)>) -> bool {
        matches!(found, Some((Table::Row(row), _)) if self.has_like(row))
    }

    /// True where a row has as many cells as the first of these, or the same first name.
    fn has_like(&self, row: &Row) -> bool {
        match (self.rows.first(), row) {
            (Some(Row::Bare(first)), Row::Bare(cells)) => first.len() == cells.len(),
            (Some(Row::Named(first)), Row::Named(pairs)) => {
                first.first().map(|(name, _)| name) == pairs.first().map(|(name, _)| name)
            }
            _ => false,
        }
    }

    /// The table of the rows, which stand in the text from `copied` up to here.
    fn close(&mut self, text: &str, here: usize, copied: &mut usize, whole: &mut String) {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        match printed(&rows) {
            Some(table) => whole.push_str(&table),
            None => whole.push_str(&text[*copied..here]),
        }
        *copied = here;
    }
}

/// A table, or a row that is printed by itself.
enum Table {
    Row(Row),
    Whole(String),
}

/// What begins in a line, and where the line ends in which it ends.
fn table_at(text: &str, from: usize, to: usize, open: &Open, left: &mut usize) -> Option<(Table, usize)> {
    let line = &text[from..to];
    for place in places(line) {
        if *left == 0 {
            return None;
        }
        let mut reader = Reader::new(text, from + place);
        let value = reader.read();
        let table = value.and_then(|value| match Row::new(&value) {
            Some(Row::Named(pairs)) if variables(&pairs).is_some() => variables(&pairs).map(Table::Whole),
            Some(row) => {
                let is_known = open.has_like(&row) || printed(std::slice::from_ref(&row)).is_some();
                is_known.then_some(Table::Row(row))
            }
            None => printed(&rows_of(value)).map(Table::Whole),
        });
        if let Some(table) = table {
            let end = text[reader.at()..].find('\n').map_or(text.len(), |end| reader.at() + end + 1);
            return Some((table, end));
        }
        *left = left.saturating_sub(reader.at() - from);
    }
    None
}

/// Where in a line a list, a tuple or an object may begin.
fn places(line: &str) -> impl Iterator<Item = usize> {
    let begin = line.len() - line.trim_start().len();
    let is_call = {
        let rest = line[begin..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_.".contains(c));
        rest.starts_with('(') && line[begin..].starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let bytes = line.as_bytes();
    let begins = move |at: &usize| {
        b"[({".contains(&bytes[*at]) && (*at == 0 || b" \t=:".contains(&bytes[at - 1]))
            || *at == begin && is_call
    };
    (0..bytes.len().min(FARTHEST)).filter(begins).take(PLACES)
}

/// The rows of a list.
fn rows_of(value: Value) -> Vec<Row> {
    match value {
        Value::List(values) => {
            let count = values.len().min(MOST_ROWS);
            let rows: Vec<Row> = values.iter().take(count).filter_map(Row::new).collect();
            if rows.len() == count { rows } else { Vec::new() }
        }
        _ => Vec::new(),
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    Bare(Vec<Cell>),
    Named(Vec<(String, Cell)>),
}

impl Row {
    fn new(value: &Value) -> Option<Self> {
        let cell = |value: &Value| match value {
            Value::One(cell) => Some(cell.clone()),
            _ => None,
        };
        match value {
            Value::List(values) if (2..=MOST_COLUMNS).contains(&values.len()) => {
                values.iter().map(cell).collect::<Option<_>>().map(Self::Bare)
            }
            Value::Named(pairs) if !pairs.is_empty() => {
                // An object within a row says nothing that is read.
                let pair = |(name, value): &(String, Value)| (name.clone(), cell(value).flatten());
                Some(Self::Named(pairs.iter().map(pair).collect()))
            }
            _ => None,
        }
    }
}

/// The table of these rows, with tabs; None where they are of nothing that is known.
fn printed(rows: &[Row]) -> Option<String> {
    match rows.first()? {
        Row::Named(first) => variables(first)
            .filter(|_| rows.len() == 1)
            .or_else(|| of_names(rows.iter().filter_map(Row::named))),
        Row::Bare(first) => {
            let mut bare: Vec<&Vec<Cell>> = rows.iter().filter_map(Row::bare).collect();
            let names: Option<Vec<String>> = first.iter().cloned().collect();
            if let Some(head) = names.and_then(|names| head(&names)) {
                bare.remove(0);
                return Some(with_head(&head, bare.into_iter(), first.len()));
            }
            let known = bare.iter().filter(|cells| is_variable(cells)).count();
            if known * KNOWN >= bare.len() && bare.iter().all(|cells| cells.len() == 2) {
                return Some(with_head("Variable_name\tValue", bare.into_iter(), 2));
            }
            let texts = |cells: &Vec<Cell>| -> Vec<String> {
                cells.iter().map(|cell| cell.clone().unwrap_or_else(|| "NULL".to_owned())).collect()
            };
            let is = |cells: &Vec<Cell>, fits: fn(&[&str]) -> bool| {
                fits(&texts(cells).iter().map(String::as_str).collect::<Vec<_>>())
            };
            let is_list = bare.iter().any(|cells| is(cells, has_command));
            bare.retain(|cells| is(cells, is_row));
            is_list.then(|| with_head(HEAD, bare.into_iter(), COLUMNS))
        }
    }
}

impl Row {
    fn named(&self) -> Option<&Vec<(String, Cell)>> {
        match self {
            Self::Named(pairs) => Some(pairs),
            Self::Bare(_) => None,
        }
    }

    fn bare(&self) -> Option<&Vec<Cell>> {
        match self {
            Self::Bare(cells) => Some(cells),
            Self::Named(_) => None,
        }
    }
}

/// True for the name and the value of a status or a variable that is known.
fn is_variable(cells: &[Cell]) -> bool {
    matches!(cells, [Some(name), _] if named::is_known(name) && name.contains('_'))
}

/// An object whose names are those of variables.
fn variables(pairs: &[(String, Cell)]) -> Option<String> {
    let known = pairs.iter().filter(|(name, _)| named::is_known(name) && name.contains('_')).count();
    let is_list = known >= FEWEST_VARIABLES && known * 2 > pairs.len();
    is_list.then(|| {
        let rows: Vec<Vec<Cell>> =
            pairs.iter().map(|(name, value)| vec![Some(name.clone()), value.clone()]).collect();
        with_head("Variable_name\tValue", rows.iter(), 2)
    })
}

/// The head of a table with these names, where it is known. A text of a status is read elsewhere.
fn head(names: &[String]) -> Option<String> {
    let plain = names.iter().map(|name| one_line(name)).collect::<Vec<_>>().join("\t");
    let names = header_of(&plain)?;
    let of_list = |name: &String| is_process_list(name.strip_prefix("processlist_").unwrap_or(name));
    let is_known = match kind(&names)? {
        // Its names are common words.
        TableKind::ProcessList => names.iter().filter(|name| of_list(name)).count() >= FEWEST,
        TableKind::Status => false,
        _ => true,
    };
    is_known.then_some(plain)
}

/// The table of rows with names: the columns in the order in which they come first.
fn of_names<'a>(rows: impl Iterator<Item = &'a Vec<(String, Cell)>>) -> Option<String> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut table: Vec<Vec<Cell>> = Vec::new();
    for row in rows {
        let mut cells = vec![None; names.len()];
        for (name, cell) in row {
            let at = *places.entry(name).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            });
            if names.len() > MOST_COLUMNS {
                return None;
            }
            cells.resize(names.len(), None);
            cells[at].clone_from(cell);
        }
        table.push(cells);
    }
    let as_they_are = head(&names);
    // What a query calls `COUNT(*)` is no name of a column.
    let is_name = |name: &String| name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.contains('(');
    let name = |(at, name): (usize, &String)| match is_name(name) {
        true => name.clone(),
        false => format!("left_out_{at}"),
    };
    let head = as_they_are.or_else(|| head(&names.iter().enumerate().map(name).collect::<Vec<_>>()))?;
    Some(with_head(&head, table.iter(), names.len()))
}

/// A head and rows of so many columns.
fn with_head<'a>(head: &str, rows: impl Iterator<Item = &'a Vec<Cell>>, columns: usize) -> String {
    let mut table = format!("{head}\n");
    for row in rows {
        for at in 0..columns {
            if at > 0 {
                table.push('\t');
            }
            match row.get(at) {
                Some(Some(cell)) => table.push_str(&one_line(cell)),
                _ => table.push_str("NULL"),
            }
        }
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Said, recognise};

    const TUPLES: [&str; 3] = [
        "(12, 'app', '10.0.0.1:3306', 'shop', 'Query', 5, 'updating', \"UPDATE t SET a = 'x'\")",
        "(13, 'app', '10.0.0.1:3307', None, 'Sleep', 900, '', None)",
        "(4, 'system user', '', None, 'Connect', Decimal('77'), 'Waiting for master to send event', None)",
    ];
    const DICTS: [&str; 3] = [
        "{'Id': 12, 'User': 'app', 'Host': '10.0.0.1:3306', 'db': 'shop', 'Command': 'Query', 'Time': 5, 'State': 'updating', \
         'Info': 'UPDATE t SET a = \\'x\\''}",
        "{'Id': 13, 'User': 'app', 'Host': '10.0.0.1:3307', 'db': None, 'Command': 'Sleep', 'Time': 900, 'State': '', \
         'Info': None}",
        "{'Id': 4, 'User': 'system user', 'Host': '', 'db': None, 'Command': 'Connect', 'Time': Decimal('77'), \
         'State': u'Waiting for master to send event', 'Info': None}",
    ];
    const ROWS: [&str; 4] = [
        HEAD,
        "12\tapp\t10.0.0.1:3306\tshop\tQuery\t5\tupdating\tUPDATE t SET a = 'x'",
        "13\tapp\t10.0.0.1:3307\tNULL\tSleep\t900\t\tNULL",
        "4\tsystem user\t\tNULL\tConnect\t77\tWaiting for master to send event\tNULL",
    ];

    #[test]
    fn lists_of_tuples_and_of_dicts_are_tables_however_they_are_printed() {
        let wanted = ROWS.join("\n") + "\n";
        for rows in [TUPLES, DICTS] {
            for list in [
                format!("[{}]", rows.join(", ")),
                format!("({},)\n", rows.join(", ")),
                format!("[{}]\n", rows.join(",\n ")),
                format!("[\n    {},\n]\n", rows.join(",\n    ")),
                format!("{}\n", rows.join("\n")),
                format!("print([{}])\n", rows.join(", ")),
                format!("[{}, <memory at 0x7f>, {}, {}, ...]\n", rows[0], rows[1], rows[2]),
                format!("[{}, {}, {}, (15, 'app', '10.0", rows[0], rows[1], rows[2]),
            ] {
                assert_eq!(with_tables(&list), wanted, "{list}");
            }
            let letter = format!("hello,\n\n>>> cursor.fetchall()\n[{}]\n>>> exit()\n", rows.join(", "));
            assert_eq!(
                with_tables(&letter),
                format!("hello,\n\n>>> cursor.fetchall()\n{wanted}>>> exit()\n")
            );
        }
    }

    #[test]
    fn what_libraries_make_of_a_row_is_one() {
        let ordered = "[OrderedDict([('waiting_pid', 5), ('wait_age', datetime.timedelta(days=1, seconds=19)), ('blocking_pid', 6)])]";
        assert_eq!(with_tables(ordered), "waiting_pid\twait_age\tblocking_pid\n5\t86419\t6\n");
        let named = "[Row(waiting_pid=5, since=datetime.datetime(2024, 5, 1, 9, 3, tzinfo=datetime.timezone.utc), blocking_pid=6)]";
        assert_eq!(with_tables(named), "waiting_pid\tsince\tblocking_pid\n5\t2024-05-01 09:03:00\t6\n");
        let pprint = "[{'blocking_pid': 6,\n  'blocking_query': None,\n  'waiting_pid': 5,\n  'waiting_query': 'UPDATE stock '\n\
                      \x20                  'SET n = 1'}]\n";
        assert_eq!(
            with_tables(pprint),
            "blocking_pid\tblocking_query\twaiting_pid\twaiting_query\n6\tNULL\t5\tUPDATE stock SET n = 1\n"
        );
        let counted = "[{'waiting_pid': 5, 'COUNT(*)': 12, 'blocking_pid': 6}]";
        assert_eq!(with_tables(counted), "waiting_pid\tleft_out_1\tblocking_pid\n5\t12\t6\n");
        let status = "(('Threads_running', '5'), ('Uptime', '4711'))";
        assert_eq!(with_tables(status), "Variable_name\tValue\nThreads_running\t5\nUptime\t4711\n");
    }

    #[test]
    fn a_list_of_python_is_a_document_with_its_rows() {
        let list = format!("rows = [{}]\n", TUPLES.join(", "));
        let parts = recognise("text", &list);
        assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::ProcessList]);
        let said = &parts[0].moments[0].said[0];
        let Said::Threads(threads) = said else { panic!("{said:?}") };
        assert_eq!(threads.len(), 3);
        assert_eq!(threads[0].statement.as_deref(), Some("UPDATE t SET a = 'x'"));
    }

    #[test]
    fn other_values_and_prose_stay_what_they_are() {
        for text in [
            "[1, 2, 3]",
            "[(1, 2), (3, 4)]\n",
            "see (the manual) [1], {a: b}\n",
            "(1040, 'Too many connections')\n",
            "[{'id': 7, 'state': 'x'}]\n",
            "(12, 'Smith', 'London', 'GB', 'Manager', 5, 'a', 'b')\n",
            "('InnoDB', '', '\\n=====================================\\n2024-05-01 10:00:00 0x7f INNODB MONITOR OUTPUT')\n",
            "[(12, 'app",
            "(((((((((((((((((((1,",
        ] {
            assert_eq!(with_tables(text), text);
        }
    }

    /// One that is read again from each of its beginnings would take hours, and the test's time be up.
    #[test]
    fn texts_of_nothing_but_beginnings_have_an_end() {
        const PIECES: [&str; 12] = [
            "[(1, ",
            "[(1,\n",
            "('''\n",
            "{'a': ",
            "{'a': 1,\n",
            "(\"\\\", ",
            "[(1, 'a'), (\n",
            "[[1], ",
            "f(a=",
            "'\\x",
            "[(1, 2), <, (",
            "12,app,h,d,Query,5,x,\"y\n",
        ];
        for piece in PIECES {
            let _ = with_tables(&piece.repeat(100_000));
            let _ = recognise("text", &piece.repeat(5_000));
        }
    }
}
