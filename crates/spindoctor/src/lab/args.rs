//! `spindoctor lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use spindoctor_lab::Which;

use crate::common::flags::{cpus, duration, whole};

/// `spindoctor lab`.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub enum Lab {
    /// List the scenarios, the experiments, and the lab's servers that are up; or the servers that it knows by name
    List(LabList),
    /// Install servers that the lab knows by name, so that later commands need no network
    Install(LabInstall),
    /// Start a throw-away server and leave it up
    Up(LabUp),
    /// Stop a server that `up` started, and remove everything of it
    Down(LabDown),
    /// Run a scenario (make a server suffer, diagnose it, say whether its label was named first) or an experiment
    Run(LabRun),
    /// Run scenarios with drawn numbers, mild and severe, and count how often the right cause was named first
    Score(LabScore),
    /// Put servers into trouble and write down what the sources read of them: the corpus that the tests read
    Capture(LabCapture),
    /// Run every command on every server, against troubles that are known, and say whether its answer is right: the support table
    Matrix(LabMatrix),
}

/// `spindoctor lab list`.
#[derive(Debug, Args)]
pub struct LabList {
    /// List the servers that can be had by name instead: their versions, and where they are or would come from
    #[arg(long)]
    pub servers: bool,

    /// Print JSON (schema spindoctor.lab/1)
    #[arg(long)]
    pub json: bool,
}

/// `spindoctor lab install`.
#[derive(Debug, Args)]
pub struct LabInstall {
    /// Names of servers: mysql-5.7; none means mysql and mariadb
    #[arg(value_name = "SERVER", value_parser = server_name())]
    pub servers: Vec<Which>,

    /// Every server that `lab list --servers` has: some 1.5 GB of downloads
    #[arg(long, conflicts_with = "servers")]
    pub all: bool,
}

/// `spindoctor lab up`.
#[derive(Debug, Args)]
pub struct LabUp {
    #[command(flatten)]
    pub server: LabServer,

    /// Name of the server in the lab
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub name: String,

    /// CPU quota, CPUs: 0.5
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    pub quota: Option<f64>,

    /// CPUs it may run on: 0-1
    #[arg(long, hide_short_help = true, value_name = "LIST")]
    pub cpuset: Option<String>,

    /// Tables of sysbench's, filled
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = whole::<u32>(0, u32::MAX))]
    pub tables: u32,

    /// Rows of each table
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = whole::<u32>(0, u32::MAX), requires = "tables")]
    pub rows: u32,

    /// Print JSON (schema spindoctor.lab/1)
    #[arg(long)]
    pub json: bool,

    /// Options of the server's own, after --
    #[arg(last = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

/// `spindoctor lab down`.
#[derive(Debug, Args)]
pub struct LabDown {
    /// Name of the server in the lab
    #[arg(default_value = "lab")]
    pub name: String,
}

/// `spindoctor lab run`.
#[derive(Debug, Args)]
pub struct LabRun {
    /// Name of the scenario or experiment, as `spindoctor lab list` has it
    pub scenario: String,

    #[command(flatten)]
    pub which: LabProgram,

    /// How long to watch
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// How the clients send their statements; by default sysbench's prepare, and sessions of the lab's own send texts
    #[arg(long, hide_short_help = true, value_name = "PROTOCOL", conflicts_with = "command")]
    pub protocol: Option<LabProtocol>,

    /// How long an experiment's trial or a storm may take
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub max_time: Duration,

    /// Of connection-storm: this rate alone, connections a second, instead of the highest
    #[arg(long, hide_short_help = true, value_name = "RATE", value_parser = rate)]
    pub rate: Option<f64>,

    /// Print JSON (schema spindoctor.lab-run/1; of an experiment spindoctor.trial/1; of a storm spindoctor.storm/1)
    #[arg(long)]
    pub json: bool,

    /// Write the diagnosis or the trial as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Save what was read, for `doctor --window`
    #[arg(long, value_name = "FILE")]
    pub save_window: Option<PathBuf>,

    /// Start with a calm server, which suffers so long after COMMAND began, for some seconds: for what records
    #[arg(long, hide_short_help = true, value_name = "TIME", requires = "command", value_parser = duration)]
    pub calm_first: Option<Duration>,

    /// Run this command meanwhile instead (after --); {socket}, {port} and {pid} are the server's
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["duration", "json", "html", "save_window"])]
    pub command: Vec<String>,
}

/// `spindoctor lab score`.
#[derive(Debug, Args)]
pub struct LabScore {
    /// Names of the scenarios; none means all
    pub scenarios: Vec<String>,

