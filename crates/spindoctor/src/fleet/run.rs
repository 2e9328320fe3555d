//! `spindoctor fleet`: many servers at once.

use super::args::Fleet;
use super::{query, servers, top};
use crate::common::exit::ExitStatus;
use crate::fleet::doctor::run as doctor_run;

/// Does what was asked.
pub fn run(asked: &Fleet) -> anyhow::Result<ExitStatus> {
    match asked {
        Fleet::Query(asked) => query::run(asked),
        Fleet::Doctor(asked) => doctor_run::run(asked),
        Fleet::Top(asked) => top::run(asked),
        Fleet::Servers(asked) => servers::run(asked),
    }
}
