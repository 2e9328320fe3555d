//! The command line: clap's types and their help. No behaviour.

mod cache;
mod export;
mod fleet;
mod indexes;
mod moment;
mod record;
mod report;
mod sweep;
mod top;
mod tune;
mod workload;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use regex::Regex;
use spindoctor_collect::mysql::{Secret, SslMode};
use spindoctor_record::condition::Condition;
use spindoctor_stacks::capture::trigger::When;

use crate::profile::By;
use crate::report::connections;
use crate::report::locks;
use crate::report::stacks::FORMATS;
use crate::trigger::Watchpoint;
pub(crate) use cache::Cache;
pub(crate) use export::{Export, FileFormat, Layout};
pub(crate) use fleet::{
    Fleet, FleetDoctor, FleetFormat, FleetLogin, FleetQuery, FleetServers, FleetTop, Which,
};
pub(crate) use indexes::Indexes;
pub(crate) use record::Record;
pub(crate) use report::Report;
pub(crate) use sweep::Sweep;
pub(crate) use top::Top;
pub(crate) use tune::Tune;
pub(crate) use workload::Workload;

/// Finds where a running MySQL or MariaDB server loses time, shows who holds up whom, and says what to do.
#[derive(Debug, Parser)]
#[command(name = "spindoctor", version, disable_help_flag = true, disable_help_subcommand = true)]
#[command(arg_required_else_help = true, max_term_width = 90)]
#[command(after_help = "Exit codes: 0 done, 1 findings at or above --fail-on, 2 could not do it.")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print help (-h means the server's host, as with any MySQL client)
    #[arg(long, action = ArgAction::HelpShort, global = true, display_order = 1000)]
    help: Option<bool>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Diagnose a server: ranked findings, their evidence, what to do, what was not examined
    Doctor(Box<Doctor>),
    /// Show what the server's host gives it: effective CPUs, throttling, PAUSE, memory, disks
    Host(Box<Host>),
    /// Show what every thread does, without stopping one: stacks, spin share, flame graphs
    Stacks(Box<Stacks>),
    /// Show who holds up whom, now: the root of each pile-up, who waits behind it, what would free them
    Locks(Box<Locks>),
    /// Show who fills the page cache: data, redo, binary and relay logs; take the logs out and keep them out
    Cache(Box<Cache>),
    /// Show what accepting connections costs: the accepting thread's time, threads, queues, who connects
    Connections(Box<Connections>),
    /// Record every second of a server, and of each stall what it was like before and during it
    Record(Box<Record>),
    /// Look at a server as it runs, or at any second of a recording: is it slow, since when, why
    Top(Box<Top>),
    /// Show what statements spend their time on: by digest, table, user, tag; what is read; what a replica applies
    Workload(Box<Workload>),
    /// Show what the optimizer's index dives cost, per statement, and try what would spare them, reading only
    Indexes(Box<Indexes>),
    /// Find better settings by trials on this server, and put them back or keep them
    Tune(Box<Tune>),
    /// What `tune` starts beside itself: it puts the old values back when `tune` is killed
    #[command(hide = true)]
    TuneGuardian,
    /// Measure a grid of settings and client counts with sysbench: tables, charts, scalability
    Sweep(Box<Sweep>),
    /// Tell an incident of a recording: one HTML page with its timeline, cause, wait graph, flame graph
    Report(Report),
    /// Write tables of a recording as Parquet or CSV, for DuckDB, ClickHouse, Spark
    Export(Export),
    /// Many servers at once: one statement to all, who of them is in trouble, what they all run
    #[command(subcommand)]
    Fleet(Fleet),
    /// Tell what a cause is, what it rests on and what to do; without a name, list all causes
    Explain(Explain),
    /// Start throw-away servers and make them suffer a known cause
    #[command(subcommand)]
    Lab(Lab),
}

