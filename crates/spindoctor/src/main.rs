//! spindoctor: finds where a running MySQL or MariaDB server loses time.
//!
//! This is the table of contents. [`cli`] has the flags, [`command`] what each command does,
//! [`report`] how results look, [`exit`] what the exit codes mean.

mod cache;
mod chart;
mod cli;
mod command;
mod connections;
mod exit;
mod export;
mod fleet_diagnosis;
mod host_report;
mod incident;
mod indexes;
mod locks;
mod output;
mod profile;
mod progress;
mod report;
mod terminal;
mod top;
mod trigger;
mod window_file;
mod workload;

use exit::ExitStatus;

fn main() -> ExitStatus {
    let parsed = match cli::parse(std::env::args_os()) {
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
