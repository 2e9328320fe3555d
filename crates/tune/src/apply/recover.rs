//! Settings that dead tuners left on a server: the next tuner and `tune --recover` put them back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spindoctor_collect::mysql::Target;
use tokio::time::sleep;

use super::restore::{FOREIGN_RIGHT_S, finish, right_to_give_back, take_away};
use super::undo::{self, EMPTYING, EMPTYING_IN_PASSING, Giver};
use super::writer::{Facts, Writer};
use super::{ApplyError, PAUSE};
use crate::journal::{self, Journal};
use crate::lease::{self, LockedBy};
use crate::undo::journal as undo_journal;

/// How long an EVENT or guardian of a tuner that died may take to end: the promise of 5 s.
const LEFTOVER: Duration = Duration::from_secs(5);

/// How long a tuner that found a journal waits before it reads the old values: until no process may write beside its lock.
const AFTER_CLEARING_UP: Duration = Duration::from_millis(FOREIGN_RIGHT_S as u64 * 1_000 + 200);

/// Puts back what dead tuners left on this server; what was done, in sentences.
pub(super) async fn clear_up(
    target: &Target,
    writer: &mut Writer,
    facts: &Facts,
    state: &Path,
    by: &LockedBy,
) -> Result<Vec<String>, ApplyError> {
    let mut notes = Vec::new();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => {
                let begun = Instant::now();
                loop {
                    match clear_journal(writer, &path, &journal, by).await {
                        Ok(done) => break notes.push(done),
                        // A statement of the dead tuner's may be under way, and end.
                        Err(ApplyError::Statement { .. }) if begun.elapsed() < LEFTOVER => sleep(PAUSE).await,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(_) => {}
            Err(error) => notes.push(not_used(&path, &error)),
        }
    }
    wait_for_events(writer, facts).await?;
    if !notes.is_empty() {
        sleep(AFTER_CLEARING_UP).await;
    }
    // What is left of these does not keep a tuner from its work: the names are nobody else's.
    let undo = clear_undo(target, facts, state, EMPTYING_IN_PASSING).await?;
    notes.extend(undo.done.into_iter().chain(undo.left).chain(undo.refused));
    Ok(notes)
}

/// Takes away the undo tablespaces that dead tuners left on this server. The journals of variables are through.
async fn clear_undo(
    target: &Target,
    facts: &Facts,
    state: &Path,
    patience: Duration,
) -> Result<Recovered, ApplyError> {
    let listed = undo_journal::list(state)
        .map_err(|error| ApplyError::State { path: state.to_owned(), reason: error.to_string() })?;
    let mut recovered = Recovered::default();
    for (path, journal) in listed {
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) => {
                recovered.refused.push(not_used(&path, &error));
                continue;
            }
        };
        let pid = journal.tuner.pid;
        if journal.server != facts.server {
            recovered.others.push(format!(
                "process {pid} left undo tablespaces on {}: run `spindoctor tune --recover` for that server",
                journal.address
            ));
            continue;
        }
        match undo::give_back(target, &path, Giver::another(patience)).await {
            Ok(back) if back.why.is_some() => {
                recovered.left.push(format!("of process {pid}, which tuned here: {back}"));
            }
            Ok(back) => {
                recovered.done.push(format!("process {pid} made undo tablespaces here; {back}"));
            }
            Err(error) => recovered.left.push(format!(
                "undo tablespaces of process {pid}: {error}; `spindoctor tune --recover` goes on"
            )),
        }
    }
    Ok(recovered)
}

fn not_used(path: &Path, error: &std::io::Error) -> String {
    let path = path.display();
    // A refusal names the file itself.
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => format!("a journal is not used: {error}"),
        _ => format!("the journal {path} is not used: {error}; remove it after a look at what is in it"),
    }
}

/// Waits until the EVENTs of tuners that are gone have run: once a second, unless somebody switched the scheduler off. One
/// of an earlier start of the server has nothing to put back.
async fn wait_for_events(writer: &mut Writer, facts: &Facts) -> Result<(), ApplyError> {
    let begun = Instant::now();
    loop {
        let mut standing = None;
        for (schema, name, _) in writer.events().await? {
            match lease::event_started(&name) {
                Some(started) if started != facts.started => writer.drop_event(&schema, &name).await?,
                _ => standing = Some(format!("{schema}.{name}")),
            }
        }
        let Some(name) = standing else { return Ok(()) };
        if begun.elapsed() > LEFTOVER {
            return Err(ApplyError::Leftover { name });
        }
        sleep(PAUSE).await;
    }
}

fn list(state: &Path) -> Result<Vec<(PathBuf, std::io::Result<Journal>)>, ApplyError> {
    journal::list(state)
        .map_err(|error| ApplyError::State { path: state.to_owned(), reason: error.to_string() })
}

