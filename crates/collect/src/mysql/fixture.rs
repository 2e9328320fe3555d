//! Reads the captured answers of `mysql` clients in the fixtures: vertical (`\G`), boxed and tabbed.

use super::rows::Rows;

/// Where inputs taken from real servers are.
pub(super) const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures");

/// The answer in a fixture file.
pub(super) fn rows(file: &str) -> Rows {
    let bytes = std::fs::read(format!("{FIXTURES}/{file}")).unwrap();
    parse(&String::from_utf8_lossy(&bytes))
}

/// An answer written down in a test, tabbed with a header line; `NULL` is NULL.
pub(super) fn tabbed(text: &str) -> Rows {
    parse(text)
}

fn parse(text: &str) -> Rows {
    if text.trim_start().starts_with("***") {
        return vertical(text);
    }
    let boxed = text.starts_with('+');
    let mut lines = text.lines().filter(|line| !line.starts_with('+')).map(|line| match boxed {
        true => line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>(),
        false => line.split('\t').map(str::to_owned).collect(),
    });
    let headed =
        boxed || text.starts_with("Variable_name") || text.lines().next().unwrap().matches('\t').count() > 1;
    let columns = match headed {
        true => lines.next().unwrap(),
        // `mysql -N`: names and values without a header.
        false => vec!["Variable_name".into(), "Value".into()],
    };
    Rows::new(columns, lines.map(|cells| cells.into_iter().map(nullable).collect()).collect())
}

/// `*** 1. row ***`, then `  Name: value` a line; a line without a name goes on with the value.
fn vertical(text: &str) -> Rows {
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<Option<String>>> = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("***") {
            rows.push(Vec::new());
        } else if let Some((name, value)) = line
            .split_once(':')
            .map(|(name, value)| (name.trim().to_owned(), value))
            .filter(|(name, _)| is_name(name) && (rows.len() == 1 || columns.contains(name)))
        {
            if rows.len() == 1 {
                columns.push(name);
            }
            rows.last_mut().unwrap().push(nullable(value.strip_prefix(' ').unwrap_or(value).to_owned()));
        } else if let Some(Some(value)) = rows.last_mut().and_then(|row| row.last_mut()) {
            value.push('\n');
            value.push_str(line);
        }
    }
    Rows::new(columns, rows)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn nullable(cell: String) -> Option<String> {
    (cell != "NULL").then_some(cell)
}
