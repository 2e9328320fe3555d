//! `spindoctor sweep`: a grid of settings and client counts, measured with sysbench.

use crate::cli::Sweep;
use crate::exit::ExitStatus;

/// Measures the grid.
pub(crate) fn run(asked: &Sweep) -> anyhow::Result<ExitStatus> {
    let _target = super::live::target(&asked.connection)?;
    anyhow::bail!("not built yet")
}
