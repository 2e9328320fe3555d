//! Columns under their names. Widths follow from the first rows, which are kept until then; what comes later and is
//! longer pushes its line to the right. Answers of other columns begin a table of their own.

use spindoctor_fleet::piece::Columns;
use unicode_width::UnicodeWidthStr as _;

use super::part::{Format, Part};
use spindoctor_page::safe::safe;
use spindoctor_page::text::Look;

/// Rows that decide over the widths.
const FIRST_ROWS: usize = 1000;
/// Between two columns.
const GAP: &str = "  ";
/// No column is padded to more than this.
const WIDEST: usize = 60;

/// Rows under titles.
pub struct Table {
    look: Look,
    columns: Option<(bool, Columns)>,
    /// Rows that wait for the widths.
    first: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
    tables: usize,
}

impl Table {
    /// Nothing printed yet.
    pub fn new(look: Look) -> Self {
        Self { look, columns: None, first: Vec::new(), widths: None, tables: 0 }
    }

    /// Decides over the widths and prints what waited for them.
    fn settle(&mut self, out: &mut Vec<u8>) {
        let Some((has_server, columns)) = self.columns.clone() else { return };
        if self.widths.is_some() {
            return;
        }
        let server = has_server.then(|| "server".to_owned());
        let titles: Vec<String> =
            server.into_iter().chain(columns.iter().map(|column| safe(&column.name))).collect();
        let mut widths: Vec<usize> = titles.iter().map(|title| title.width()).collect();
        for row in &self.first {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width().min(WIDEST));
            }
        }
        if self.tables > 0 {
            out.push(b'\n');
        }
        self.tables += 1;
        if self.look.colour {
            out.extend_from_slice(b"\x1b[1m");
        }
        self.line(&titles, &widths, out);
        if self.look.colour {
            out.truncate(out.len() - 1);
            out.extend_from_slice(b"\x1b[0m\n");
        }
        for row in std::mem::take(&mut self.first) {
            self.line(&row, &widths, out);
        }
        self.widths = Some(widths);
    }

    fn line(&self, cells: &[String], widths: &[usize], out: &mut Vec<u8>) {
        let mut text = String::new();
        for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if at > 0 {
                text.push_str(GAP);
            }
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            // Numbers stand under each other by their last digit.
            if self.is_number(at) { text = text + &pad + cell } else { text = text + cell + &pad }
        }
        out.extend_from_slice(text.trim_end().as_bytes());
        out.push(b'\n');
    }

    fn is_number(&self, at: usize) -> bool {
        self.columns.as_ref().is_some_and(|(has_server, columns)| {
            let column = at.checked_sub(usize::from(*has_server)).and_then(|at| columns.get(at));
            column.is_some_and(|column| column.kind.is_number())
        })
    }
}

impl Format for Table {
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        if !part.is_answer() {
            return Ok(());
        }
        let has_server = part.server.is_some();
        if self.columns.as_ref().is_none_or(|(_, columns)| columns != part.columns) {
            self.settle(out);
            self.columns = Some((has_server, part.columns.clone()));
            self.widths = None;
        }
        for row in part.rows.iter() {
            let cells = row.cells().map(|cell| match cell {
                None => "NULL".to_owned(),
                Some(bytes) => safe(&String::from_utf8_lossy(bytes)),
            });
            let cells: Vec<String> = part.server.map(safe).into_iter().chain(cells).collect();
            match &self.widths {
                Some(widths) => self.line(&cells, &widths.clone(), out),
                None => self.first.push(cells),
            }
            if self.first.len() >= FIRST_ROWS {
                self.settle(out);
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()> {
        self.settle(out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::fleet::testing::printed;

    #[test]
    fn numbers_stand_right_and_other_columns_begin_another_table() {
        let (out, _) = printed(Table::new(Look { width: 80, colour: false }));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "server    Id  Info\n\
             db1:3306   7  SELECT 1, \"x\\y\"\n\
             db2:3306  12  NULL\n\
             db2:3306  13\n\
             db1:3306   8  \\u{1b}[2J\u{fffd}\n\
             \n\
             server    Id  Progress  Info\n\
             db3:3306   1      0.50  a\n"
        );
    }

    #[test]
    fn rows_behind_the_first_ones_are_printed_at_once() {
        use crate::fleet::testing::columns;
        use crate::fleet::testing::ended;
        use spindoctor_fleet::piece::Piece;
        use spindoctor_fleet::wire::answer::Kind;
        use spindoctor_fleet::wire::rows::Rows;
        let mut rows = Rows::default();
        for _ in 0..FIRST_ROWS + 1 {
            rows.push([Some(b"x".as_slice())]);
        }
        let piece = Piece { server: 0, columns: columns(&[("v", Kind::Text)]), rows, part: 0, end: ended() };
        let (mut table, mut out) = (Table::new(Look { width: 80, colour: false }), Vec::new());
        table.part(&Part::from_piece("db1", &piece), &mut out).unwrap();
        assert_eq!(out.split(|byte| *byte == b'\n').count(), FIRST_ROWS + 3);
    }
}
