//! The flags of `spindoctor tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::common::flags::{Connection, duration, part};

/// `spindoctor tune`: without `--apply`, `--watch` or `--recover` nothing is changed.
#[derive(Debug, Args)]
pub struct Tune {
    /// Show what could be changed on this server, with why, risk, undo and cost; change nothing; the default
    #[arg(long, group = "mode")]
    pub plan: bool,

    /// Try changes in short blocks of old and new, keep what is shown to help, put everything else back
    #[arg(long, group = "mode")]
    pub apply: bool,

    /// Keep the spin settings right while quota, CPUs or CPU model change; put them back at the end
    #[arg(long, group = "mode")]
    pub watch: bool,

    /// With --watch: the latch spin follows how long waits for latches last, by probes that take 1 % of a CPU at most
    #[arg(long, hide_short_help = true, requires = "watch")]
    pub by_waits: bool,

    /// Put back what a tuner that was killed left changed
    #[arg(long, group = "mode")]
    pub recover: bool,

    /// Only this variable, or undo_tablespaces, which makes files; with a value, that value. May be given more than once: they
    /// are tried together
    #[arg(long, value_name = "VAR[=VALUE]")]
    pub only: Vec<String>,

    /// Begin the search at the values that --only gives, instead of trying these alone
    #[arg(long, hide_short_help = true, requires_all = ["apply", "only"])]
    pub around: bool,

    /// Keep what helps over a restart, too: SET PERSIST, or the lines for my.cnf on MariaDB
    #[arg(long, hide_short_help = true, requires = "apply")]
    pub persist: bool,

    /// Put the old values back at the end, whatever the verdict
    #[arg(long, hide_short_help = true, requires = "apply", conflicts_with = "persist")]
    pub put_back: bool,

    /// How long all trials may take together
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10m", value_parser = duration, requires = "apply")]
    pub max_time: Duration,

    /// How much worse throughput may get: a change that may cost more is not kept, one that does is undone
    #[arg(long, hide_short_help = true, value_name = "PERCENT", default_value = "2%", value_parser = part, requires = "apply")]
    pub margin_throughput: f64,

    /// How much worse the 95th percentile of a statement's time may get
    #[arg(long, hide_short_help = true, value_name = "PERCENT", default_value = "10%", value_parser = part, requires = "apply")]
    pub margin_p95: f64,

    /// How much worse the CPU time for each statement may get
    #[arg(long, hide_short_help = true, value_name = "PERCENT", default_value = "3%", value_parser = part, requires = "apply")]
    pub margin_cpu: f64,

    /// After each change, before it is measured [default: from the measured autocorrelation, 3s at least]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = duration, requires = "apply")]
    pub settle: Option<Duration>,

    /// How long each block is measured [default: from the measured autocorrelation, 7s at least]
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = duration, requires = "apply")]
    pub measure: Option<Duration>,

    /// How long the server is watched before a plan is made
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = duration)]
    pub duration: Duration,

    /// Plan for a saved window instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "watch", "recover", "duration"])]
    pub window: Option<PathBuf>,

    /// Print JSON (schema spindoctor.plan/1; with --apply spindoctor.trial/1, with --watch spindoctor.watch/1, a line for
    /// each change)
    #[arg(long)]
    pub json: bool,

    /// Write the report as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub connection: Connection,
}

/// `spindoctor tune-guardian`, which has no flags.
#[derive(Debug, Args)]
pub struct Guardian {}
