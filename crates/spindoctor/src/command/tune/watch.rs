//! `spindoctor tune --watch`: keeps the spin settings right while the host changes under the server.

use crate::cli::Tune;
use crate::exit::ExitStatus;

/// Not built yet.
pub(super) fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let _target = crate::command::live::target(&asked.connection)?;
    anyhow::bail!("not built yet")
}
