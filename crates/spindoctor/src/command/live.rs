//! A window of a live server: connect as the flags say, watch for a while, tell how far it is.

use std::time::Duration;

use spindoctor_model::Window;

use crate::cli::Connection;

/// Watches a server.
pub(crate) fn watch(_connection: &Connection, _duration: Duration) -> anyhow::Result<Window> {
    anyhow::bail!("this build reads saved windows only: give --window FILE")
}
