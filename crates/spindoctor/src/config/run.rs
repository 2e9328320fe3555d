//! Shows what the configuration files, option files, the environment and a command line say together.

use std::ffi::OsString;

use anyhow::Context as _;
use clap::Command;

use super::args::Config;
use super::file::Places;
use super::line::{Refused, config_flag};
use super::settings::Settings;
use super::view::Report;
use super::{json, text};
use crate::common::exit::{self, ExitStatus};
use crate::common::output;
use crate::common::terminal::look_of_stdout;

/// Shows them, of the commands of this program.
pub fn run(asked: &Config, program: &Command) -> anyhow::Result<ExitStatus> {
    let Config::Show(asked) = asked;
    let line: Vec<OsString> =
        std::iter::once("spindoctor".into()).chain(asked.line.iter().map(OsString::from)).collect();
    let places = Places::from_process(config_flag(&line).or_else(|| asked.file.clone()));
    let settings = Settings::load(&places, program)?;
    let report = match asked.line.is_empty() {
        true => Report::of_files(&settings, program)?,
        false => match Report::of_line(&settings, program, &line) {
            Ok(report) => report,
            Err(Refused::Usage(usage)) => return Ok(exit::of_usage(&usage)),
            Err(Refused::Configuration(error)) => return Err(error),
        },
    };
    output::print(&match asked.json {
        true => json::render(&report).context("could not write the configuration as JSON")?,
        false => text::render(&report, look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}
