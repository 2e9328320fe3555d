//! The journal: what was changed on which server, on disk before it is changed.
//!
//! One file for each tuner that runs, in the folder of its user's state. It is written whole, synced, renamed into place and
//! its folder synced, so that whoever reads it after a kill or a power cut finds the last state or the one before. No
//! password is in it. It is gone when the server has its old values again, or keeps the new ones.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_collect::host::process::parse_task_stat;
use thiserror::Error;

use crate::lease::Held;

/// Name and version of the file's form.
const SCHEMA: &str = "spindoctor.journal/1";

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// Always `spindoctor.journal/1`.
    schema: String,
    /// What the tuner connected to: `/run/mysqld/mysqld.sock`, `db17:3306`.
    pub address: String,
    /// Which server that is, in its own words: its UUID; where it has none, host name, port and data folder.
    pub server: String,
    /// When the server was started, Unix seconds of its own clock.
    pub server_started: i64,
    /// When the tuner took the settings.
    pub taken: Timestamp,
    /// The tuner.
    pub tuner: ProcessMark,
    /// The connection that holds the lease.
    pub holder: u64,
    /// The schema of the EVENT, where there is one.
    pub event_schema: Option<String>,
    /// True once the tuner decided to leave the values as they are.
    pub is_kept: bool,
    /// What was taken.
    pub variables: Vec<Held>,
}

/// Which process a number means: ids are used again, so it goes with the tick it started at and the boot it counts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Process id.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_ticks: u64,
    /// `/proc/sys/kernel/random/boot_id`
    pub boot: String,
}

impl ProcessMark {
    /// This process.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat"))?;
        let stat = parse_task_stat(&String::from_utf8_lossy(&stat)).ok_or(io::ErrorKind::InvalidData)?;
        if matches!(stat.state.as_str(), "Z" | "X") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        Ok(Self { pid, start_ticks: stat.started_ticks, boot })
    }

    /// True while it runs; a zombie does not.
    pub fn runs(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}

/// Why a journal cannot be kept.
#[derive(Debug, Error)]
#[error(
    "the journal {path} cannot be {doing}: {error}; nothing is changed without one: free the disk, or set XDG_STATE_HOME"
)]
pub struct JournalError {
    /// The file or folder.
    pub path: PathBuf,
    /// What was tried: `written`, `removed`.
    pub doing: &'static str,
    /// The system's words.
    #[source]
    pub error: io::Error,
}

/// A journal and its file.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    /// What it says; [`JournalFile::save`] after a change.
    pub journal: Journal,
}

impl Journal {
    /// A journal of this process, with nothing set yet.
    pub(crate) fn new(
        address: String,
        server: String,
        server_started: i64,
        tuner: ProcessMark,
        holder: u64,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            address,
            server,
            server_started,
            taken: Timestamp::now(),
            tuner,
            holder,
            event_schema: None,
            is_kept: false,
            variables: Vec::new(),
        }
    }

    /// Reads a file; none where it is gone.
    ///
    /// # Errors
    /// It cannot be read or understood.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => {
                let journal: Self = serde_json::from_slice(&bytes)?;
                if journal.schema != SCHEMA {
                    return Err(io::Error::other(format!(
                        "its schema is {:?}, not {SCHEMA}",
                        journal.schema
                    )));
                }
                Ok(Some(journal))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl JournalFile {
    /// The file that will be: nothing is on disk yet.
    pub fn plan(folder: &Path, journal: Journal) -> Self {
        let name = format!("tune-{}-{}.journal", journal.tuner.pid, journal.holder);
        Self { path: folder.join(name), journal }
    }

    /// Makes the file, and the folder where it is missing.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn create(&self) -> Result<(), JournalError> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let failed = |error| JournalError { path: folder.to_owned(), doing: "written", error };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        self.save()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what it says now; on disk when this returns.
    ///
    /// # Errors
    /// The disk refuses: the file says what it said before.
    pub fn save(&self) -> Result<(), JournalError> {
        let write = || {
            let unfinished = self.path.with_extension("unfinished");
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            file.write_all(&serde_json::to_vec_pretty(&self.journal)?)?;
            file.sync_all()?;
            fs::rename(&unfinished, &self.path)?;
            sync_folder(&self.path)
        };
        write().map_err(|error| JournalError { path: self.path.clone(), doing: "written", error })
    }
}

/// Takes a journal's file away; one that is gone is as good.
///
/// # Errors
/// The disk refuses.
pub fn remove(path: &Path) -> Result<(), JournalError> {
    // Left over where a tuner was killed between writing and renaming.
    let _absent = fs::remove_file(path.with_extension("unfinished"));
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => sync_folder(path),
    };
    removed.map_err(|error| JournalError { path: path.to_owned(), doing: "removed", error })
}

/// The journals of a folder, with what they say; those that cannot be understood with the reason.
///
/// # Errors
/// The folder cannot be read. One that does not exist has none.
pub fn list(folder: &Path) -> io::Result<Vec<(PathBuf, io::Result<Journal>)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut journals = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "journal")
            && let Some(read) = Journal::read(&path).transpose()
        {
            journals.push((path, read));
        }
    }
    journals.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(journals)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let mut journal =
            Journal::new("/s".into(), "db17:3306".into(), 1_700_000_000, ProcessMark::own().unwrap(), 17);
        journal.variables.push(Held {
            name: "a".into(),
            original: "1".into(),
            set: vec!["2".into()],
            is_changing: false,
        });
        journal
    }

    #[test]
    fn what_was_written_is_read_and_what_was_removed_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("not/yet");
        assert!(list(&state).unwrap().is_empty());
        let mut file = JournalFile::plan(&state, journal());
        file.create().unwrap();
        file.journal.is_kept = true;
        file.save().unwrap();
        let listed = list(&state).unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].1.as_ref().unwrap(), &file.journal);
        let path = file.path().to_owned();
        remove(&path).unwrap();
        assert_eq!(Journal::read(&path).unwrap(), None);
        assert!(fs::read_dir(&state).unwrap().next().is_none(), "nothing is left beside it");
    }

    #[test]
    fn a_journal_that_cannot_be_understood_is_listed_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tune-1-1.journal"), "{").unwrap();
        let listed = list(folder.path()).unwrap();
        assert!(listed[0].1.is_err());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_told_with_what_to_do() {
        let error =
            JournalFile::plan(Path::new("/proc/nothing"), journal()).create().unwrap_err().to_string();
        assert!(error.contains("/proc/nothing") && error.contains("XDG_STATE_HOME"), "{error}");
    }

    #[test]
    fn a_process_is_not_taken_for_another_with_its_id() {
        let own = ProcessMark::own().unwrap();
        assert!(own.runs());
        assert!(!ProcessMark { start_ticks: own.start_ticks + 1, ..own }.runs());
    }
}
