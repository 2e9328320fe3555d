//! `spindoctor workload`: what a server spends its time on, from the server itself, a recording or a captured file.

use anyhow::Context as _;
use spindoctor_statements::Span;

use super::args::Workload as Asked;
use super::tally::{By, What};
use super::view::Workload;
use super::{diff, json, live, stored, text};
use crate::common::exit::ExitStatus;
use crate::common::{output, terminal};

/// Samples, counts, reports.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    if let Some(file) = &asked.save {
        output::expect_writable(file, &["json", "gz"])?;
    }
    if !asked.diff.is_empty() {
        return diff::run(asked);
    }
    let mut workload = match (&asked.recording, &asked.file) {
        (Some(file), _) => stored::recording(asked, file, (asked.from, asked.to))?,
        (None, Some(file)) => stored::captured(asked, file)?,
        (None, None) => live::look(asked)?,
    };
    workload.grep = asked.grep.as_ref().map(ToString::to_string);
    workload.literals = asked.literals;
    if let Some(file) = &asked.save {
        diff::saved::write(file, &span(&workload))?;
    }
    output::print(&match asked.json {
        true => json::render(&workload).context("could not write the workload as JSON")?,
        false => text::render(&workload, &shown(asked), terminal::wide_look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}

fn shown(asked: &Asked) -> text::Selection {
    let top = usize::from(asked.top);
    match asked.by.is_empty() {
        // Of appliers most statements have no text: tables and kinds of event say more.
        true if asked.replica => {
            let first = [By::Table, By::Type, By::Wait, By::Digest, By::State];
            text::Selection { by: first.to_vec(), top }
        }
        true => text::Selection { top, ..text::Selection::default() },
        false => text::Selection { by: asked.by.clone(), top },
    }
}

/// What is counted.
pub fn what(asked: &Asked) -> What {
    What { appliers: asked.replica, grep: asked.grep.clone() }
}

/// Nothing counted yet.
pub fn begun(asked: &Asked, subject: &str) -> Workload {
    Workload::new(subject, asked.replica)
}

/// What of a workload is compared with another time.
pub fn span(workload: &Workload) -> Span {
    Span { name: workload.subject.clone(), start: workload.start, ..workload.counted.span.clone() }
}