    /// Only this server of `lab list --servers`, instead of the newest of each flavor
    #[arg(long, value_name = "SERVER", value_parser = server_name(), hide_possible_values = true)]
    pub server: Option<Which>,

    /// Rounds: each has every scenario on every server that can suffer so, in an order of chance
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = whole::<u32>(1, u32::MAX))]
    pub runs: u32,

    /// Begin no run later than this; the next call goes on where this one stopped
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub within: Option<Duration>,

    /// The seed of what is drawn: the same seed has the same runs
    #[arg(long, hide_short_help = true, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u64>(0, u64::MAX))]
    pub seed: u64,

    /// How long to watch in each run
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Write the score as a Markdown page, too
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub markdown: Option<PathBuf>,

    /// The commit that this program was built from, for the page
    #[arg(long, hide_short_help = true, value_name = "COMMIT", requires = "markdown")]
    pub commit: Option<String>,

    /// Print JSON (schema spindoctor.score/2)
    #[arg(long)]
    pub json: bool,
}

/// `spindoctor lab capture`.
#[derive(Debug, Args)]
pub struct LabCapture {
    /// The corpus's folder; files of other servers and captures stay as they are
    #[arg(long, value_name = "FOLDER", default_value = "corpus")]
    pub into: PathBuf,

    /// Capture this server too, or all below this folder: a folder that has bin/mysqld or sbin/mysqld
    #[arg(long, hide_short_help = true, value_name = "FOLDER")]
    pub basedir: Vec<PathBuf>,

    /// Capture this server of `lab list --servers` instead of mysql and mariadb; may be given several times
    #[arg(long, value_name = "SERVER", value_parser = server_name(), hide_possible_values = true)]
    pub server: Vec<Which>,

    /// Capture every server of `lab list --servers`
    #[arg(long, conflicts_with_all = ["server", "no_installed"])]
    pub all: bool,

    /// Leave out the servers that the lab installs itself
    #[arg(long, requires = "basedir")]
    pub no_installed: bool,

    /// Only this capture; may be given several times
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,

    /// List the captures, and make none
    #[arg(long)]
    pub list: bool,
}

/// `spindoctor lab matrix`.
#[derive(Debug, Args)]
pub struct LabMatrix {
    /// Only this server of `lab list --servers`; may be given several times
    #[arg(long, value_name = "SERVER", value_parser = server_name(), hide_possible_values = true)]
    pub server: Vec<Which>,

    /// Only this command, as the table calls it: locks, 'fleet doctor'; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub only: Vec<String>,

    /// Only servers that differ so from those of packages: no-autocommit, read-only; may be given several times
    #[arg(long, value_name = "PLACE")]
    pub place: Vec<String>,

    /// Leave out what takes longest
    #[arg(long)]
    pub short: bool,

    /// Write the support table as a Markdown page, too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "place", "short"])]
    pub markdown: Option<PathBuf>,

    /// The commit that this program was built from, for the page
    #[arg(long, hide_short_help = true, value_name = "COMMIT", requires = "markdown")]
    pub commit: Option<String>,

    /// Print JSON (schema spindoctor.matrix/1)
    #[arg(long)]
    pub json: bool,
}

/// Which server a lab command starts, and where.
#[derive(Debug, Args)]
pub struct LabServer {
    #[command(flatten)]
    pub which: LabProgram,

    /// Where the data goes: tmpfs, disk, or a folder
    #[arg(long, hide_short_help = true, value_name = "PLACE", default_value = "tmpfs")]
    pub data: PathBuf,
}

/// Which server a lab command starts.
#[derive(Debug, Args)]
pub struct LabProgram {
    /// mysql (9.7), mariadb (10.11) or another name of `lab list --servers`, installed into the lab's own folder;
    /// path: the one on PATH
    #[arg(long, value_name = "SERVER", default_value = "mysql", value_parser = server_name(), hide_possible_values = true)]
    pub server: Which,

    /// Any other server: the folder that has bin/mysqld or sbin/mysqld
    #[arg(long, hide_short_help = true, value_name = "FOLDER", conflicts_with = "server")]
    pub basedir: Option<PathBuf>,
}

/// How clients send their statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabProtocol {
    /// As texts
    Text,
    /// Prepared, as far as they can be
    Prepared,
}

/// The name of a server.
fn server_name() -> impl TypedValueParser<Value = Which> {
    PossibleValuesParser::new(Which::names())
        .try_map(|name| Which::by_name(&name).ok_or_else(|| format!("no server has the name {name}")))
}

/// Connections a second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=64_000.0).contains(&rate) => Ok(rate),
        _ => Err("a rate from 1 to 64000 a second is wanted".to_owned()),
    }
}
