//! The program from outside: what it prints where, and its exit codes. One file per subcommand.

mod bad_days;
mod cache;
mod connections;
mod doctor;
mod explain;
mod fleet;
mod fleet_doctor;
mod fleet_top;
mod help;
mod history;
mod live;
mod locks;
mod packaging;
mod pileups;
mod plan;
mod program;
mod record;
mod report;
mod screen;
mod stacks;
mod sweep;
mod top;
mod tune_apply;
mod tune_kill;
mod watch;
mod workload;
