//! `spindoctor connections`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::formats::FORMATS;
use crate::common::flags::{Connection, duration, format_names};

/// `spindoctor connections`.
#[derive(Debug, Args)]
pub struct Connections {
    /// How long to look: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Look at a saved window instead of a server: all but the accepting thread's time
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "duration"])]
    pub window: Option<PathBuf>,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format_names(FORMATS), help_heading = "Output")]
    pub format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Print JSON (schema spindoctor.connections/1)
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,

    #[command(flatten)]
    pub connection: Connection,
}
