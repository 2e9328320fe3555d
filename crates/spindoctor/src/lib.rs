//! spindoctor: finds where a running MySQL or MariaDB server loses time.
//!
//! The program is this library's [`run`], so that its parsers of untrusted input can be fuzzed ([`mod@fuzzing`]). Each
//! noun has a room: its flags (`args`), its work (`run`), what it computes, and a file for each format. `commands`
//! lists the commands. What several rooms need is in `common`, below them; how results look, in the crate
//! `spindoctor-page`. A room's `mod.rs` says what the others may use of it.

#![allow(unreachable_pub, reason = "a binary's items: what is public, the rooms say")]

mod commands;
mod help;
mod secrecy;

mod bundle;
mod cache;
mod config;
mod connections;
mod doctor;
mod explain;
mod export;
mod fleet;
mod host;
mod incident;
mod indexes;
mod lab;
mod locks;
mod manual;
mod mcp;
mod predict;
mod record;
mod stacks;
mod sweep;
mod top;
mod tune;
mod workload;

mod common;

#[cfg(test)]
mod documents;
#[cfg(test)]
mod plain_words;
#[cfg(test)]
mod walls;

pub mod fuzzing;

use std::process::{ExitCode, Termination as _};

use common::exit::{self, ExitStatus};
use common::{local_time, output};
use config::Refused;
use spindoctor_page::safe::safe;

/// Runs the program as its command line says.
#[must_use]
pub fn run() -> ExitCode {
    program().report()
}

fn program() -> ExitStatus {
    let arguments: Vec<_> = std::env::args_os().collect();
    local_time::show();
    if let Some(seen) = secrecy::hide() {
        output::note(&format!("spindoctor: {seen}"));
    }
    // To what asks a plugin, an error is no critical server, whatever is wrong with the line or the configuration.
    let is_plugin = arguments.iter().any(|argument| argument == "--nagios");
    let parsed = match commands::parse_configured(arguments) {
        Ok(parsed) => parsed,
        Err(Refused::Usage(usage)) if is_plugin && usage.use_stderr() => {
            let why = usage.to_string();
            return doctor::unknown(why.lines().next().unwrap_or_default().trim_start_matches("error: "));
        }
        Err(Refused::Usage(usage)) => return exit::of_usage(&usage),
        Err(Refused::Configuration(error)) if is_plugin => return doctor::unknown(&format!("{error:#}")),
        Err(Refused::Configuration(error)) => {
            output::note(&format!("spindoctor: {}", safe(&format!("{error:#}"))));
            return ExitStatus::Failed;
        }
    };
    match commands::run(parsed) {
        Ok(status) => status,
        Err(error) if error.is::<output::ClosedPipe>() => ExitStatus::Done,
        Err(error) => {
            output::note(&format!("spindoctor: {}", safe(&format!("{error:#}"))));
            ExitStatus::Failed
        }
    }
}