/// `spindoctor doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// How long to watch the server: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Duration,

    /// Take neither stacks nor CPU samples of the server's process
    #[arg(long)]
    pub(crate) no_stacks: bool,

    /// Diagnose a saved window instead of a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "duration", "no_stacks"])]
    pub(crate) window: Option<PathBuf>,

    /// Save what was read, for `--window`; compressed when the name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub(crate) save_window: Option<PathBuf>,

    /// Keep statements in the saved window as they were sent, with their literals
    #[arg(long, requires = "save_window")]
    pub(crate) literals: bool,

    /// Print JSON (schema spindoctor.diagnosis/1)
    #[arg(long, conflicts_with = "nagios")]
    pub(crate) json: bool,

    /// Write the report as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print one line with performance data; exit codes are 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
    #[arg(long)]
    pub(crate) nagios: bool,

    /// Exit with 1 when there is a finding at least as severe as this
    #[arg(long, value_name = "SEVERITY", default_value = "warning", conflicts_with = "nagios")]
    pub(crate) fail_on: FailOn,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `spindoctor host`.
#[derive(Debug, Args)]
pub(crate) struct Host {
    /// Show the host of a saved window instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote"])]
    pub(crate) window: Option<PathBuf>,

    /// Print JSON (schema spindoctor.host/1)
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `spindoctor stacks`.
#[derive(Debug, Args)]
pub(crate) struct Stacks {
    /// How long to look; with a trigger, how long from its instant on: 10s, 500ms, 2m
    #[arg(long, visible_alias = "for", value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Duration,

    /// Snapshots a second; with --cpu, samples of each CPU a second [default: 10, with --cpu 99]
    #[arg(long, value_name = "HZ", value_parser = hz)]
    pub(crate) hz: Option<f64>,

    /// Fewer snapshots, where they would take more than this much of all CPUs [default: 0.025 for each of --hz, from
    /// 0.25 to 3]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) max_cpu: Option<f64>,

    /// One snapshot, at once
    #[arg(long, conflicts_with_all = ["duration", "hz", "max_cpu", "cpu", "when", "when_stalled", "when_inside", "when_slower"])]
    pub(crate) once: bool,

    /// What runs on CPUs, instead of what every thread does
    #[arg(long)]
    pub(crate) cpu: bool,

    /// How threads are looked at [default: the best that works here]
    #[arg(long, value_name = "SOURCE", conflicts_with = "cpu")]
    pub(crate) source: Option<Source>,

    /// Only threads of this name or id; may be given more than once
    #[arg(long, value_name = "NAME", help_heading = "What is shown")]
    pub(crate) thread: Vec<String>,

    /// Only stacks with a function, thread or statement that matches this regular expression
    #[arg(long, value_name = "PATTERN", value_parser = pattern, help_heading = "What is shown")]
    pub(crate) grep: Option<Regex>,

    /// What stands at the root of each stack
    #[arg(long, value_name = "WHAT", default_value = "thread", help_heading = "What is shown")]
    pub(crate) by: By,

