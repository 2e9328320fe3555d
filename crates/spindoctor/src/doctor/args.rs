//! `spindoctor doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::common::flags::{Connection, duration};

/// `spindoctor doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// How long to watch the server: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Take neither stacks nor CPU samples of the server's process
    #[arg(long)]
    pub no_stacks: bool,

    /// Diagnose a saved window instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "duration", "no_stacks"])]
    pub window: Option<PathBuf>,

    /// Diagnose what somebody captured: a file, a folder, a bundle, or `-`; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "duration", "no_stacks", "window"])]
    pub from: Vec<PathBuf>,

    /// Save what was read, for `--window`; compressed when the name ends in .gz
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub save_window: Option<PathBuf>,

    /// Keep statements in the saved window as they were sent, with their literals
    #[arg(long, hide_short_help = true, requires = "save_window")]
    pub literals: bool,

    /// Print JSON (schema spindoctor.diagnosis/1)
    #[arg(long, conflicts_with = "nagios")]
    pub json: bool,

    /// Write the report as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Print one line with performance data; exit codes are 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
    #[arg(long)]
    pub nagios: bool,

    /// Exit with 1 when there is a finding at least as severe as this
    #[arg(long, value_name = "SEVERITY", default_value = "warning", conflicts_with = "nagios")]
    pub fail_on: FailOn,

    #[command(flatten)]
    pub connection: Connection,
}

/// The least severe finding that makes `doctor` exit with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any finding
    Note,
    /// A warning or worse
    Warning,
    /// A critical finding
    Critical,
    /// No finding
    Never,
}
