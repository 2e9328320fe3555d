//! Comma-separated values (RFC 4180), with a line of titles: the columns of the first answer. Answers of other columns
//! are put under them by name, and a note names what has no place.

use std::collections::BTreeMap;

use spindoctor_fleet::piece::Columns;

use super::part::{Format, Part};
use spindoctor_page::csv::Reader;
use spindoctor_page::{csv, safe};

/// Rows under the titles of the first answer.
pub struct Csv {
    reader: Reader,
    titles: Option<Columns>,
    /// Columns that have no place, each with how many servers have it and the first of them.
    homeless: BTreeMap<String, (usize, String)>,
}

impl Csv {
    /// Nothing written yet.
    pub fn new(reader: Reader) -> Self {
        Self { reader, titles: None, homeless: BTreeMap::new() }
    }

    /// For each title, which cell of such an answer goes there.
    fn places(titles: &Columns, columns: &Columns) -> Vec<Option<usize>> {
        let mut free: Vec<bool> = vec![true; columns.len()];
        titles
            .iter()
            .map(|title| {
                let same = |name: &str| name.eq_ignore_ascii_case(&title.name);
                let at =
                    columns.iter().enumerate().position(|(at, column)| free[at] && same(&column.name))?;
                free[at] = false;
                Some(at)
            })
            .collect()
    }

    fn note_homeless(&mut self, part: &Part<'_>, places: &[Option<usize>]) {
        if part.end.is_none() {
            return;
        }
        for (at, column) in part.columns.iter().enumerate() {
            if !places.contains(&Some(at)) {
                let server = || (0, part.server.unwrap_or_default().to_owned());
                self.homeless.entry(column.name.clone()).or_insert_with(server).0 += 1;
            }
        }
    }
}

impl Format for Csv {
    fn part(&mut self, part: &Part<'_>, out: &mut Vec<u8>) -> anyhow::Result<()> {
        if !part.is_answer() {
            return Ok(());
        }
        let titles = match &self.titles {
            Some(titles) => titles.clone(),
            None => {
                let server = part.server.map(|_| "server".as_bytes());
                let names = part.columns.iter().map(|column| column.name.as_bytes());
                line(self.reader, out, server.into_iter().chain(names).map(Some));
                self.titles = Some(part.columns.clone());
                part.columns.clone()
            }
        };
        let server = part.server.map(|server| Some(server.as_bytes()));
        if &titles == part.columns {
            for row in part.rows.iter() {
                line(self.reader, out, server.into_iter().chain(row.cells()));
            }
            return Ok(());
        }
        let places = Self::places(&titles, part.columns);
        self.note_homeless(part, &places);
        for row in part.rows.iter() {
            let cells: Vec<Option<&[u8]>> = row.cells().collect();
            let placed = places.iter().map(|place| place.and_then(|at| *cells.get(at)?));
            line(self.reader, out, server.into_iter().chain(placed));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.homeless
            .iter()
            .map(|(name, (servers, first))| {
                format!(
                    "spindoctor: the column {} is left out: {} and the first answer had it not; --format json and --sql keep it",
                    safe::safe(name),
                    match servers {
                        1 => format!("{first} has it"),
                        many => format!("{many} servers have it ({first})"),
                    }
                )
            })
            .collect()
    }
}

fn line<'a>(reader: Reader, out: &mut Vec<u8>, cells: impl Iterator<Item = Option<&'a [u8]>>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if let Some(bytes) = cell {
            csv::cell(bytes, reader, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::fleet::testing::printed;

    #[test]
    fn answers_of_other_columns_stand_under_the_first_ones_titles() {
        let (out, notes) = printed(Csv::new(Reader::Programs));
        let expected: &[u8] = b"server,Id,Info\r\n\
            db1:3306,7,\"SELECT\t1,\n\"\"x\\y\"\"\"\r\n\
            db2:3306,12,\r\ndb2:3306,13,\"\"\r\n\
            db1:3306,8,\x1b[2J\xff\r\n\
            db3:3306,1,a\r\n";
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected));
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("column Progress") && notes[0].contains("db3:3306 has it"), "{notes:?}");
    }

    #[test]
    fn for_people_no_cell_steers_a_terminal() {
        let (out, _) = printed(Csv::new(Reader::People));
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("db1:3306,8,\\u{1b}[2J\u{fffd}\r\n"), "{out}");
        assert!(!out.contains('\u{1b}'), "{out}");
    }
}
