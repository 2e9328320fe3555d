//! `spindoctor tune --apply`: trials of changes on a live server; helpful changes are kept, all others are put back.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use spindoctor_collect::host;
use spindoctor_collect::mysql::Target;
use spindoctor_collect::priority::Ahead;
use spindoctor_collect::watch::Profiling;
use spindoctor_model::{Change, Plan, Proposal, Remedy, Tuning, Verdict};
use spindoctor_rules::proposals::risk;
use spindoctor_tune::apply::{
    ApplyError, Persisted, Restored, Settings, TakeOptions, UndoMade, expect_possible,
};
use spindoctor_tune::bench::{Bench, Ended};
use spindoctor_tune::interrupt::Interrupts;
use spindoctor_tune::log;
use spindoctor_tune::measure::Meter;
use spindoctor_tune::statistics::margins::Margins;
use spindoctor_tune::statistics::timing::Pace;
use spindoctor_tune::statistics::verdict::Terms;
use spindoctor_tune::trial::{Times, slowest};
use spindoctor_tune::tuning::{NothingTried, Tuned, TuningOptions, tune};
use spindoctor_tune::undo as undo_names;
use spindoctor_tune::variables::{Variable, find};
use tokio::sync::watch;

use super::args::Tune;
use super::progress::ProgressLine;
use super::view::to_json;
use super::{html, text, undo};
use crate::common::exit::ExitStatus;
use crate::common::runtime::wait_for;
use crate::common::session::{WithoutSession, note, process};
use crate::common::{output, session, terminal};
use crate::tune::plan::run as plan_run;

/// Tries, keeps what helps, and reports.
pub fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let begun = Instant::now();
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    let wanted = Wanted::parse(&asked.only)?;
    let mut proposals = Vec::new();
    if !wanted.are_all_given() {
        let plan = planned(asked)?;
        proposals = wanted.of_proposals(plan.proposals.clone())?;
        if wanted.undo(&proposals).is_none() && variables(&wanted, &proposals).is_empty() {
            note(
                "nothing was tried: this server calls for no change that can be tried while it runs; the checked settings are listed here. --only VARIABLE=VALUE tries a value of yours",
            );
            return plan_run::show(asked, &plan);
        }
    }
    let target = session::target(&asked.connection)?;
    let (mut tuning, ended) = wait_for(on_server(asked, &target, &wanted, &mut proposals, begun))?;
    match log::append(&TakeOptions::of_process()?.state, &tuning) {
        Ok(file) => tuning.settings.push(format!("Logged in {}.", file.display())),
        Err(why) => note(&format!("the trial could not be logged: {why}")),
    }
    if let Some(file) = &asked.html {
        output::write_file(file, html::render(&tuning), "the HTML report")?;
    }
    output::print(&match asked.json {
        true => to_json(&tuning).context("could not write the trial as JSON")?,
        false => text::render(&tuning, terminal::look_of_stdout()),
    })?;
    Ok(match ended {
        Some(Ended::TimeUp) | None => ExitStatus::Done,
        Some(_) => ExitStatus::Failed,
    })
}

/// What `--only` names.
struct Wanted {
    /// Variables, some with a value.
    variables: Vec<(&'static Variable, Option<String>)>,
    /// Undo tablespaces, where they are named: how many, or as many as the plan says.
    undo: Option<Option<u32>>,
}

impl Wanted {
    fn parse(only: &[String]) -> anyhow::Result<Self> {
        let mut wanted = Self { variables: Vec::new(), undo: None };
        for only in only {
            let (name, value) = match only.split_once('=') {
                Some((name, value)) => (name, Some(value.trim())),
                None => (only.as_str(), None),
            };
            if undo_names::is_named(name) {
                wanted.undo = Some(value.map(undo_names::count).transpose()?);
                continue;
            }
            let variable = find(name)?;
            if let Some(value) = value {
                variable.expect_in_widest_range(value)?;
            }
            wanted.variables.push((variable, value.map(str::to_owned)));
        }
        Ok(wanted)
    }

    /// The undo tablespaces that are to be made; none where they are not named, or the plan has none.
    fn undo(&self, proposals: &[Proposal]) -> Option<undo::Wanted> {
        match self.undo? {
            Some(tablespaces) => Some(undo::Wanted { tablespaces }),
            None => undo::Wanted::of_proposals(proposals),
        }
    }

