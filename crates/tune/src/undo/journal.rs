//! The journal of undo tablespaces: each name stands on disk before the tablespace is made, and the file goes when
//! none of them is left, or all are to stay.
//!
//! It lies beside the journal of the variables and has its name, with `.undo` at its end. That one is removed as soon as
//! the variables have their old values; this one may have to wait for a transaction that lasts for hours, and for a
//! server that is started again. It is kept, read and checked as the other one is ([`crate::journal`]): a file with a name that its
//! tuner would not have given is refused whole.
//!
//! `is_kept` counts once the other journal is gone or says the same: a process that gives the variables back clears it first.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use spindoctor_safefile::Folder;

use super::{MOST, is_own_name};
use crate::journal::{Journal, JournalError, ProcessMark, parts, remove};

/// Name and version of the file's form.
const SCHEMA: &str = "spindoctor.undo/1";
/// A hundred names and a half have 6 kB.
const MOST_BYTES: u64 = 1 << 18;
/// How the file's name ends.
const EXTENSION: &str = "undo";

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoJournal {
    /// Always `spindoctor.undo/1`.
    schema: String,
    /// See [`Journal::address`].
    pub address: String,
    /// See [`Journal::server`].
    pub server: String,
    /// See [`Journal::server_started`]; in every name.
    pub server_started: i64,
    /// The tuner: while it runs, it may make another one of these.
    pub tuner: ProcessMark,
    /// The connection that held the lease; in every name.
    pub holder: u64,
    /// The connection that makes them; 0 once it is closed.
    pub writer: u64,
    /// True once the tuner decided to leave them.
    pub is_kept: bool,
    /// Every name that may be the tuner's doing, in the order of their making.
    pub names: Vec<String>,
}

impl UndoJournal {
    fn check(&self) -> Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("its schema is {:?}, not {SCHEMA}", self.schema));
        }
        if self.names.len() > MOST as usize {
            return Err(format!("it names {} undo tablespaces, more than there can be", self.names.len()));
        }
        match self.names.iter().find(|name| !is_own_name(name, self.server_started, self.holder)) {
            Some(name) => Err(format!("{name:?} is no undo tablespace of that tuner")),
            None => Ok(()),
        }
    }
}

/// A journal of undo tablespaces and its file.
#[derive(Debug)]
pub struct UndoFile {
    path: PathBuf,
    /// What it says; [`UndoFile::save`] after a change.
    pub journal: UndoJournal,
}

impl UndoFile {
    /// Makes the file beside the journal of the variables, with no name in it.
    ///
    /// # Errors
    /// The disk refuses, or another account can change the folder.
    pub fn create(beside: &Path, tuner: &Journal, writer: u64) -> Result<Self, JournalError> {
        let journal = UndoJournal {
            schema: SCHEMA.to_owned(),
            address: tuner.address.clone(),
            server: tuner.server.clone(),
            server_started: tuner.server_started,
            tuner: tuner.tuner.clone(),
            holder: tuner.holder,
            writer,
            is_kept: false,
            names: Vec::new(),
        };
        let file = Self { path: path_beside(beside), journal };
        let (folder, name) = parts(&file.path);
        let write = || Folder::private(folder)?.write(name, &serde_json::to_vec_pretty(&file.journal)?);
        write().map_err(|error| failed(&file.path, error))?;
        Ok(file)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what it says now; on disk when this returns.
    ///
    /// # Errors
    /// The disk refuses: the file says what it said before. `NotFound`: somebody has dropped them all and taken it away.
    pub fn save(&self) -> Result<(), JournalError> {
        let (folder, name) = parts(&self.path);
        let write = || Folder::private(folder)?.replace(name, &serde_json::to_vec_pretty(&self.journal)?);
        write().map_err(|error| failed(&self.path, error))
    }
}

fn failed(path: &Path, error: io::Error) -> JournalError {
    JournalError { path: path.to_owned(), doing: "written", error }
}

/// Where the undo tablespaces of a journal of variables stand.
pub fn path_beside(journal: &Path) -> PathBuf {
    journal.with_extension(EXTENSION)
}

/// Reads a file; none where it is gone.
///
/// # Errors
/// It cannot be read or understood, names what is not that tuner's, or somebody else may have written it.
pub fn read(path: &Path) -> io::Result<Option<UndoJournal>> {
    let (folder, name) = parts(path);
    match Folder::existing(folder)? {
        Some(folder) => read_in(&folder, name),
        None => Ok(None),
    }
}

fn read_in(folder: &Folder, name: &OsStr) -> io::Result<Option<UndoJournal>> {
    let Some(bytes) = folder.read(name, MOST_BYTES)? else { return Ok(None) };
    let journal: UndoJournal = serde_json::from_slice(&bytes)?;
    journal.check().map_err(io::Error::other)?;
    Ok(Some(journal))
}

/// Writes down that they are to stay, once the variables beside them are kept.
///
/// # Errors
/// It cannot be read or written. `NotFound`: they have been dropped.
pub fn keep(path: &Path) -> Result<(), JournalError> {
    decide(path, true).map_err(|error| failed(path, error))
}

/// Takes that back, where there is such a file and it says so: the variables beside it were not kept.
///
/// # Errors
/// It cannot be read or written.
pub fn not_kept(beside: &Path) -> Result<(), JournalError> {
    let path = path_beside(beside);
    match decide(&path, false) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, error)),
        _ => Ok(()),
    }
}

