//! A damaged file where a writer must go on: the file is set aside unchanged, so that what is left of it can still be
//! read.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::error::Error;
use crate::lock::beside;

/// Renames a recording to `NAME.damaged-20260105T100000Z`, with its write-ahead log: the path is free for another.
/// Where it is now.
///
/// # Errors
/// The system refuses.
pub fn set_aside(path: &Path, now: Timestamp) -> Result<PathBuf, Error> {
    let aside = beside(path, &now.strftime(".damaged-%Y%m%dT%H%M%SZ").to_string());
    std::fs::rename(path, &aside).map_err(|source| Error::Io {
        path: path.to_owned(),
        doing: "set aside",
        because: source,
    })?;
    // There may be none. SQLite builds the index of the log again.
    let _ = std::fs::rename(beside(path, "-wal"), beside(&aside, "-wal"));
    let _ = std::fs::remove_file(beside(path, "-shm"));
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;
    use crate::{Recording, Writer, WriterOptions};

    #[test]
    fn where_pages_are_damaged_the_file_is_set_aside_and_another_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.spindoctor");
        drop(Writer::open(&path, WriterOptions::default()).unwrap());
        // The first page is the file's head; all tables are in those behind it.
        let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let bytes = file.metadata().unwrap().len();
        file.seek(SeekFrom::Start(4096)).unwrap();
        file.write_all(&vec![0xff; usize::try_from(bytes).unwrap() - 4096]).unwrap();
        drop(file);
        let damage = Writer::open(&path, WriterOptions::default()).unwrap_err();
        assert!(damage.is_damage(), "{damage}");
        let aside = set_aside(&path, "2026-01-05T10:00:00Z".parse().unwrap()).unwrap();
        assert_eq!(aside, folder.path().join("a.spindoctor.damaged-20260105T100000Z"));
        assert_eq!(std::fs::metadata(&aside).unwrap().len(), bytes);
        drop(Writer::open(&path, WriterOptions::default()).unwrap());
        assert_eq!(Recording::open(&path).unwrap().events().unwrap(), []);
    }
}
