//! `spindoctor locks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::view::FORMATS;
use crate::common::flags::{Connection, duration, format_names};

/// `spindoctor locks`.
#[derive(Debug, Args)]
pub struct Locks {
    /// Look again every TIME, until Ctrl-C; a server that answers slowly is asked less often
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = duration)]
    pub watch: Option<Duration>,

    /// Take no stacks: mutexes, commit queues and what the holders do are not seen then
    #[arg(long)]
    pub no_stacks: bool,

    /// Look at a saved window instead of a server: at the sample in which the most wait
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "watch", "no_stacks"])]
    pub window: Option<PathBuf>,

    /// Show statements as they were sent, with their literals
    #[arg(long, help_heading = "Output")]
    pub literals: bool,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format_names(FORMATS), help_heading = "Output")]
    pub format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Write it as one HTML file, too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,

    /// Print JSON (schema spindoctor.locks/1); with --watch, one line for each look
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,

    #[command(flatten)]
    pub connection: Connection,
}
