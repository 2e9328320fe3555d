//! `spindoctor fleet query`: one statement, asked of all at once.
//!
//! The servers are asked on as many threads as there are CPUs, a task for each server; another thread writes, so that a
//! slow reader of the output delays no deadline.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use jiff::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindoctor_fleet::ask::{Question, channel};
use spindoctor_fleet::statement::Statement;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout_at;

use super::args::{FleetFormat, FleetQuery};
use super::servers::{Fleet, limits};
use super::writer::{Finished, Writer};
use super::{failures, write};
use crate::common::exit::ExitStatus;
use crate::common::output;

/// The servers of a fleet are asked on no more threads than this: what all of them answer goes to one that writes.
const MOST_THREADS: usize = 8;
/// Names are looked up by the system on threads; so many at most, however many servers there are.
const LOOKUP_THREADS: usize = 16;
/// Files that are open besides connections: standard streams, the log, temporary files, the runtime's.
const OTHER_FILES: u64 = 64;

/// Asks, and says who did not answer.
pub fn run(asked: &FleetQuery) -> anyhow::Result<ExitStatus> {
    check(asked)?;
    let statement = match asked.write {
        true => Statement::writing(&asked.sql),
        false => Statement::reading(&asked.sql)?,
    };
    if let Some(file) = &asked.out {
        let endings: &[&str] = match format(asked) {
            FleetFormat::Tab => &["txt", "tsv"],
            FleetFormat::Table => &["txt"],
            FleetFormat::Csv => &["csv"],
            FleetFormat::Json => &["json", "jsonl"],
            FleetFormat::Parquet => &["parquet"],
        };
        output::expect_writable(file, endings)?;
    }
    let fleet = Fleet::from_flags(&asked.which, &asked.login)?;
    let mut limits = limits(&asked.login);
    limits.connections = limits.connections.min(fleet.targets.len());
    limits.connections = connections_that_fit(limits.connections);
    let mut question = Question::new(fleet.targets.clone(), statement, limits);
    question.within = asked.within;
    if asked.write {
        return write::run(asked, &fleet, &question);
    }
    if asked.repeat.is_some() {
        question = question.repeated();
    }
    let runtime = runtime_on_threads()?;
    let (stop, stopped) = watch::channel(false);
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = rounds(asked, &fleet, &question, stopped) => outcome,
            error = interrupted_twice(&stop) => Err(error),
        }
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    outcome
}

