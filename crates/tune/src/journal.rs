//! The journal: which settings are changed on which server, written to disk before the change.
//!
//! One file for each tuner that runs, in the folder of its user's state. It is written whole, synced, renamed into
//! place and its folder synced, so that a reader after a kill or a power cut finds the last state or the one before. No
//! password is in it. It is removed when the server has its old values again, or keeps the new ones; a removed journal
//! never comes back.
//!
//! Its values are set on a server by an account that may set everything. So it is trusted only where nobody else can
//! have written it ([`spindoctor_safefile::Folder`]), and only what a tuner writes is understood: variables of the
//! list, with values of their form.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_collect::host::process::parse_task_stat;
use spindoctor_safefile::Folder;
use thiserror::Error;

use crate::lease::{self, Held};
use crate::variables::find;

/// Name and version of the file's form.
const SCHEMA: &str = "spindoctor.journal/1";
/// A journal of every variable with a hundred values each has 50 kB.
const MOST_BYTES: u64 = 1 << 20;

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
    /// The connection that sets; 0 where that is not known.
    #[serde(default)]
    pub writer: u64,
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
        Self::of_process(std::process::id())
    }

    fn of_process(pid: u32) -> io::Result<Self> {
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
        Self::of_process(self.pid).is_ok_and(|now| now == *self)
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
        writer: u64,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            address,
            server,
            server_started,
            taken: Timestamp::now(),
            tuner,
            holder,
            writer,
            event_schema: None,
            is_kept: false,
            variables: Vec::new(),
        }
    }

    /// The EVENT's name, where there is one.
    pub fn event_name(&self) -> String {
        lease::event_name(self.holder, self.server_started)
    }

    /// Reads a file; none where it is gone.
    ///
    /// # Errors
    /// It cannot be read or understood, or somebody else may have written it.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let (folder, name) = parts(path);
        match Folder::existing(folder)? {
            Some(folder) => Self::read_in(&folder, name),
            None => Ok(None),
        }
    }

    fn read_in(folder: &Folder, name: &OsStr) -> io::Result<Option<Self>> {
        let Some(bytes) = folder.read(name, MOST_BYTES)? else { return Ok(None) };
        let journal: Self = serde_json::from_slice(&bytes)?;
        journal.check().map_err(io::Error::other)?;
        Ok(Some(journal))
    }

    /// Whether a tuner can have written it.
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("its schema is {:?}, not {SCHEMA}", self.schema));
        }
        if let Some(schema) = &self.event_schema
            && !lease::SCHEMAS.contains(&schema.as_str())
        {
            return Err(format!("no EVENT of spindoctor's stands in {schema:?}"));
        }
        let is_original = |value: &String| self.variables.iter().any(|held| held.original == *value);
        for (position, held) in self.variables.iter().enumerate() {
            let variable = find(&held.name).ok().filter(|variable| variable.name == held.name);
            let Some(variable) = variable else {
                return Err(format!(
                    "{:?} is not on the list of variables that spindoctor changes",
                    held.name
                ));
            };
            if self.variables[..position].iter().any(|other| other.name == held.name) {
                return Err(format!("it names {} twice", held.name));
            }
            // The old value may lie outside of what may be tried: it was there before.
            if !variable.has_form(&held.original) {
                return Err(format!("{:?} is not a value of {}", held.original, held.name));
            }
            let is_known = |value: &&String| {
                variable.is_in_widest_range(value) || (variable.has_form(value) && is_original(value))
            };
            if let Some(value) = held.set.iter().find(|value| !is_known(value)) {
                return Err(format!("{value:?} is not a value of {}", held.name));
            }
        }
        Ok(())
    }
}

