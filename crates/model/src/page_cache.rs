//! The server's files, and how much of each the kernel holds in its page cache.

use serde::{Deserialize, Serialize};

/// What a file of the server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Tables and their indexes, of any engine; the system tablespace.
    Data,
    /// Undo tablespaces.
    Undo,
    /// InnoDB's redo log, and Aria's log.
    Redo,
    /// Doublewrite files of their own. MariaDB and MySQL before 8.0.20 have them in the system tablespace.
    Doublewrite,
    /// Binary logs.
    Binlog,
    /// Relay logs.
    Relay,
    /// Temporary tables, and files that are deleted already and still open.
    Temporary,
    /// The error log, the slow log, the general log.
    TextLog,
    /// Everything else that lies there.
    #[default]
    Other,
}

impl FileKind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Data,
        Self::Undo,
        Self::Doublewrite,
        Self::Redo,
        Self::Binlog,
        Self::Relay,
        Self::Temporary,
        Self::TextLog,
        Self::Other,
    ];

    /// The name that people read: `binlog`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Doublewrite => "doublewrite",
            Self::Binlog => "binlog",
            Self::Relay => "relay",
            Self::Temporary => "temporary",
            Self::TextLog => "text-log",
            Self::Other => "other",
        }
    }

    /// True for logs that the server writes to their end and reads again, if ever, from a known place on: the only files
    /// that may be taken out of the page cache.
    pub fn is_log(self) -> bool {
        matches!(self, Self::Redo | Self::Binlog | Self::Relay)
    }
}

/// A descriptor of the server's that leads to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Descriptor {
    /// Its number.
    pub fd: u32,
    /// Where it reads or writes next.
    pub position_bytes: u64,
    /// Open for reading.
    pub reads: bool,
    /// Open for writing.
    pub writes: bool,
    /// Open with `O_DIRECT`: what goes through it does not stay in the page cache.
    pub direct: bool,
}

/// One file of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedFile {
    /// Its path, as the server names it.
    pub path: String,
    /// What it is for.
    pub kind: FileKind,
    /// Its size.
    pub bytes: u64,
    /// What of it is in the page cache; None where the kernel does not say.
    pub cached_bytes: Option<u64>,
    /// What of that is to be written yet; None where the kernel does not say.
    pub dirty_bytes: Option<u64>,
    /// It has no name any more, and goes when the server closes it.
    pub is_deleted: bool,
    /// It lies on a file system in memory: the page cache is where it lives.
    pub is_in_memory: bool,
    /// The server's descriptors of it; of data files those of some only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<Descriptor>,
    /// Device and inode: which file it is, whatever its name.
    #[serde(skip)]
    pub id: (u64, u64),
}

/// What the page cache holds of the server's logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PageCache {
    /// Binary logs.
    pub binlog: CachedFiles,
    /// Relay logs.
    pub relay: CachedFiles,
    /// Redo logs.
    pub redo: CachedFiles,
}

impl PageCache {
    /// What it holds of all of them.
    pub fn cached_bytes(&self) -> u64 {
        [self.binlog, self.relay, self.redo]
            .iter()
            .fold(0, |sum: u64, files| sum.saturating_add(files.cached_bytes))
    }
}

/// Some files together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CachedFiles {
    /// How many.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// What of them is in the page cache; without files on a file system in memory, which have no other place.
    pub cached_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_name_that_json_has_and_a_place_in_reports() {
        for kind in FileKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        let logs: Vec<_> = FileKind::ALL.into_iter().filter(|kind| kind.is_log()).collect();
        assert_eq!(logs, [FileKind::Redo, FileKind::Binlog, FileKind::Relay]);
    }
}