/// Asks everybody, prints what they answer, and says who did not: once, or as often as was asked for, until Ctrl-C.
async fn rounds(
    asked: &FleetQuery,
    fleet: &Fleet,
    question: &Question,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<ExitStatus> {
    let mut round = 0;
    loop {
        round += 1;
        let begun = Instant::now();
        if asked.repeat.is_some() {
            output::note(&format!("spindoctor: asked at {}", Timestamp::now().strftime("%H:%M:%S UTC")));
        }
        let writer = Writer::new(asked, fleet)?;
        // On this thread it would wake the others for each server that it begins with.
        let asking = tokio::spawn(ask_all(question.clone(), writer, stopped.clone()));
        let (finished, left) = asking.await.context("the asking ended in the middle")??;
        let status = report(fleet, &finished?, &left, begun)?;
        let is_over = match asked.repeat.filter(|_| asked.times.is_none_or(|times| round < times)) {
            Some(every) => timeout_at((begun + every).into(), stopped.wait_for(|stop| *stop)).await.is_ok(),
            None => true,
        };
        if is_over {
            question.close().await;
            return Ok(status);
        }
    }
}

/// Says who did not answer, and makes an exit code of it.
pub fn report(
    fleet: &Fleet,
    finished: &Finished,
    left: &[usize],
    begun: Instant,
) -> anyhow::Result<ExitStatus> {
    let text = failures::summary(&failures::Outcome {
        names: &fleet.names,
        answered: finished.answered,
        failures: &finished.failures,
        not_asked: left,
        took: begun.elapsed(),
    });
    for line in text.lines().chain(finished.notes.iter().map(String::as_str)) {
        output::note(line);
    }
    Ok(match finished.answered {
        0 => ExitStatus::Failed,
        all if all == fleet.names.len() => ExitStatus::Done,
        _ => ExitStatus::Partly,
    })
}

fn check(asked: &FleetQuery) -> anyhow::Result<()> {
    let format = format(asked);
    if asked.group && !matches!(format, FleetFormat::Tab | FleetFormat::Table | FleetFormat::Json) {
        bail!("--group prints text or --json");
    }
    if format == FleetFormat::Parquet && asked.out.is_none() && io::IsTerminal::is_terminal(&io::stdout()) {
        bail!("Parquet is for a file: give --out FILE");
    }
    if format == FleetFormat::Parquet && asked.repeat.is_some() {
        bail!("--repeat prints what it is answered each time; a Parquet file is written once");
    }
    if format == FleetFormat::Parquet && asked.ordered {
        bail!(
            "--ordered is for what is printed; sort a Parquet file with --sql 'SELECT * FROM answers ORDER BY ...'"
        );
    }
    if asked.write
        && (asked.group || asked.sql_over.is_some() || asked.ordered || format == FleetFormat::Parquet)
    {
        bail!(
            "--write prints what each server did, as it comes; --group, --sql, --ordered and Parquet are for statements that read"
        );
    }
    Ok(())
}

/// The format that was asked for.
pub fn format(asked: &FleetQuery) -> FleetFormat {
    if asked.json { FleetFormat::Json } else { asked.format }
}

/// Asks everybody; what comes goes to the writer on a thread of its own.
async fn ask_all(
    question: Question,
    mut writer: Writer,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<(anyhow::Result<Finished>, Vec<usize>)> {
    let (sender, mut pieces) = channel();
    let (done, written) = oneshot::channel();
    std::thread::Builder::new()
        .name("writer".to_owned())
        .spawn(move || {
            let mut write = || {
                while let Some(batch) = pieces.blocking_recv() {
                    writer.batch(batch)?;
                }
                Ok(())
            };
            // The pieces' channel closes with this: the tasks that ask then stop.
            let outcome = write();
            drop(pieces);
            // Nobody may listen any more: after a second Ctrl-C.
            drop(done.send(outcome.and_then(|()| writer.finish())));
        })
        .context("could not start a thread")?;
    let everybody: Vec<usize> = (0..question.targets.len()).collect();
    let left = question.ask(&everybody, stop, sender).await;
    Ok((written.await.context("the writer ended in the middle")?, left))
}

/// The first Ctrl-C ends the asking, and what came is written; the second ends the program.
pub async fn interrupted_twice(stop: &watch::Sender<bool>) -> anyhow::Error {
    for _ in 0..2 {
        if let Err(error) = tokio::signal::ctrl_c().await {
            return anyhow::Error::new(error).context("could not listen for Ctrl-C");
        }
        stop.send_replace(true);
    }
    anyhow!("interrupted")
}

/// Runs asynchronous work on this thread.
pub fn wait_for<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(LOOKUP_THREADS)
        .build()
        .context("could not start the asynchronous runtime")?;
    let outcome = runtime.block_on(work);
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    outcome
}

/// As many threads as there are CPUs for: of a login and an answer, nearly all is the kernel's work for the socket, on the
/// sender's CPU, and with TLS the handshake's cryptography.
fn runtime_on_threads() -> anyhow::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .max_blocking_threads(LOOKUP_THREADS)
        .build()
        .context("could not start the asynchronous runtime")
}

/// Lets the process have as many files open as it may, and says how many connections that allows.
pub fn connections_that_fit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let needed = wanted as u64 + OTHER_FILES;
    let most = limit.maximum.unwrap_or(u64::MAX);
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < needed {
        let raised = needed.min(most);
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok() {
            current = raised;
        }
    }
    grow_file_table(needed.min(current));
    let fit = usize::try_from(current.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    wanted.min(fit)
}

/// Has the kernel make its table of our open files large enough for so many, now, while there is one thread. Where threads
/// share it, each doubling of the table waits until all CPUs have let go of the old one (`synchronize_rcu` in `expand_fdtable`
/// of Linux's fs/file.c): 8 to 15 ms, in which nobody can be connected to.
fn grow_file_table(files: u64) {
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    // A descriptor with that number, closed at once: the table stays. Where it is refused, connecting takes longer.
    drop(rustix::io::fcntl_dupfd_cloexec(io::stderr(), last));
}

/// The servers' names, for the threads that write.
pub type Names = Arc<[String]>;
