//! spindoctor: finds where a running MySQL or MariaDB server loses time.
//!
//! The program is this library's [`run`], so that what it reads of others can be fuzzed ([`mod@fuzzing`]). This is the table of contents. `cli` has the flags, `command` what each command does,
//! `report` how results look, `exit` what the exit codes mean.

mod cache;
mod chart;
mod cli;
mod command;
mod connections;
mod csv;
mod exit;
mod export;
mod fleet_diagnosis;
pub mod fuzzing;
mod host_report;
mod incident;
mod indexes;
mod locks;
mod output;
mod profile;
mod progress;
mod report;
mod secrecy;
mod terminal;
mod top;
mod trigger;
mod window_file;
mod workload;

use std::process::{ExitCode, Termination as _};

use exit::ExitStatus;

/// Runs the program as its command line says.
#[must_use]
pub fn run() -> ExitCode {
    program().report()
}

fn program() -> ExitStatus {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(seen) = secrecy::hide() {
        output::note(&format!("spindoctor: {seen}"));
    }
    let parsed = match cli::parse(arguments) {
        Ok(parsed) => parsed,
        Err(usage) => return exit::of_usage(&usage),
    };
    match command::run(parsed) {
        Ok(status) => status,
        Err(error) if error.is::<output::ClosedPipe>() => ExitStatus::Done,
        Err(error) => {
            output::note(&format!("spindoctor: {}", terminal::safe(&format!("{error:#}"))));
            ExitStatus::Failed
        }
    }
}
