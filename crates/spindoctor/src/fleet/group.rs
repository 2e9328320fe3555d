//! Answers folded: how many servers say what, the most frequent first, the odd ones by name.

use std::fmt::Write as _;

use serde::Serialize;
use spindoctor_fleet::group::Group;
use unicode_width::UnicodeWidthStr as _;

use super::failures::listed;
use super::json;
use spindoctor_page::safe::safe;
use spindoctor_page::text::Look;
use spindoctor_page::{number, safe};

/// Rows of a group that are shown.
const ROWS: usize = 10;
/// Servers of a group that are named, but in JSON.
const NAMED: usize = 30;
/// The largest group's servers are not named where it is larger than this: it is what all others differ from.
const NAMED_OF_MOST: usize = 3;
const INDENT: &str = "    ";

/// For people.
pub fn text(groups: &[Group], names: &[String], look: Look) -> String {
    let mut line = String::new();
    for (at, group) in groups.iter().enumerate() {
        let servers = number::counted(group.servers.len() as u64, "server", "servers");
        let servers = if look.colour { format!("\x1b[1m{servers}\x1b[0m") } else { servers };
        match single(group) {
            Some(value) => {
                let _ = writeln!(line, "{servers}: {value}");
            }
            None => {
                let rows = number::counted(group.count, "row", "rows");
                let _ = writeln!(line, "{servers}: {rows}");
                line.push_str(&rows_of(group));
            }
        }
        let is_norm = at == 0 && group.servers.len() > NAMED_OF_MOST;
        if !is_norm {
            let shown = &group.servers[..group.servers.len().min(NAMED)];
            line.push_str(&listed(names, shown, INDENT, look.width.max(50)));
            let more = group.servers.len() - shown.len();
            if more > 0 {
                let more = number::counted(more as u64, "other", "others");
                let _ = writeln!(line, "{INDENT}and {more}; --json names them all");
            }
        }
    }
    line
}

/// The value of an answer that is one, or nothing.
fn single(group: &Group) -> Option<String> {
    match (group.count, group.columns.len()) {
        (0, _) => Some("no row".to_owned()),
        (1, 1) => {
            let row = group.rows.iter().next()?;
            row.cells().next().map(shown)
        }
        _ => None,
    }
}

fn shown(cell: Option<&[u8]>) -> String {
    cell.map_or("NULL".to_owned(), |bytes| safe(&String::from_utf8_lossy(bytes)))
}

fn rows_of(group: &Group) -> String {
    let titles = group.columns.iter().map(|column| safe(&column.name)).collect();
    let rows = group.rows.iter().take(ROWS).map(|row| row.cells().map(shown).collect());
    let lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let mut widths = vec![0; group.columns.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.width());
        }
    }
    let mut words = String::new();
    for line in &lines {
        let mut text = INDENT.repeat(2);
        for (width, cell) in widths.iter().zip(line) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.width() + 2));
        }
        words.push_str(text.trim_end());
        words.push('\n');
    }
    let more = group.count - (lines.len() - 1) as u64;
    if more > 0 {
        let _ =
            writeln!(words, "{}and {}", INDENT.repeat(2), number::counted(more, "other row", "other rows"));
    }
    words
}

/// A JSON object a group: `{"count": 997, "columns": [...], "rows": [[...]], "rows_in_all": 1, "servers": [...]}`.
pub fn json(groups: &[Group], names: &[String]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    struct Written<'a> {
        count: usize,
        columns: Vec<&'a str>,
        rows: Vec<Vec<serde_json::Value>>,
        rows_in_all: u64,
        servers: Vec<&'a str>,
    }
    let mut text = String::new();
    for group in groups {
        let rows = group.rows.iter().map(|row| {
            let cells = group.columns.iter().zip(row.cells()).map(|(column, cell)| {
                let mut out = Vec::new();
                json::value(&mut out, column, cell);
                serde_json::from_slice(&out)
            });
            cells.collect::<Result<Vec<_>, _>>()
        });
        let written = Written {
            count: group.servers.len(),
            columns: group.columns.iter().map(|column| column.name.as_str()).collect(),
            rows: rows.collect::<Result<_, _>>()?,
            rows_in_all: group.count,
            servers: group.servers.iter().map(|&server| names[server].as_str()).collect(),
        };
        text.push_str(&safe::safe_json(&serde_json::to_string(&written)?));
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use spindoctor_fleet::wire::answer::Kind;

    use super::*;

    use crate::fleet::testing::{columns, rows};

    fn groups() -> (Vec<Group>, Vec<String>) {
        let names = (0..100).map(|at| format!("db{at}:3306")).collect();
        let value = columns(&[("v", Kind::Text)]);
        let pair = columns(&[("Variable_name", Kind::Text), ("Value", Kind::Integer)]);
        let many: Vec<&[Option<&[u8]>]> = vec![&[Some(b"a"), Some(b"1")]; 12];
        let groups = vec![
            Group {
                servers: (0..50).collect(),
                columns: value.clone(),
                rows: rows(&[&[Some(b"ON")]]),
                count: 1,
            },
            Group { servers: (50..90).collect(), columns: value.clone(), rows: rows(&[&[None]]), count: 1 },
            Group { servers: vec![90, 95], columns: pair, rows: rows(&many), count: 12 },
            Group { servers: vec![99], columns: value, rows: rows(&[]), count: 0 },
        ];
        (groups, names)
    }

    #[test]
    fn the_odd_ones_are_named_and_the_norm_is_not() {
        let (groups, names) = groups();
        let line = text(&groups, &names, Look { width: 80, colour: false });
        let lines: Vec<&str> = line.lines().collect();
        assert_eq!(lines[..2], ["50 servers: ON", "40 servers: NULL"]);
        assert!(line.contains("    and 10 others; --json names them all\n"), "{line}");
        assert!(
            line.contains("2 servers: 12 rows\n        Variable_name  Value\n        a              1\n"),
            "{line}"
        );
        assert!(line.contains("        and 2 other rows\n    db90:3306, db95:3306\n"), "{line}");
        assert!(line.ends_with("1 server: no row\n    db99:3306\n"), "{line}");
    }

    #[test]
    fn json_names_them_all() {
        let (groups, names) = groups();
        let text = json(&groups, &names).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (lines[0]["count"].as_u64(), lines[0]["servers"].as_array().map(Vec::len)),
            (Some(50), Some(50))
        );
        assert_eq!(lines[1]["rows"], serde_json::json!([[null]]));
        assert_eq!(
            (&lines[2]["rows"][0], &lines[2]["rows_in_all"]),
            (&serde_json::json!(["a", 1]), &12.into())
        );
    }
}