async fn clear_journal(
    writer: &mut Writer,
    path: &Path,
    journal: &Journal,
    by: &LockedBy,
) -> Result<String, ApplyError> {
    let tuner = format!("process {} tuned here and ended without a word", journal.tuner.pid);
    if journal.is_kept {
        take_away(writer, path, journal).await?;
        return Ok(format!("{tuner}; it had decided to keep its values"));
    }
    let restored = finish(writer, path, journal, &journal.variables, by).await?;
    Ok(format!("{tuner}; {restored}"))
}

/// What [`recover`] found and did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// What was put back on this server, a sentence for each tuner that was killed.
    pub done: Vec<String>,
    /// Journals here of other servers: what to do about each.
    pub others: Vec<String>,
    /// Journals here that are not believed: why.
    pub refused: Vec<String>,
    /// What could not be put back yet, with what to do; the next recovery goes on.
    pub left: Vec<String>,
}

/// Puts back what tuners that were killed left changed on this server.
///
/// # Errors
/// A tuner is at work there, or the server cannot be reached.
pub async fn recover(target: &Target, state: &Path) -> Result<Recovered, ApplyError> {
    let mut writer = Writer::connect(target).await?;
    let facts = writer.facts().await?;
    let mut recovered = Recovered::default();
    let mut own = Vec::new();
    for (path, journal) in list(state)? {
        match journal {
            Ok(journal) if journal.server == facts.server => own.push(path),
            Ok(journal) => recovered.others.push(format!(
                "process {} left a journal of {}: run `spindoctor tune --recover` for that server",
                journal.tuner.pid, journal.address
            )),
            Err(error) => recovered.refused.push(not_used(&path, &error)),
        }
    }
    // A lock that anybody holds is no reason to leave settings changed; the lock of a tuner that lives is.
    let tuners: Vec<u64> = own
        .iter()
        .filter_map(|path| Journal::read(path).ok().flatten())
        .filter(|journal| journal.server_started == facts.started)
        .map(|journal| journal.holder)
        .collect();
    let begun = Instant::now();
    loop {
        let tuner = writer.holder().await?.filter(|holder| tuners.contains(holder));
        let by = match right_to_give_back(&mut writer, tuner.unwrap_or_default()).await? {
            Some(LockedBy::Own) => Some(LockedBy::Own),
            // Beside a lock that a tuner elsewhere may hold, only what is known here is given back.
            by => by.filter(|_| !own.is_empty()),
        };
        if let Some(by) = by {
            match recover_journals(&mut writer, &own, &by, &mut recovered.done).await {
                Ok(()) => break,
                // A statement of the tuner's may be under way, and end.
                Err(ApplyError::Statement { .. }) if begun.elapsed() < LEFTOVER => {}
                Err(error) => return Err(error),
            }
        } else if begun.elapsed() > LEFTOVER {
            let holder = writer.holder().await?;
            let who = who_holds(&mut writer, holder, &facts, state).await;
            return Err(ApplyError::Taken { address: target.address(), who });
        }
        sleep(PAUSE).await;
    }
    wait_for_events(&mut writer, &facts).await?;
    // The lock is given back first: emptying may take long, and asks for no lease.
    writer.close().await;
    let undo = clear_undo(target, &facts, state, EMPTYING).await?;
    recovered.done.extend(undo.done);
    recovered.others.extend(undo.others);
    recovered.refused.extend(undo.refused);
    recovered.left.extend(undo.left);
    Ok(recovered)
}

async fn recover_journals(
    writer: &mut Writer,
    own: &[PathBuf],
    by: &LockedBy,
    done: &mut Vec<String>,
) -> Result<(), ApplyError> {
    for path in own {
        // Read again under the lock: who held it before may have put everything back.
        if let Ok(Some(journal)) = Journal::read(path) {
            done.push(clear_journal(writer, path, &journal, by).await?);
        }
    }
    Ok(())
}

/// Who holds the lease, as far as the server and the journals here show.
pub(super) async fn who_holds(
    writer: &mut Writer,
    holder: Option<u64>,
    facts: &Facts,
    state: &Path,
) -> String {
    let journals = journal::list(state).unwrap_or_default();
    let own = journals.iter().filter_map(|(_, journal)| journal.as_ref().ok());
    if let Some(journal) = own.into_iter().find(|journal| {
        journal.server == facts.server && Some(journal.holder) == holder && journal.tuner.runs()
    }) {
        return format!(
            "process {} on this host, since {}",
            journal.tuner.pid,
            journal.taken.strftime("%Y-%m-%d %H:%M:%S UTC")
        );
    }
    let Some(holder) = holder else { return "its lease ended this moment".to_owned() };
    let sql = format!("SELECT USER, HOST FROM information_schema.PROCESSLIST WHERE ID = {holder}");
    let account = match writer.rows(&sql).await.unwrap_or_default().into_iter().next().as_deref() {
        Some([Some(user), Some(host)]) => format!("{user} from {host}, connection {holder}"),
        _ => format!("connection {holder}"),
    };
    let own = lease::event_name(holder, facts.started);
    let events = writer.events().await.unwrap_or_default();
    match events.into_iter().find(|(_, name, created)| *name == own && !created.is_empty()) {
        Some((.., created)) => format!("{account}, since {created} (the server's time)"),
        None => account,
    }
}