    /// The values that were given.
    fn values(&self) -> Vec<(&'static Variable, String)> {
        self.variables.iter().filter_map(|(variable, value)| Some((*variable, value.clone()?))).collect()
    }

    /// True where no proposal is needed to know what is to be tried.
    fn are_all_given(&self) -> bool {
        let are_given = self.variables.iter().all(|(_, value)| value.is_some());
        let is_any = !self.variables.is_empty() || self.undo.is_some();
        is_any && are_given && self.undo != Some(None)
    }

    /// Of what is proposed, what was asked for; all of it where nothing was.
    fn of_proposals(&self, mut proposals: Vec<Proposal>) -> anyhow::Result<Vec<Proposal>> {
        if self.variables.is_empty() && self.undo.is_none() {
            undo::leave_unnamed(&mut proposals);
            return Ok(proposals);
        }
        for proposal in &mut proposals {
            // The size that they need to fit belongs to them.
            let makes_files = proposal.changes.iter().any(|change| undo_names::is_named(&change.variable));
            if !makes_files || self.undo.is_none() {
                proposal.changes.retain(|change| {
                    self.variables.iter().any(|(variable, _)| variable.name == change.variable)
                });
            }
        }
        proposals.retain(|proposal| !proposal.changes.is_empty());
        if self.undo == Some(None) && undo::Wanted::of_proposals(&proposals).is_none() {
            bail!(
                "no undo tablespaces are proposed for this server; give a number to try, as in --only {}=8",
                undo_names::NAME
            );
        }
        for (variable, _) in self.variables.iter().filter(|(_, value)| value.is_none()) {
            if !proposals
                .iter()
                .flat_map(|proposal| &proposal.changes)
                .any(|change| change.variable == variable.name)
            {
                bail!(
                    "nothing is proposed for {0} on this server; give a value to try, as in --only {0}=VALUE",
                    variable.name
                );
            }
        }
        Ok(proposals)
    }

