//! `spindoctor stacks`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use regex::Regex;
use spindoctor_profile::By;
use spindoctor_profile::formats::FORMATS;
use spindoctor_stalls::condition::Condition;

use crate::common::flags::{Connection, duration, format_names, hz, one_of, pattern};
use crate::common::watchpoint::{Watchpoint, inside, slower};

/// `spindoctor stacks`.
#[derive(Debug, Args)]
pub struct Stacks {
    /// How long to look; with a trigger, how long from its instant on: 10s, 500ms, 2m
    #[arg(long, visible_alias = "for", value_name = "TIME", default_value = "10s", value_parser = duration, allow_hyphen_values = true)]
    pub duration: Duration,

    /// Snapshots a second; with --cpu, samples of each CPU a second [default: 10, with --cpu 99]
    #[arg(long, value_name = "HZ", value_parser = hz)]
    pub hz: Option<f64>,

    /// Fewer snapshots, where they would take more than this much of all CPUs [default: 0.02 for each of --hz, from
    /// 0.25 to 3]
    #[arg(long, hide_short_help = true, value_name = "PERCENT", value_parser = percent)]
    pub max_cpu: Option<f64>,

    /// One snapshot, at once
    #[arg(long, hide_short_help = true, conflicts_with_all = ["duration", "hz", "max_cpu", "cpu", "when", "when_stalled", "when_inside", "when_slower"])]
    pub once: bool,

    /// What runs on CPUs; without it, what every thread does
    #[arg(long)]
    pub cpu: bool,

    /// How threads are looked at [default: the best that works here]
    #[arg(long, hide_short_help = true, value_name = "SOURCE", conflicts_with = "cpu")]
    pub source: Option<Source>,

    /// Only threads of this name or id; may be given more than once
    #[arg(long, value_name = "NAME", help_heading = "What is shown")]
    pub thread: Vec<String>,

    /// Only stacks with a function, thread or statement that matches this regular expression
    #[arg(long, value_name = "PATTERN", value_parser = pattern, help_heading = "What is shown")]
    pub grep: Option<Regex>,

    /// What stands at the root of each stack
    #[arg(long, value_name = "WHAT", default_value = "thread", value_parser = one_of(By::ALL), help_heading = "What is shown")]
    pub by: By,

    /// Show functions with their arguments and template parameters
    #[arg(long, hide_short_help = true, help_heading = "What is shown")]
    pub full_names: bool,

    /// How it is written [default: what the name of --output ends in, else text]
    #[arg(long, value_name = "FORMAT", value_parser = format_names(FORMATS), help_heading = "Output")]
    pub format: Option<String>,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Write it as one HTML file, too
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        conflicts_with = "diff",
        help_heading = "Output"
    )]
    pub html: Option<PathBuf>,

    /// Print JSON (schema spindoctor.profile/1)
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,

    /// Save all that was seen, for --load and --diff
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with_all = ["load", "diff"], help_heading = "Output")]
    pub save: Option<PathBuf>,

    /// Show a saved profile instead of a live process
    #[arg(long, value_name = "FILE", conflicts_with_all = LIVE, help_heading = "Saved profiles")]
    pub load: Option<PathBuf>,

    /// Compare two saved profiles: what grew, what shrank
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = LIVE, conflicts_with = "load", help_heading = "Saved profiles")]
    pub diff: Option<Vec<PathBuf>>,

    /// Wait until this holds: 'Threads_running > 50', 'Com_commit/s < 10', 'host.load > 8'
    #[arg(long, value_name = "CONDITION", help_heading = "Triggers")]
    pub when: Vec<Condition>,

    /// Wait until statements or commits stop while threads run
    #[arg(long, hide_short_help = true, help_heading = "Triggers")]
    pub when_stalled: bool,

    /// Wait until more than COUNT threads are in a function at once; probes stand in it meanwhile
    #[arg(long, hide_short_help = true, value_name = "FUNCTION:COUNT", value_parser = inside, help_heading = "Triggers")]
    pub when_inside: Vec<Watchpoint>,

    /// Wait until a thread is in a function for longer than TIME; probes stand in it meanwhile
    #[arg(long, hide_short_help = true, value_name = "FUNCTION:TIME", value_parser = slower, help_heading = "Triggers")]
    pub when_slower: Vec<Watchpoint>,

    /// How long threads wait for InnoDB's latches, and for how long to spin; probes stand in them for short turns
    #[arg(long, hide_short_help = true, conflicts_with_all = ["once", "hz", "max_cpu", "cpu", "source", "thread", "grep", "by", "full_names", "format", "output", "html", "save", "when", "when_stalled", "when_inside", "when_slower", "before"], help_heading = "Latches")]
    pub latch_waits: bool,

    /// What is kept from before the trigger
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = duration, help_heading = "Triggers")]
    pub before: Duration,

    #[command(flatten)]
    pub connection: Connection,
}

/// What has no meaning beside a saved profile.
const LIVE: [&str; 13] = [
    "once",
    "duration",
    "hz",
    "max_cpu",
    "source",
    "when",
    "when_stalled",
    "when_inside",
    "when_slower",
    "latch_waits",
    "target",
    "pid",
    "remote",
];

/// How threads are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// A BPF iterator: every thread, none stopped; needs root or capabilities
    Bpf,
    /// /proc and process_vm_readv: blocked threads, none stopped
    Procfs,
    /// ptrace: every thread, each stopped in turn
    Ptrace,
    /// perf_event: what runs on CPUs, as --cpu
    Cpu,
}

/// A part of all CPUs.
fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if (0.1..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0.1 to 100 is wanted".to_owned()),
    }
}
