//! The flags of `spindoctor workload`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use regex::Regex;

use super::diff::operand::Operand;
use super::tally::By;
use crate::common::flags::{Connection, duration, hz, pattern, whole};
use crate::common::moment::Moment;

/// What has no meaning without a live server.
const LIVE: [&str; 6] = ["target", "pid", "remote", "duration", "hz", "no_stacks"];

/// `spindoctor workload`.
#[derive(Debug, Args)]
pub struct Workload {
    /// How long to look: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Samples per second, at most; fewer where they would cost the server too much
    #[arg(long, hide_short_help = true, value_name = "HZ", default_value = "10", value_parser = hz)]
    pub hz: f64,

    /// Show what a replica applies, and how it keeps up
    #[arg(long)]
    pub replica: bool,

    /// Take no stacks: what the time inside statements goes into is not known then
    #[arg(long, hide_short_help = true)]
    pub no_stacks: bool,

    /// Split the time by this; may be given more than once [default: everything, digests first]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', help_heading = "What is shown")]
    pub by: Vec<By>,

    /// Count only statements that match this regular expression, comments included, as a share of all
    #[arg(long, value_name = "PATTERN", value_parser = pattern, help_heading = "What is shown")]
    pub grep: Option<Regex>,

    /// Rows of a table
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 10, value_parser = whole::<u16>(1, 1000), help_heading = "What is shown")]
    pub top: u16,

    /// Show the slowest statements as they were sent, with their literals
    #[arg(long, hide_short_help = true, help_heading = "What is shown")]
    pub literals: bool,

    /// Print JSON (schema spindoctor.workload/1)
    #[arg(long, help_heading = "What is shown")]
    pub json: bool,

    /// Show the workload of a recording or a bundle
    #[arg(long, value_name = "FILE", conflicts_with_all = LIVE, help_heading = "Recordings and files")]
    pub recording: Option<PathBuf>,

    /// From this time of the recording on: 2026-07-01T09:30:00Z, '2026-07-01 09:30' (UTC), 09:30, -10m
    #[arg(
        long,
        hide_short_help = true,
        value_name = "TIME",
        requires = "recording",
        allow_hyphen_values = true,
        help_heading = "Recordings and files"
    )]
    pub from: Option<Moment>,

    /// Up to this time of the recording [default: the end]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "TIME",
        requires = "recording",
        allow_hyphen_values = true,
        help_heading = "Recordings and files"
    )]
    pub to: Option<Moment>,

    /// Show the workload of a captured file: process lists one after the other, or a statement a line; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = LIVE, conflicts_with = "recording", help_heading = "Recordings and files")]
    pub file: Option<PathBuf>,

    /// How far apart the looks of a captured file are
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "100ms", value_parser = duration, requires = "file", help_heading = "Recordings and files")]
    pub every: Duration,

    /// Compare two times, before and after: recordings or parts of them (FILE@09:00..09:10), captured files, what --save wrote;
    /// without AFTER, the server as it runs now
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 1..=2, conflicts_with_all = ["recording", "file"], help_heading = "Comparison")]
    pub diff: Vec<Operand>,

    /// Write what ran, for a later --diff
    #[arg(long, value_name = "FILE", conflicts_with = "diff", help_heading = "Comparison")]
    pub save: Option<PathBuf>,

    #[command(flatten)]
    pub connection: Connection,
}

impl Workload {
    /// True where what is seen is compared with another time, now or later.
    pub fn is_compared(&self) -> bool {
        self.save.is_some() || !self.diff.is_empty()
    }
}