    /// The values that were given, as a proposal of the user's own, with the server's values before.
    fn given(&self, before: impl Fn(&str) -> Option<String>) -> Option<Proposal> {
        let changes: Vec<Change> = self
            .variables
            .iter()
            .filter_map(|(variable, value)| {
                Some(Change {
                    variable: variable.name.to_owned(),
                    from: before(variable.name)?,
                    to: value.clone()?,
                })
            })
            .collect();
        let mut risks: Vec<&str> = Vec::new();
        for risk in changes.iter().filter_map(|change| risk(&change.variable, &change.from, &change.to)) {
            if !risks.contains(&risk) {
                risks.push(risk);
            }
        }
        let remedy = Remedy {
            statement: statement(&changes, |change| &change.to),
            why: "It was named with --only.".to_owned(),
            dynamic: true,
            risk: risks.join(" "),
            undo: statement(&changes, |change| &change.from),
        };
        (!changes.is_empty()).then(|| Proposal {
            family: "asked-for".to_owned(),
            remedy,
            changes,
            ..Proposal::default()
        })
    }
}

/// `SET GLOBAL a = 1, GLOBAL b = 2`.
fn statement(changes: &[Change], value: fn(&Change) -> &str) -> String {
    let set: Vec<String> =
        changes.iter().map(|change| format!("{} = {}", change.variable, value(change))).collect();
    format!("SET GLOBAL {}", set.join(", GLOBAL "))
}

/// What this server calls for, from a window of it.
fn planned(asked: &Tune) -> anyhow::Result<Plan> {
    let profiling = Profiling::with(spindoctor_rules::FRAME_STATES);
    let window = session::window(&asked.connection, asked.duration, WithoutSession::Fail, Some(profiling))?;
    Ok(spindoctor_rules::proposals::plan(&window))
}

/// All that needs the server.
async fn on_server(
    asked: &Tune,
    target: &Target,
    wanted: &Wanted,
    proposals: &mut Vec<Proposal>,
    begun: Instant,
) -> anyhow::Result<(Tuning, Option<Ended>)> {
    let wanted_undo = wanted.undo(proposals);
    let mut variables = variables(wanted, proposals);
    if wanted_undo.is_some() && !variables.iter().any(|variable| variable.name == undo::SEGMENTS) {
        variables.push(undo::segments()?);
    }
    let _ahead = Ahead::of_others();
    let process = match asked.connection.remote {
        true => None,
        false => {
            process(&asked.connection, target).ok().filter(|(_, other)| other.is_none()).map(|(pid, _)| pid)
        }
    };
    // Listening begins before anything is changed: from here on no signal ends the program before the old values are back.
    let mut interrupts = Interrupts::listen().context("could not listen for signals")?;
    let mut meter = Meter::connect(target, process.map(host::Target::live)).await?;
    // What cannot be is said before anything is armed.
    expect_possible(target, &wanted.values()).await?;
    expect_time(asked, &variables, begun)?;
    let mut settings = Settings::take(target, &variables, &TakeOptions::of_process()?).await?;
    settings.notes().iter().for_each(|what| note(what));
    let switch = switch_text(&settings);
    note(&switch);
    proposals.extend(wanted.given(|name| settings.original(name).map(str::to_owned)));

    let (stop, stopped) = watch::channel(false);
    let mut shown = ProgressLine::new(asked.max_time);
    let mut made = None;
    let outcome = {
        let until = tokio::time::Instant::now() + asked.max_time.saturating_sub(begun.elapsed());
        let work = async {
            if let Some(wanted) = wanted_undo {
                let is_to_stop = || *stopped.borrow();
                let (proposal, undo) =
                    undo::make(wanted, proposals, &mut settings, &mut meter, &is_to_stop).await?;
                *proposals = vec![proposal];
                made = Some(undo);
            }
            let undo = made.as_ref();
            let bench =
                On { meter: &mut meter, settings: &mut settings, stopped: stopped.clone(), until, undo };
            anyhow::Ok(tried(asked, proposals, bench, &mut shown).await?)
        };
        let mut work = std::pin::pin!(work);
        tokio::select! {
            outcome = &mut work => outcome,
            signal = interrupts.next() => {
                note(&format!("{signal}: the old values are put back"));
                stop.send_replace(true);
                work.await
            }
        }
    };
    shown.finish();
    meter.close().await;
    let mut tuned = match outcome {
        Ok(tuned) => tuned,
        Err(why) => {
            restored_lines(&put_back(settings).await).iter().for_each(|line| note(line));
            return Err(why);
        }
    };
    if let (Some(made), Some(proposal)) = (&made, proposals.first()) {
        tuned.tuning.decided.notes.extend(undo::notes(made, proposal));
    }
    let helps = tuned.tuning.decided.verdict == Verdict::Helps && tuned.ended.is_none();
    let text = match helps && !asked.put_back {
        true => keep(asked, settings, &mut tuned, made.as_ref()).await,
        false => restored_lines(&put_back(settings).await),
    };
    tuned.tuning.settings = text;
    tuned.tuning.decided.notes.push(format!("while it ran: {switch}"));
    Ok((tuned.tuning, tuned.ended))
}

/// How long blocks last.
fn times(asked: &Tune) -> Times {
    Times { settle: asked.settle, measure: asked.measure, pace: Pace::Production }
}

/// Fails where there is no time to look at the server and to measure one quad.
fn expect_time(asked: &Tune, variables: &[&'static Variable], begun: Instant) -> anyhow::Result<()> {
    let times = times(asked);
    let (block, _) = times.block(&[], slowest(variables.iter().copied()));
    let least = begun.elapsed() + times.look() + 4 * block.all();
    if least > asked.max_time {
        let whole = |time: Duration| time.as_secs_f64().ceil();
        bail!(
            "--max-time {:?} is too short: the server is watched for {}s, and four blocks take {}s at least; give --max-time {}s or more, or shorter blocks with --settle and --measure",
            asked.max_time,
            whole(times.look()),
            whole(4 * block.all()),
            whole(least)
        );
    }
    Ok(())
}

/// What proposals are tried on, and until when.
struct On<'a> {
    meter: &'a mut Meter,
    settings: &'a mut Settings,
    stopped: watch::Receiver<bool>,
    until: tokio::time::Instant,
    /// Undo tablespaces that were made for the trial.
    undo: Option<&'a UndoMade>,
}

async fn tried(
    asked: &Tune,
    proposals: &[Proposal],
    On { meter, settings, stopped, until, undo }: On<'_>,
    shown: &mut ProgressLine,
) -> Result<Tuned, NothingTried> {
    let times = times(asked);
    let mut tell = |event: spindoctor_tune::bench::Event<'_>| shown.event(&event);
    let mut bench = Bench::open(meter, settings, times.look(), stopped, &mut tell).await?;
    bench.end_at(until);
    if let Some(made) = undo {
        bench.guard_undo(made.bytes_before, made.budget_bytes);
    }
    let options = TuningOptions {
        times,
        terms: terms(asked),
        until,
        search: undo.is_none() && is_searched(&asked.only, asked.around),
    };
    let mut random = fastrand::Rng::new();
    tune(&mut bench, proposals, &options, &mut |below| random.usize(..below.max(1))).await
}

/// Values that the user names are tried as they are, unless the search is to begin there.
fn is_searched(only: &[String], around: bool) -> bool {
    around || only.iter().all(|only| !only.contains('='))
}

/// What the deciding trial is judged by.
fn terms(asked: &Tune) -> Terms {
    let Tune { margin_throughput: throughput, margin_p95: p95, margin_cpu: cpu_per_query, .. } = *asked;
    Terms { margins: Margins { throughput, p95, cpu_per_query }, ..Terms::default() }
}

/// Every variable that may be changed, once.
fn variables(wanted: &Wanted, proposals: &[Proposal]) -> Vec<&'static Variable> {
    let given = wanted.variables.iter().filter(|(_, value)| value.is_some()).map(|(variable, _)| *variable);
    let tried = proposals.iter().filter(|proposal| proposal.not_tried.is_none());
    let proposed =
        tried.flat_map(|proposal| &proposal.changes).filter_map(|change| find(&change.variable).ok());
    let mut variables: Vec<&'static Variable> = Vec::new();
    for variable in given.chain(proposed) {
        if !variables.iter().any(|known| known.name == variable.name) {
            variables.push(variable);
        }
    }
    variables
}