    /// Show functions with their arguments and template parameters
    #[arg(long, help_heading = "What is shown")]
    pub(crate) full_names: bool,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format_names(), help_heading = "Output")]
    pub(crate) format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Print JSON (schema spindoctor.profile/1)
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,

    /// Save all that was seen, for --load and --diff
    #[arg(long, value_name = "FILE", conflicts_with_all = ["load", "diff"], help_heading = "Output")]
    pub(crate) save: Option<PathBuf>,

    /// Show a saved profile instead of a live process
    #[arg(long, value_name = "FILE", conflicts_with_all = LIVE, help_heading = "Saved profiles")]
    pub(crate) load: Option<PathBuf>,

    /// Compare two saved profiles: what grew, what shrank
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = LIVE, conflicts_with = "load", help_heading = "Saved profiles")]
    pub(crate) diff: Option<Vec<PathBuf>>,

    /// Wait until this holds: 'Threads_running > 50', 'Com_commit/s < 10', 'host.load > 8'
    #[arg(long, value_name = "CONDITION", help_heading = "Triggers")]
    pub(crate) when: Vec<Condition>,

    /// Wait until statements or commits stop while threads run
    #[arg(long, help_heading = "Triggers")]
    pub(crate) when_stalled: bool,

    /// Wait until more than COUNT threads are in a function at once; probes stand in it meanwhile
    #[arg(long, value_name = "FUNCTION:COUNT", value_parser = inside, help_heading = "Triggers")]
    pub(crate) when_inside: Vec<Watchpoint>,

    /// Wait until a thread is in a function for longer than TIME; probes stand in it meanwhile
    #[arg(long, value_name = "FUNCTION:TIME", value_parser = slower, help_heading = "Triggers")]
    pub(crate) when_slower: Vec<Watchpoint>,

    /// What is kept from before the trigger
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = "Triggers")]
    pub(crate) before: Duration,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What has no meaning beside a saved profile.
const LIVE: [&str; 12] = [
    "once",
    "duration",
    "hz",
    "max_cpu",
    "source",
    "when",
    "when_stalled",
    "when_inside",
    "when_slower",
    "target",
    "pid",
    "remote",
];

/// How threads are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// A BPF iterator: every thread, none stopped; needs root or capabilities
    Bpf,
    /// /proc and process_vm_readv: blocked threads, none stopped
    Procfs,
    /// ptrace: every thread, each stopped in turn
    Ptrace,
    /// perf_event: what runs on CPUs, as --cpu
    Cpu,
}

/// `spindoctor locks`.
#[derive(Debug, Args)]
pub(crate) struct Locks {
    /// Look again every TIME, until Ctrl-C; a server that answers slowly is asked less often
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = duration)]
    pub(crate) watch: Option<Duration>,

    /// Take no stacks: mutexes, commit queues and what the holders do are not seen then
    #[arg(long)]
    pub(crate) no_stacks: bool,

    /// Look at a saved window instead of a server: at the sample in which the most wait
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "watch", "no_stacks"])]
    pub(crate) window: Option<PathBuf>,

    /// Show statements as they were sent, with their literals
    #[arg(long, help_heading = "Output")]
    pub(crate) literals: bool,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = lock_format_names(), help_heading = "Output")]
    pub(crate) format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Print JSON (schema spindoctor.locks/1); with --watch, one line for each look
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `spindoctor connections`.
#[derive(Debug, Args)]
pub(crate) struct Connections {
    /// How long to look: 10s, 500ms, 2m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Duration,

