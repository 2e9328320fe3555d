//! The flags of `spindoctor indexes`.

use std::time::Duration;

use clap::Args;
use regex::Regex;
use spindoctor_collect::mysql::Secret;

use crate::common::flags::{Connection, duration, pattern, whole};

/// `spindoctor indexes`: without `--try` no statement is run.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --try, statements are explained and not run. Only plain SELECTs of InnoDB tables are examined: none with a\n\
    subquery, a lock, a variable, or a function that is not known to be harmless. --try runs such a statement some hundred\n\
    times in read-only snapshots, each run bounded by --query-timeout; --on sends it to a replica."
)]
pub struct Indexes {
    /// How long to look for statements: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Examine this SELECT instead of what runs; may be given more than once
    #[arg(long, value_name = "SQL", conflicts_with = "duration")]
    pub statement: Vec<String>,

    /// The database of --statement
    #[arg(long, hide_short_help = true, value_name = "NAME", requires = "statement")]
    pub database: Option<String>,

    /// Only statements that match this regular expression, comments included
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    pub grep: Option<Regex>,

    /// Statements that are examined, those first that are seen most
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 10, value_parser = whole::<u16>(1, 100))]
    pub top: u16,

    /// Take no stacks: how much of the time goes into estimates is not known then
    #[arg(long, hide_short_help = true)]
    pub no_stacks: bool,

    /// Run each change that would save dives beside the unchanged statement, in pairs, reading only; show time and
    /// pages
    #[arg(long = "try")]
    pub try_out: bool,

    /// Explain and try on this server instead, a replica: mysql://user@host:port/ or a DSN, with the same login
    #[arg(long, value_name = "SERVER")]
    pub on: Option<Secret>,

    /// With --try, how long each candidate is tried, at most
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = duration, requires = "try_out")]
    pub try_time: Duration,

    /// Show statements as they were sent, with their literals
    #[arg(long, hide_short_help = true, help_heading = "Output")]
    pub literals: bool,

    /// Print JSON (schema spindoctor.indexes/1)
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    #[command(flatten)]
    pub connection: Connection,
}
