//! Scores the diagnosis: every scenario, several times, against its label.

use serde::Serialize;
use spindoctor_model::Flavor;

use super::{RunOptions, SCENARIOS, Scenario, run};
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::Which;

/// How often each scenario's label was named first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// One for each scenario on each server, in the order of [`SCENARIOS`].
    pub tallies: Vec<Tally>,
}

/// One scenario on one server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tally {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Its label; None where nothing above a note may be found.
    pub label: Option<&'static str>,
    /// The server's flavor.
    pub flavor: Flavor,
    /// In how many runs the label was named first (healthy: nothing above a note was found).
    pub named_first: usize,
    /// Every run.
    pub runs: Vec<ScoredRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScoredRun {
    /// True where the label was named first.
    pub named_first: bool,
    /// The causes that were found, in order, with their severity: `cpu-throttled (critical)`.
    pub found: Vec<String>,
    /// What the scenario itself saw of the suffering before the window.
    pub seen: String,
    /// Why there is no diagnosis, where there is none.
    pub error: Option<String>,
}

/// Runs scenarios so many times each on MySQL and MariaDB, wherever they can be made; all of them
/// where no names are given.
pub async fn score(
    home: &Home,
    names: &[&str],
    runs: usize,
    window: std::time::Duration,
    progress: Progress<'_>,
) -> Result<Score> {
    let mut tallies = Vec::new();
    for scenario in SCENARIOS.iter().filter(|scenario| names.is_empty() || names.contains(&scenario.name)) {
        for which in [Which::Mysql, Which::Mariadb] {
            let flavor = if which == Which::Mysql { Flavor::Mysql } else { Flavor::Mariadb };
            if scenario.flavors.contains(&flavor) {
                let options = RunOptions { which, window };
                tallies.push(tally(home, scenario, flavor, &options, runs, progress).await?);
            }
        }
    }
    Ok(Score { tallies })
}

async fn tally(
    home: &Home,
    scenario: &'static Scenario,
    flavor: Flavor,
    options: &RunOptions,
    runs: usize,
    progress: Progress<'_>,
) -> Result<Tally> {
    let mut tally =
        Tally { scenario: scenario.name, label: scenario.label, flavor, named_first: 0, runs: Vec::new() };
    for _ in 0..runs {
        let scored = match run(home, scenario, options, progress).await {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => ScoredRun {
                named_first: false,
                found: Vec::new(),
                seen: String::new(),
                error: Some(error.to_string()),
            },
            Ok(outcome) => ScoredRun {
                named_first: outcome.named_first,
                found: outcome
                    .diagnosis
                    .findings
                    .iter()
                    .map(|finding| format!("{} ({:?})", finding.cause, finding.severity).to_lowercase())
                    .collect(),
                seen: outcome.seen_before,
                error: None,
            },
        };
        tally.named_first += usize::from(scored.named_first);
        tally.runs.push(scored);
    }
    Ok(tally)
}
