//! Undo tablespaces: making them before a trial, and taking them away after it.
//!
//! # The protocol
//!
//! *Making*, by the tuner, while it holds the lease: `innodb_undo_log_truncate` must be ON, and all that there will be must fit a
//! quarter of what is free in the server's undo directory, each at `innodb_max_undo_log_size` and a step beyond. The undo
//! journal is made ([`crate::undo::journal`]). For each name: it is in no row of INNODB_TABLESPACES; L holds the lock; the name
//! is saved to the undo journal; then CREATE UNDO TABLESPACE, on a connection U of its own, which is closed after the last. One that
//! was there all the same, by its error, is taken out of the journal again: it is somebody else's.
//!
//! *Taking away*, by the tuner, G, R or N, once the variables have their old values and their journal is gone: each name of the
//! journal that is active is set INACTIVE, purge empties it, and it is dropped when the server says that it is empty. That is no
//! matter of the lease: no two tuners give the same name, so that one that is dropped is always one of this journal. Nobody does
//! it while L holds the lock. A restart of the server changes nothing.
//!
//! *The journal goes* when none of its names is there, and none can come any more: U is closed (where it is the same start of
//! the server), and the tuner's process has ended, or is the one that takes it away. A tuner that was stopped between its look
//! at the lease and its statement makes one more when it goes on; until then somebody may have to take that one away.
//!
//! *Keeping*: `is_kept` is saved to the undo journal, then to the other one, which decides: a process that finds the other one
//! not kept first clears `is_kept` in this one ([`crate::undo::journal::not_kept`]).
//!
//! The EVENT knows nothing of them: they cost disk, and no speed, until somebody takes them away.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spindoctor_collect::host;
use spindoctor_collect::host::data_directory::{free_bytes_of, undo_bytes_in};
use spindoctor_collect::mysql::Target;
use spindoctor_rules::proposals::{undo_budget_bytes, undo_bytes_at_most};
use tokio::time::sleep;

use super::writer::Writer;
use super::{ApplyError, Settings};
use crate::lease::{self, WRITER_IDLE_S};
use crate::undo::journal::{self, UndoFile, UndoJournal};
use crate::undo::{self, MOST, UndoRefused};

/// How long no tablespace becomes inactive, empty or dropped before the tuner or `--recover` says why and
/// ends. Purge empties one after the other, in a fraction of a second each where it keeps up.
pub(super) const EMPTYING: Duration = Duration::from_secs(20);
/// The same for the next tuner, which has other work.
pub(super) const EMPTYING_IN_PASSING: Duration = Duration::from_secs(5);
/// The same for one try of the guardian, which looks once and comes again.
pub(crate) const EMPTYING_ONCE: Duration = Duration::ZERO;
/// Between two looks, and at least four times as long as a look takes: INNODB_TABLESPACES has a row for each table.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_FACTOR: u32 = 4;
/// What a new one has on disk (16 MiB from 8.0.23 on, fsp0types.h) with room for its first step.
const FIRST_BYTES: u64 = 32 << 20;

/// What happened to undo tablespaces, as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoStep {
    /// Their journal is on disk.
    Begun,
    /// A name is in it.
    Journalled,
    /// A tablespace was made.
    Made {
        /// Which one, from 1.
        number: u32,
        /// How many are to be made.
        of: u32,
    },
    /// The variables have their old values, and their journal is gone.
    VariablesBack,
    /// One was set inactive.
    Inactive,
    /// One was dropped.
    Dropped,
    /// The decision to keep them is in their journal.
    Kept,
}

/// Undo tablespaces that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoMade {
    /// How many were active before, the implicit ones among them.
    pub active_before: u32,
    /// Their names.
    pub names: Vec<String>,
    /// `innodb_undo_directory`, in the server's words.
    pub folder: String,
    /// What all undo there took before, on disk.
    pub bytes_before: u64,
    /// What it may take more than that.
    pub budget_bytes: u64,
}

