//! One file per command.

mod doctor;
mod explain;
mod host;
mod lab;
mod live;

use anyhow::Context as _;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;

/// Runs an asynchronous command to its end, on this thread alone: one connection needs no more.
fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the asynchronous runtime")?
        .block_on(work)
}

/// Runs the command that was asked for.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitStatus> {
    match cli.command {
        Command::Doctor(asked) => doctor::run(&asked),
        Command::Host(asked) => host::run(&asked),
        Command::Lab(asked) => lab::run(&asked),
        Command::Explain(asked) => explain::run(&asked),
    }
}