/// Which dead man's switch stands, in a clause.
pub fn switch_text(settings: &Settings) -> String {
    let switch = settings.switch();
    match (switch.event, switch.guardian) {
        (Ok(event), Ok(pid)) => {
            format!(
                "if this program dies, the event {event} on the server and the process {pid} put the old values back"
            )
        }
        (Ok(event), Err(why)) => {
            format!(
                "if this program dies, the event {event} on the server puts the old values back (no guardian: {why})"
            )
        }
        (Err(why), Ok(pid)) => {
            format!(
                "if this program dies, the process {pid} puts the old values back (no event on the server: {why})"
            )
        }
        (Err(event), Err(guardian)) => format!("no dead man's switch: {event}; {guardian}"),
    }
}

async fn put_back(settings: Settings) -> anyhow::Result<Restored> {
    settings.restore().await.map_err(|error| anyhow!(error))
}

fn restored_lines(restored: &anyhow::Result<Restored>) -> Vec<String> {
    let values = |values: &[(String, String)]| {
        values.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
    };
    match restored {
        Ok(restored) if restored.restarted => {
            let mut text =
                vec!["The server was restarted: it has the values that it starts with.".to_owned()];
            text.extend(restored.undo.as_ref().map(undo::back_text));
            text
        }
        Ok(restored) => {
            let mut text = Vec::new();
            if !restored.restored.is_empty() {
                text.push(format!("Put back: {}.", values(&restored.restored)));
            }
            if !restored.left.is_empty() {
                text.push(format!(
                    "Somebody else set these meanwhile, so they were not changed: {}.",
                    values(&restored.left)
                ));
            }
            text.extend(restored.undo.as_ref().map(undo::back_text));
            text
        }
        Err(why) => vec![format!(
            "The old values could not be put back: {why:#}. The dead man's switch goes on trying."
        )],
    }
}

