//! `spindoctor host`: what the kernel grants the server against what it believes.

use std::time::Duration;

use anyhow::Context as _;

use super::live::{self, WithoutSession};
use crate::cli::Host;
use crate::exit::ExitStatus;
use crate::host_report::HostReport;
use crate::report::{host, json};
use crate::terminal::Look;
use crate::{output, window_file};

/// Long enough for rates: ten periods of a CPU quota, a hundred ticks of the kernel's clock.
const WATCHED: Duration = Duration::from_secs(1);

/// Watches the host for a moment and shows it.
pub(crate) fn run(asked: &Host) -> anyhow::Result<ExitStatus> {
    let window = match &asked.window {
        Some(file) => window_file::load(file)?,
        None => live::window(&asked.connection, WATCHED, WithoutSession::WatchHost, None)?,
    };
    let report = HostReport::of(&window);
    output::print(&match asked.json {
        true => json::to_text(&report).context("could not write the host as JSON")?,
        false => host::render(&report, Look::of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}
