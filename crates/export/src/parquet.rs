//! A table as a Parquet file: zstd, timestamps in milliseconds UTC, a row group at a time in memory.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::table::{Cell, Kind, Sink, Table};

/// Rows of a group. DuckDB and Spark read groups in parallel, and skip those whose times are not asked for.
const GROUP_ROWS: usize = 122_880;
/// A group with long texts ends earlier.
const GROUP_TEXT_BYTES: usize = 32 << 20;
/// What zstd itself takes where nobody says: higher levels make files little smaller and take much longer.
const ZSTD_LEVEL: i32 = 3;
/// Texts that are handed to the writer of a column at once: each is some forty bytes there, and four until then.
const TEXTS_AT_ONCE: usize = 4_096;
/// A cell that is there; an empty one is one level below.
const IS_THERE: i16 = 1;

/// Rows on their way into a file.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    rows: usize,
    texts: Texts,
}

/// Texts of the group that is being filled: most stand in many rows.
#[derive(Default)]
struct Texts {
    places: HashMap<String, u32>,
    all: Vec<ByteArray>,
    bytes: usize,
}

/// A column of the group that is being filled.
struct Buffer {
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    /// Their places in [`Texts`].
    Texts(Vec<u32>),
    Truths(Vec<bool>),
}

impl<W: Write + Send> Parquet<W> {
    /// Begins with an empty file.
    pub fn begin(out: W, table: &Table) -> anyhow::Result<Self> {
        let columns: Vec<(&str, Kind)> =
            table.columns.iter().map(|column| (column.name, column.kind)).collect();
        Self::of_columns(out, table.name, &columns)
    }

    /// Begins with an empty file of these columns.
    pub fn of_columns(out: W, name: &str, columns: &[(&str, Kind)]) -> anyhow::Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
            .set_created_by(concat!("spindoctor ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(out, schema(name, columns)?, Arc::new(properties))?;
        let columns = columns.iter().map(|(_, kind)| Buffer::for_kind(*kind)).collect();
        Ok(Self { writer, columns, rows: 0, texts: Texts::default() })
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group.next_column()?.context("a column for each of the schema")?;
            column.write(&mut writer, &self.texts.all)?;
            writer.close()?;
        }
        group.close()?;
        self.texts = Texts::default();
        self.rows = 0;
        Ok(())
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell, &mut self.texts);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.texts.bytes >= GROUP_TEXT_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.write_group()?;
        self.writer.close()?;
        Ok(())
    }
}

impl Texts {
    /// The place of a text, which is kept once.
    fn place(&mut self, text: &str) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        self.bytes += 2 * text.len();
        let place = u32::try_from(self.all.len()).expect("a group ends before it has 2^32 texts");
        self.all.push(ByteArray::from(text.as_bytes().to_vec()));
        self.places.insert(text.to_owned(), place);
        place
    }
}

impl Buffer {
    fn for_kind(kind: Kind) -> Self {
        let values = match kind {
            Kind::Time | Kind::Integer => Values::Integers(Vec::new()),
            Kind::Real => Values::Reals(Vec::new()),
            Kind::Text => Values::Texts(Vec::new()),
            Kind::Truth => Values::Truths(Vec::new()),
        };
        Self { levels: Vec::new(), values }
    }

