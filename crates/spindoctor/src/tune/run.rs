//! `spindoctor tune`: what could be changed, trials of it, the governor, and recovery after a killed tuner.

use super::args::Tune;
use super::{apply, recover, watch};
use crate::common::exit::ExitStatus;
use crate::tune::plan::run as plan_run;

/// Does what the mode says; without one, a plan.
pub fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    match asked {
        Tune { apply: true, .. } => apply::run(asked),
        Tune { watch: true, .. } => watch::run(asked),
        Tune { recover: true, .. } => recover::run(asked),
        Tune { .. } => plan_run::run(asked),
    }
}
