//! `spindoctor tune --recover`: puts back the settings that a killed tuner left changed.

use spindoctor_tune::apply::{TakeOptions, recover};

use super::args::Tune;
use crate::common::exit::ExitStatus;
use crate::common::output;
use crate::common::runtime::wait_for;
use crate::common::session::{note, target};
use spindoctor_page::safe::safe;

/// Puts it back, and says what it was.
pub fn run(asked: &Tune) -> anyhow::Result<ExitStatus> {
    let target = target(&asked.connection)?;
    let options = TakeOptions::of_process()?;
    let recovered = wait_for(async { Ok(recover(&target, &options.state).await?) })?;
    for other in recovered.others.iter().chain(&recovered.refused) {
        note(&safe(other));
    }
    let mut text = String::new();
    for done in &recovered.done {
        text += &format!("{}: {}\n", safe(&target.address()), safe(done));
    }
    for left in &recovered.left {
        text += &format!("{}: {}\n", safe(&target.address()), safe(left));
    }
    if recovered.done.is_empty() && recovered.left.is_empty() {
        text = format!(
            "{}: nothing to put back; no journal of this server in {}\n",
            safe(&target.address()),
            options.state.display()
        );
    }
    output::print(&text)?;
    // Nobody can know whether a file that is refused was a tuner's journal.
    let is_all = recovered.refused.is_empty() && recovered.left.is_empty();
    Ok(if is_all { ExitStatus::Done } else { ExitStatus::Failed })
}
