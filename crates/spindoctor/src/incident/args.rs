//! The flags of `spindoctor report`.

use std::path::PathBuf;

use clap::Args;

use crate::common::flags::whole;
use crate::common::moment::Moment;

/// `spindoctor report`.
#[derive(Debug, Args)]
pub struct Report {
    /// A recording, as `spindoctor record` makes it, or a bundle; it may still be written
    pub file: PathBuf,

    /// Report this event, by its number [default: the worst]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(0, u64::MAX), conflicts_with_all = ["from", "to"])]
    pub event: Option<u64>,

    /// Report what happened from this time on: 2026-07-01T09:30:00Z, '2026-07-01 09:30' (UTC), 09:30, -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,

    /// Report what happened up to this time [default: the end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,

    /// Write the page to this file [default: incident-HOST-TIME.html, here]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Print JSON (schema spindoctor.incident/1); a page is written only with --html
    #[arg(long)]
    pub json: bool,
}
