//! `spindoctor tune --plan`: what could be changed on this server; nothing is changed.

use anyhow::{Context as _, bail};
use spindoctor_collect::watch::Profiling;
use spindoctor_model::Plan;
use spindoctor_rules::{FRAME_STATES, proposals};
use spindoctor_tune::variables;

use super::view::to_json;
use super::{html, text};
use crate::common::exit::ExitStatus;
use crate::common::session::WithoutSession;
use crate::common::{output, session, terminal, window_file};
use crate::tune::args::Tune;

/// Watches the server for a while, and prints what its readings call for.
pub fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let only = only(&asked.only)?;
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    let window = match &asked.window {
        Some(file) => window_file::load(file)?,
        None => {
            let profiling = Some(Profiling::with(FRAME_STATES));
            session::window(&asked.connection, asked.duration, WithoutSession::Fail, profiling)?
        }
    };
    show(asked, &keep(proposals::plan(&window), &only))
}

/// Writes the plan in the formats that were asked for.
pub fn show(asked: &Tune, plan: &Plan) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.html {
        output::write_file(file, html::render(plan), "the HTML report")?;
    }
    let printed = match asked.json {
        true => to_json(plan).context("could not write the plan as JSON")?,
        false => text::render(plan, terminal::look_of_stdout()),
    };
    output::print(&printed)?;
    Ok(if plan.interrupted.is_some() { ExitStatus::Failed } else { ExitStatus::Done })
}

/// Names of the variables that were asked for. A value of the user's own is nothing that readings call for.
fn only(asked: &[String]) -> anyhow::Result<Vec<&'static str>> {
    let name = |asked: &String| {
        if asked.contains('=') {
            bail!("a plan shows what this server's readings call for; {asked} is tried with --apply");
        }
        Ok(variables::find(asked)?.name)
    };
    asked.iter().map(name).collect()
}

/// The plan with the proposals that change one of these variables; whole where none is named.
fn keep(mut plan: Plan, only: &[&str]) -> Plan {
    plan.proposals.retain(|proposal| {
        only.is_empty() || proposal.changes.iter().any(|change| only.contains(&change.variable.as_str()))
    });
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::tune::plan::examples;

    #[test]
    fn only_what_was_asked_for_is_shown_and_a_value_is_refused_with_what_to_do() {
        let names = only(&["INNODB-redo_log_capacity".to_owned()]).unwrap();
        let families: Vec<String> =
            keep(examples::quota(), &names).proposals.into_iter().map(|proposal| proposal.family).collect();
        assert_eq!(families, ["redo-capacity"]);
        assert_eq!(keep(examples::quota(), &[]), examples::quota());
        let refused = only(&["innodb_spin_wait_delay=3".to_owned()]).unwrap_err();
        assert!(refused.to_string().contains("--apply"), "{refused}");
        assert!(only(&["datadir".to_owned()]).is_err());
    }
}
