//! Scores the diagnosis: scenarios with drawn numbers, mild and severe, alone and in pairs, and servers that suffer from
//! nothing. Every run is kept as it ends, so that a score that was interrupted goes on where it stopped.

mod cases;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spindoctor_model::{Diagnosis, Flavor, Severity, Window};

pub use cases::Case;

use crate::command::Progress;
use crate::draw::Strength;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::install::Known;
use crate::installation::Which;
use crate::kept::{self, OfBuild};
use crate::scenario::{self, RunOptions, RunOutcome};

/// Takes what was read in a run whose diagnosis was not right.
pub type Wrong<'a> = &'a dyn Fn(&Case, &Window);

/// What is to be scored.
#[derive(Debug, Clone)]
pub struct ScoreOptions<'a> {
    /// Names of scenarios; none means all.
    pub names: &'a [&'a str],
    /// The server; None means the newest of each flavor.
    pub server: Option<&'static Known>,
    /// Rounds: runs of each case.
    pub rounds: u64,
    /// The seed of all draws.
    pub seed: u64,
    /// How long a window is.
    pub window: Duration,
    /// No run is begun later than this after the start.
    pub within: Option<Duration>,
    /// Names the build of this program: runs of others are not counted.
    pub build: &'a str,
}

/// One run, as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredRun {
    /// The build that made it.
    pub build: String,
    /// When it ended.
    pub ended: jiff::Timestamp,
    /// What was made.
    pub case: Case,
    /// The cause that should come first; None where nothing above a note may be found.
    pub label: Option<String>,
    /// The label of the second scenario.
    pub second_label: Option<String>,
    /// What the scenario itself saw of the suffering before the window.
    pub seen: String,
    /// What was found, in order.
    pub found: Vec<Found>,
    /// Share of the sessions' time that no finding explains, 0 to 1; None where there was no account.
    pub unnamed: Option<f64>,
    /// Share of the sessions' time that those took who suffer, by their own clients' clocks, 0 to 1; None where not all that
    /// was at work were clients of the lab, or these do more than wait.
    pub lost: Option<f64>,
    /// From the question to the answer, seconds.
    pub verdict_s: f64,
    /// Why there is no diagnosis, where there is none.
    pub error: Option<String>,
}

/// A finding of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cause.
    pub cause: String,
    /// How severe.
    pub severity: Severity,
    /// Its score, 0 to 1.
    pub score: f64,
}

impl OfBuild for ScoredRun {
    fn build(&self) -> &str {
        &self.build
    }
}

impl ScoredRun {
    /// True where the label came first; with a second cause, where both were found; without a label, where nothing above a note was.
    pub fn is_right(&self) -> bool {
        let is_found = |label: &String| self.found.iter().any(|found| found.cause == *label);
        self.error.is_none()
            && match (&self.label, &self.second_label) {
                (Some(label), Some(second)) => is_found(label) && is_found(second),
                (Some(label), None) => self.found.first().is_some_and(|found| found.cause == *label),
                (None, _) => self.found.iter().all(|found| found.severity <= Severity::Note),
            }
    }

    /// True where the label stands among the first so many.
    pub fn is_among(&self, first: usize) -> bool {
        let label = self.label.as_deref();
        self.error.is_none() && self.found.iter().take(first).any(|found| Some(found.cause.as_str()) == label)
    }

    /// True where a server suffers and nothing at all was found.
    pub fn is_silent(&self) -> bool {
        self.error.is_none() && self.label.is_some() && self.found.is_empty()
    }
}

/// Makes the runs that are not kept yet, and returns all of this build, those that were kept first. Ctrl-C ends the run that
/// goes on; those before it stay. `wrong` is given what was read in each run whose diagnosis was not right.
///
/// # Errors
/// The file of kept runs cannot be read or written, or Ctrl-C was pressed. A run that fails is a run with an error.
pub async fn score(
    home: &Home,
    options: &ScoreOptions<'_>,
    progress: Progress<'_>,
    wrong: Wrong<'_>,
) -> Result<Vec<ScoredRun>> {
    let path = home.root().join("score.jsonl");
    let mut runs: Vec<ScoredRun> = kept::of_build(&path, options.build)?;
    runs.retain(|run| run.case.server.as_deref() == options.server.map(|server| server.name));
    let begun = Instant::now();
    let cases: Vec<Case> = (0..options.rounds)
        .flat_map(|number| cases::round(options.seed, number, options.names, options.server))
        .collect();
    let of = cases.len();
    for (at, case) in cases.into_iter().enumerate() {
        if runs.iter().any(|run| run.case == case) {
            continue;
        }
        if options.within.is_some_and(|within| begun.elapsed() > within) {
            break;
        }
        let run = run(home, case, options, progress, wrong).await?;
        progress(&format!("{} of {of}: {}", at + 1, line_of(&run)));
        kept::append(&path, &run)?;
        runs.push(run);
    }
    Ok(runs)
}

