//! `spindoctor fleet`: many servers at once.

mod query;
mod servers;
mod write;
mod writer;

use crate::cli::Fleet;
use crate::exit::ExitStatus;

/// Does what was asked.
pub(crate) fn run(asked: &Fleet) -> anyhow::Result<ExitStatus> {
    match asked {
        Fleet::Query(asked) => query::run(asked),
        Fleet::Servers(asked) => servers::run(asked),
    }
}
