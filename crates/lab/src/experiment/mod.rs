//! Experiments: published findings, measured again here by a trial, whatever the result.
//!
//! An experiment is a server, a load, and a change; a scenario is for the diagnosis, an experiment for the cure. The trial is
//! the tuner's own (`spindoctor_tune::trial`): blocks of both settings in random order, an interval, a verdict.

mod long_pause;
mod quota_spin;

use std::time::Duration;

use spindoctor_collect::host;
use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_model::{Change, Flavor, Trial, Tuning};
use spindoctor_tune::apply::{Settings, TakeOptions};
use spindoctor_tune::bench::{Bench, Event};
use spindoctor_tune::interrupt::Interrupts;
use spindoctor_tune::measure::Meter;
use spindoctor_tune::statistics::timing::Pace;
use spindoctor_tune::statistics::verdict::Terms;
use spindoctor_tune::trial::{self, Candidate, Times};
use spindoctor_tune::variables::Variable;
use tokio::sync::watch;

use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::load::{Load, LoadSpec};
use crate::server::{Server, ServerSpec};

/// Every experiment, in the order of the texts that they are from.
pub const EXPERIMENTS: &[&Experiment] = &[&quota_spin::EXPERIMENT, &long_pause::EXPERIMENT];

/// After a change, before a block is measured: the server looks at its CPU use once a second before it decides to spin
/// (`srv_master_thread`), so after two seconds it has seen nothing but the new setting.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a block is measured: fifty periods of a quota, and the load of a generator remembers for less than a second.
const MEASURE: Duration = Duration::from_secs(5);
/// How long the clients load the server before it is looked at.
const WARM_UP: Duration = Duration::from_secs(3);

/// A server, a load, and a change whose effect is measured.
#[derive(Debug)]
pub struct Experiment {
    /// What it is called.
    pub name: &'static str,
    /// What was found elsewhere, and how it is made here, in a paragraph.
    pub story: &'static str,
    /// The servers that it can be made on.
    pub flavors: &'static [Flavor],
    /// What it needs of the machine besides the server; empty where nothing.
    pub needs: &'static str,
    /// How it is made on this machine.
    setup: fn() -> Result<Setup>,
}

/// An experiment as it is made on this machine.
#[derive(Debug, Clone, PartialEq)]
struct Setup {
    /// The server, with the old setting; the caller fills in which.
    spec: ServerSpec,
    /// What its clients do.
    load: LoadSpec,
    /// What is tried: variable, old value, new value.
    changes: Vec<(&'static str, String, String)>,
    /// What the numbers of this machine made of it, in a sentence.
    text: String,
}

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct ExperimentOptions {
    /// On which server.
    pub which: Which,
    /// How long the trial may take.
    pub max_time: Duration,
    /// How settings are taken.
    pub take: TakeOptions,
}

/// The experiment of this name.
pub fn find_experiment(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name).copied()
}

