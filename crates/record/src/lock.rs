//! One writer per recording: a file beside it, locked as long as the writer's process lives.
//!
//! The kernel releases the lock when the process ends, however it ends, so nothing has to be cleaned up after a kill
//! -9. The database's own locks are not enough: SQLite lets two writers take turns.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::Error;

/// Held by the one writer; let go when dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock of a recording, or says who has it.
    pub(crate) fn take(recording: &Path) -> Result<Self, Error> {
        let path = beside(recording, "-lock");
        let failed = |source| Error::Io { path: path.clone(), doing: "locked", because: source };
        loop {
            // In a folder where others can write, a link of theirs is not followed, and a file of theirs not opened.
            let mut file = spindoctor_safefile::read_write(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let mut pid = String::new();
                    // A holder that has not written its id yet has none.
                    let _ = file.read_to_string(&mut pid);
                    let pid = pid.trim();
                    let pid = if pid.is_empty() { "(unknown)" } else { pid }.to_owned();
                    return Err(Error::InUse { path: recording.to_owned(), pid });
                }
                Err(error) => return Err(failed(error.into())),
            }
            // The holder before may have taken the file away between our opening and locking it.
            let is_ours = std::fs::symlink_metadata(&path)
                .is_ok_and(|there| file.metadata().is_ok_and(|ours| ours.ino() == there.ino()));
            if is_ours {
                let _ = file.set_len(0);
                // Only the message of a second writer rests on it: a full disk is no reason to stop.
                let _ = writeln!(file, "{}", std::process::id());
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A file that goes with a recording, named as SQLite names its own.
pub(crate) fn beside(recording: &Path, ending: &str) -> PathBuf {
    let mut name = recording.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_writer_is_reported_who_holds_the_recording_until_the_first_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("a.spindoctor");
        let first = Lock::take(&recording).unwrap();
        let refused = Lock::take(&recording).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        assert!(!beside(&recording, "-lock").exists());
        Lock::take(&recording).unwrap();
    }
}
