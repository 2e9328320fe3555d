//! The program from outside: what it prints where, and its exit codes. One file per subcommand.

mod attack;
mod cache;
mod calm;
mod captured;
mod config;
mod connections;
mod containers;
mod doctor;
mod environment;
mod explain;
mod fleet;
mod fleet_cpus;
mod fleet_doctor;
mod fleet_tls;
mod fleet_top;
mod fuzz_targets;
mod help;
mod history;
mod indexes;
mod latches;
mod mcp;
mod packaging;
mod pileups;
mod predict;
mod program;
mod record;
mod record_inside;
mod report;
mod screen;
mod secrecy;
mod top;
mod tune_apply;
mod tune_kill;
mod watch;
mod workload;

use calm::{live, stacks};
