//! `spindoctor tune-guardian`: the process that `tune` starts beside itself. It is no command for people.

use anyhow::Context as _;
use spindoctor_tune::guardian;

use crate::command::live::note;
use crate::command::wait_for;
use crate::exit::ExitStatus;

/// Guards what the process at the other end of standard input changes.
pub(crate) fn guard() -> anyhow::Result<ExitStatus> {
    wait_for(async {
        let guarded = guardian::run(note).await;
        guarded.context("tune-guardian is started by `spindoctor tune`, with a pipe to it")?;
        Ok(ExitStatus::Done)
    })
}
