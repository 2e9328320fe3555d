//! `spindoctor doctor`: a window, through the rules, into the formats that were asked for.

use std::fs;

use anyhow::Context as _;
use spindoctor_collect::watch::Profiling;
use spindoctor_model::{Diagnosis, Severity};

use super::live::{self, WithoutSession};
use super::locks;
use crate::cli::{Doctor, FailOn};
use crate::exit::{ExitStatus, NagiosState};
use crate::report::{html, json, nagios, text, unexplained_interruption};
use crate::terminal::Look;
use crate::{output, window_file};

/// Diagnoses; with `--nagios`, a failure is a result too.
pub(crate) fn run(asked: &Doctor) -> anyhow::Result<ExitStatus> {
    match diagnose(asked) {
        Err(error) if asked.nagios && !error.is::<output::ClosedPipe>() => {
            output::print(&nagios::unknown(&format!("{error:#}")))?;
            Ok(ExitStatus::Nagios(NagiosState::Unknown))
        }
        outcome => outcome,
    }
}

fn diagnose(asked: &Doctor) -> anyhow::Result<ExitStatus> {
    for file in asked.html.iter().chain(&asked.save_window) {
        output::expect_writable(file)?;
    }
    let window = match &asked.window {
        Some(file) => window_file::load(file)?,
        None => {
            let profiling = (!asked.no_stacks).then(|| Profiling::with(spindoctor_rules::FRAME_STATES));
            live::window(&asked.connection, asked.duration, WithoutSession::Fail, profiling)?
        }
    };
    if let Some(file) = &asked.save_window {
        window_file::save(file, &window)?;
    }
    let diagnosis = spindoctor_rules::diagnose(&window);
    if let Some(file) = &asked.html {
        let waits = locks::of_window(&window);
        fs::write(file, html::render(&diagnosis, window.profile.value(), waits.as_ref()))
            .with_context(|| format!("could not write the HTML report to {}", file.display()))?;
    }
    if asked.nagios {
        let (printed, state) = nagios::render(&diagnosis);
        output::print(&printed)?;
        return Ok(ExitStatus::Nagios(state));
    }
    let printed = match asked.json {
        true => json::render(&diagnosis).context("could not write the diagnosis as JSON")?,
        false => text::render(&diagnosis, Look::of_stdout()),
    };
    output::print(&printed)?;
    Ok(status(&diagnosis, asked.fail_on))
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
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_threshold_decides_over_the_exit_code() {
        let mut diagnosis = sample::suffering();
        assert_eq!(status(&diagnosis, FailOn::Critical), ExitStatus::Findings);
        assert_eq!(status(&diagnosis, FailOn::Never), ExitStatus::Done);
        diagnosis.findings.drain(..2);
        assert_eq!(status(&diagnosis, FailOn::Warning), ExitStatus::Done);
        assert_eq!(status(&diagnosis, FailOn::Note), ExitStatus::Findings);
    }

    #[test]
    fn a_server_that_was_lost_in_the_middle_could_not_be_diagnosed_unless_a_finding_tells_why() {
        assert_eq!(status(&sample::interrupted(), FailOn::Warning), ExitStatus::Failed);
        let stopped = Diagnosis { interrupted: sample::interrupted().interrupted, ..sample::silent() };
        assert_eq!(status(&stopped, FailOn::Warning), ExitStatus::Findings);
    }
}