/// Makes the server, loads it, measures both settings, ends the server. Ctrl-C ends the trial, which then is inconclusive;
/// before the trial it ends everything.
pub async fn run_experiment(
    home: &Home,
    experiment: &'static Experiment,
    options: &ExperimentOptions,
    report: &mut dyn FnMut(Event<'_>),
    progress: Progress<'_>,
) -> Result<Tuning> {
    let mut interrupts = Interrupts::listen().map_err(Error::file("listen for", "signals".as_ref()))?;
    let because = |because: String| Error::NotTried { experiment: experiment.name, because };
    let setup = (experiment.setup)()?;
    let flavor = Installation::find(home, &options.which, progress)?.version.flavor;
    if !experiment.flavors.contains(&flavor) {
        return Err(Error::NotOn { scenario: experiment.name, flavor });
    }
    progress(&format!("{}: starting the server", experiment.name));
    let spec = ServerSpec { which: options.which.clone(), ..setup.spec.clone() };
    let (server, mut load) = tokio::select! {
        loaded = loaded(home, &spec, setup.load, progress) => loaded?,
        _ = interrupts.next() => return Err(Error::Interrupted),
    };
    progress(&format!("{}: {}", experiment.name, setup.text));

    let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
    let live = host::Target::live(server.pid());
    let mut meter = Meter::connect(&target, Some(live)).await.map_err(|error| because(error.to_string()))?;
    let candidate =
        Candidate::checked(&setup.changes(), server.version()).map_err(|error| because(error.to_string()))?;
    let variables: Vec<&'static Variable> = candidate.new.iter().map(|(variable, _)| *variable).collect();
    let mut settings = Settings::take(&target, &variables, &options.take)
        .await
        .map_err(|error| because(error.to_string()))?;
    let (stop, stopped) = watch::channel(false);
    let tried = {
        let work = tried(&mut meter, &mut settings, &candidate, options.max_time, stopped, report);
        let mut work = std::pin::pin!(work);
        tokio::select! {
            tried = &mut work => tried,
            _ = interrupts.next() => {
                stop.send_replace(true);
                work.await
            }
        }
    };
    let restored = settings.restore().await;
    meter.close().await;
    let loaded = load.check();
    load.stop().await;
    server.stop()?;
    loaded?;
    let mut trial = tried.map_err(because)?;
    restored.map_err(|error| because(error.to_string()))?;
    trial.notes.insert(0, setup.text);
    Ok(Tuning {
        decided: trial,
        proposals: Vec::new(),
        searched: Vec::new(),
        settings: vec!["The server was a throw-away one, and is gone.".to_owned()],
    })
}

async fn loaded(
    home: &Home,
    spec: &ServerSpec,
    load: LoadSpec,
    progress: Progress<'_>,
) -> Result<(Server, Load)> {
    let server = Server::start(home, spec, progress).await?;
    let mut load = Load::start(server.socket(), load)?;
    tokio::time::sleep(WARM_UP).await;
    load.check()?;
    Ok((server, load))
}

async fn tried(
    meter: &mut Meter,
    settings: &mut Settings,
    candidate: &Candidate,
    max_time: Duration,
    stopped: watch::Receiver<bool>,
    report: &mut dyn FnMut(Event<'_>),
) -> std::result::Result<Trial, String> {
    let times = Times { settle: Some(SETTLE), measure: Some(MEASURE), pace: Pace::ThrowAway };
    let until = tokio::time::Instant::now() + max_time;
    let mut bench = Bench::open(meter, settings, times.look(), stopped, report)
        .await
        .map_err(|ended| ended.to_string())?;
    let mut below = |bound: usize| fastrand::usize(..bound.max(1));
    Ok(trial::run(&mut bench, candidate, &times, &Terms::default(), until, &mut below).await.trial)
}

impl Setup {
    fn changes(&self) -> Vec<Change> {
        let change = |(variable, from, to): &(&str, String, String)| Change {
            variable: (*variable).to_owned(),
            from: from.clone(),
            to: to.clone(),
        };
        self.changes.iter().map(change).collect()
    }

    /// The options that the server is started with, so that it has the old values.
    fn with_old_values(mut self) -> Self {
        let option =
            |(variable, from, _): &(&str, String, String)| format!("--{}={from}", variable.replace('_', "-"));
        self.spec.options.extend(self.changes.iter().map(option));
        self
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::ServerVersion;
    use spindoctor_tune::variables::find;

    use super::*;

    #[test]
    fn every_experiment_changes_what_may_be_changed() {
        let version = ServerVersion::parse("9.7.4", "MySQL").unwrap();
        for experiment in EXPERIMENTS {
            let setup = (experiment.setup)().unwrap();
            assert!(Candidate::checked(&setup.changes(), version).is_ok(), "{}", experiment.name);
            for (variable, from, to) in &setup.changes {
                assert!(find(variable).is_ok() && from != to, "{}: {variable}", experiment.name);
                let option = format!("--{}={from}", variable.replace('_', "-"));
                assert!(setup.spec.options.contains(&option), "{}: {option}", experiment.name);
            }
            assert_eq!(find_experiment(experiment.name).map(|found| found.name), Some(experiment.name));
        }
    }
}
