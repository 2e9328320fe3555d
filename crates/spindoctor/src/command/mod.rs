//! One file per command.

mod explain;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitStatus> {
    match cli.command {
        Command::Explain(asked) => explain::run(&asked),
    }
}
