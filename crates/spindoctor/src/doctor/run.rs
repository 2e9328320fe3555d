//! `spindoctor doctor`: a window, through the rules, into the formats that were asked for.

use std::borrow::Cow;

use anyhow::Context as _;
use spindoctor_collect::mysql::Target;
use spindoctor_collect::plan_now;
use spindoctor_collect::watch::Profiling;
use spindoctor_model::{Diagnosis, Outcome, Reading, Severity, Window};
use spindoctor_record::literals::Literals;
use spindoctor_rules::causes::plan_change;

use super::args::{Doctor, FailOn};
use super::view::unexplained_interruption;
use super::{captured, early, html, json, nagios, text};
use crate::common::exit::{ExitStatus, NagiosState};
use crate::common::runtime::wait_for;
use crate::common::session::{Watching, WithoutSession};
use crate::common::{output, session, terminal, window_file};
use crate::locks;

/// Diagnoses; with `--nagios`, a failure is a result too.
pub fn run(asked: &Doctor) -> anyhow::Result<ExitStatus> {
    match diagnose(asked) {
        Err(error) if asked.nagios && !error.is::<output::ClosedPipe>() => Ok(unknown(&format!("{error:#}"))),
        outcome => outcome,
    }
}

/// Prints, as a plugin does, why there is no diagnosis. The state is given even where it cannot be printed.
pub fn unknown(why: &str) -> ExitStatus {
    drop(output::print(&nagios::unknown(why)));
    ExitStatus::Nagios(NagiosState::Unknown)
}

fn diagnose(asked: &Doctor) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.html {
        output::expect_writable(file, output::HTML)?;
    }
    if let Some(file) = &asked.save_window {
        output::expect_writable(file, output::WINDOW)?;
    }
    let mut given = Vec::new();
    let window = match &asked.window {
        _ if !asked.from.is_empty() => {
            let captured = captured::load(&asked.from)?;
            given = captured.given;
            captured.window
        }
        Some(file) => window_file::load(file)?,
        None => {
            let profiling = (!asked.no_stacks).then(|| Profiling::with(spindoctor_rules::FRAME_STATES));
            let target = session::target(&asked.connection)?;
            let mut say = |window: &Window| {
                if let Some(verdict) = early::verdict(&spindoctor_rules::diagnose(window)) {
                    early::say(&verdict);
                }
            };
            let is_read_by_a_person = !asked.json && !asked.nagios;
            let watching = Watching {
                duration: asked.duration,
                without_session: WithoutSession::Fail,
                profiling,
                early: is_read_by_a_person.then_some((early::AFTER, &mut say)),
            };
            let mut window = session::window_of(&target, &asked.connection, watching)?;
            ask_about_plan(&target, &mut window)?;
            window
        }
    };
    if let Some(file) = &asked.save_window {
        window_file::save(file, &kept(&window, asked.literals))?;
    }
    let diagnosis = Diagnosis { given, ..spindoctor_rules::diagnose(&window) };
    if diagnosis.given.is_empty()
        && diagnosis.findings.is_empty()
        && diagnosis.interrupted.is_none()
        && let Some(because) = nothing_read(&window)
    {
        anyhow::bail!(
            "no source of {} could be read, so nothing is known about this server: {because}",
            window
                .server
                .version
                .map_or_else(|| window.server.address.clone(), |version| version.to_string())
        );
    }
    if let Some(file) = &asked.html {
        let waits = locks::of_window(&window);
        output::write_file(
            file,
            html::render(&diagnosis, window.profile.value(), waits.as_ref()),
            "the HTML report",
        )?;
    }
    if asked.nagios {
        let (printed, state) = nagios::render(&diagnosis);
        output::print(&printed)?;
        return Ok(ExitStatus::Nagios(state));
    }
    let printed = match asked.json {
        true => json::render(&diagnosis).context("could not write the diagnosis as JSON")?,
        false => text::render_with(&diagnosis, window.profile.value(), terminal::look_of_stdout()),
    };
    output::print(&printed)?;
    Ok(status(&diagnosis, asked.fail_on))
}