    /// Look at a saved window instead of a server: all but the accepting thread's time
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote", "duration"])]
    pub(crate) window: Option<PathBuf>,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = connection_format_names(), help_heading = "Output")]
    pub(crate) format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Print JSON (schema spindoctor.connections/1)
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `spindoctor explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Name of the cause, as `doctor` prints it: row-lock-pileup
    pub(crate) cause: Option<String>,

    /// Print JSON (schema spindoctor.causes/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// `spindoctor lab`.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Lab {
    /// List the scenarios, the experiments, and the lab's servers that are up
    List(LabList),
    /// Install the servers that the lab knows by name, so that later commands need no network
    Install,
    /// Start a throw-away server and leave it up
    Up(LabUp),
    /// Stop a server that `up` started, and remove everything of it
    Down(LabDown),
    /// Run a scenario (make a server suffer, diagnose it, say whether its label was named first) or an experiment
    Run(LabRun),
    /// Run scenarios several times each and count how often their label was named first
    Score(LabScore),
    /// Put servers into trouble and write down what the sources read of them: the corpus that the tests read
    Capture(LabCapture),
}

/// `spindoctor lab list`.
#[derive(Debug, Args)]
pub(crate) struct LabList {
    /// Print JSON (schema spindoctor.lab/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// `spindoctor lab up`.
#[derive(Debug, Args)]
pub(crate) struct LabUp {
    #[command(flatten)]
    pub(crate) server: LabServer,

    /// Name of the server in the lab
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub(crate) name: String,

    /// CPU quota, CPUs: 0.5
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    pub(crate) quota: Option<f64>,

    /// CPUs it may run on: 0-1
    #[arg(long, value_name = "LIST")]
    pub(crate) cpuset: Option<String>,

    /// Tables of sysbench's, filled
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) tables: u32,

    /// Rows of each table
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "tables")]
    pub(crate) rows: u32,

    /// Print JSON (schema spindoctor.lab/1)
    #[arg(long)]
    pub(crate) json: bool,

    /// Options of the server's own, after --
    #[arg(last = true, value_name = "OPTION")]
    pub(crate) options: Vec<String>,
}

/// `spindoctor lab down`.
#[derive(Debug, Args)]
pub(crate) struct LabDown {
    /// Name of the server in the lab
    #[arg(default_value = "lab")]
    pub(crate) name: String,
}

/// `spindoctor lab run`.
#[derive(Debug, Args)]
pub(crate) struct LabRun {
    /// Name of the scenario or experiment, as `spindoctor lab list` has it
    pub(crate) scenario: String,

    #[command(flatten)]
    pub(crate) which: LabProgram,

    /// How long to watch
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Duration,

    /// How long an experiment's trial or a storm may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    pub(crate) max_time: Duration,

    /// Of connection-storm: this rate alone, connections a second, instead of the highest
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<f64>,

    /// Print JSON (schema spindoctor.lab-run/1; of an experiment spindoctor.trial/1; of a storm spindoctor.storm/1)
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the diagnosis or the trial as one HTML file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Save what was read, for `doctor --window`
    #[arg(long, value_name = "FILE")]
    pub(crate) save_window: Option<PathBuf>,

    /// Start with a calm server, which suffers so long after COMMAND began, for some seconds: for what records
    #[arg(long, value_name = "TIME", requires = "command", value_parser = duration)]
    pub(crate) calm_first: Option<Duration>,

    /// Run this command meanwhile instead (after --); {socket}, {port} and {pid} are the server's
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["duration", "json", "html", "save_window"])]
    pub(crate) command: Vec<String>,
}

/// `spindoctor lab score`.
#[derive(Debug, Args)]
pub(crate) struct LabScore {
    /// Names of the scenarios; none means all
    pub(crate) scenarios: Vec<String>,

    /// Runs of each scenario on each server
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// How long to watch in each run
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) duration: Duration,

    /// Write the score as a Markdown page, too
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// Add to the runs that the page counts, where they are of the same version, machine and day
    #[arg(long, requires = "markdown")]
    pub(crate) add: bool,

    /// Print JSON (schema spindoctor.score/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// `spindoctor lab capture`.
#[derive(Debug, Args)]
pub(crate) struct LabCapture {
    /// The corpus's folder; files of other servers and captures stay as they are
    #[arg(long, value_name = "FOLDER", default_value = "corpus")]
    pub(crate) into: PathBuf,

    /// Capture this server too, or all below this folder: a folder that has bin/mysqld or sbin/mysqld
    #[arg(long, value_name = "FOLDER")]
    pub(crate) basedir: Vec<PathBuf>,

    /// Leave out the servers that the lab installs itself
    #[arg(long, requires = "basedir")]
    pub(crate) no_installed: bool,

    /// Only this capture; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// List the captures, and make none
    #[arg(long)]
    pub(crate) list: bool,
}

/// Which server a lab command starts, and where.
#[derive(Debug, Args)]
pub(crate) struct LabServer {
    #[command(flatten)]
    pub(crate) which: LabProgram,

    /// Where the data goes: tmpfs, disk, or a folder
    #[arg(long, value_name = "PLACE", default_value = "tmpfs")]
    pub(crate) data: PathBuf,
}

/// Which server a lab command starts.
#[derive(Debug, Args)]
pub(crate) struct LabProgram {
    /// mysql (9.7) or mariadb (10.11), installed into the lab's own folder; path: the one on PATH
    #[arg(long, value_name = "SERVER", default_value = "mysql")]
    pub(crate) server: LabWhich,

    /// Any other server: the folder that has bin/mysqld or sbin/mysqld
    #[arg(long, value_name = "FOLDER", conflicts_with = "server")]
    pub(crate) basedir: Option<PathBuf>,
}

/// The servers that the lab knows by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabWhich {
    /// MySQL as Debian unstable packages it
    Mysql,
    /// MariaDB as Debian 12 packages it
    Mariadb,
    /// The server on PATH
    Path,
}

/// How to reach the server: the flags of any MySQL client.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The server as mysql://user@host:port/ or as a DSN: h=db17,P=3306,u=app
    #[arg(help_heading = None)]
    pub(crate) target: Option<Secret>,

    /// Host name or address; localhost means the socket
    #[arg(short = 'h', long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// TCP port
    #[arg(short = 'P', long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Unix socket
    #[arg(short = 'S', long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) login: Login,

    /// How long a login may take [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) connect_timeout: Option<Duration>,

    /// How long a query may take [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) query_timeout: Option<Duration>,

    /// The server's process on this host, where it is not found from the connection
    #[arg(long, value_name = "PID", conflicts_with = "remote")]
    pub(crate) pid: Option<u32>,

    /// Read nothing of this host: the server runs elsewhere
    #[arg(long)]
    pub(crate) remote: bool,
}

/// How to log in, wherever the server is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Login {
    /// User name
    #[arg(short = 'u', long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Password; without a value it is asked for. Safer: an option file or a login path
    #[arg(short = 'p', long, value_name = "PASSWORD", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's form of an option that may stand without its value")]
    pub(crate) password: Option<Option<Secret>>,

    /// Read this option file only
    #[arg(long, value_name = "FILE")]
    pub(crate) defaults_file: Option<PathBuf>,

    /// Read this option file after the global ones
    #[arg(long, value_name = "FILE")]
    pub(crate) defaults_extra_file: Option<PathBuf>,

    /// Read the option groups client and spindoctor with this suffix, too
    #[arg(long, value_name = "SUFFIX")]
    pub(crate) defaults_group_suffix: Option<String>,

    /// Read no option file but the login path file
    #[arg(long)]
    pub(crate) no_defaults: bool,

    /// Read this group of the login path file
    #[arg(long, value_name = "NAME")]
    pub(crate) login_path: Option<String>,

    /// DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY
    #[arg(long, value_name = "MODE")]
    pub(crate) ssl_mode: Option<SslMode>,

    /// Certificates that sign the server's
    #[arg(long, value_name = "FILE")]
    pub(crate) ssl_ca: Option<PathBuf>,

    /// Our certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ssl_cert: Option<PathBuf>,

    /// The key of our certificate
    #[arg(long, value_name = "FILE")]
    pub(crate) ssl_key: Option<PathBuf>,

    /// Without TLS, encrypt the password with this public key of the server's
    #[arg(long, value_name = "FILE")]
    pub(crate) server_public_key_path: Option<PathBuf>,

    /// Without TLS, encrypt the password with the key that the server sends, whoever it is
    #[arg(long)]
    pub(crate) get_server_public_key: bool,

    /// Send the password over TLS even where the certificate is not verified, whoever it is
    #[arg(long)]
    pub(crate) trust_unverified_server: bool,
}

/// The least severe finding that makes `doctor` exit with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Any finding
    Note,
    /// A warning or worse
    Warning,
    /// A critical finding
    Critical,
    /// No finding
    Never,
}

/// The command line as the user typed it.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(with_long_password(with_help(arguments)))
}

/// `help COMMAND` and a `-h` that nothing follows as `--help`: people type both. A `-h` with a value is the server's host, as
/// with any MySQL client.
fn with_help(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    let is_last_of_ours = !arguments.iter().any(|argument| argument == "--");
    match arguments.last_mut() {
        Some(last) if is_last_of_ours && last == "-h" => *last = "--help".into(),
        _ => {}
    }
    arguments
}

/// `-pSECRET` as `--password=SECRET` and `-p` as `--password`: MySQL's clients take the value attached or
/// not at all, a form of short option that clap does not have.
fn with_long_password(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut options_ended = false;
    arguments
        .into_iter()
        .map(|argument| {
            options_ended |= argument == "--";
            match argument.to_str() {
                Some("-p") if !options_ended => "--password".into(),
                Some(text) if !options_ended && text.starts_with("-p") => {
                    format!("--password={}", &text[2..]).into()
                }
                _ => argument,
            }
        })
        .collect()
}

/// `10s`, `500ms`, `2m`, `1h`, or seconds without a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds_per_unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        unit => return Err(format!("{unit:?} is no unit of time; use ms, s, m or h")),
    };
    let number: f64 = digits.trim().parse().map_err(|_| format!("{digits:?} is no number"))?;
    let seconds = number * seconds_per_unit;
    if !(0.1..=3_600.0).contains(&seconds) {
        return Err("it must be between 100ms and 1h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A part in percent: `10%`, `2.5`.
fn part(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let percent: f64 = number.parse().map_err(|_| format!("{text:?} is not a percentage"))?;
    match (0.1..=100.0).contains(&percent) {
        true => Ok(percent / 100.0),
        false => Err("it must be between 0.1% and 100%".to_owned()),
    }
}

/// How often to look. A profile of every thread costs more than it tells at more than a thousand a second.
fn hz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (0.1..=1_000.0).contains(&hz) => Ok(hz),
        _ => Err("a rate from 0.1 to 1000 a second is wanted".to_owned()),
    }
}

/// Connections a second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=64_000.0).contains(&rate) => Ok(rate),
        _ => Err("a rate from 1 to 64000 a second is wanted".to_owned()),
    }
}

/// A part of all CPUs.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if (0.1..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0.1 to 100 is wanted".to_owned()),
    }
}

/// The names of all formats of a profile.
fn format_names() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.help)))
}

/// The names of all formats of a wait graph.
fn lock_format_names() -> PossibleValuesParser {
    let formats = locks::FORMATS.iter();
    PossibleValuesParser::new(formats.map(|format| PossibleValue::new(format.name).help(format.help)))
}

/// The names of all formats of a look at connections.
fn connection_format_names() -> PossibleValuesParser {
    let formats = connections::FORMATS.iter();
    PossibleValuesParser::new(formats.map(|format| PossibleValue::new(format.name).help(format.help)))
}

/// `log_write_up_to:100ms`
fn slower(text: &str) -> Result<Watchpoint, String> {
    let (function, time) = function_and_bound(text).ok_or("write FUNCTION:TIME: log_write_up_to:100ms")?;
    let unit = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("{time:?} is no time; use us, ms or s: log_write_up_to:100ms")),
    };
    let number: f64 = time[..time.len() - unit.len()].parse().map_err(|_| format!("{time:?} is no time"))?;
    let seconds = number * seconds_per_unit;
    if !(1e-6..=3_600.0).contains(&seconds) {
        return Err("it must be between 1us and 1 hour".to_owned());
    }
    Ok(Watchpoint { function: function.to_owned(), when: When::Slower(Duration::from_secs_f64(seconds)) })
}

/// `lock_wait_suspend_thread:20`
fn inside(text: &str) -> Result<Watchpoint, String> {
    let (function, count) =
        function_and_bound(text).ok_or("write FUNCTION:COUNT: lock_wait_suspend_thread:20")?;
    let count = count.parse().map_err(|_| format!("{count:?} is no number of threads"))?;
    Ok(Watchpoint { function: function.to_owned(), when: When::Inside(count) })
}

/// What stands before and behind the last colon: a C++ name has some of its own.
fn function_and_bound(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').filter(|(function, _)| !function.is_empty() && !function.ends_with(':'))
}

/// A regular expression; of what is wrong with it, the line that says it.
fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

/// A number of CPUs that a quota can grant.
fn cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if (0.01..=1_024.0).contains(&cpus) => Ok(cpus),
        _ => Err("a number of CPUs from 0.01 to 1024 is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn doctor(line: &str) -> Result<Doctor, String> {
        let arguments = format!("spindoctor doctor {line}");
        match parse(arguments.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?.command {
            Command::Doctor(doctor) => Ok(*doctor),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clap_finds_nothing_to_object_to() {
        Cli::command().debug_assert();
    }

    #[test]
    fn connection_flags_are_those_of_the_mysql_client() {
        let asked = doctor("-h db17 -P 3307 -u app -psecret --login-path=prod mysql://x").unwrap();
        let connection = asked.connection;
        assert_eq!(connection.host.as_deref(), Some("db17"));
        assert_eq!(connection.port, Some(3307));
        assert_eq!(connection.login.user.as_deref(), Some("app"));
        assert_eq!(connection.login.password, Some(Some(Secret::from("secret"))));
        assert_eq!(connection.login.login_path.as_deref(), Some("prod"));
        assert_eq!(connection.target, Some(Secret::from("mysql://x")));
        assert_eq!(doctor("-hdb17").unwrap().connection.host.as_deref(), Some("db17"));
    }

    #[test]
    fn a_password_without_a_value_is_asked_for_and_never_takes_the_next_word() {
        let asked = doctor("-p mysql://x").unwrap().connection;
        assert_eq!((asked.login.password, asked.target), (Some(None), Some(Secret::from("mysql://x"))));
        let password = |line| doctor(line).unwrap().connection.login.password;
        assert_eq!(password("--password x"), Some(None));
        assert_eq!(password("--password="), Some(Some(Secret::from(""))));
        assert_eq!(password(""), None);
    }

    #[test]
    fn a_watchpoint_is_a_function_and_a_bound() {
        let watched = |function: &str, when| Ok(Watchpoint { function: function.to_owned(), when });
        assert_eq!(inside("THD::wait_for:20"), watched("THD::wait_for", When::Inside(20)));
        let hundred = When::Slower(Duration::from_millis(100));
        assert_eq!(slower("log_write_up_to:100ms"), watched("log_write_up_to", hundred));
        for (wrong, reason) in [
            ("f", "write FUNCTION:TIME"),
            ("f::g", "write FUNCTION:TIME"),
            ("f:5", "use us, ms or s"),
            ("f:0ms", "between"),
        ] {
            assert!(slower(wrong).unwrap_err().contains(reason), "{wrong}");
        }
        for wrong in ["f", ":5", "f::g", "f:-1", "f:x"] {
            assert!(inside(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_has_a_unit_and_bounds() {
        let of = |text: &str| doctor(&format!("--duration {text}")).map(|asked| asked.duration);
        assert_eq!(of("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(of("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(of("3"), Ok(Duration::from_secs(3)));
        for (wrong, reason) in
            [("3d", "is no unit of time"), ("s", "is no number"), ("0s", "between"), ("1e99s", "between")]
        {
            assert!(of(wrong).unwrap_err().contains(reason), "{wrong}");
        }
    }

    #[test]
    fn formats_and_sources_that_exclude_each_other_are_refused() {
        for line in ["--json --nagios", "--window w --remote", "--window w --pid 1", "--remote --pid 1"] {
            assert!(doctor(line).unwrap_err().contains("cannot be used with"), "{line}");
        }
    }
}
