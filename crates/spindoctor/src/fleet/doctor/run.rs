//! `spindoctor fleet doctor`: every server is sampled twice by SQL, and judged by the rules.
//!
//! The servers are sampled on this thread, a task for each; a second thread runs the rules, so that the rules for one
//! server do not delay the samples of the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use spindoctor_fleet::examine::{Examination, Examined, channel, window_of};
use spindoctor_fleet::failure::Failures;
use tokio::sync::{mpsc, oneshot, watch};

use super::gathering::Gathering;
use super::report::Report;
use super::view::FleetDiagnosis;
use super::{json, text};
use crate::common::exit::ExitStatus;
use crate::common::{output, terminal};
use crate::fleet::args::FleetDoctor;
use crate::fleet::query::{Names, connections_that_fit, interrupted_twice, report, wait_for};
use crate::fleet::servers::{Fleet, limits};
use crate::fleet::writer::Finished;
use spindoctor_page::safe::safe;

/// The tag that says how many CPUs a server is granted.
const CPUS: &str = "cpus";
/// The tag that says what a server is for.
const ROLE: &str = "role";
/// No server has more CPUs.
const MOST_CPUS: f64 = 4096.0;

/// Samples all servers, and reports.
pub fn run(asked: &FleetDoctor) -> anyhow::Result<ExitStatus> {
    let fleet = Fleet::from_flags(&asked.which, &asked.login)?;
    let granted = granted_cpus(&fleet)?;
    let mut limits = limits(&asked.login);
    limits.connections = connections_that_fit(limits.connections.min(fleet.targets.len()));
    let examination = Examination::new(fleet.targets.clone(), granted.into(), limits, asked.interval);
    let begun = Instant::now();
    let (judged, left) = wait_for(examine_all(&examination, Judge::for_fleet(&fleet)))?;
    let text = Report {
        diagnosis: &judged.diagnosis,
        names: &fleet.names,
        failures: &judged.failures,
        not_asked: &left,
        interval_s: asked.interval.as_secs_f64(),
        took_s: begun.elapsed().as_secs_f64(),
    };
    match asked.json {
        true => output::print(&json::render(&text)?)?,
        false => output::print(&text::render(&text, terminal::look_of_stdout()))?,
    }
    let finished =
        Finished { answered: judged.diagnosis.judged, failures: judged.failures, notes: Vec::new() };
    report(&fleet, &finished, &left, begun)
}

/// The CPUs that the tags grant.
fn granted_cpus(fleet: &Fleet) -> anyhow::Result<Vec<Option<f64>>> {
    let of = |name: &String, tags: &BTreeMap<String, String>| {
        let Some(text) = tags.get(CPUS) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(cpus) if cpus > 0.0 && cpus <= MOST_CPUS => Ok(Some(cpus)),
            _ => {
                bail!(
                    "{}: the tag {CPUS}={} is not a number of CPUs: cpus=16, cpus=0.5",
                    safe(name),
                    safe(text)
                )
            }
        }
    };
    fleet.names.iter().zip(&fleet.tags).map(|(name, tags)| of(name, tags)).collect()
}

/// Looks at everybody; what comes goes to the judge on a thread of its own.
async fn examine_all(examination: &Examination, judge: Judge) -> anyhow::Result<(Judged, Vec<usize>)> {
    let (sender, examined) = channel();
    let (done, judged) = oneshot::channel();
    std::thread::Builder::new()
        .name("judge".to_owned())
        // Nobody may listen any more: after a second Ctrl-C.
        .spawn(move || drop(done.send(judge.all(examined))))
        .context("could not start a thread")?;
    let (stop, stopped) = watch::channel(false);
    let examining = async {
        let left = examination.all(stopped, sender).await;
        (judged.await, left)
    };
    tokio::select! {
        (judged, left) = examining => Ok((judged.context("the judge ended in the middle")?, left)),
        error = interrupted_twice(&stop) => Err(error),
    }
}

/// Judges windows as they come.
struct Judge {
    names: Names,
    roles: Vec<Option<String>>,
    gathering: Gathering,
    failures: Failures,
}

/// What came of it.
struct Judged {
    diagnosis: FleetDiagnosis,
    failures: Failures,
}

impl Judge {
    fn for_fleet(fleet: &Fleet) -> Self {
        Self {
            names: Arc::clone(&fleet.names),
            roles: fleet.tags.iter().map(|tags| tags.get(ROLE).cloned()).collect(),
            gathering: Gathering::default(),
            failures: Failures::default(),
        }
    }

    fn all(mut self, mut examined: mpsc::Receiver<Examined>) -> Judged {
        while let Some((server, window)) = examined.blocking_recv() {
            match window {
                Ok(window) => self.gathering.add(server, self.roles[server].as_deref(), &window),
                Err(failure) => {
                    if let Some(window) = window_of(&failure, &self.names[server]) {
                        self.gathering.refused(server, &window);
                    }
                    self.failures.add(server, &failure);
                }
            }
        }
        Judged { diagnosis: self.gathering.finish(), failures: self.failures }
    }
}
