//! `spindoctor tune --apply`: trials of changes on a live server.

use crate::cli::Tune;
use crate::exit::ExitStatus;

/// Not built yet.
pub(super) fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let _target = crate::command::live::target(&asked.connection)?;
    anyhow::bail!("not built yet")
}