/// What became of a tuner's undo tablespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UndoBack {
    /// Those that were dropped now.
    pub dropped: u32,
    /// True where they stay, as the tuner decided.
    pub is_kept: bool,
    /// Those that are left.
    pub left: Vec<String>,
    /// Why something is left, with what to do: a tablespace, or the journal alone.
    pub why: Option<String>,
}

impl fmt::Display for UndoBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tablespaces = |count: usize| if count == 1 { "undo tablespace" } else { "undo tablespaces" };
        if self.is_kept {
            return f.write_str("its undo tablespaces stay, as it had decided");
        }
        let mut comma = "";
        if self.dropped > 0 || self.why.is_none() {
            write!(
                f,
                "{} {} dropped",
                self.dropped,
                match self.dropped {
                    1 => "undo tablespace was",
                    _ => "undo tablespaces were",
                }
            )?;
            comma = "; ";
        }
        let Some(why) = &self.why else { return Ok(()) };
        if self.left.is_empty() {
            return write!(f, "{comma}their journal is left: {why}");
        }
        write!(
            f,
            "{comma}{} {} left ({}): {why}",
            self.left.len(),
            tablespaces(self.left.len()),
            self.left.join(", ")
        )
    }
}

impl Settings {
    /// Sets the function that is called at each [`UndoStep`].
    pub fn watch_undo(&mut self, watching: fn(UndoStep)) {
        self.undo_watching = watching;
    }

