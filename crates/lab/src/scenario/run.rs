//! Runs one scenario: server, problem, window, diagnosis, end.

use std::time::{Duration, Instant};

use serde::Serialize;
use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_collect::watch::{Profiling, WatchOptions, watch};
use spindoctor_model::{Diagnosis, Severity, Window};

use super::{Scenario, Suffering};
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::load::LoadReport;
use crate::server::Server;

/// How long the suffering may take to show.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to show again after the window: some suffering comes in waves, as a checkpoint
/// stall does, which ends whenever the pages are written and begins again when the log is full.
const PATIENCE_AFTER: Duration = Duration::from_secs(15);
/// How often it is looked for.
const EVERY: Duration = Duration::from_millis(200);

/// How a scenario is run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// On which server.
    pub which: Which,
    /// How long the window is.
    pub window: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { which: Which::Mysql, window: Duration::from_secs(10) }
    }
}

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunOutcome {
    /// The scenario's name.
    pub scenario: &'static str,
    /// Its label: the cause to be named first; None where nothing above a note may be found.
    pub label: Option<&'static str>,
    /// `MySQL 9.7.4`.
    pub server: String,
    /// What the scenario itself saw of the suffering, before the window.
    pub seen_before: String,
    /// And after it; None where it had ended.
    pub seen_after: Option<String>,
    /// How the clients fared during the window, where sysbench was among them.
    pub load: Option<LoadReport>,
    /// The window that was watched.
    #[serde(skip)]
    pub window: Window,
    /// What the rules made of it.
    pub diagnosis: Diagnosis,
    /// True where the label was named first (healthy: where nothing above a note was found).
    pub named_first: bool,
    /// From the start of the server to its end, seconds.
    pub seconds: f64,
}

/// Runs a scenario. Ctrl-C ends it, and everything that it started.
pub async fn run(
    home: &Home,
    scenario: &'static Scenario,
    options: &RunOptions,
    progress: Progress<'_>,
) -> Result<RunOutcome> {
    tokio::select! {
        outcome = uninterrupted(home, scenario, options, progress) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Error::Interrupted),
    }
}

async fn uninterrupted(
    home: &Home,
    scenario: &'static Scenario,
    options: &RunOptions,
    progress: Progress<'_>,
) -> Result<RunOutcome> {
    let (server, mut suffering, seen_before) = suffer(home, scenario, &options.which, progress).await?;
    let begun = Instant::now();
    progress(&format!(
        "{}: {seen_before}; watching for {:.0} s",
        scenario.name,
        options.window.as_secs_f64()
    ));

    let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
    let profiling = Some(Profiling::with(spindoctor_rules::FRAME_STATES));
    let watching = WatchOptions { profiling, ..WatchOptions::lasting(options.window) };
    let window = watch(&target, &watching, &mut |_| {})
        .await
        .map_err(|error| Error::NotWatched { scenario: scenario.name, because: error.to_string() })?;
    let load = suffering.load_since(begun);
    let diagnosis = spindoctor_rules::diagnose(&window);
    let seen_after = seen_within(PATIENCE_AFTER, scenario, &server, &mut suffering).await?;
    let version = server.version().to_string();
    let seconds = server.age().as_secs_f64();
    drop(suffering);
    server.stop()?;
    Ok(RunOutcome {
        scenario: scenario.name,
        label: scenario.label,
        server: version,
        seen_before,
        seen_after,
        load,
        window,
        named_first: named_first(scenario.label, &diagnosis),
        diagnosis,
        seconds,
    })
}

/// Starts the server and makes it suffer; returns when the scenario's own readings show it.
pub(crate) async fn suffer(
    home: &Home,
    scenario: &'static Scenario,
    which: &Which,
    progress: Progress<'_>,
) -> Result<(Server, Suffering, String)> {
    let flavor = Installation::find(home, which, progress)?.version.flavor;
    if !scenario.flavors.contains(&flavor) {
        return Err(Error::NotOn { scenario: scenario.name, flavor });
    }
    let mut spec = (scenario.spec)(flavor);
    spec.which = which.clone();
    progress(&format!("{}: starting the server", scenario.name));
    let server = Server::start(home, &spec, progress).await?;
    progress(&format!("{}: making it suffer", scenario.name));
    let mut suffering = (scenario.begin)(&server).await?;
    match seen_within(PATIENCE, scenario, &server, &mut suffering).await? {
        Some(seen) => Ok((server, suffering, seen)),
        None => Err(Error::NoSymptom { scenario: scenario.name, seconds: PATIENCE.as_secs() }),
    }
}

/// Looks at the server until it is seen to suffer; None where it is not within this time.
async fn seen_within(
    patience: Duration,
    scenario: &Scenario,
    server: &Server,
    suffering: &mut Suffering,
) -> Result<Option<String>> {
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Some(seen) = (scenario.symptom)(server, suffering).await? {
            return Ok(Some(seen));
        }
        if let Some(load) = &mut suffering.load {
            load.check()?;
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(None)
}

fn named_first(label: Option<&str>, diagnosis: &Diagnosis) -> bool {
    match label {
        Some(cause) => diagnosis.findings.first().is_some_and(|finding| finding.cause == cause),
        None => diagnosis.findings.iter().all(|finding| finding.severity <= Severity::Note),
    }
}
