//! Rows as `mysql --batch` prints them: a line of column names, then a line for each row, cells between tabs; `\t`, `\n`,
//! `\0` and `\\` stand for what would break a line, `NULL` for NULL.

/// Column names and rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Column names, as the server has them.
    pub columns: Vec<String>,
    /// Cells of each row; None is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    /// The table as text; ends with a line break.
    pub fn to_text(&self) -> String {
        let line = |cells: Vec<String>| cells.join("\t") + "\n";
        let cell = |cell: &Option<String>| cell.as_deref().map_or_else(|| "NULL".to_owned(), escaped);
        let head = line(self.columns.iter().map(|name| escaped(name)).collect());
        head + &self.rows.iter().map(|row| line(row.iter().map(cell).collect())).collect::<String>()
    }

    /// The table as the client prints it for `\G`: a line for each cell, names flush right.
    pub fn to_vertical(&self) -> String {
        let width = self.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let stars = "*".repeat(27);
            text += &format!("{stars} {}. row {stars}\n", number + 1);
            for (name, cell) in self.columns.iter().zip(row) {
                text += &format!("{name:>width$}: {}\n", cell.as_deref().unwrap_or("NULL"));
            }
        }
        text
    }

    /// Reads what [`Table::to_text`] writes; what is not of that form is read as well as it can be.
    pub fn of_text(text: &str) -> Self {
        let mut lines = text.lines();
        let columns = lines.next().map(|line| line.split('\t').map(unescaped).collect()).unwrap_or_default();
        let cell = |cell: &str| (cell != "NULL").then(|| unescaped(cell));
        let rows = lines.map(|line| line.split('\t').map(cell).collect()).collect();
        Self { columns, rows }
    }
}

impl Table {
    /// Reads what the client prints for `\G`: a line without the name of a column goes on with the value before it.
    pub fn of_vertical(text: &str) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let mut rows: Vec<Vec<Option<String>>> = Vec::new();
        for line in text.lines() {
            if line.trim_start().starts_with("***") {
                rows.push(Vec::new());
                continue;
            }
            let named = line
                .split_once(':')
                .map(|(name, value)| (name.trim(), value))
                .filter(|(name, _)| is_name(name));
            let Some(row) = rows.last_mut() else { continue };
            match named {
                Some((name, value))
                    if columns.len() == row.len() || columns.get(row.len()).is_some_and(|c| c == name) =>
                {
                    if columns.len() == row.len() {
                        columns.push(name.to_owned());
                    }
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    row.push((value != "NULL").then(|| value.to_owned()));
                }
                _ => {
                    if let Some(Some(value)) = row.last_mut() {
                        value.push('\n');
                        value.push_str(line);
                    }
                }
            }
        }
        Self { columns, rows }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for c in cell.chars() {
        match c {
            '\\' => text += r"\\",
            '\n' => text += r"\n",
            '\t' => text += r"\t",
            '\0' => text += r"\0",
            // Not the client's, but a line would end there for some readers.
            '\r' => text += r"\r",
            c => text.push(c),
        }
    }
    text
}

fn unescaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    let mut chars = cell.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('0') => text.push('\0'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            (c, false) => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn is_what_the_client_prints() {
        let table = Table {
            columns: vec!["Id".into(), "Info".into()],
            rows: vec![vec![Some("7".into()), Some("SELECT\n\t'\\'".into())], vec![Some("8".into()), None]],
        };
        assert_eq!(table.to_text(), "Id\tInfo\n7\tSELECT\\n\\t'\\\\'\n8\tNULL\n");
        assert!(table.to_vertical().starts_with("*************************** 1. row "));
        assert!(table.to_vertical().contains("\n  Id: 8\nInfo: NULL\n"));
        assert_eq!(Table::of_vertical(&table.to_vertical()), table);
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(cells in prop::collection::vec(prop::option::of("(?s).{0,12}"), 1..20)) {
            // The client does not distinguish the text NULL from NULL.
            prop_assume!(cells.iter().flatten().all(|cell| cell != "NULL"));
            let columns = (0..cells.len()).map(|n| format!("c{n}")).collect();
            let table = Table { columns, rows: vec![cells.clone(), cells] };
            prop_assert_eq!(Table::of_text(&table.to_text()), table);
        }
    }
}