/// The folder and the name in it.
pub(crate) fn parts(path: &Path) -> (&Path, &OsStr) {
    (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default())
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
    /// The disk refuses, or another account can change the folder.
    pub fn create(&self) -> Result<(), JournalError> {
        let (folder, name) = parts(&self.path);
        let write = || Folder::private(folder)?.write(name, &serde_json::to_vec_pretty(&self.journal)?);
        write().map_err(|error| self.failed(error))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what it says now; on disk when this returns.
    ///
    /// # Errors
    /// The disk refuses: the file says what it said before. `NotFound`: somebody has put everything back and taken it away.
    pub fn save(&self) -> Result<(), JournalError> {
        let (folder, name) = parts(&self.path);
        let write = || Folder::private(folder)?.replace(name, &serde_json::to_vec_pretty(&self.journal)?);
        write().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError { path: self.path.clone(), doing: "written", error }
    }
}

/// Removes a journal's file; it is no error where there is none.
///
/// # Errors
/// The disk refuses.
pub fn remove(path: &Path) -> Result<(), JournalError> {
    let (folder, name) = parts(path);
    let removed = match Folder::existing(folder) {
        Ok(Some(folder)) => folder.remove(name),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| JournalError { path: path.to_owned(), doing: "removed", error })
}

/// The journals of a folder, with what they say; those that cannot be understood with the reason.
///
/// # Errors
/// The folder cannot be read, or another account can change it. One that does not exist has none.
pub fn list(folder: &Path) -> io::Result<Vec<(PathBuf, io::Result<Journal>)>> {
    let Some(opened) = Folder::existing(folder)? else { return Ok(Vec::new()) };
    let mut journals = Vec::new();
    for name in opened.names()? {
        let path = folder.join(&name);
        if path.extension().is_some_and(|extension| extension == "journal")
            && let Some(read) = Journal::read_in(&opened, &name).transpose()
        {
            journals.push((path, read));
        }
    }
    Ok(journals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let tuner = ProcessMark::own().unwrap();
        let mut journal = Journal::new("/s".into(), "db17:3306".into(), 1_700_000_000, tuner, 17, 16);
        journal.variables.push(held("innodb_spin_wait_delay", "7000", &["2", "7000"]));
        journal.variables.push(held("innodb_adaptive_hash_index", "ON", &["OFF"]));
        journal
    }

    fn held(name: &str, original: &str, set: &[&str]) -> Held {
        let set = set.iter().map(|&value| value.to_owned()).collect();
        Held { name: name.into(), original: original.into(), set }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_removed_is_gone_for_good() {
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
        // A tuner that was stopped meanwhile does not raise it.
        assert_eq!(file.save().unwrap_err().error.kind(), io::ErrorKind::NotFound);
        assert!(fs::read_dir(&state).unwrap().next().is_none());
    }

    /// A folder with a journal that says this.
    fn forged(forge: impl FnOnce(&mut Journal)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut file = JournalFile::plan(folder.path(), journal());
        forge(&mut file.journal);
        file.create().unwrap();
        let error = list(folder.path()).unwrap().remove(0).1.unwrap_err();
        assert_eq!(Journal::read(file.path()).unwrap_err().to_string(), error.to_string());
        error.to_string()
    }

    #[test]
    fn a_journal_that_no_tuner_writes_is_refused_with_the_reason() {
        let add = |name: &'static str, original: &'static str, set: &'static [&'static str]| {
            forged(move |journal| journal.variables.push(held(name, original, set)))
        };
        for name in
            ["init_connect", "general_log_file", "secure_file_priv", "innodb_io_capacity = 1, GLOBAL x", ""]
        {
            let error = add(name, "1", &["2"]);
            assert!(error.contains("is not on the list of variables"), "{error}");
        }
        // The list's own name only: what is written into a statement is the journal's.
        assert!(add("INNODB-IO-CAPACITY", "1", &["2"]).contains("is not on the list"));
        assert!(add("innodb_spin_wait_delay", "1", &["2"]).contains("twice"));
        for value in ["", "ON", "-1", "2e3", "200, GLOBAL general_log = 1", "18446744073709551616"] {
            let error = add("innodb_io_capacity", value, &[]);
            assert!(error.contains("is not a value of innodb_io_capacity"), "{error}");
        }
        let long: &'static str = "9".repeat(1_000).leak();
        assert!(add("innodb_io_capacity", long, &[]).contains("is not a value of"));
        assert!(add("innodb_io_capacity", "200", &["99999999999"]).contains("is not a value of"));
        assert!(
            forged(|journal| journal.event_schema = Some("mysql.x; DROP DATABASE y; --".into()))
                .contains("no EVENT")
        );
        assert!(forged(|journal| journal.schema = "spindoctor.journal/9".into()).contains("its schema is"));
    }

    #[test]
    fn a_journal_that_cannot_be_understood_is_listed_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tune-1-1.journal"), "{").unwrap();
        fs::write(folder.path().join("tune-2-2.journal"), vec![b' '; 2 << 20]).unwrap();
        std::os::unix::fs::symlink("tune-1-1.journal", folder.path().join("tune-3-3.journal")).unwrap();
        let listed = list(folder.path()).unwrap();
        assert_eq!(listed.len(), 3);
        assert!(listed.iter().all(|(_, read)| read.is_err()));
        assert!(listed[1].1.as_ref().unwrap_err().to_string().contains("more than 1048576 bytes"));
        assert!(listed[2].1.as_ref().unwrap_err().to_string().contains("symbolic link"));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_that_says_what_to_do() {
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
