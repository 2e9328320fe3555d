//! `spindoctor lab`: throw-away servers, for people and for tests of the diagnosis.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Serialize;
use spindoctor_collect::priority::Ahead;
use spindoctor_lab::experiment::{Experiment, ExperimentOptions, find_experiment, run_experiment};
use spindoctor_lab::load::Tables;
use spindoctor_lab::matrix::{self, CELLS, MatrixOptions, PLACES, Place, Row};
use spindoctor_lab::scenario::{self, RunOptions, RunOutcome, Scenario};
use spindoctor_lab::score::{self, Case, ScoreOptions, ScoredRun};
use spindoctor_lab::storm::{self, Storm, StormOptions};
use spindoctor_lab::{
    Data, Draw, EXPERIMENTS, Home, Installation, KNOWN, Known, Limits, Listed, Protocol, SCENARIOS, Server,
    ServerSpec, Which, down, list, place, up,
};
use spindoctor_lab::{capture, kept};
use spindoctor_model::{Flavor, Window};
use spindoctor_tune::apply::TakeOptions;
use spindoctor_tune::bench::Event;
use spindoctor_tune::log;

use super::accuracy::{self, Conditions};
use super::args::{Lab, LabCapture, LabInstall, LabMatrix, LabProgram, LabProtocol, LabRun, LabScore, LabUp};
use super::{support, text};
use crate::common::exit::ExitStatus;
use crate::common::names::nearest;
use crate::common::runtime::wait_for;
use crate::common::{output, terminal, window_file};
use crate::doctor::html;
use crate::locks;
use crate::tune::{ProgressLine, html as tune_html, view as tune_view};
use spindoctor_page::{json, number};

/// Runs one of the lab's commands.
pub fn run(asked: &Lab) -> anyhow::Result<ExitStatus> {
    let home = Home::open()?;
    match asked {
        Lab::List(asked) if asked.servers => show_known(&home, asked.json)?,
        Lab::List(asked) => show(&list(&home)?, SCENARIOS, EXPERIMENTS, asked.json)?,
        Lab::Install(asked) => install(&home, asked)?,
        Lab::Up(asked) => show(&[wait_for(start(&home, asked))?], &[], &[], asked.json)?,
        Lab::Down(asked) => down(&home, &asked.name)?,
        Lab::Run(asked) => return run_scenario(&home, asked),
        Lab::Score(asked) => return score(&home, asked),
        Lab::Capture(asked) => return make_captures(&home, asked),
        Lab::Matrix(asked) => return matrix(&home, asked),
    }
    Ok(ExitStatus::Done)
}

fn install(home: &Home, asked: &LabInstall) -> anyhow::Result<()> {
    let servers = match (asked.all, &asked.servers[..]) {
        (true, _) => every_known().collect(),
        (false, []) => vec![Which::Mysql, Which::Mariadb],
        (false, servers) => servers.to_owned(),
    };
    for which in servers {
        let installed = Installation::find(home, &which, &announce)?;
        output::print(&format!("{} in {}\n", installed.version, installed.basedir.display()))?;
    }
    Ok(())
}

fn every_known() -> impl Iterator<Item = Which> {
    KNOWN.iter().filter_map(|known| Which::by_name(known.name))
}

/// Starts a server that stays; Ctrl-C before it is up ends it, and leaves nothing.
async fn start(home: &Home, asked: &LabUp) -> anyhow::Result<Listed> {
    let spec = ServerSpec {
        which: which(&asked.server.which),
        name: Some(asked.name.clone()),
        data: data(&asked.server.data),
        limits: Limits { quota_cpus: asked.quota, cpuset: asked.cpuset.clone(), ..Limits::default() },
        tables: (asked.tables > 0).then_some(Tables { count: asked.tables, rows: asked.rows }),
        options: asked.options.clone(),
        ..ServerSpec::default()
    };
    tokio::select! {
        started = up(home, &spec, &announce) => Ok(started?),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("could not listen for Ctrl-C")?;
            bail!("interrupted; the server was ended again")
        }
    }
}