/// Asks about the plan of the statement that the rule `plan-change` names, where it names one. Ctrl-C ends the questions.
fn ask_about_plan(target: &Target, window: &mut Window) -> anyhow::Result<()> {
    let Some(suspect) = plan_change::suspect(window) else { return Ok(()) };
    wait_for(async {
        tokio::select! {
            () = plan_now::read(target, &suspect, window) => Ok(()),
            interrupted = tokio::signal::ctrl_c() => interrupted.context("could not listen for Ctrl-C"),
        }
    })
}

/// Why no source of a server that let us in could be read, where that is so.
fn nothing_read(window: &Window) -> Option<String> {
    let outcomes = || {
        let readings = window.samples.iter().flat_map(|sample| sample.server.readings());
        readings.map(|(_, reading)| reading.outcome())
    };
    let is_asked = window.server.version.is_some() && window.server.no_session.is_none();
    let answered = outcomes().any(|outcome| matches!(outcome, Outcome::Answered { .. }));
    let refused = outcomes().find_map(|outcome| match outcome {
        Outcome::Unavailable(why) => Some(why.because.clone()),
        _ => None,
    });
    refused.filter(|_| is_asked && !answered)
}

/// A saved window is sent to others: statements lose their literals, unless they are asked for.
fn kept(window: &Window, literals: bool) -> Cow<'_, Window> {
    if literals {
        return Cow::Borrowed(window);
    }
    let mut window = window.clone();
    let hidden = Literals::default();
    window.samples.iter_mut().for_each(|sample| hidden.take_out_of_sample(sample));
    if let Reading::Available { value: profile, .. } = &mut window.profile {
        hidden.take_out_of_profile(profile);
    }
    Cow::Owned(window)
}

fn status(diagnosis: &Diagnosis, fail_on: FailOn) -> ExitStatus {
    if unexplained_interruption(diagnosis).is_some() {
        return ExitStatus::Failed;
    }
    let threshold = match fail_on {
        FailOn::Note => Severity::Note,
        FailOn::Warning => Severity::Warning,
        FailOn::Critical => Severity::Critical,
        FailOn::Never => return ExitStatus::Done,
    };
    match diagnosis.findings.iter().any(|finding| finding.severity >= threshold) {
        true => ExitStatus::Findings,
        false => ExitStatus::Done,
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Sample, ServerVersion, Unavailable};

    use super::*;

    use crate::doctor::examples;

    #[test]
    fn the_threshold_decides_over_the_exit_code() {
        let mut diagnosis = examples::suffering();
        assert_eq!(status(&diagnosis, FailOn::Critical), ExitStatus::Findings);
        assert_eq!(status(&diagnosis, FailOn::Never), ExitStatus::Done);
        diagnosis.findings.drain(..2);
        assert_eq!(status(&diagnosis, FailOn::Warning), ExitStatus::Done);
        assert_eq!(status(&diagnosis, FailOn::Note), ExitStatus::Findings);
    }

    #[test]
    fn a_server_that_was_lost_in_the_middle_could_not_be_diagnosed_unless_a_finding_shows_why() {
        assert_eq!(status(&examples::interrupted(), FailOn::Warning), ExitStatus::Failed);
        let stopped = Diagnosis { interrupted: examples::interrupted().interrupted, ..examples::silent() };
        assert_eq!(status(&stopped, FailOn::Warning), ExitStatus::Findings);
    }

    #[test]
    fn a_server_of_which_nothing_could_be_read_is_not_found_healthy() {
        let mut window = Window::default();
        window.server.version = ServerVersion::parse("8.0.30-Vitess", "");
        let mut sample = Sample::default();
        let why = Unavailable::because("this server does not have it: unknown");
        sample.server.status = Reading::Unavailable(why);
        window.samples = vec![sample.clone()];
        assert!(nothing_read(&window).is_some_and(|because| because.contains("unknown")));
        // One answer is something to judge by.
        let value = NamedValues::default();
        sample.server.variables = Reading::Available { at_s: 0.0, took_ms: 1.0, value };
        window.samples.push(sample);
        assert_eq!(nothing_read(&window), None);
    }
}
