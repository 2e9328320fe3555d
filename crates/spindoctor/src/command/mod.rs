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

/// How alike two names must be to be offered for each other (Jaro-Winkler, 0 to 1): `row-lock` finds
/// `row-lock-pileup`, `cpu` finds `cpu-throttled`, `foo` finds nothing.
const ALIKE: f64 = 0.8;

/// What to tell a user who misspelt a name: the nearest names, or the command that lists all.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, list_command: &str) -> String {
    let name = name.to_ascii_lowercase();
    let mut near: Vec<(f64, &str)> = names
        .map(|candidate| (strsim::jaro_winkler(&name, candidate), candidate))
        .filter(|(alike, candidate)| *alike >= ALIKE || candidate.contains(&name))
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<&str> = near.iter().take(3).map(|(_, candidate)| *candidate).collect();
    match names.as_slice() {
        [] => format!("`{list_command}` lists all"),
        names => format!("did you mean {}?", names.join(" or ")),
    }
}
