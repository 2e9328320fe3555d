//! Runs one scenario: server, problem, window, diagnosis, end.

use std::time::{Duration, Instant};

use serde::Serialize;
use spindoctor_collect::mysql::{Endpoint, Target};
use spindoctor_collect::plan_now;
use spindoctor_collect::watch::{Profiling, WatchOptions, watch};
use spindoctor_model::{Diagnosis, Flavor, Severity, Window};
use spindoctor_rules::causes::plan_change;

use super::{Scenario, Suffering, TABLES};
use crate::command::Progress;
use crate::draw::Draw;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::{Installation, Which};
use crate::load::LoadReport;
use crate::load::background::{Background, Beside};
use crate::server::{Server, ServerSpec};

/// How long the suffering may take to show.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to show again after the window: some suffering comes in waves, as a checkpoint
/// stall does, which ends whenever the pages are written and begins again when the log is full.
const PATIENCE_AFTER: Duration = Duration::from_secs(15);
/// How often it is looked for.
const EVERY: Duration = Duration::from_millis(200);
/// `max_connections` of a server that suffers twice. The usual 151 hold the sessions that one scenario draws, with the clients
/// beside it, and not those of two, which may be 241: 120 wait for a GTID, and 120 for a user lock that one more holds.
const ROOM_FOR_TWO: u32 = 300;

/// How a scenario is run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// On which server.
    pub which: Which,
    /// How long the window is.
    pub window: Duration,
    /// What is drawn for it; the usual values by default.
    pub draw: Draw,
    /// Clients that work beside it; none by default.
    pub beside: Option<Beside>,
    /// A second scenario on the same server, as the first one made it; none by default.
    pub second: Option<&'static Scenario>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            which: Which::Mysql,
            window: Duration::from_secs(10),
            draw: Draw::default(),
            beside: None,
            second: None,
        }
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
    /// Of the time that the lab's own clients spent in statements, by their own clocks, the share of those that repeat one, 0 to 1.
    /// None where there are no such clients, or sysbench's or those of a second scenario are at work, too.
    #[serde(skip)]
    pub repeated_share: Option<f64>,
    /// From the question to the answer, seconds.
    #[serde(skip)]
    pub verdict_s: f64,
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
    let (server, mut suffering, mut seen_before) = suffer_so(home, scenario, options, progress).await?;
    let second = match options.second {
        Some(second) => {
            let (suffering, seen) = make_suffer(&server, second, progress).await?;
            seen_before = format!("{seen_before}; {seen}");
            Some(suffering)
        }
        None => None,
    };
    let beside = match options.beside {
        Some(beside) => Some(Background::start(&server, beside, TABLES.rows).await?),
        None => None,
    };
    let begun = Instant::now();
    let clocks = || {
        let beside_s = beside.as_ref().map_or(0.0, Background::busy_s);
        (suffering.sessions.repeated_s(), suffering.sessions.single_s() + beside_s)
    };
    let before = clocks();
    progress(&format!(
        "{}: {seen_before}; watching for {:.0} s",
        scenario.name,
        options.window.as_secs_f64()
    ));

    let target = Target::new(Endpoint::Socket(server.socket().to_owned()), "root");
    let profiling = Some(Profiling::with(spindoctor_rules::FRAME_STATES));
    let watching = WatchOptions { profiling, ..WatchOptions::lasting(options.window) };
    let mut window = watch(&target, &watching, &mut |_| {})
        .await
        .map_err(|error| Error::NotWatched { scenario: scenario.name, because: error.to_string() })?;
    let after = clocks();
    if let Some(suspect) = plan_change::suspect(&window) {
        plan_now::read(&target, &suspect, &mut window).await;
    }
    let load = suffering.load_since(begun);
    let diagnosis = spindoctor_rules::diagnose(&window);
    let verdict_s = begun.elapsed().as_secs_f64();
    let (repeated_s, others_s) = (after.0 - before.0, after.1 - before.1);
    let are_all = suffering.load.is_none() && second.is_none() && repeated_s > 0.0;
    let repeated_share = are_all.then(|| repeated_s / (repeated_s + others_s));
    let seen_after = seen_within(PATIENCE_AFTER, scenario, &server, &mut suffering).await?;
    let version = server.version().to_string();
    let seconds = server.age().as_secs_f64();
    drop((suffering, second, beside));
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
        repeated_share,
        verdict_s,
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
    let options = RunOptions { which: which.clone(), ..RunOptions::default() };
    suffer_so(home, scenario, &options, progress).await
}

async fn suffer_so(
    home: &Home,
    scenario: &'static Scenario,
    options: &RunOptions,
    progress: Progress<'_>,
) -> Result<(Server, Suffering, String)> {
    let which = &options.which;
    let flavor = Installation::find(home, which, progress)?.version.flavor;
    if !scenario.flavors.contains(&flavor) {
        return Err(Error::NotOn { scenario: scenario.name, flavor });
    }
    let spec = spec_for(scenario, options, flavor);
    progress(&format!("{}: starting the server", scenario.name));
    let server = Server::start(home, &spec, progress).await?;
    let (suffering, seen) = make_suffer(&server, scenario, progress).await?;
    Ok((server, suffering, seen))
}

/// The server that a run needs.
fn spec_for(scenario: &Scenario, options: &RunOptions, flavor: Flavor) -> ServerSpec {
    let mut spec = (scenario.spec)(flavor);
    spec.which = options.which.clone();
    spec.draw = options.draw;
    if options.beside.is_some() || options.second.is_some() {
        spec.tables = spec.tables.or(Some(TABLES));
    }
    // Where a scenario is about the room itself it has set it.
    let sets_room = spec.options.iter().any(|option| option.starts_with("--max-connections="));
    if options.second.is_some() && !sets_room {
        spec.options.push(format!("--max-connections={ROOM_FOR_TWO}"));
    }
    spec
}

async fn make_suffer(
    server: &Server,
    scenario: &'static Scenario,
    progress: Progress<'_>,
) -> Result<(Suffering, String)> {
    progress(&format!("{}: making it suffer", scenario.name));
    let mut suffering = (scenario.begin)(server).await?;
    match seen_within(PATIENCE, scenario, server, &mut suffering).await? {
        Some(seen) => Ok((suffering, seen)),
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
        // A server that suffers may not answer at all.
        let left = patience.saturating_sub(start.elapsed());
        match tokio::time::timeout(left, (scenario.symptom)(server, suffering)).await {
            Ok(seen) => {
                if let Some(seen) = seen? {
                    return Ok(Some(seen));
                }
            }
            Err(_) => return Ok(None),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    fn room(name: &str, second: Option<&str>) -> Vec<String> {
        let second = second.map(|second| find(second).unwrap());
        let options = RunOptions { second, ..RunOptions::default() };
        let mut set = spec_for(find(name).unwrap(), &options, Flavor::Mysql).options;
        set.retain(|option| option.starts_with("--max-connections="));
        set
    }

    #[test]
    fn a_server_that_suffers_twice_has_room_for_the_sessions_of_both() {
        let both = format!("--max-connections={ROOM_FOR_TWO}");
        assert_eq!(room("row-lock-pileup", Some("user-lock-pileup")), [both]);
        assert!(room("row-lock-pileup", None).is_empty());
        assert_eq!(room("connections-exhausted", Some("user-lock-pileup")), ["--max-connections=20"]);
    }
}
