//! One file per command.

mod cache;
mod connections;
mod doctor;
mod explain;
mod export;
mod fleet;
mod host;
mod indexes;
mod lab;
mod live;
mod locks;
mod record;
mod report;
mod stacks;
mod sweep;
mod top;
mod tune;
mod workload;

use anyhow::Context as _;

use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;
pub(crate) use locks::of_newest as locks_of_newest;

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
        Command::Stacks(asked) => stacks::run(&asked),
        Command::Locks(asked) => locks::run(&asked),
        Command::Cache(asked) => cache::run(&asked),
        Command::Connections(asked) => connections::run(&asked),
        Command::Record(asked) => record::run(&asked),
        Command::Top(asked) => top::run(&asked),
        Command::Workload(asked) => workload::run(&asked),
        Command::Indexes(asked) => indexes::run(&asked),
        Command::Tune(asked) => tune::run(&asked),
        Command::TuneGuardian => tune::guard(),
        Command::Sweep(asked) => sweep::run(&asked),
        Command::Lab(asked) => lab::run(&asked),
        Command::Report(asked) => report::run(&asked),
        Command::Export(asked) => export::run(&asked),
        Command::Fleet(asked) => fleet::run(&asked),
        Command::Explain(asked) => explain::run(&asked),
    }
}

/// How alike two names must be to be offered for each other (Jaro-Winkler, 0 to 1): `row-lock-pile` finds
/// `row-lock-pileup`, `foo` finds nothing.
const ALIKE: f64 = 0.8;
/// Names that much less alike than the best are not meant.
const AS_ALIKE: f64 = 0.05;

/// What to tell a user who misspelt a name: the nearest names, or the command that lists all.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, list_command: &str) -> String {
    let name = name.to_ascii_lowercase();
    let alike = |candidate: &str| match candidate.contains(&name) {
        true => 1.0,
        false => strsim::jaro_winkler(&name, candidate),
    };
    let mut near: Vec<(f64, &str)> = names.map(|candidate| (alike(candidate), candidate)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let best = near.first().map_or(0.0, |(alike, _)| *alike);
    let meant = near.iter().take(3).filter(|(alike, _)| *alike >= ALIKE && *alike >= best - AS_ALIKE);
    let meant: Vec<&str> = meant.map(|(_, candidate)| *candidate).collect();
    match meant.as_slice() {
        [] => format!("`{list_command}` lists all"),
        names => format!("did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_answered_with_the_nearest() {
        const NAMES: [&str; 4] =
            ["row-lock-pileup", "cpu-throttled", "connection-churn", "connections-exhausted"];
        let answer = |name| nearest(name, NAMES.into_iter(), "spindoctor explain");
        assert_eq!(answer("row-lock-pile"), "did you mean row-lock-pileup?");
        assert_eq!(answer("connection-exhausted"), "did you mean connections-exhausted?");
        assert_eq!(answer("EXHAUSTED"), "did you mean connections-exhausted?");
        assert_eq!(answer("connection"), "did you mean connection-churn or connections-exhausted?");
        assert_eq!(answer("zzz"), "`spindoctor explain` lists all");
    }
}
