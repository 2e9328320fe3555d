//! `spindoctor fleet doctor`: every server is sampled twice by SQL, and judged by the rules.
//!
//! The servers are sampled on this thread, a task for each; a second thread runs the rules, so that the rules for one
//! server do not delay the samples of the others.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use spindoctor_collect::host::cpu_times::of_this_machine;
use spindoctor_export::hosts::recorded_hosts;
use spindoctor_fleet::examine::{Examination, Examined, KnownHost, channel, window_of};
use spindoctor_fleet::failure::Failures;
use spindoctor_model::host::{CpuModel, PauseLatency};
use tokio::sync::{mpsc, oneshot, watch};

use super::gathering::Gathering;
use super::report::Report;
use super::view::FleetDiagnosis;
use super::{json, text};
use crate::common::exit::ExitStatus;
use crate::common::session::note;
use crate::common::{output, terminal};
use crate::fleet::args::FleetDoctor;
use crate::fleet::query::{Names, connections_that_fit, interrupted_twice, report, wait_for};
use crate::fleet::servers::{Fleet, limits};
use crate::fleet::writer::Finished;
use spindoctor_page::safe::safe;

/// The tag that says how many CPUs a server is granted.
const CPUS: &str = "cpus";
/// The tag that says how long one PAUSE takes on its CPU, nanoseconds.
const PAUSE_NS: &str = "pause_ns";
/// The tag that says what its CPU is called.
const CPU: &str = "cpu";
/// The tag that says what a server is for.
const ROLE: &str = "role";
/// No server has more CPUs.
const MOST_CPUS: f64 = 4096.0;
/// No PAUSE is longer, nanoseconds: the longest that is known takes some 190 cycles.
const MOST_PAUSE_NS: f64 = 1_000.0;

/// Samples all servers, and reports.
pub fn run(asked: &FleetDoctor) -> anyhow::Result<ExitStatus> {
    let fleet = Fleet::from_flags(&asked.which, &asked.login)?;
    let listed = listed_hosts(&fleet)?;
    let recorded = asked.history.as_deref().map(recorded).transpose()?.unwrap_or_default();
    let mut limits = limits(&asked.login);
    limits.connections = connections_that_fit(limits.connections.min(fleet.targets.len()));
    let examination = Examination::new(fleet.targets.clone(), listed.into(), limits, asked.interval)
        .with_recorded(recorded);
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

/// What the tags say of each server's host.
fn listed_hosts(fleet: &Fleet) -> anyhow::Result<Vec<KnownHost>> {
    fleet.names.iter().zip(&fleet.tags).map(|(name, tags)| listed_host(name, tags)).collect()
}

fn listed_host(name: &str, tags: &BTreeMap<String, String>) -> anyhow::Result<KnownHost> {
    let number = |tag: &str, most: f64, wanted: &str| {
        let Some(text) = tags.get(tag) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number <= most => Ok(Some(number)),
            _ => bail!("{}: the tag {tag}={} is not {wanted}", safe(name), safe(text)),
        }
    };
    let granted_cpus = number(CPUS, MOST_CPUS, "a number of CPUs: cpus=16, cpus=0.5")?;
    let ns = number(PAUSE_NS, MOST_PAUSE_NS, "a number of nanoseconds up to 1000: pause_ns=10.9")?;
    let named = |name: &String| CpuModel { name: name.clone(), ..CpuModel::default() };
    Ok(KnownHost {
        granted_cpus,
        pause: ns.map(|ns| PauseLatency { ns, ..PauseLatency::default() }),
        cpu: tags.get(CPU).map(named),
    })
}

/// What recorders wrote down of their hosts in the folder that `record --parquet` fills.
fn recorded(folder: &Path) -> anyhow::Result<BTreeMap<String, KnownHost>> {
    let hosts = recorded_hosts(folder).with_context(|| format!("--history {}", folder.display()))?;
    for file in &hosts.unread {
        note(&format!("left out: {}", safe(file)));
    }
    let known = |host: spindoctor_export::hosts::RecordedHost| KnownHost {
        granted_cpus: host.granted_cpus,
        pause: host.pause,
        cpu: host.cpu,
    };
    Ok(hosts.by_server.into_iter().map(|(server, host)| (server, known(host))).collect())
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
        let begun = of_this_machine();
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
        let own_cpus_busy =
            begun.zip(of_this_machine()).and_then(|(begun, ended)| ended.busy_share_since(&begun));
        Judged { diagnosis: self.gathering.finish(own_cpus_busy), failures: self.failures }
    }
}
