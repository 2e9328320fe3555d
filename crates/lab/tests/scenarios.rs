//! Every scenario on a server on which it can be made: the server really has the problem, and the diagnosis names
//! the scenario's label first.
//!
//! The tests come from [`SCENARIOS`]: `SCENARIO::SERVER`, and `calm::SCENARIO::SERVER` where the scenario is calm. Those
//! run beside others; the rest run one at a time, because the machine's CPUs are part of what is measured, and one that both
//! servers can have runs on one of them, in turn: every other one on MySQL. With `SPINDOCTOR_SCENARIOS=all` in the environment
//! each runs on both, as in the score (`script/score`), without which no rule changes. Two causes on one server are
//! `calm::SCENARIO+SCENARIO::SERVER`.
#![expect(clippy::print_stdout, reason = "the skipped ones say why")]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use spindoctor_lab::scenario::{RunOptions, Scenario, run};
use spindoctor_lab::{Draw, Home, SCENARIOS, Strength, Which, scenario};
use spindoctor_model::Flavor;

/// Half of what `doctor` watches by default: most scenarios are named by then.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// What `doctor` watches by default: by then each has to be named.
const WHOLE_LOOK: Duration = Duration::from_secs(10);

/// Two scenarios on one server.
const TWO: [&str; 2] = ["row-lock-pileup", "user-lock-pileup"];

/// A seed that draws 75 sessions that wait for the row and 93 for the lock: more than the usual 151 connections.
const CROWDED: u64 = 9_644_258_047_517_302_620;

/// Where the environment says `all` here, each scenario runs on both servers.
const EACH_ON: &str = "SPINDOCTOR_SCENARIOS";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn main() {
    let servers = [(Flavor::Mysql, Which::Mysql, "mysql"), (Flavor::Mariadb, Which::Mariadb, "mariadb")];
    let on_both = std::env::var_os(EACH_ON).is_some_and(|which| which == "all");
    let mut trials = Vec::new();
    let mut turns = servers.iter().map(|(flavor, ..)| *flavor).cycle();
    for scenario in SCENARIOS {
        let turn =
            (!on_both && !scenario.is_calm && scenario.flavors.len() > 1).then(|| turns.next()).flatten();
        for (flavor, which, server) in &servers {
            if scenario.flavors.contains(flavor) && turn.is_none_or(|turn| turn == *flavor) {
                let group = if scenario.is_calm { "calm::" } else { "" };
                let which = which.clone();
                trials.push(Trial::test(format!("{group}{}::{server}", scenario.name), move || {
                    let _alone = (!scenario.is_calm)
                        .then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
                    is_diagnosed(scenario, &which)
                }));
            }
        }
    }
    for (_, which, server) in servers {
        trials.push(Trial::test(format!("calm::{}::{server}", TWO.join("+")), move || both_are_named(which)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn is_diagnosed(scenario: &'static Scenario, which: &Which) -> Result<(), Failed> {
    if !scenario.needs.is_empty() && !rustix::process::geteuid().is_root() {
        println!("{} is skipped: it needs {}", scenario.name, scenario.needs);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let look = |window| {
        let options = RunOptions { which: which.clone(), window, ..RunOptions::default() };
        runtime.block_on(run(&Home::open()?, scenario, &options, &|line| println!("{line}")))
    };
    let mut outcome = look(FIRST_LOOK)?;
    // On busy CPUs few snapshots are taken in so short a time.
    if outcome.seen_after.is_some() && !outcome.named_first {
        outcome = look(WHOLE_LOOK)?;
    }
    if outcome.seen_after.is_none() {
        return Err(format!("it suffered before ({}), not after", outcome.seen_before).into());
    }
    if !outcome.named_first {
        let found: Vec<_> =
            outcome.diagnosis.findings.iter().map(|f| (&f.cause, f.severity, &f.headline)).collect();
        return Err(format!(
            "label {:?}, found {found:#?}, not examined {:#?}",
            outcome.label, outcome.diagnosis.not_examined
        )
        .into());
    }
    Ok(())
}

fn both_are_named(which: Which) -> Result<(), Failed> {
    let [first, second] = TWO.map(|name| scenario::find(name).expect("a scenario"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = RunOptions {
        which,
        window: WHOLE_LOOK,
        draw: Draw::by(CROWDED, Strength::Severe),
        second: Some(second),
        ..RunOptions::default()
    };
    let outcome = runtime.block_on(run(&Home::open()?, first, &options, &|line| println!("{line}")))?;
    let found: Vec<_> =
        outcome.diagnosis.findings.iter().map(|f| (&f.cause, f.severity, &f.headline)).collect();
    println!("{found:#?}");
    for scenario in [first, second] {
        if !found.iter().any(|(cause, ..)| Some(cause.as_str()) == scenario.label) {
            return Err(format!("{} is not named, found {found:#?}", scenario.name).into());
        }
    }
    Ok(())
}
