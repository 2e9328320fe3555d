//! `spindoctor host`: what the kernel grants the server against what it believes.

use std::time::Duration;

use anyhow::Context as _;

use super::args::Host;
use super::text;
use super::view::HostReport;
use crate::common::exit::ExitStatus;
use crate::common::session::WithoutSession;
use crate::common::{output, session, terminal, window_file};
use spindoctor_page::json;

/// Long enough for rates: ten periods of a CPU quota, a hundred ticks of the kernel's clock.
const WATCHED: Duration = Duration::from_secs(1);

/// Watches the host for a moment and shows it.
pub fn run(asked: &Host) -> anyhow::Result<ExitStatus> {
    let window = match &asked.window {
        Some(file) => window_file::load(file)?,
        None => session::window(&asked.connection, WATCHED, WithoutSession::WatchHost, None)?,
    };
    let report = HostReport::from_window(&window);
    output::print(&match asked.json {
        true => json::to_text(&report).context("could not write the host as JSON")?,
        false => text::render(&report, terminal::look_of_stdout()),
    })?;
    Ok(ExitStatus::Done)
}
