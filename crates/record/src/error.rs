//! Why a recording cannot be opened, read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a recording cannot be opened, read or written. Each names the file and, where there is something, what to do.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no such file.
    #[error("there is no recording at {path}; `spindoctor record` makes one")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else, is empty, or its first page is damaged.
    #[error("{path} is not a recording: {because}")]
    NotARecording {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        because: String,
    },
    /// A later spindoctor wrote it.
    #[error(
        "{path} is a recording of version {version}, and this spindoctor reads up to version {known}; open it with \
         the spindoctor that wrote it, or a later one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The latest version that is known here.
        known: i64,
    },
    /// A part of a recording that was to be copied is larger than a copy may be.
    #[error("this part of the recording has more than {} MiB; ask for a shorter time", most_bytes >> 20)]
    TooLong {
        /// What is allowed.
        most_bytes: u64,
    },
    /// Another recorder writes to it.
    #[error("{path} is being written by process {pid}; end that one first, or record to another file")]
    InUse {
        /// The file.
        path: PathBuf,
        /// Who holds it, as far as that is known.
        pid: String,
    },
    /// The system refused.
    #[error("{path} cannot be {doing}: {because}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried: `opened`, `locked`.
        doing: &'static str,
        /// The system's words.
        because: io::Error,
    },
    /// The database refused.
    #[error("{path} cannot be {doing}: {because}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What was tried: `read`, `written`.
        doing: &'static str,
        /// The database's words.
        because: rusqlite::Error,
    },
    /// Something in it cannot be understood.
    #[error("{path} is damaged: {because}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is damaged.
        because: String,
    },
}

impl Error {
    /// True where a page of a recording holds something else than it should: what is in it can still be read in parts, and
    /// nothing can be added.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Database { because, .. } => {
                because.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
            }
            _ => false,
        }
    }
}

/// What was being done to which file, for the errors of the database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doing<'a> {
    pub(crate) path: &'a std::path::Path,
    pub(crate) doing: &'static str,
}

impl Doing<'_> {
    /// Puts the file's name to an error of the database.
    pub(crate) fn failed(&self, source: rusqlite::Error) -> Error {
        Error::Database { path: self.path.to_owned(), doing: self.doing, because: source }
    }
}
