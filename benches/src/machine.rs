//! The origin of the numbers: the machine, and the versions of the measured programs.

use std::process::Command;

use crate::peer;
use crate::program::Spindoctor;

/// In a sentence.
pub(crate) fn description(spindoctor: &Spindoctor) -> anyhow::Result<String> {
    let peers: Vec<String> = peer::PEERS.iter().filter_map(peer::Peer::version).collect();
    Ok(format!(
        "{}{}, {}, on {}; peers: {}",
        spindoctor.version()?,
        commit(),
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        spindoctor_lab::machine(),
        peers.join(", ")
    ))
}

/// ` (commit 5ae2e0981c)` of the tree in which this runs, ` (commit 5ae2e0981c and changes)` where its code is not that of the commit;
/// nothing where it is in no git tree.
fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else { return String::new() };
    let changed =
        git(&["status", "--porcelain", "--", ":(exclude)*.md"]).is_none_or(|changed| !changed.is_empty());
    format!(" (commit {commit}{})", if changed { " and changes" } else { "" })
}

/// What git answers, without blanks at the ends; None where it fails.
pub(crate) fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
