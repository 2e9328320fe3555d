//! `spindoctor tune --recover`: puts back what a tuner that was killed left changed.

use crate::cli::Tune;
use crate::exit::ExitStatus;

/// Not built yet.
pub(super) fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let _target = crate::command::live::target(&asked.connection)?;
    anyhow::bail!("not built yet")
}
