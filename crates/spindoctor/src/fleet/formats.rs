//! The formats by their names.

use std::io::Write;

use super::args::FleetFormat;
use super::part::Format;
use super::{csv, json, parquet, tab, table};
use spindoctor_page::csv::Reader;
use spindoctor_page::text::Look;

/// A format of text. Parquet is none: see [`mod@crate::fleet::parquet`].
pub fn formatter(format: FleetFormat, look: Look, reader: Reader) -> Box<dyn Format> {
    match format {
        FleetFormat::Tab | FleetFormat::Parquet => Box::new(tab::Tab::new()),
        FleetFormat::Table => Box::new(table::Table::new(look)),
        FleetFormat::Csv => Box::new(csv::Csv::new(reader)),
        FleetFormat::Json => Box::new(json::Json),
    }
}

/// Parquet, which is written straight to its destination.
pub fn parquet(out: Box<dyn Write + Send>) -> impl Format {
    parquet::Parquet::new(out)
}
