//! Captures: the sources' readings of a real server in trouble, written into the corpus.
//!
//! A [`Capture`] is a declaration: how the trouble is made, on which servers, what is read. [`CAPTURES`] names them all;
//! help, the corpus's note of origin and the tests that walk the corpus follow from it. [`run`] makes them.

mod captures;
mod host;
mod make;
mod read;
mod scrub;

use std::path::{Path, PathBuf};

use spindoctor_model::ServerVersion;

pub use captures::CAPTURES;
pub use make::{Made, Options, run};

/// One trouble, and what is read of it.
#[derive(Debug, Clone, Copy)]
pub struct Capture {
    /// Its name, and its file's: `row-lock-pile-up`.
    pub name: &'static str,
    /// What the server suffers, in a sentence: it stands in the corpus's note of origin.
    pub trouble: &'static str,
    /// Whether this version can be made to suffer it.
    pub on: fn(ServerVersion) -> bool,
    /// Options of the server's own.
    pub options: &'static [&'static str],
    /// A CPU quota, CPUs.
    pub quota_cpus: Option<f64>,
    /// What brings it about, in order.
    pub steps: &'static [Step],
    /// The InnoDB status is read until it has this text: for what lasts for a moment only. Empty for the first text.
    pub status_has: &'static str,
    /// What is read.
    pub read: Read,
}

/// What is read of a server in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Every source, and what else people hand in.
    Everything,
    /// The same without what is long and says nothing about this trouble: variables, counters of instruments.
    Moment,
    /// The InnoDB status alone.
    Status,
    /// [`Read::Moment`], and the stacks of all threads where gdb is installed.
    Stacks,
    /// The files of the kernel that the sources of the host read, twice.
    Host,
}

/// A session, named `USER` or `USER:WHICH`. The user `tcp` comes over TCP, all others through the socket.
pub type SessionName = &'static str;

/// One step towards a trouble.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Statements in a session, one after the other; the session stays open.
    In(SessionName, &'static [&'static str]),
    /// The same; statements that this version refuses are passed over.
    Try(SessionName, &'static [&'static str]),
    /// A statement in a session, whose end nobody waits for.
    Send(SessionName, &'static str),
    /// So many sessions of a user that run this statement, whose end nobody waits for. `{n}` is the session's number.
    Many(SessionName, u32, &'static str),
    /// The same, over and over.
    Repeat(SessionName, u32, &'static str),
    /// So many sessions that run a statement of the binary protocol's over and over, with the session's number as its
    /// only parameter.
    Prepared(SessionName, u32, &'static str),
    /// Closes a session.
    Leave(SessionName),
    /// Waits until so many sessions run a statement that begins with this.
    Running(u32, &'static str),
    /// Starts another server of the same version, which this one follows: over the channel of this name, empty for the
    /// one without a name.
    Follow(&'static str),
    /// Statements on the server that this one follows over the channel.
    AtSource(&'static str, &'static [&'static str]),
    /// Waits until this statement's first cell is that text.
    Until(&'static str, &'static str),
}

/// The capture of this name.
pub fn find(name: &str) -> Option<&'static Capture> {
    CAPTURES.iter().find(|capture| capture.name == name)
}

/// The name of a version's folder in the corpus: `mysql-5.7.22`.
fn folder_of(version: ServerVersion) -> String {
    let flavor = format!("{:?}", version.flavor).to_lowercase();
    format!("{flavor}-{}.{}.{}", version.major, version.minor, version.patch)
}

/// The folders below this one that hold a server: each is a basedir.
pub fn servers_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let mut folders: Vec<PathBuf> = entries.map(Iterator::collect).unwrap_or_default();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_and_can_be_files() {
        let mut names: Vec<_> = CAPTURES.iter().map(|capture| capture.name).collect();
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b.is_ascii_digit()))
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CAPTURES.len());
    }

    #[test]
    fn the_corpus_has_every_capture() {
        for capture in CAPTURES {
            let found = spindoctor_corpus::captures(capture.name).unwrap();
            assert!(
                !found.is_empty(),
                "{} is in no folder of the corpus: script/corpus makes it",
                capture.name
            );
            for (server, document) in found {
                assert!(!document.parts.is_empty(), "{server}/{}", capture.name);
            }
        }
    }
}
