//! A table as comma-separated values (RFC 4180), with a line of titles. Times are RFC 3339, UTC.

use std::io::{BufWriter, Write};

use super::table::{Cell, Sink, Table};
use spindoctor_page::csv;
use spindoctor_page::csv::Reader;

/// Rows on their way into a file.
pub struct Csv<W: Write> {
    out: BufWriter<W>,
    reader: Reader,
    text: Vec<u8>,
}

impl<W: Write> Csv<W> {
    /// Begins with the titles.
    pub fn begin(out: W, table: &Table, reader: Reader) -> anyhow::Result<Self> {
        let mut out = BufWriter::new(out);
        let titles: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        write!(out, "{}\r\n", titles.join(","))?;
        Ok(Self { out, reader, text: Vec::new() })
    }
}

impl<W: Write> Sink for Csv<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()> {
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                self.out.write_all(b",")?;
            }
            match cell {
                Cell::Nothing => {}
                Cell::Time(at) => write!(self.out, "{}", at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ"))?,
                Cell::Integer(number) => write!(self.out, "{number}")?,
                Cell::Real(number) => write!(self.out, "{number}")?,
                Cell::Truth(is) => write!(self.out, "{is}")?,
                Cell::Text(text) => {
                    self.text.clear();
                    csv::cell(text.as_bytes(), self.reader, &mut self.text);
                    self.out.write_all(&self.text)?;
                }
            }
        }
        self.out.write_all(b"\r\n")?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::table::{TABLES, by_name, tests::visit};

    fn written(table: &Table) -> String {
        let mut bytes = Vec::new();
        let mut csv = Box::new(Csv::begin(&mut bytes, table, Reader::People).unwrap());
        visit(table, &mut |cells| csv.row(cells));
        csv.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_with_commas_quotes_and_lines_stays_one_cell() {
        let gaps = written(by_name("gaps").unwrap());
        assert_eq!(gaps, "server,from,to,because\r\ndb17,1970-01-01T00:00:00.000Z,,\"a, \"\"b\"\"\nc\"\r\n");
    }

    #[test]
    fn times_numbers_and_words_are_plain() {
        let events = written(by_name("events").unwrap());
        let row = events.lines().nth(1).unwrap();
        assert!(
            row.starts_with("db17,1,17,2026-07-01T09:30:00.200Z,2026-07-01T09:30:03.300Z,commits_stopped,"),
            "{row}"
        );
    }

    #[test]
    fn every_table_has_its_titles() {
        for table in TABLES {
            let titles = written(table).lines().next().unwrap().split(',').count();
            assert_eq!(titles, table.columns.len(), "{}", table.name);
        }
    }
}
