//! `spindoctor fleet`: many servers at once.

mod doctor;
mod query;
mod servers;
mod top;
mod write;
mod writer;

use crate::cli::Fleet;
use crate::exit::ExitStatus;

/// Does what was asked.
pub(crate) fn run(asked: &Fleet) -> anyhow::Result<ExitStatus> {
    match asked {
        Fleet::Query(asked) => query::run(asked),
        Fleet::Doctor(asked) => doctor::run(asked),
        Fleet::Top(asked) => top::run(asked),
        Fleet::Servers(asked) => servers::run(asked),
    }
}