/// One scenario: the story, the diagnosis, and whether it named the label first.
fn run_scenario(home: &Home, asked: &LabRun) -> anyhow::Result<ExitStatus> {
    if let Some(experiment) = find_experiment(&asked.scenario) {
        return experiment_run(home, asked, experiment);
    }
    if asked.scenario == storm::NAME {
        return storm_run(home, asked);
    }
    if asked.rate.is_some() {
        bail!("--rate is for {}; {} has a load of its own", storm::NAME, asked.scenario);
    }
    let scenario = find(&asked.scenario)?;
    let which = which(&asked.which);
    if !asked.command.is_empty() {
        let command = |server: &Server| command_on(server, &asked.command);
        let ended = wait_for(async {
            Ok(match asked.calm_first {
                Some(calm_for) => {
                    expect_onset(scenario)?;
                    scenario::through(home, scenario, &which, calm_for, command, &announce).await?
                }
                None => scenario::during(home, scenario, &which, command, &announce).await?,
            })
        })?;
        // None where a signal ended it: that is no result.
        let code = ended.code().and_then(|code| u8::try_from(code).ok());
        return Ok(code.map_or(ExitStatus::Failed, ExitStatus::Command));
    }
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    if let Some(file) = &asked.save_window {
        output::expect_writable(file, output::WINDOW)?;
    }
    let protocol = asked.protocol.map(|protocol| match protocol {
        LabProtocol::Text => Protocol::Text,
        LabProtocol::Prepared => Protocol::Prepared,
    });
    let options =
        RunOptions { which, window: asked.duration, draw: Draw::usual(protocol), ..RunOptions::default() };
    let outcome = wait_for(async { Ok(scenario::run(home, scenario, &options, &announce).await?) })?;
    if let Some(file) = &asked.save_window {
        window_file::save(file, &outcome.window)?;
    }
    if let Some(file) = &asked.html {
        let waits = locks::of_window(&outcome.window);
        output::write_file(
            file,
            html::render(&outcome.diagnosis, outcome.window.profile.value(), waits.as_ref()),
            "the HTML report",
        )?;
    }
    output::print(&match asked.json {
        true => json::to_text(&Versioned::<RunOutcome> { schema: "spindoctor.lab-run/1", content: &outcome })
            .context("could not write the run as JSON")?,
        false => text::run(scenario, &outcome, terminal::look_of_stdout()),
    })?;
    Ok(if outcome.named_first { ExitStatus::Done } else { ExitStatus::Findings })
}