fn decide(path: &Path, is_kept: bool) -> io::Result<()> {
    let mut journal = read(path)?.ok_or(io::ErrorKind::NotFound)?;
    if journal.is_kept == is_kept {
        return Ok(());
    }
    journal.is_kept = is_kept;
    let (folder, name) = parts(path);
    Folder::private(folder)?.replace(name, &serde_json::to_vec_pretty(&journal)?)
}

/// Removes the file; it is no error where there is none.
///
/// # Errors
/// The disk refuses.
pub fn take_away(path: &Path) -> Result<(), JournalError> {
    remove(path)
}

/// The journals of a folder, with what they say; those that cannot be understood with the reason.
///
/// # Errors
/// The folder cannot be read, or another account can change it. One that does not exist has none.
pub fn list(folder: &Path) -> io::Result<Vec<(PathBuf, io::Result<UndoJournal>)>> {
    let Some(opened) = Folder::existing(folder)? else { return Ok(Vec::new()) };
    let mut journals = Vec::new();
    for name in opened.names()? {
        let path = folder.join(&name);
        if path.extension().is_some_and(|extension| extension == EXTENSION)
            && let Some(read) = read_in(&opened, &name).transpose()
        {
            journals.push((path, read));
        }
    }
    Ok(journals)
}

#[cfg(test)]
mod tests {
    use super::super::own_name;
    use super::*;

    const STARTED: i64 = 1_764_000_000;

    fn made(folder: &Path) -> UndoFile {
        let tuner = ProcessMark::own().unwrap();
        let journal = Journal::new("/s".into(), "uuid".into(), STARTED, tuner, 17, 16);
        let mut file = UndoFile::create(&folder.join("tune-1-17.journal"), &journal, 18).unwrap();
        file.journal.names = vec![own_name(STARTED, 17, 1), own_name(STARTED, 17, 2)];
        file.save().unwrap();
        file
    }

    #[test]
    fn names_that_were_written_are_read_beside_the_other_journal_and_gone_for_good_when_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = made(folder.path());
        assert_eq!(file.path(), folder.path().join("tune-1-17.undo"));
        assert_eq!(read(file.path()).unwrap().as_ref(), Some(&file.journal));
        assert_eq!(list(folder.path()).unwrap().len(), 1);
        // The list of the other ones does not have it.
        assert!(crate::journal::list(folder.path()).unwrap().is_empty());
        file.journal.is_kept = true;
        file.save().unwrap();
        not_kept(&folder.path().join("tune-1-17.journal")).unwrap();
        assert!(!read(file.path()).unwrap().unwrap().is_kept);
        take_away(file.path()).unwrap();
        not_kept(&folder.path().join("tune-1-17.journal")).unwrap();
        assert_eq!(file.save().unwrap_err().error.kind(), io::ErrorKind::NotFound);
        assert_eq!(read(file.path()).unwrap(), None);
    }

    #[test]
    fn a_forged_journal_names_no_tablespace_of_anybody_else() {
        let folder = tempfile::tempdir().unwrap();
        let names = |names: &[&str]| {
            let mut file = made(folder.path());
            file.journal.names = names.iter().map(|&name| name.to_owned()).collect();
            file.save().unwrap();
            let error = read(file.path()).unwrap_err().to_string();
            let listed = list(folder.path()).unwrap().remove(0).1.unwrap_err().to_string();
            assert_eq!(error, listed);
            take_away(file.path()).unwrap();
            error
        };
        for name in ["undo_003", "innodb_undo_002", "x; DROP DATABASE y", &own_name(STARTED, 99, 1)] {
            let error = names(&[&own_name(STARTED, 17, 1), name]);
            assert!(error.contains("is no undo tablespace of that tuner"), "{error}");
        }
        let many: Vec<String> = (0..200).map(|_| own_name(STARTED, 17, 1)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(names(&many).contains("more than there can be"));
    }
}
