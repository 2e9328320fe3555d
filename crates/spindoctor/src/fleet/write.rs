//! `fleet query --write`: asks for confirmation, goes in waves, stops at the first failure, and keeps a log.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, bail};
use spindoctor_fleet::ask::{Question, channel};
use spindoctor_fleet::log::{self, Log};
use spindoctor_safefile::Folder;
use spindoctor_tune::apply::TakeOptions;
use tokio::sync::watch;

use super::args::FleetQuery;
use super::query::{interrupted_twice, report, wait_for};
use super::servers::Fleet;
use super::writer::Writer;
use crate::common::exit::ExitStatus;
use crate::common::output;
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// Servers that are named in the question.
const NAMED: usize = 5;

/// Asks for confirmation, runs the statement wave by wave, and reports.
pub fn run(asked: &FleetQuery, fleet: &Fleet, question: &Question) -> anyhow::Result<ExitStatus> {
    let everybody: Vec<usize> = (0..fleet.names.len()).collect();
    let waves = asked.wave.waves(&everybody);
    if !asked.yes && !agreed(fleet, question, waves.len())? {
        output::note("spindoctor: nothing was asked");
        return Ok(ExitStatus::Failed);
    }
    let path = log_path(asked)?;
    let mut log = Log::open(&path, &question.statement)
        .with_context(|| format!("{} cannot be written; nothing was asked", path.display()))?;
    output::note(&format!("spindoctor: logged in {}", safe(&path.display().to_string())));
    let begun = Instant::now();
    let mut writer = Writer::new(asked, fleet)?;
    let left = wait_for(in_waves(asked, fleet, question, &waves, &mut writer, &mut log))?;
    let finished = writer.finish()?;
    report(fleet, &finished, &left, begun)
}

async fn in_waves(
    asked: &FleetQuery,
    fleet: &Fleet,
    question: &Question,
    waves: &[&[usize]],
    writer: &mut Writer,
    log: &mut Log,
) -> anyhow::Result<Vec<usize>> {
    let (stop, stopped) = watch::channel(false);
    let going = async {
        let mut left: Vec<usize> = Vec::new();
        for (at, wave) in waves.iter().enumerate() {
            let names = wave.iter().map(|&server| fleet.names[server].as_str()).collect();
            log.wave(at + 1, names).context("the log cannot be written")?;
            let (sender, mut pieces) = channel();
            let asking = question.ask(wave, stopped.clone(), sender);
            // On this thread: what servers say of a statement that writes is little, and the next wave depends on it.
            let writing = async {
                while let Some(batch) = pieces.recv().await {
                    for piece in &batch {
                        let server = fleet.names[piece.server].as_str();
                        match &piece.end {
                            Some(Ok(_)) => log.done(server)?,
                            Some(Err(failure)) => log.failed(server, &failure.error, failure.unknown)?,
                            None => {}
                        }
                    }
                    writer.batch(batch)?;
                }
                anyhow::Ok(())
            };
            let (not_begun, written) = tokio::join!(asking, writing);
            written?;
            left.extend(not_begun);
            let failed = writer.failures().len();
            let behind: Vec<usize> = waves[at + 1..].iter().flat_map(|wave| wave.iter().copied()).collect();
            if behind.is_empty() {
                break;
            }
            if *stopped.borrow() || failed > asked.max_failures {
                if failed > asked.max_failures {
                    output::note(&format!(
                        "spindoctor: stopped after wave {} of {}: {} and --max-failures is {}",
                        at + 1,
                        waves.len(),
                        number::counted(failed as u64, "server failed", "servers failed"),
                        asked.max_failures
                    ));
                }
                left.extend(behind);
                break;
            }
        }
        Ok(left)
    };
    tokio::select! {
        left = going => left,
        error = interrupted_twice(&stop) => Err(error),
    }
}

/// Asks on the terminal: standard input may be the list of servers.
fn agreed(fleet: &Fleet, question: &Question, waves: usize) -> anyhow::Result<bool> {
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty");
    let Ok(mut terminal) = terminal else {
        bail!("--write asks for confirmation, and standard input is not a terminal; --yes does not ask");
    };
    let mut named: Vec<String> = fleet.names.iter().take(NAMED).map(|name| safe(name)).collect();
    if fleet.names.len() > NAMED {
        named.push("...".to_owned());
    }
    write!(
        terminal,
        "{}\non {} ({}), in {}. Go on? [y/N] ",
        safe(question.statement.sql()),
        number::counted(fleet.names.len() as u64, "server", "servers"),
        named.join(", "),
        number::counted(waves as u64, "wave", "waves"),
    )
    .context("could not ask")?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer).context("could not read the answer")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn log_path(asked: &FleetQuery) -> anyhow::Result<PathBuf> {
    match &asked.log {
        Some(path) => Ok(path.clone()),
        None => {
            let state =
                TakeOptions::of_process().context("there is no place for the log: give --log FILE")?.state;
            // A folder that another account can change is no place for it.
            Folder::private(&state).context("there is no place for the log: give --log FILE")?;
            Ok(state.join(log::NAME))
        }
    }
}