    /// Makes undo tablespaces, so that as many are active as are `wanted`. Each may grow to `limit_bytes`, where
    /// `innodb_max_undo_log_size` is to become that. `host` is the server's process: what its undo directory has room for is
    /// read through it. They go again when the settings are given back, and stay when they are kept.
    ///
    /// # Errors
    /// This server makes none, they do not fit, or the server refuses; those that were made are in the journal.
    pub async fn make_undo(
        &mut self,
        wanted: u32,
        limit_bytes: Option<u64>,
        host: Option<&host::Target>,
        is_to_stop: &dyn Fn() -> bool,
    ) -> Result<UndoMade, ApplyError> {
        self.still_held()?;
        if let Some(why) = undo::unavailable(self.facts.version) {
            return Err(UndoRefused::Unavailable(why).into());
        }
        let mut maker = Writer::connect(&self.target).await?;
        if self.facts.has_binary_log && !maker.is_silent() {
            return Err(UndoRefused::BinaryLog.into());
        }
        maker.be_patient();
        let (taken, mut made) = look(&mut maker, wanted, limit_bytes, host).await?;
        // A host that is cut off must not keep the connection, for which everybody else waits.
        maker.run(&format!("SET SESSION wait_timeout = {WRITER_IDLE_S}")).await?;
        let mut file = UndoFile::create(self.journal.path(), &self.journal.journal, maker.id)?;
        (self.undo_watching)(UndoStep::Begun);
        let count = wanted - made.active_before;
        let (started, holder) = (self.facts.started, self.heartbeat.holder);
        let free_names = (1..=MOST)
            .map(|number| undo::own_name(started, holder, number))
            .filter(|name| !taken.contains(name));
        let mut refused = None;
        for name in free_names {
            if made.names.len() == count as usize {
                break;
            }
            if is_to_stop() {
                return Err(UndoRefused::Stopped.into());
            }
            // By the rest that the budget leaves free, nobody else's growth is known beforehand.
            if let Some(free) = host.and_then(|host| free_bytes_of(host, &made.folder))
                && free < FIRST_BYTES
            {
                return Err(UndoRefused::RoomGone { free_bytes: free as f64 }.into());
            }
            self.expect_lease().await?;
            file.journal.names.push(name.clone());
            save(&file)?;
            (self.undo_watching)(UndoStep::Journalled);
            match maker.create_undo(&name).await {
                Ok(true) => {
                    made.names.push(name);
                    let number = u32::try_from(made.names.len()).unwrap_or(MOST);
                    (self.undo_watching)(UndoStep::Made { number, of: count });
                }
                // Somebody else's, of this very name.
                Ok(false) => {
                    file.journal.names.pop();
                    save(&file)?;
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        maker.close().await;
        if let Some(error) = refused {
            return Err(error);
        }
        file.journal.writer = 0;
        save(&file)?;
        self.expect_lease().await?;
        Ok(made)
    }

    /// How many undo tablespaces take new transactions.
    ///
    /// # Errors
    /// This server makes none, or does not answer.
    pub async fn active_undo(&mut self) -> Result<u32, ApplyError> {
        if let Some(why) = undo::unavailable(self.facts.version) {
            return Err(UndoRefused::Unavailable(why).into());
        }
        let there = self.writer.undo_tablespaces().await?;
        Ok(u32::try_from(there.iter().filter(|(_, state)| state == "active").count()).unwrap_or(MOST))
    }

    fn undo_path(&self) -> PathBuf {
        journal::path_beside(self.journal.path())
    }

    /// Sees that they all stand, and writes down that they are to stay, once the variables are.
    pub(super) async fn keep_undo(&mut self) -> Result<(), ApplyError> {
        let path = self.undo_path();
        let Some(journal) = journal::read(&path).map_err(|error| unread(&path, &error))? else {
            return Ok(());
        };
        let there = self.writer.undo_tablespaces().await?;
        for name in &journal.names {
            let state = there.iter().find(|(other, _)| other == name).map(|(_, state)| state.as_str());
            if state != Some("active") {
                let state = state.unwrap_or("gone").to_owned();
                return Err(UndoRefused::Changed { name: name.clone(), state }.into());
            }
        }
        journal::keep(&path)?;
        (self.undo_watching)(UndoStep::Kept);
        Ok(())
    }

    /// The variables are kept, and so are these.
    pub(super) fn close_kept_undo(&self) -> Result<(), ApplyError> {
        Ok(journal::take_away(&self.undo_path())?)
    }

    /// Takes away what this process made; nothing where it made none.
    pub(super) async fn give_back_undo(&self) -> Option<UndoBack> {
        let path = self.undo_path();
        if !path.exists() {
            return None;
        }
        (self.undo_watching)(UndoStep::VariablesBack);
        let giver = Giver { is_own: true, patience: EMPTYING, watching: self.undo_watching };
        let back = match give_back(&self.target, &path, giver).await {
            Ok(back) => back,
            Err(error) => UndoBack {
                left: journal::read(&path).ok().flatten().map(|journal| journal.names).unwrap_or_default(),
                why: Some(format!("{error}; `spindoctor tune --recover` goes on")),
                ..UndoBack::default()
            },
        };
        Some(back)
    }
}

/// What is there, and whether what is wanted fits: all names, and what is known before any is made.
async fn look(
    writer: &mut Writer,
    wanted: u32,
    limit_bytes: Option<u64>,
    host: Option<&host::Target>,
) -> Result<(Vec<String>, UndoMade), ApplyError> {
    let names = ["innodb_undo_directory", "innodb_undo_log_truncate", "innodb_max_undo_log_size"];
    let [folder, truncate, limit] = writer.variables(&names).await?.try_into().unwrap_or_default();
    let folder = folder.filter(|folder| !folder.is_empty()).unwrap_or_else(|| "./".to_owned());
    if truncate.is_none_or(|on| !on.eq_ignore_ascii_case("ON")) {
        return Err(UndoRefused::Truncate.into());
    }
    let limit = limit_bytes.or_else(|| limit?.parse().ok());
    let limit = limit.ok_or_else(|| ApplyError::Missing("innodb_max_undo_log_size".to_owned()))? as f64;
    let there = writer.undo_tablespaces().await?;
    let count = |many: usize| u32::try_from(many).unwrap_or(MOST);
    let active = count(there.iter().filter(|(_, state)| state == "active").count());
    if wanted <= active {
        return Err(UndoRefused::Enough { active }.into());
    }
    let all = count(there.len());
    if all + wanted - active > MOST {
        return Err(UndoRefused::TooMany { there: all, active }.into());
    }
    let free = host.and_then(|host| free_bytes_of(host, &folder));
    let free_bytes = free.ok_or_else(|| UndoRefused::RoomUnknown(folder.clone()))? as f64;
    let budget_bytes = undo_budget_bytes(free_bytes);
    let needed_bytes = undo_bytes_at_most(f64::from(wanted), limit);
    if needed_bytes > budget_bytes {
        let fits = (budget_bytes / undo_bytes_at_most(1.0, limit)).floor() as u32;
        let limit_bytes = limit;
        return Err(UndoRefused::NoRoom {
            wanted,
            folder,
            needed_bytes,
            limit_bytes,
            free_bytes,
            budget_bytes,
            fits,
        }
        .into());
    }
    let made = UndoMade {
        active_before: active,
        names: Vec::new(),
        bytes_before: host.and_then(|host| undo_bytes_in(host, &folder)).unwrap_or_default(),
        folder,
        budget_bytes: budget_bytes as u64,
    };
    Ok((there.into_iter().map(|(name, _)| name).collect(), made))
}

/// Saves their journal; where it is gone, they have been dropped.
fn save(file: &UndoFile) -> Result<(), ApplyError> {
    file.save().map_err(|error| match error.error.kind() {
        std::io::ErrorKind::NotFound => ApplyError::Lost {
            reason: "the journal of the undo tablespaces is gone, they were dropped".to_owned(),
        },
        _ => error.into(),
    })
}

fn unread(path: &Path, error: &std::io::Error) -> ApplyError {
    ApplyError::State { path: path.to_owned(), reason: error.to_string() }
}

/// Who takes undo tablespaces away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Giver {
    /// The tuner itself, which makes no more.
    pub(crate) is_own: bool,
    /// So long nothing may move.
    pub(crate) patience: Duration,
    /// Who wants to know.
    pub(crate) watching: fn(UndoStep),
}

impl Giver {
    pub(crate) fn another(patience: Duration) -> Self {
        Self { is_own: false, patience, watching: |_| () }
    }
}

/// Takes away the undo tablespaces of a journal, and the journal when none of them can come back. The journal of the variables
/// beside it is gone, or nobody can read it.
///
/// # Errors
/// The server does not answer or is another one, or the journal cannot be read: nothing is known of what is left.
pub(crate) async fn give_back(target: &Target, path: &Path, giver: Giver) -> Result<UndoBack, ApplyError> {
    let Some(journal) = journal::read(path).map_err(|error| unread(path, &error))? else {
        return Ok(UndoBack::default());
    };
    if journal.is_kept {
        journal::take_away(path)?;
        return Ok(UndoBack { is_kept: true, ..UndoBack::default() });
    }
    let mut writer = Writer::connect(target).await?;
    writer.be_patient();
    let facts = writer.facts().await?;
    if facts.server != journal.server {
        return Err(ApplyError::OtherServer { expected: journal.server, found: facts.server });
    }
    // Replicas have none of that name: the statement would stop them.
    let may_write = !facts.has_binary_log || writer.is_silent();
    let is_same_start = facts.started == journal.server_started;
    if is_same_start && !giver.is_own && writer.holder().await? == Some(journal.holder) {
        let why = "their tuner is at work".to_owned();
        return Ok(UndoBack { why: Some(why), left: journal.names, ..UndoBack::default() });
    }
    let mut back = UndoBack::default();
    let mut moved = Instant::now();
    let mut before = None;
    loop {
        let asked = Instant::now();
        // Looked at before the names are: a statement that begins later is one of a process that has not ended.
        let may_come = why_more_may_come(&mut writer, &journal, is_same_start, giver.is_own).await?;
        let seen = pass(&mut writer, &journal, may_write, &mut back, giver.watching).await?;
        if seen.there.is_empty() && may_come.is_none() {
            journal::take_away(path)?;
            writer.close().await;
            return Ok(back);
        }
        if before.as_ref() != Some(&seen.there) {
            moved = Instant::now();
        }
        let patience = match seen.there.is_empty() {
            true => giver.patience.min(EMPTYING_IN_PASSING),
            false => giver.patience,
        };
        if moved.elapsed() >= patience {
            back.why = Some(match (seen.refused, may_come) {
                (_, Some(why)) if seen.there.is_empty() => why,
                (Some(refused), _) => {
                    format!("{refused}; when that is mended, `spindoctor tune --recover` goes on")
                }
                (None, _) => why_not_empty(&mut writer).await,
            });
            back.left = seen.there.into_iter().map(|(name, _)| name).collect();
            writer.close().await;
            return Ok(back);
        }
        before = Some(seen.there);
        sleep(PAUSE.max(asked.elapsed() * PAUSE_FACTOR)).await;
    }
}

/// One look at the names of a journal, and what was done about them.
struct Look {
    /// Those that are there, with their state before anything was done.
    there: Vec<(String, String)>,
    /// The last thing that the server refused.
    refused: Option<ApplyError>,
}

async fn pass(
    writer: &mut Writer,
    journal: &UndoJournal,
    may_write: bool,
    back: &mut UndoBack,
    watching: fn(UndoStep),
) -> Result<Look, ApplyError> {
    let mut seen = Look { there: Vec::new(), refused: None };
    for (name, state) in writer.undo_tablespaces().await? {
        if !journal.names.contains(&name) {
            continue;
        }
        let done = match state.as_str() {
            _ if !may_write => Err(UndoRefused::BinaryLogOfDrop.into()),
            "active" => writer.empty_undo(&name).await.map(|()| watching(UndoStep::Inactive)),
            "empty" => writer.drop_undo(&name).await.map(|()| {
                back.dropped += 1;
                watching(UndoStep::Dropped);
            }),
            _ => Ok(()),
        };
        match done {
            Err(error) if writer.is_broken() => return Err(error),
            // Somebody else may be at the same; if not, the next look shows it again.
            Err(error) => seen.refused = Some(error),
            Ok(()) => {}
        }
        seen.there.push((name, state));
    }
    Ok(seen)
}

/// Why another tablespace of the journal may appear yet; none where none can.
async fn why_more_may_come(
    writer: &mut Writer,
    journal: &UndoJournal,
    is_same_start: bool,
    is_own: bool,
) -> Result<Option<String>, ApplyError> {
    if !is_own && journal.tuner.runs() {
        let pid = journal.tuner.pid;
        return Ok(Some(format!(
            "process {pid}, which made them, runs still; `spindoctor tune --recover` goes on when it has ended"
        )));
    }
    let is_open = is_same_start
        && journal.writer != 0
        && writer.number(&format!("SELECT {}", lease::connected(journal.writer))).await? != Some(0);
    Ok(is_open.then(|| {
        format!(
            "connection {} of the tuner is open still; `spindoctor tune --recover` goes on",
            journal.writer
        )
    }))
}

/// What keeps purge from emptying them, with what to do.
async fn why_not_empty(writer: &mut Writer) -> String {
    let oldest = "SELECT trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, trx_started, NOW()), (SELECT CONCAT(USER, '@', HOST) FROM \
                  information_schema.PROCESSLIST WHERE ID = trx_mysql_thread_id) FROM information_schema.INNODB_TRX \
                  ORDER BY trx_started LIMIT 1";
    let then = "then `spindoctor tune --recover` goes on";
    match writer.rows(oldest).await.unwrap_or_default().into_iter().next().as_deref() {
        Some([Some(id), Some(seconds), who]) if id != "0" => {
            let who = who.as_ref().map_or(String::new(), |who| format!(" ({who})"));
            format!(
                "purge needs their undo for a transaction that connection {id}{who} began {seconds} s ago; end it there or with KILL {id}, {then}"
            )
        }
        Some([Some(_), Some(seconds), _]) => format!(
            "purge needs their undo for a prepared XA transaction that began {seconds} s ago; XA RECOVER names it, end it, {then}"
        ),
        _ => format!(
            "purge has not come to them yet: SHOW ENGINE INNODB STATUS has its history list length; wait, {then}"
        ),
    }
}
