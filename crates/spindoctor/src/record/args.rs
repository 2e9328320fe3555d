//! The flags of `spindoctor record`.

use std::net::SocketAddr;

use std::path::PathBuf;

use std::time::Duration;

use clap::Args;

use clap::builder::NonEmptyStringValueParser;

use spindoctor_stalls::when::When;

use super::notify::{Program, Template, hook_url, program};
use crate::common::flags::{Connection, duration, seconds, size, table_names};
use crate::common::watchpoint::{Watchpoint, inside, slower};
use spindoctor_export::serve;

/// `spindoctor record`.
#[derive(Debug, Args)]
pub struct Record {
    /// The recording, made where there is none [default: spindoctor.rec in /var/lib/spindoctor; for others than root in
    /// ~/.local/state/spindoctor]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// What is older than this goes: 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = age)]
    pub keep: Duration,

    /// The recording grows to this size: 500M, 1G. The oldest goes first
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub max_size: u64,

    /// Keep statements as they are, with their literals
    #[arg(long, hide_short_help = true, overrides_with = "no_literals")]
    pub literals: bool,

    /// Keep statements without their literals: the default
    #[arg(long)]
    pub no_literals: bool,

    /// Keep an event while this holds, too: 'Threads_running > 50', 'Com_commit/s < 10', 'host.load > 8',
    /// 'statement ~ /UPDATE stock/ for 5 s'
    #[arg(long, value_name = "CONDITION")]
    pub when: Vec<When>,

    /// Keep an event each time that more than COUNT threads are in a function at once; probes stand in it
    #[arg(long, hide_short_help = true, value_name = "FUNCTION:COUNT", value_parser = inside)]
    pub when_inside: Vec<Watchpoint>,

    /// Keep an event each time that a thread is in a function for longer than TIME; probes stand in it
    #[arg(long, hide_short_help = true, value_name = "FUNCTION:TIME", value_parser = slower)]
    pub when_slower: Vec<Watchpoint>,

    /// Take no stacks of the server's threads
    #[arg(long, hide_short_help = true)]
    pub no_stacks: bool,

    /// Serve metrics for Prometheus here: 127.0.0.1:19104, or 19104 alone for the loopback
    #[arg(long, value_name = "ADDRESS", value_parser = serve::address)]
    pub metrics: Option<SocketAddr>,

    /// Push metrics and events to this OpenTelemetry collector: http://127.0.0.1:4318
    #[arg(long, hide_short_help = true, value_name = "URL", value_parser = url)]
    pub otlp: Option<String>,

    /// Write Parquet files into this folder, for DuckDB, ClickHouse, Spark: TABLE/date=.../server=.../...parquet
    #[arg(long, value_name = "FOLDER")]
    pub parquet: Option<PathBuf>,

    /// From one Parquet file of a table to the next
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5m", value_parser = every, requires = "parquet")]
    pub parquet_every: Duration,

    /// Write only this table; may be given more than once [default: all but session_time, sessions_at_work, threads and thread_cpu]
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = table_names(), requires = "parquet")]
    pub parquet_table: Vec<String>,

    /// Run this at each event, while it lasts and when it is over: JSON on its standard input, no shell, 30 s at most
    #[arg(long, value_name = "COMMAND", value_parser = program)]
    pub on_event: Option<Program>,

    /// Post each event to this address, as JSON; @FILE reads the address from a file, where no list of processes shows it
    #[arg(long, value_name = "URL", value_parser = hook_url)]
    pub webhook: Option<String>,

    /// What is posted, with fields of the event: '{"text": "{hostname}: {headline}"}'
    #[arg(long, hide_short_help = true, value_name = "TEXT", requires = "webhook")]
    pub webhook_template: Option<Template>,

    /// Call the server this, where several run on one host [default: its host name]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,

    /// End after this time, instead of at SIGTERM or Ctrl-C
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    #[command(flatten)]
    pub connection: Connection,
}

/// `http://127.0.0.1:4318`, to which the paths of OTLP are added.
fn url(text: &str) -> Result<String, String> {
    let place = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    match place {
        Some(place) if !place.starts_with('/') && !place.is_empty() => Ok(text.to_owned()),
        _ => Err("write http://127.0.0.1:4318 or https://collector.example:4318".to_owned()),
    }
}

/// A second to an hour: what is in files later is looked at in the recording.
fn every(text: &str) -> Result<Duration, String> {
    let every = duration(text)?;
    if every < Duration::from_secs(1) {
        return Err("it must be between 1s and 1h".to_owned());
    }
    Ok(every)
}

/// `12h`, `7d`: a minute to ten years.
fn age(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] =
        &[("m", 60.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let seconds = seconds(text, UNITS, "m, h, d or w")?;
    if !(60.0..=10.0 * 365.0 * 86_400.0).contains(&seconds) {
        return Err("it must be between 1m and ten years".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_its_scheme() {
        assert_eq!(url("http://[::1]:4318/otel").as_deref(), Ok("http://[::1]:4318/otel"));
        for wrong in ["127.0.0.1:4318", "http://", "http:///v1", "ftp://x", ""] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_and_sizes_are_read_as_people_write_them() {
        assert_eq!(age("7d").unwrap().as_secs(), 7 * 86_400);
        assert_eq!(age("1.5h").unwrap().as_secs(), 5_400);
        for wrong in ["7", "7y", "d", "0d", "30s", "99999d", "-1d"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("500M").unwrap(), 500 << 20);
        assert_eq!(size("1.5 GiB").unwrap(), 3 << 29);
        assert_eq!(every("90s").unwrap().as_secs(), 90);
        for wrong in ["0s", "500ms", "2h", "1d"] {
            assert!(every(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1", "G", "0G", "100k", "1X", "-1G", "nanG"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