/// One experiment: the story, and the trial's verdict with its intervals.
fn experiment_run(
    home: &Home,
    asked: &LabRun,
    experiment: &'static Experiment,
) -> anyhow::Result<ExitStatus> {
    if !asked.command.is_empty() || asked.save_window.is_some() {
        bail!(
            "{} is an experiment: it has no window to save, and no command runs meanwhile",
            experiment.name
        );
    }
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    let options = ExperimentOptions {
        which: which(&asked.which),
        max_time: asked.max_time,
        take: TakeOptions::of_process()?,
    };
    let shown = ProgressLine::new(asked.max_time);
    let mut tell_of = |event: Event<'_>| shown.event(&event);
    let mut tuning = wait_for(async {
        let _ahead = Ahead::of_others();
        Ok(run_experiment(home, experiment, &options, &mut tell_of, &announce).await?)
    })?;
    shown.finish();
    match log::append(&options.take.state, &tuning) {
        Ok(file) => tuning.settings.push(format!("Logged in {}.", file.display())),
        Err(why) => announce(&format!("the trial could not be logged: {why}")),
    }
    if let Some(file) = &asked.html {
        output::write_file(file, tune_html::render(&tuning), "the HTML report")?;
    }
    output::print(&match asked.json {
        true => tune_view::to_json(&tuning).context("could not write the trial as JSON")?,
        false => text::experiment(experiment, &tuning, terminal::look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}

/// A storm of connections on each setting: the highest rate that is sustained, and what breaks first.
fn storm_run(home: &Home, asked: &LabRun) -> anyhow::Result<ExitStatus> {
    if !asked.command.is_empty() || asked.save_window.is_some() || asked.html.is_some() {
        bail!("{} has neither a window nor a diagnosis, and no command runs meanwhile", storm::NAME);
    }
    let options = StormOptions {
        which: which(&asked.which),
        rate: asked.rate,
        round: asked.duration.min(STORM_ROUND),
        max_time: asked.max_time,
    };
    let storm = wait_for(async {
        let _ahead = Ahead::of_others();
        Ok(storm::storm(home, &options, &announce).await?)
    })?;
    output::print(&match asked.json {
        true => json::to_text(&Versioned::<Storm> { schema: "spindoctor.storm/1", content: &storm })
            .context("could not write the storm as JSON")?,
        false => text::storm(&storm, terminal::look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}

/// Each rate of a storm is tried for no longer: a queue that grows shows within two seconds, and a search takes some ten
/// rates on each of five settings.
const STORM_ROUND: Duration = Duration::from_secs(2);

/// The user's command, with `{socket}`, `{port}` and `{pid}` standing for the server's.
fn command_on(server: &Server, words: &[String]) -> Command {
    let places = [
        ("{socket}", server.socket().display().to_string()),
        ("{port}", server.port().to_string()),
        ("{pid}", server.pid().to_string()),
    ];
    let mut filled = words
        .iter()
        .map(|word| places.iter().fold(word.clone(), |word, (place, value)| word.replace(place, value)));
    let mut command = Command::new(filled.next().unwrap_or_default());
    command.args(filled);
    command
}

/// Counts how often the right cause was named first; nine in ten is the least.
fn score(home: &Home, asked: &LabScore) -> anyhow::Result<ExitStatus> {
    let names =
        asked.scenarios.iter().map(|name| Ok(find(name)?.name)).collect::<anyhow::Result<Vec<_>>>()?;
    let build = build()?;
    let server = match &asked.server {
        None => None,
        Some(which) => {
            let known = KNOWN.iter().find(|known| Which::by_name(known.name).as_ref() == Some(which));
            Some(known.context("only a server of `lab list --servers` can be scored")?)
        }
    };
    let options = ScoreOptions {
        names: &names,
        server,
        rounds: asked.runs.into(),
        seed: asked.seed,
        window: asked.duration,
        within: asked.within,
        build: &build,
    };
    let keep_wrong = |case: &Case, window: &Window| keep_wrong(home, case, window);
    let runs = wait_for(async {
        tokio::select! {
            runs = score::score(home, &options, &announce, &keep_wrong) => Ok(runs?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("could not listen for Ctrl-C")?;
                bail!("interrupted; runs that had ended are kept, and the same command goes on with the next")
            }
        }
    })?;
    if let Some(file) = &asked.markdown {
        let conditions = Conditions {
            window: asked.duration,
            machine: &spindoctor_lab::machine(),
            commit: asked.commit.as_deref(),
            seed: asked.seed,
        };
        output::write_file(file, accuracy::markdown(&runs, &conditions), "the score")?;
    }
    output::print(&match asked.json {
        true => json::to_text(&Versioned { schema: "spindoctor.score/2", content: &Runs { runs: &runs } })
            .context("could not write the score as JSON")?,
        false => accuracy::text(&runs, terminal::look_of_stdout()),
    })?;
    let right = runs.iter().filter(|run| run.is_right()).count();
    Ok(if right * 10 >= runs.len() * 9 { ExitStatus::Done } else { ExitStatus::Findings })
}

/// Keeps what was read where the diagnosis was not right, for `doctor --window`: such a run may not come again.
fn keep_wrong(home: &Home, case: &Case, window: &Window) {
    let flavor = case.flavor.to_string().to_lowercase();
    let server = case.server.as_deref().unwrap_or(&flavor);
    let folder = home.root().join("wrong");
    let file = folder.join(format!("{}-{server}-{}.json.gz", case.scenario, case.seed));
    let kept =
        fs::create_dir_all(&folder).map_err(Into::into).and_then(|()| window_file::save(&file, window));
    announce(&match kept {
        Ok(()) => format!("what was read is in {}", file.display()),
        Err(error) => format!("what was read is not kept: {error:#}"),
    });
}

/// Names this build of the program, as no other is named: its version and a number of its file.
fn build() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("could not find this program")?;
    Ok(format!("{} {:016x}", env!("CARGO_PKG_VERSION"), kept::number_of_build(&program)?))
}

/// Writes the corpus, or the part of it that was asked for.
fn make_captures(home: &Home, asked: &LabCapture) -> anyhow::Result<ExitStatus> {
    if asked.list {
        let line = |capture: &capture::Capture| format!("{:<28} {}\n", capture.name, capture.trouble);
        output::print(&capture::CAPTURES.iter().map(line).collect::<String>())?;
        return Ok(ExitStatus::Done);
    }
    for name in &asked.only {
        if capture::find(name).is_none() {
            let names = capture::CAPTURES.iter().map(|capture| capture.name);
            bail!(
                "there is no capture named {name:?}; {}",
                nearest(name, names, "spindoctor lab capture --list")
            )
        }
    }
    let mut servers = Vec::new();
    for folder in &asked.basedir {
        let is_server = ["bin", "sbin", "libexec", "usr/sbin"]
            .iter()
            .any(|below| ["mysqld", "mariadbd"].iter().any(|name| folder.join(below).join(name).is_file()));
        match is_server {
            true => servers.push(Which::Basedir(folder.clone())),
            false => servers.extend(capture::servers_below(folder).into_iter().map(Which::Basedir)),
        }
    }
    match (asked.all, &asked.server[..]) {
        (true, _) => servers.extend(every_known()),
        (false, []) if !asked.no_installed => servers.extend([Which::Mysql, Which::Mariadb]),
        (false, named) => servers.extend(named.iter().cloned()),
    }
    let options = capture::Options { into: asked.into.clone(), servers, only: asked.only.clone() };
    let made = wait_for(async {
        tokio::select! {
            made = capture::run(home, &options, &announce) => Ok(made?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("could not listen for Ctrl-C")?;
                bail!("interrupted; the server was ended, and files that were written stay")
            }
        }
    })?;
    let captures = number::counted(made.files.len() as u64, "capture", "captures");
    output::print(&format!("{captures} in {}\n", asked.into.display()))?;
    for failed in &made.failed {
        output::print(&format!("not made: {failed}\n"))?;
    }
    Ok(if made.failed.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Every command on every server that was asked for, one row after the other.
fn matrix(home: &Home, asked: &LabMatrix) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.markdown {
        output::expect_writable(file, output::MARKDOWN)?;
    }
    for command in &asked.only {
        if !CELLS.iter().any(|cell| cell.command == command) {
            let names = CELLS.iter().map(|cell| cell.command);
            bail!("the matrix has no command {command:?}; {}", nearest(command, names, "SUPPORT.md"))
        }
    }
    for place in &asked.place {
        if matrix::place(place).is_none() {
            bail!(
                "the matrix has no place {place:?}; {}",
                nearest(place, PLACES.iter().map(|place| place.name), "SUPPORT.md")
            )
        }
    }
    let program = std::env::current_exe().context("could not find this program")?;
    let mut rows = Vec::new();
    for (known, place) in wanted_rows(asked) {
        let options =
            MatrixOptions { program: &program, is_short: asked.short, commands: &asked.only, place };
        let which = Which::by_name(known.name).context("a known server has its name")?;
        let row = wait_for(async {
            tokio::select! {
                row = matrix::row(home, &which, known.name, &options, &announce) => Ok(row?),
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted.context("could not listen for Ctrl-C")?;
                    bail!("interrupted; the server was ended")
                }
            }
        })?;
        if !asked.json {
            output::print(&support::text(&row))?;
        }
        rows.push(row);
    }
    if asked.json {
        let content = Rows { rows: &rows };
        let text = json::to_text(&Versioned { schema: "spindoctor.matrix/1", content: &content });
        output::print(&text.context("could not write the matrix as JSON")?)?;
    }
    if let Some(file) = &asked.markdown {
        let page = support::markdown(&rows, &spindoctor_lab::machine(), asked.commit.as_deref());
        output::write_file(file, page, "the support table")?;
    }
    let is_right = rows.iter().all(|row| row.wrong().next().is_none());
    Ok(if is_right { ExitStatus::Done } else { ExitStatus::Findings })
}

/// The rows that were asked for: servers as their packages make them, then those of places. A server alone means its plain row.
fn wanted_rows(asked: &LabMatrix) -> Vec<(&'static Known, Option<&'static Place>)> {
    let is_server = |known: &Known| {
        asked.server.is_empty()
            || asked.server.iter().any(|which| Which::by_name(known.name).as_ref() == Some(which))
    };
    let is_place =
        |place: &Place| asked.place.is_empty() || asked.place.iter().any(|name| name == place.name);
    let mut rows = Vec::new();
    if asked.place.is_empty() {
        rows.extend(KNOWN.iter().filter(|known| is_server(known)).map(|known| (known, None)));
    }
    if asked.server.is_empty() || !asked.place.is_empty() {
        for place in PLACES.iter().filter(|place| is_place(place)) {
            let servers =
                KNOWN.iter().filter(|known| place.servers.contains(&known.name) && is_server(known));
            rows.extend(servers.map(|known| (known, Some(place))));
        }
    }
    rows
}

fn find(name: &str) -> anyhow::Result<&'static Scenario> {
    match scenario::find(name) {
        Some(scenario) => Ok(scenario),
        None => {
            let experiments = EXPERIMENTS.iter().map(|experiment| experiment.name);
            let names =
                SCENARIOS.iter().map(|scenario| scenario.name).chain(experiments).chain([storm::NAME]);
            bail!("there is no scenario named {name:?}; {}", nearest(name, names, "spindoctor lab list"))
        }
    }
}

fn expect_onset(scenario: &Scenario) -> anyhow::Result<()> {
    if scenario.onset.is_none() {
        let names: Vec<&str> = scenario::with_onset().map(|scenario| scenario.name).collect();
        bail!("{} does not begin from calm; these do: {}", scenario.name, names.join(", "));
    }
    Ok(())
}

/// What the lab does meanwhile.
pub fn announce(doing: &str) {
    output::note(&format!("lab: {doing}"));
}

pub fn which(asked: &LabProgram) -> Which {
    match &asked.basedir {
        Some(folder) => Which::Basedir(folder.clone()),
        None => asked.server.clone(),
    }
}

pub fn data(place: &Path) -> Data {
    match place.to_str() {
        Some("tmpfs") => Data::Tmpfs,
        Some("disk") => Data::Disk,
        _ => Data::In(place.to_owned()),
    }
}

/// A result with the name and version of its form.
#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// A score for machines.
#[derive(Serialize)]
struct Runs<'a> {
    runs: &'a [ScoredRun],
}

/// The matrix for machines.
#[derive(Serialize)]
struct Rows<'a> {
    rows: &'a [Row],
}

/// The lab for machines.
#[derive(Serialize)]
struct Lists<'a> {
    schema: &'static str,
    scenarios: Vec<ScenarioEntry>,
    experiments: Vec<ExperimentEntry>,
    servers: &'a [Listed],
}

#[derive(Serialize)]
struct ScenarioEntry {
    scenario: &'static str,
    label: Option<&'static str>,
    story: &'static str,
    flavors: &'static [Flavor],
    needs: &'static str,
}

#[derive(Serialize)]
struct ExperimentEntry {
    experiment: &'static str,
    story: &'static str,
    flavors: &'static [Flavor],
    needs: &'static str,
}

/// The servers that can be had by name, for machines.
#[derive(Serialize)]
struct KnownList {
    schema: &'static str,
    known: Vec<KnownEntry>,
}

#[derive(Serialize)]
struct KnownEntry {
    name: &'static str,
    also: Option<&'static str>,
    flavor: Flavor,
    version: &'static str,
    origin: String,
    needs: &'static str,
    folder: Option<PathBuf>,
}

fn show_known(home: &Home, as_json: bool) -> anyhow::Result<()> {
    let known: Vec<(&Known, Option<PathBuf>)> =
        KNOWN.iter().map(|known| (known, place(home, known))).collect();
    if !as_json {
        return output::print(&text::known(&known, terminal::look_of_stdout()));
    }
    let entry = |(known, folder): (&'static Known, Option<PathBuf>)| KnownEntry {
        name: known.name,
        also: known.also,
        flavor: known.flavor,
        version: known.version,
        origin: known.origin(),
        needs: known.needs(),
        folder,
    };
    let list = KnownList { schema: "spindoctor.lab/1", known: known.into_iter().map(entry).collect() };
    output::print(&json::to_text(&list).context("could not write the lab's servers as JSON")?)
}

fn show(
    servers: &[Listed],
    scenarios: &'static [&'static Scenario],
    experiments: &'static [&'static Experiment],
    as_json: bool,
) -> anyhow::Result<()> {
    if !as_json {
        return output::print(&text::lists(scenarios, experiments, servers, terminal::look_of_stdout()));
    }
    let entry = |scenario: &&'static Scenario| ScenarioEntry {
        scenario: scenario.name,
        label: scenario.label,
        story: scenario.story,
        flavors: scenario.flavors,
        needs: scenario.needs,
    };
    let experiment = |experiment: &&'static Experiment| ExperimentEntry {
        experiment: experiment.name,
        story: experiment.story,
        flavors: experiment.flavors,
        needs: experiment.needs,
    };
    let lists = Lists {
        schema: "spindoctor.lab/1",
        scenarios: scenarios.iter().map(entry).collect(),
        experiments: experiments.iter().map(experiment).collect(),
        servers,
    };
    output::print(&json::to_text(&lists).context("could not write the lab's lists as JSON")?)
}
