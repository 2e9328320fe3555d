//! One file per command.

mod doctor;
mod explain;
mod host;
mod live;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitStatus> {
    match cli.command {
        Command::Doctor(asked) => doctor::run(&asked),
        Command::Host(asked) => host::run(&asked),
        Command::Explain(asked) => explain::run(&asked),
    }
}
