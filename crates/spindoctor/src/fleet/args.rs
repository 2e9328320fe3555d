//! The flags of `spindoctor fleet`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use spindoctor_collect::mysql::Secret;
use spindoctor_fleet::select::Condition;
use spindoctor_fleet::waves::Plan;

use crate::common::flags::{Login, duration, whole};

/// `spindoctor fleet`.
#[derive(Debug, Subcommand)]
pub enum Fleet {
    /// Ask many servers one statement at once
    Query(Box<FleetQuery>),
    /// Diagnose many servers by SQL alone: who is in trouble and what it costs, who is not like the others
    Doctor(Box<FleetDoctor>),
    /// Show what all servers run, now: live, the longest first, or folded by statement
    Top(Box<FleetTop>),
    /// Print the servers that would be asked, with their tags: a list for --servers
    Servers(Box<FleetServers>),
}

/// Which servers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Servers")]
#[group(skip)]
pub struct Which {
    /// Servers, one a line: a host, host:port, socket, DSN or URL, tags behind it: `db17 role=replica dc=ams`; - is standard
    /// input; may be given more than once
    #[arg(long, value_name = "FILE", group = "list")]
    pub servers: Vec<PathBuf>,

    /// Run this command in a shell and take its output as a list
    #[arg(long, hide_short_help = true, value_name = "COMMAND", group = "list")]
    pub servers_from: Vec<String>,

    /// This server (host:port, DSN or URL), its replicas and theirs, the members of its group or Galera cluster
    #[arg(long, value_name = "SERVER", group = "list")]
    pub discover: Vec<Secret>,

    /// Only servers with this tag: role=replica, dc=ams,fra, role!=source, server=db1*; all of several
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<Condition>,
}

/// How to log in to servers that a list names.
#[derive(Debug, Args)]
pub struct FleetLogin {
    /// TCP port of servers whose line has none
    #[arg(short = 'P', long, value_name = "PORT", value_parser = whole::<u16>(0, u16::MAX), help_heading = "Connection")]
    pub port: Option<u16>,

    #[command(flatten)]
    pub login: Login,

    /// How long a login may take, tries included
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = "Limits")]
    pub connect_timeout: Duration,

    /// How long a server may take to answer
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", value_parser = duration, help_heading = "Limits")]
    pub query_timeout: Duration,

    /// Connections at once
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 1000, value_parser = whole::<u32>(1, 100_000), help_heading = "Limits")]
    pub connections: u32,

    /// Connections at once to one host
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 16, value_parser = whole::<u32>(1, u32::MAX), help_heading = "Limits")]
    pub per_host: u32,

    /// New connections a second [default: no limit]
    #[arg(long, hide_short_help = true, value_name = "COUNT", value_parser = per_second, help_heading = "Limits")]
    pub per_second: Option<f64>,

    /// How often to try again where no connection came about; a statement is never sent twice
    #[arg(long, hide_short_help = true, value_name = "COUNT", default_value_t = 1, value_parser = whole::<u32>(0, u32::MAX), help_heading = "Limits")]
    pub retries: u32,
}

/// `spindoctor fleet query`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).multiple(true))]
#[command(override_usage = "spindoctor fleet query [OPTIONS] --servers <FILE> <SQL>")]
#[command(
    after_help = "Exit codes: 0 all servers answered, 1 some did not, 2 none did or it could not be done.\n\
    Without --write a statement must be seen to read only, and each session is made read only."
)]
pub struct FleetQuery {
    /// The statement
    pub sql: String,

    #[command(flatten)]
    pub which: Which,

    /// How answers look
    #[arg(long, value_name = "FORMAT", default_value = "tab", help_heading = "Answers")]
    pub format: FleetFormat,

    /// The same as --format json
    #[arg(long, hide_short_help = true, conflicts_with = "format", help_heading = "Answers")]
    pub json: bool,

    /// Write the answers to this file
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Answers")]
    pub out: Option<PathBuf>,

    /// CSV with each byte as it is, as in a pipe: else what a spreadsheet would run or a terminal obey is made harmless
    #[arg(long, hide_short_help = true, help_heading = "Answers")]
    pub raw_csv: bool,

    /// Answers in the order of the list, not as they come
    #[arg(long, hide_short_help = true, help_heading = "Answers")]
    pub ordered: bool,

    /// Fold equal answers: how many servers say what, the odd ones by name
    #[arg(long, conflicts_with_all = ["sql_over", "ordered"], help_heading = "Answers")]
    pub group: bool,

    /// Run this SQL (SQLite's) over all answers: tables answers (server, the columns) and servers (state, tags)
    #[arg(long = "sql", value_name = "SELECT", conflicts_with = "ordered", help_heading = "Answers")]
    pub sql_over: Option<String>,