/// `right: row-lock-pileup on MySQL, seed 4711 found ["row-lock-pileup"]`. A run that the lab could not make is no wrong answer.
fn line_of(run: &ScoredRun) -> String {
    let name = name_of(&run.case);
    if let Some(error) = &run.error {
        return format!("not made: {name}: {error}");
    }
    let verdict = if run.is_right() { "right" } else { "wrong" };
    let found: Vec<&str> = run.found.iter().map(|found| found.cause.as_str()).collect();
    format!("{verdict}: {name} found {found:?}")
}

/// `row-lock-pileup on MySQL, mild, seed 4711`
fn name_of(case: &Case) -> String {
    let second = case.second.as_ref().map(|second| format!(" with {second}")).unwrap_or_default();
    let strength = if case.strength == Strength::Mild { ", mild" } else { "" };
    let server = case.server.clone().unwrap_or_else(|| case.flavor.to_string());
    format!("{}{second} on {server}{strength}, seed {}", case.scenario, case.seed)
}

async fn run(
    home: &Home,
    case: Case,
    options: &ScoreOptions<'_>,
    progress: Progress<'_>,
    wrong: Wrong<'_>,
) -> Result<ScoredRun> {
    let find = |name: &str| {
        scenario::find(name).ok_or_else(|| Error::Unable {
            what: "a scenario",
            because: format!("there is none of the name {name}"),
        })
    };
    let scenario = find(&case.scenario)?;
    let second = case.second.as_deref().map(find).transpose()?;
    let which = match (options.server, case.flavor) {
        (Some(server), _) => Which::by_name(server.name).unwrap_or(Which::Named(server)),
        (None, Flavor::Mariadb) => Which::Mariadb,
        (None, _) => Which::Mysql,
    };
    let how = RunOptions {
        which,
        window: options.window,
        draw: case.draw(),
        beside: case.beside(scenario),
        second,
    };
    let mut scored = ScoredRun {
        build: options.build.to_owned(),
        ended: jiff::Timestamp::now(),
        label: scenario.label.map(str::to_owned),
        second_label: second.and_then(|second| second.label).map(str::to_owned),
        case,
        seen: String::new(),
        found: Vec::new(),
        unnamed: None,
        lost: None,
        verdict_s: 0.0,
        error: None,
    };
    match scenario::run(home, scenario, &how, progress).await {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => scored.error = Some(error.to_string()),
        Ok(outcome) => {
            scored.take(&outcome);
            if !scored.is_right() {
                wrong(&scored.case, &outcome.window);
            }
        }
    }
    scored.ended = jiff::Timestamp::now();
    Ok(scored)
}

impl ScoredRun {
    fn take(&mut self, outcome: &RunOutcome) {
        self.found = found_in(&outcome.diagnosis);
        self.unnamed = outcome.diagnosis.time.as_ref().map(|time| time.unnamed);
        self.lost = outcome.repeated_share.filter(|_| cases::loses_what_it_repeats(&self.case.scenario));
        self.verdict_s = outcome.verdict_s;
        self.seen = outcome.seen_before.clone();
    }
}

fn found_in(diagnosis: &Diagnosis) -> Vec<Found> {
    let found = diagnosis.findings.iter().map(|finding| Found {
        cause: finding.cause.clone(),
        severity: finding.severity,
        score: finding.score,
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_the_lab_could_not_make_is_no_wrong_answer() {
        let case = Case {
            scenario: "row-lock-pileup".into(),
            flavor: Flavor::Mysql,
            server: None,
            strength: Strength::Severe,
            second: Some("user-lock-pileup".into()),
            seed: 7,
        };
        let found = |cause: &str| Found { cause: cause.into(), severity: Severity::Critical, score: 0.9 };
        let mut run = ScoredRun {
            build: "this".into(),
            ended: jiff::Timestamp::UNIX_EPOCH,
            case,
            label: Some("row-lock-pileup".into()),
            second_label: Some("user-lock-pileup".into()),
            seen: String::new(),
            found: vec![found("row-lock-pileup")],
            unnamed: None,
            lost: None,
            verdict_s: 10.0,
            error: None,
        };
        let name = "row-lock-pileup with user-lock-pileup on MySQL, seed 7";
        assert_eq!(line_of(&run), format!("wrong: {name} found [\"row-lock-pileup\"]"));
        run.found.push(found("user-lock-pileup"));
        assert!(line_of(&run).starts_with("right: "), "{}", line_of(&run));
        run.found.clear();
        run.error = Some("too many connections".into());
        assert_eq!(line_of(&run), format!("not made: {name}: too many connections"));
    }
}
