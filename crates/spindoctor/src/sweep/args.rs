//! The flags of `spindoctor sweep`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use spindoctor_lab::load::{OLTP, Workload};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::common::flags::{Connection, cpus, duration, whole};
use crate::lab::LabServer;

/// `spindoctor sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// A variable and the values that it takes, as VAR=V1,V2; given more than once, each with each
    #[arg(long, value_name = "VAR=VALUES", value_parser = axis)]
    pub set: Vec<(String, Vec<String>)>,

    /// Numbers of clients
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16,64", value_parser = whole::<u32>(1, 10_000))]
    pub threads: Vec<u32>,

    /// What the clients do: sysbench's OLTP workloads, each of several with each setting
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "oltp_point_select", value_parser = workload())]
    pub workload: Vec<Workload>,

    /// How long each run is measured
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = whole_seconds)]
    pub seconds: Duration,

    /// How long each run loads the server before it is measured
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "2s", value_parser = whole_seconds)]
    pub warmup: Duration,

    /// Runs of each setting at each number of clients, in random order
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 3, value_parser = whole::<u32>(1, 1_000))]
    pub runs: u32,

    /// Tables of sysbench's
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 4, value_parser = whole::<u32>(1, 1_000))]
    pub tables: u32,

    /// Rows of each table
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 10_000, value_parser = whole::<u32>(1, u32::MAX))]
    pub rows: u32,

    /// Keep finished runs in this file; the ones that it has are not made again
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Compare two sweeps that --json wrote, of two machines or versions: ratios with intervals
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = MEASURED, help_heading = "Saved sweeps")]
    pub compare: Option<Vec<PathBuf>>,

    /// Print a table of comma-separated values
    #[arg(long, hide_short_help = true, conflicts_with = "json", help_heading = "Output")]
    pub csv: bool,

    /// Print JSON (schema spindoctor.sweep/1; with --compare spindoctor.sweep-comparison/1)
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Write the charts as SVG, too
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = "Output")]
    pub svg: Option<PathBuf>,

    /// Write the charts as PNG, too
    #[arg(long, hide_short_help = true, value_name = "FILE", help_heading = "Output")]
    pub png: Option<PathBuf>,

    /// Write charts and tables as one HTML file, too
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Throw-away server [default]")]
    pub lab: LabServer,

    /// CPU quota of the throw-away server, CPUs: 0.5
    #[arg(long, hide_short_help = true, value_name = "CPUS", value_parser = cpus, help_heading = "Throw-away server [default]")]
    pub quota: Option<f64>,

    /// Sets of its CPUs, each with each setting: 0,0-1,0-3+8-11,node0
    #[arg(
        hide_short_help = true,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Throw-away server [default]"
    )]
    pub cpusets: Vec<String>,

    /// CPU quotas, each with each setting: 0.5,1,none
    #[arg(
        hide_short_help = true,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "quota",
        help_heading = "Throw-away server [default]"
    )]
    pub quotas: Vec<Quota>,

    /// Load the server that the connection flags lead to, and change its settings meanwhile, instead of a throw-away server; that
    /// is one of the lab's, installed when it is first used, and gone with the sweep
    #[arg(long, conflicts_with_all = ["server", "basedir", "data", "quota", "cpusets", "quotas", "options"], help_heading = "Another server")]
    pub yes_this_server: bool,

    /// Create and fill sysbench's tables there first, in the database of the connection or sbtest
    #[arg(long, hide_short_help = true, requires = "yes_this_server", help_heading = "Another server")]
    pub prepare: bool,

    #[command(flatten)]
    pub connection: Connection,

    /// Options of the throw-away server's own, after --
    #[arg(
        hide_short_help = true,
        last = true,
        value_name = "OPTION",
        help_heading = "Throw-away server [default]"
    )]
    pub options: Vec<String>,
}

/// What has no meaning where nothing is measured.
const MEASURED: [&str; 18] = [
    "set",
    "threads",
    "workload",
    "seconds",
    "warmup",
    "runs",
    "tables",
    "rows",
    "resume",
    "server",
    "basedir",
    "data",
    "quota",
    "cpusets",
    "quotas",
    "options",
    "yes_this_server",
    "prepare",
];

/// A CPU quota, CPUs; none for as much as there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota(pub Option<f64>);

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self(None)) } else { cpus(text).map(|cpus| Self(Some(cpus))) }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(cpus) => write!(f, "{cpus}"),
            None => f.write_str("none"),
        }
    }
}

/// The names of sysbench's OLTP workloads.
fn workload() -> impl clap::builder::TypedValueParser<Value = Workload> {
    PossibleValuesParser::new(OLTP.iter().filter_map(|workload| workload.name()))
        .try_map(|name| Workload::of_name(&name).ok_or("no such workload"))
}

/// `innodb_sync_spin_loops=30,200`
fn axis(text: &str) -> Result<(String, Vec<String>), String> {
    const WANTED: &str = "write VAR=V1,V2: innodb_sync_spin_loops=30,200";
    let (variable, values) = text.split_once('=').ok_or(WANTED)?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if variable.trim().is_empty() || values.iter().any(String::is_empty) {
        return Err(WANTED.to_owned());
    }
    Ok((variable.trim().to_owned(), values))
}

/// A time of whole seconds: sysbench knows no others.
fn whole_seconds(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.subsec_nanos() != 0 {
        return Err("whole seconds are wanted".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_list_of_values() {
        let values = |text: &str| axis(text).map(|(variable, values)| (variable, values.join("|")));
        assert_eq!(values("a = 1, 2"), Ok(("a".to_owned(), "1|2".to_owned())));
        for wrong in ["a", "a=", "=1", "a=1,", "a=,1"] {
            assert!(axis(wrong).unwrap_err().contains("innodb_sync_spin_loops=30,200"), "{wrong}");
        }
    }

    #[test]
    fn a_quota_is_a_number_of_cpus_or_none() {
        assert_eq!("none".parse(), Ok(Quota(None)));
        assert_eq!("0.50".parse::<Quota>().map(|quota| quota.to_string()), Ok("0.5".to_owned()));
        assert!("0".parse::<Quota>().is_err() && "all".parse::<Quota>().is_err());
    }

    #[test]
    fn seconds_are_whole() {
        assert_eq!(whole_seconds("2m"), Ok(Duration::from_secs(120)));
        assert!(whole_seconds("500ms").unwrap_err().contains("whole seconds"));
    }
}