/// Sets the winner's values and leaves them, with the undo tablespaces that were made for it.
async fn keep(
    asked: &Tune,
    mut settings: Settings,
    tuned: &mut Tuned,
    made: Option<&UndoMade>,
) -> Vec<String> {
    if let Err(why) = settings.set(&tuned.candidate.new).await {
        let mut text = vec![format!("The new values could not be set again: {why}.")];
        text.extend(restored_lines(&put_back(settings).await));
        return text;
    }
    // With undo tablespaces, what is compared may be the value that stood before.
    let changed = |name: &str, value: &str| settings.original(name).is_none_or(|old| old != value);
    let pairs = tuned.candidate.new.iter().filter(|(variable, value)| changed(variable.name, value));
    let names: Vec<(&str, &str)> = pairs.map(|(variable, value)| (variable.name, value.as_str())).collect();
    let values: Vec<String> = names.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let undo: Vec<String> = names
        .iter()
        .map(|(name, _)| format!("GLOBAL {name} = {}", settings.original(name).unwrap_or("DEFAULT")))
        .collect();
    let kept = made.map(undo::kept_text);
    let mut undone: Vec<String> = made.map(undo::drop_text).into_iter().collect();
    if !undo.is_empty() {
        undone.push(format!("SET {}", undo.join(", ")));
    }
    let undone = format!("Undo: {}.", undone.join("; then "));
    let values = values.join(", ");
    let of_values = |text: String| (!values.is_empty()).then_some(text);
    let done = match asked.persist {
        false => settings.keep().await.map(|()| {
            of_values(format!("Kept until the server restarts: {values}. --persist keeps it for longer."))
                .into_iter()
                .collect::<Vec<_>>()
        }),
        true => settings.persist().await.map(|persisted| match persisted {
            Persisted::Statement(statement) => vec![format!("Kept, also over a restart: {statement}.")],
            Persisted::OptionFile(lines) => of_values(format!("Kept until the server restarts: {values}."))
                .into_iter()
                .chain(of_values(format!(
                    "This server cannot persist settings itself; put into its option file, under [mysqld]: {lines}"
                )))
                .collect(),
        }),
    };
    match done {
        Ok(text) => {
            tuned.tuning.decided.kept = true;
            kept.into_iter().chain(text).chain([undone]).collect()
        }
        Err(why @ ApplyError::NotPersisted { .. }) => kept
            .into_iter()
            .chain([format!("Kept at most until the server restarts: {why}."), undone])
            .collect(),
        Err(why) => vec![format!("Not kept: {why}.")],
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_tune::variables::VARIABLES;

    use super::*;

    fn proposal(family: &str, variables: &[&str]) -> Proposal {
        let change =
            |name: &&str| Change { variable: (*name).to_owned(), from: "1".to_owned(), to: "2".to_owned() };
        Proposal {
            family: family.to_owned(),
            changes: variables.iter().map(change).collect(),
            ..Proposal::default()
        }
    }

    #[test]
    fn each_variable_that_may_be_tried_has_a_risk_in_either_direction() {
        for variable in VARIABLES {
            for (from, to) in [("1", "2"), ("2", "1"), ("OFF", "ON"), ("ON", "OFF")] {
                assert!(
                    risk(variable.name, from, to).is_some_and(|risk| !risk.is_empty()),
                    "{}",
                    variable.name
                );
            }
        }
    }

    #[test]
    fn values_that_are_named_are_tried_as_they_are_or_where_the_search_begins() {
        let only = |only: &[&str]| only.iter().map(|only| (*only).to_owned()).collect::<Vec<_>>();
        assert!(is_searched(&only(&[]), false) && is_searched(&only(&["innodb_spin_wait_delay"]), false));
        assert!(!is_searched(&only(&["innodb_spin_wait_delay=6"]), false));
        assert!(is_searched(&only(&["innodb_spin_wait_delay=6"]), true));
    }

    #[test]
    fn only_keeps_what_it_names_and_takes_values_as_they_are_given() {
        let spin = || proposal("latch-spin", &["innodb_spin_wait_delay", "innodb_sync_spin_loops"]);
        let named = Wanted::parse(&["innodb-spin-wait-delay".to_owned()]).unwrap();
        assert!(!named.are_all_given());
        let kept = named.of_proposals(vec![spin(), proposal("purge", &["innodb_purge_batch_size"])]).unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].changes.len(), 1);
        let missing = Wanted::parse(&["innodb_spin_wait_delay".to_owned()]).unwrap();
        let why = missing.of_proposals(Vec::new()).unwrap_err().to_string();
        assert!(why.contains("--only innodb_spin_wait_delay=VALUE"), "{why}");

        let given = Wanted::parse(&["innodb_spin_wait_delay=6".to_owned()]).unwrap();
        assert!(given.are_all_given());
        let proposal = given.given(|_| Some("100".to_owned())).unwrap();
        assert_eq!(proposal.remedy.statement, "SET GLOBAL innodb_spin_wait_delay = 6");
        assert_eq!(proposal.remedy.undo, "SET GLOBAL innodb_spin_wait_delay = 100");
        assert_eq!(
            proposal.remedy.risk,
            "Latches that are free again soon are then slept for: more context switches."
        );
        assert!(Wanted::parse(&["datadir=/tmp".to_owned()]).is_err());
        let beyond = Wanted::parse(&["innodb_io_capacity=99999999999".to_owned()]).err().unwrap().to_string();
        assert!(beyond.contains("a whole number from 100 to 4294967295"), "{beyond}");
    }
}
