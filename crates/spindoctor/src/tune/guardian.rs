//! `spindoctor tune-guardian`: the process that `tune` starts beside itself. It is not a command for people.

use anyhow::Context as _;
use spindoctor_tune::guardian;

use super::args::Guardian;
use crate::common::exit::ExitStatus;
use crate::common::runtime::wait_for;
use crate::common::session::note;

/// Guards what the process at the other end of standard input changes.
pub fn guard(_: &Guardian) -> anyhow::Result<ExitStatus> {
    wait_for(async {
        let guarded = guardian::run(note).await;
        guarded.context("tune-guardian is started by `spindoctor tune`, with a pipe to it")?;
        Ok(ExitStatus::Done)
    })
}
