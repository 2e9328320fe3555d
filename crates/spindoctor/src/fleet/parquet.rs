//! Parquet, by the writer of `spindoctor export`. Its columns are known before its rows: they are a result of SQL.

use std::io::Write;

use spindoctor_export::{Cell, Kind, Sink as _, parquet};
use spindoctor_fleet::wire::answer::Kind as Of;

use super::part::{Format, Part};

type Out = Box<dyn Write + Send>;

/// A file on its way.
pub struct Parquet {
    out: Option<Out>,
    sink: Option<Box<parquet::Parquet<Out>>>,
}

impl Parquet {
    /// Nothing written yet.
    pub fn new(out: Out) -> Self {
        Self { out: Some(out), sink: None }
    }
}

fn kind(of: Of) -> Kind {
    match of {
        Of::Integer => Kind::Integer,
        Of::Real | Of::Decimal => Kind::Real,
        Of::Text | Of::Bytes => Kind::Text,
    }
}

impl Format for Parquet {
    fn part(&mut self, part: &Part<'_>, _: &mut Vec<u8>) -> anyhow::Result<()> {
        if let Some(out) = self.out.take() {
            let columns: Vec<(&str, Kind)> =
                part.columns.iter().map(|column| (column.name.as_str(), kind(column.kind))).collect();
            self.sink = Some(Box::new(parquet::Parquet::of_columns(out, "answers", &columns)?));
        }
        let Some(sink) = &mut self.sink else { return Ok(()) };
        for row in part.rows.iter() {
            let texts: Vec<Option<std::borrow::Cow<'_, str>>> =
                row.cells().map(|cell| cell.map(String::from_utf8_lossy)).collect();
            let cells: Vec<Cell<'_>> = texts
                .iter()
                .zip(part.columns.iter())
                .map(|(text, column)| {
                    let Some(text) = text else { return Cell::Nothing };
                    match kind(column.kind) {
                        Kind::Integer => text.parse().map_or(Cell::Nothing, Cell::Integer),
                        Kind::Real => text.parse().map_or(Cell::Nothing, Cell::Real),
                        _ => Cell::Text(text),
                    }
                })
                .collect();
            sink.row(&cells)?;
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> anyhow::Result<()> {
        match self.sink.take() {
            Some(sink) => sink.finish(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
    use hyper::body::Bytes;

    use super::*;

    use crate::fleet::testing::{columns, rows};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_result_comes_back_with_its_types() {
        let file = Shared::default();
        let mut format = Parquet::new(Box::new(file.clone()));
        let columns = columns(&[("server", Of::Text), ("Time", Of::Integer), ("load", Of::Real)]);
        let rows = rows(&[&[Some(b"db1"), Some(b"7"), Some(b"0.5")], &[Some(b"db2"), None, None]]);
        format.part(&Part::of_result(&columns, &rows), &mut Vec::new()).unwrap();
        format.finish(&mut Vec::new()).unwrap();
        let bytes = file.0.lock().unwrap().clone();
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let rows = reader.get_row_iter(None).unwrap();
        let text: Vec<String> = rows.map(|row| row.unwrap().to_string()).collect();
        assert_eq!(
            text,
            ["{server: \"db1\", Time: 7, load: 0.5}", "{server: \"db2\", Time: null, load: null}"]
        );
    }
}