    /// A cell of another kind than the column's counts as empty: no table has one, as a test shows.
    fn push(&mut self, cell: Cell<'_>, texts: &mut Texts) {
        let is_there = match (&mut self.values, cell) {
            (Values::Integers(values), Cell::Time(at)) => {
                values.push(at.as_millisecond());
                true
            }
            (Values::Integers(values), Cell::Integer(number)) => {
                values.push(number);
                true
            }
            (Values::Reals(values), Cell::Real(number)) => {
                values.push(number);
                true
            }
            (Values::Truths(values), Cell::Truth(is)) => {
                values.push(is);
                true
            }
            (Values::Texts(values), Cell::Text(text)) => {
                values.push(texts.place(text));
                true
            }
            _ => false,
        };
        self.levels.push(if is_there { IS_THERE } else { IS_THERE - 1 });
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>, texts: &[ByteArray]) -> anyhow::Result<()> {
        let levels = Some(self.levels.as_slice());
        match &mut self.values {
            Values::Integers(values) => {
                writer.typed::<Int64Type>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Reals(values) => {
                writer.typed::<DoubleType>().write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Texts(places) => {
                let writer = writer.typed::<ByteArrayType>();
                let mut left = places.iter();
                for levels in self.levels.chunks(TEXTS_AT_ONCE) {
                    let here = levels.iter().filter(|level| **level == IS_THERE).count();
                    let values: Vec<ByteArray> =
                        left.by_ref().take(here).map(|place| texts[*place as usize].clone()).collect();
                    writer.write_batch(&values, Some(levels), None)?;
                }
                places.clear();
            }
            Values::Truths(values) => {
                writer.typed::<BoolType>().write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.levels.clear();
        Ok(())
    }
}

fn schema(name: &str, columns: &[(&str, Kind)]) -> anyhow::Result<TypePtr> {
    let fields = columns.iter().map(|(name, kind)| {
        let (physical, logical) = match kind {
            Kind::Time => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Real => (PhysicalType::DOUBLE, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Truth => (PhysicalType::BOOLEAN, None),
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()?;
        Ok(Arc::new(field))
    });
    let fields = fields.collect::<Result<Vec<_>, parquet::errors::ParquetError>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, Row};

    use super::*;

    use crate::table::{TABLES, by_name, tests::rows_of, tests::visit};

    fn read(bytes: Vec<u8>) -> SerializedFileReader<Bytes> {
        SerializedFileReader::new(Bytes::from(bytes)).unwrap()
    }

    fn written(table: &Table) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut parquet = Box::new(Parquet::begin(&mut bytes, table).unwrap());
        visit(table, &mut |cells| parquet.row(cells));
        parquet.finish().unwrap();
        bytes
    }

    /// A field as `rows_of` writes a cell.
    fn type_text(field: &Field) -> String {
        match field {
            Field::Null => "Nothing".to_owned(),
            Field::TimestampMillis(ms) => {
                format!("Time({})", jiff::Timestamp::from_millisecond(*ms).unwrap())
            }
            Field::Long(number) => format!("Integer({number})"),
            Field::Double(number) => format!("Real({number:?})"),
            Field::Str(text) => format!("Text({text:?})"),
            Field::Bool(is) => format!("Truth({is})"),
            other => panic!("{other:?} is not one of our kinds"),
        }
    }

    #[test]
    fn every_table_comes_back_as_it_was_written() {
        for table in TABLES {
            let reader = read(written(table));
            let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
            let text: Vec<Vec<String>> = rows
                .iter()
                .map(|row| row.get_column_iter().map(|(_, field)| type_text(field)).collect())
                .collect();
            assert_eq!(text, rows_of(table), "{}", table.name);
            let names: Vec<&str> = rows[0].get_column_iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, table.columns.iter().map(|column| column.name).collect::<Vec<_>>());
        }
    }

    #[test]
    fn columns_are_compressed_and_times_are_utc() {
        let reader = read(written(by_name("samples").unwrap()));
        let group = reader.metadata().row_group(0);
        for column in group.columns() {
            assert!(matches!(column.compression(), Compression::ZSTD(_)), "{:?}", column.compression());
        }
        let time = group.schema_descr().column(2);
        assert_eq!(time.logical_type_ref(), Some(&LogicalType::timestamp(true, TimeUnit::MILLIS)));
    }

    #[test]
    fn many_rows_become_several_groups_so_that_memory_is_bounded() {
        let table = by_name("gaps").unwrap();
        let mut bytes = Vec::new();
        let mut parquet = Box::new(Parquet::begin(&mut bytes, table).unwrap());
        for _ in 0..2 * GROUP_ROWS + 1 {
            parquet.row(&[Cell::Text("db17"), Cell::Integer(1), Cell::Nothing, Cell::Text("x")]).unwrap();
        }
        assert!(parquet.rows < GROUP_ROWS);
        parquet.finish().unwrap();
        let metadata = read(bytes);
        let metadata = metadata.metadata();
        assert_eq!(metadata.num_row_groups(), 3);
        assert_eq!(metadata.file_metadata().num_rows(), 2 * GROUP_ROWS as i64 + 1);
    }

    #[test]
    fn a_table_without_a_row_is_a_file_that_opens() {
        let mut bytes = Vec::new();
        Box::new(Parquet::begin(&mut bytes, &TABLES[0]).unwrap()).finish().unwrap();
        assert_eq!(read(bytes).metadata().file_metadata().num_rows(), 0);
    }
}