    /// Ask again this often, until Ctrl-C; where --connections is enough for all servers, over connections that stay
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = duration, conflicts_with_all = ["out", "write"], help_heading = "Answers")]
    pub repeat: Option<Duration>,

    /// End when it was asked so many times
    #[arg(long, hide_short_help = true, value_name = "COUNT", requires = "repeat", value_parser = whole::<u32>(1, u32::MAX), help_heading = "Answers")]
    pub times: Option<u32>,

    /// Let the statement change something; asks first, goes in waves, logs what was done where
    #[arg(long, help_heading = "Writing")]
    pub write: bool,

    /// Do not ask
    #[arg(long, hide_short_help = true, requires = "write", help_heading = "Writing")]
    pub yes: bool,

    /// How many servers at a time, or percents of all; the last number again and again
    #[arg(
        hide_short_help = true,
        long,
        value_name = "SIZES",
        default_value = "1,10,100%",
        requires = "write",
        help_heading = "Writing"
    )]
    pub wave: Plan,

    /// Begin no other wave after more failures than this
    #[arg(
        hide_short_help = true,
        long,
        value_name = "COUNT",
        default_value_t = 0,
        value_parser = whole::<usize>(0, usize::MAX),
        requires = "write",
        help_heading = "Writing"
    )]
    pub max_failures: usize,

    /// Where to log it [default: fleet-writes.jsonl in the folder of `tune`'s journal]
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "write", help_heading = "Writing")]
    pub log: Option<PathBuf>,

    #[command(flatten)]
    pub login: FleetLogin,

    /// How long all servers together may take: a server that has not answered by then is listed as too late [default:
    /// no limit]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "write", help_heading = "Limits")]
    pub within: Option<Duration>,
}

/// `spindoctor fleet doctor`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).multiple(true))]
#[command(override_usage = "spindoctor fleet doctor [OPTIONS] --servers <FILE>")]
#[command(
    after_help = "Exit codes: 0 all servers answered, 1 some did not, 2 none did or it could not be done.\n\
    Each session is read only. A tag cpus=16 (or 0.5) says how many CPUs a server is granted, pause_ns=66 how long one\n\
    PAUSE takes there (spindoctor host measures it), cpu=4110 what its CPU is called; servers with different tags role\n\
    are not compared with each other."
)]
pub struct FleetDoctor {
    #[command(flatten)]
    pub which: Which,

    /// From the first look at a server to the second: rates are over this time
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration, help_heading = "Diagnosis")]
    pub interval: Duration,

    /// CPUs and PAUSE of the hosts, as recorders wrote them down: the folder of record --parquet
    #[arg(long, hide_short_help = true, value_name = "FOLDER", help_heading = "Diagnosis")]
    pub history: Option<PathBuf>,

    /// Print JSON (schema spindoctor.fleet-diagnosis/1)
    #[arg(long, help_heading = "Diagnosis")]
    pub json: bool,

    #[command(flatten)]
    pub login: FleetLogin,
}

/// `spindoctor fleet top`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).multiple(true))]
#[command(override_usage = "spindoctor fleet top [OPTIONS] --servers <FILE>")]
#[command(
    after_help = "Keys: ? shows them. Each session is read only, and stays open: one connection to each server;\n\
    --per-host and --per-second bound the logins.\n\
    With --once: exit codes 0 all servers answered, 1 some did not, 2 none did or it could not be done."
)]
pub struct FleetTop {
    #[command(flatten)]
    pub which: Which,

    /// How often each server is asked
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, help_heading = "What is shown")]
    pub interval: Duration,

    /// Print what runs once, as a table, and end; so does a standard output that is not a terminal
    #[arg(long, help_heading = "What is shown")]
    pub once: bool,

    /// Begin with equal statements folded: how many sessions on how many servers
    #[arg(long, help_heading = "What is shown")]
    pub group: bool,

    /// Begin with the rows that hold this text, in any case
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "What is shown"
    )]
    pub filter: String,

    #[command(flatten)]
    pub login: FleetLogin,
}

/// `spindoctor fleet servers`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("list").required(true).multiple(true))]
#[command(override_usage = "spindoctor fleet servers [OPTIONS] --servers <FILE>")]
pub struct FleetServers {
    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub login: FleetLogin,
}

/// How answers look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// The server and the row, with tabs between, as pmysql prints them
    Tab,
    /// Columns under their names
    Table,
    /// Comma-separated values
    Csv,
    /// A JSON object for each server
    Json,
    /// Parquet: for DuckDB, ClickHouse, Spark
    Parquet,
}

/// A rate.
fn per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e6).contains(&rate) => Ok(rate),
        _ => Err("a rate from 0.01 to 1000000 a second is wanted".to_owned()),
    }
}
