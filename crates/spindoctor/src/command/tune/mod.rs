//! `spindoctor tune`: what could be changed, trials of it, the governor, and putting back what was left.

mod apply;
mod guardian;
mod plan;
pub(super) mod progress;
mod recover;
mod watch;

pub(super) use guardian::guard;

use crate::cli::Tune;
use crate::exit::ExitStatus;

/// Does what the mode says; without one, a plan.
pub(crate) fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    match asked {
        Tune { apply: true, .. } => apply::run(asked),
        Tune { watch: true, .. } => watch::run(asked),
        Tune { recover: true, .. } => recover::run(asked),
        Tune { .. } => plan::run(asked),
    }
}
