//! The flags of `spindoctor export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use spindoctor_export::FileFormat;

use crate::common::flags::{one_of, table_names};
use crate::common::moment::Moment;

/// `spindoctor export`.
#[derive(Debug, Args)]
pub struct Export {
    /// A recording, as `spindoctor record` makes it, or a bundle; it may still be written
    pub file: PathBuf,

    /// The folder for a file of each table, or a file for one table: samples.parquet
    #[arg(short = 'o', long, value_name = "PLACE")]
    pub out: PathBuf,

    /// How it is written [default: what the name of --out ends in, else parquet]
    #[arg(long, value_name = "FORMAT", value_parser = one_of(FileFormat::ALL))]
    pub format: Option<FileFormat>,

    /// CSV with each byte as it is, for programs: without it, what a spreadsheet would run or a terminal obey is made harmless
    #[arg(long, hide_short_help = true)]
    pub raw_csv: bool,

    /// Where in the folder each table goes
    #[arg(long, hide_short_help = true, value_name = "LAYOUT", default_value = "flat")]
    pub layout: Layout,

    /// Only this table; may be given more than once [default: all; for a file, samples]
    #[arg(long, value_name = "NAME", value_parser = table_names())]
    pub table: Vec<String>,

    /// From this time on: 2026-07-01T09:30:00Z, '2026-07-01 09:30' (UTC), 09:30, -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,

    /// Up to this time [default: the end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,
}

/// Where in a folder tables go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A file of each: events.parquet
    Flat,
    /// A file of each day, beside those of other servers, of the whole recording: events/date=2026-07-01/server=db17/...parquet
    Dated,
}
