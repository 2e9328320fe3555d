//! The flags of `spindoctor cache`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::common::flags::{Connection, duration, size};

/// `spindoctor cache`: without `--evict` nothing is changed.
#[derive(Debug, Args)]
#[command(
    after_help = "The check reads no page and makes none younger. --evict asks the kernel to drop cached pages of logs that are\n\
    closed and behind the slowest replica, applied, or behind the checkpoint; data files are never touched."
)]
pub struct Cache {
    /// Evict from the page cache what nobody will read soon, and show before and after
    #[arg(long, value_name = "WHAT")]
    pub evict: Option<Evict>,

    /// Keep it out: again every --interval, until Ctrl-C
    #[arg(long, requires = "evict")]
    pub follow: bool,

    /// With --follow, how often
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = duration, requires = "follow")]
    pub interval: Duration,

    /// With --follow, take out no more than this a second
    #[arg(long, hide_short_help = true, value_name = "SIZE", default_value = "256M", value_parser = size, requires = "follow")]
    pub max_rate: u64,

    /// How long to watch for the rates
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration)]
    pub duration: Duration,

    /// Print JSON (schema spindoctor.cache/1); with --follow, one line with the logs for each time
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub connection: Connection,
}

/// What may be taken out of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Evict {
    /// Binary, relay and redo logs
    Logs,
}
