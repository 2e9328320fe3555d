//! The corpus: what real servers and hosts said, kept in `corpus/` for the tests, and the form of its files.
//!
//! `spindoctor lab capture` writes it, the tests of all crates read it. A file is a [`Document`]: named parts, each with
//! the statement or path that it answers. Large files are compressed. `corpus/PROVENANCE.tsv` says how each was made.
//!
//! A second collection, of captures that belong to others, may lie beside a clone (`../shared`). Tests over it are an
//! additional suite: they find it with [`shared`], and say that they were skipped where it is not.

mod document;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

pub use document::{Document, Part};
pub use table::Table;

/// The note of how each file was made, in the corpus's folder.
pub const PROVENANCE: &str = "PROVENANCE.tsv";

/// The ending of a document.
pub const PLAIN: &str = "txt";
/// The ending of a compressed document.
pub const COMPRESSED: &str = "txt.gz";

/// Set, to anything, it hides what lies beside the clone: tests behave as in a clone that is alone.
pub const ALONE: &str = "SPINDOCTOR_CLONE_ALONE";

/// Why a document could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {error}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// A file that is not a document.
    #[error("{}: line {line} is before the first part: a part begins with `==> NAME <==`", path.display())]
    NoDocument {
        /// Which file.
        path: PathBuf,
        /// Its first line that is in no part.
        line: usize,
    },
    /// There is no such document.
    #[error("the corpus has no {0}; `script/corpus` makes it, corpus/README.md says how")]
    Missing(String),
}

/// The corpus's folder in this clone.
pub fn folder() -> PathBuf {
    clone().join("corpus")
}

/// The document of this name, without its ending: `mysql-5.7.22/row-lock-pile-up`.
pub fn document(name: &str) -> Result<Document, Error> {
    document_in(&folder(), name)
}

/// The document of this name in a folder.
pub fn document_in(folder: &Path, name: &str) -> Result<Document, Error> {
    let file = [PLAIN, COMPRESSED].map(|ending| folder.join(format!("{name}.{ending}")));
    match file.iter().find(|file| file.is_file()) {
        Some(file) => Document::read(file),
        None => Err(Error::Missing(name.to_owned())),
    }
}

/// The names of all documents whose name begins with this, sorted: `mysql-`, or nothing for all.
pub fn names(beginning: &str) -> Result<Vec<String>, Error> {
    let root = folder();
    let mut folders = vec![root.clone()];
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(file("list", &folder))? {
            let path = entry.map_err(file("list", &folder))?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
            let name = [COMPRESSED, PLAIN].iter().find_map(|ending| name.strip_suffix(&format!(".{ending}")));
            names.extend(name.filter(|name| name.starts_with(beginning)).map(str::to_owned));
        }
    }
    names.sort();
    Ok(names)
}

/// All captures of one trouble, by the server's name: `row-lock-pile-up` gives `mysql-5.7.22` and so on.
pub fn captures(trouble: &str) -> Result<Vec<(String, Document)>, Error> {
    let of_trouble = |name: &String| name.split_once('/').is_some_and(|(_, last)| last == trouble);
    let names = names("")?.into_iter().filter(of_trouble);
    names.map(|name| Ok((name.split('/').next().unwrap_or_default().to_owned(), document(&name)?))).collect()
}

/// A folder of the collection beside this clone (`../shared`), for the additional suite; None, with a line that says so,
/// where there is none.
pub fn shared(below: &str) -> Option<PathBuf> {
    let folder = clone().join("../shared").join(below);
    let hidden = std::env::var_os(ALONE).is_some();
    if !hidden && folder.is_dir() {
        return Some(folder);
    }
    #[expect(clippy::print_stdout, reason = "a skipped test says why on its standard output")]
    {
        println!("skipped: no ../shared/{below} beside this clone: the additional suite needs it");
    }
    None
}

fn clone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// For `map_err` on file operations.
fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |error| Error::File { doing, path, error }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All of the corpus together.
    const BYTES_MAX: u64 = 5 << 20;

    fn files() -> Vec<PathBuf> {
        let mut folders = vec![folder()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }

    #[test]
    fn every_file_says_how_it_was_made_and_all_are_small() {
        let notes = fs::read_to_string(folder().join(PROVENANCE)).unwrap();
        let noted: BTreeSet<String> = notes
            .lines()
            .skip(1)
            .map(|line| {
                let cells: Vec<&str> = line.split('\t').collect();
                assert!(cells.len() == 5 && ["captured", "written"].contains(&cells[1]), "{line}");
                assert!(!cells[4].is_empty(), "{line}");
                cells[0].to_owned()
            })
            .collect();
        let name = |file: &PathBuf| file.strip_prefix(folder()).unwrap().display().to_string();
        let there: BTreeSet<String> = files().iter().map(name).filter(|name| name.contains('/')).collect();
        assert_eq!(there, noted);
        let bytes: u64 = files().iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    }

    /// Where a machine's own folders or a user's home are in a capture, it was not scrubbed.
    #[test]
    fn no_file_names_the_machine_that_made_it() {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        // A name such as `db` may be any word.
        let host = Some(host.trim().to_owned()).filter(|host| host.len() > 5);
        for name in names("").unwrap() {
            let text = document(&name).unwrap().to_text();
            for private in
                ["/root/", "/dev/shm/", "/.cache/", "spindoctor-lab"].map(str::to_owned).iter().chain(&host)
            {
                // Where the server's makers built it is in their messages.
                let found =
                    text.lines().find(|line| line.contains(private.as_str()) && !line.contains(" line "));
                assert_eq!(found, None, "{name} has {private}");
            }
        }
    }

    #[test]
    fn the_additional_suite_is_hidden_where_the_clone_is_to_be_alone() {
        // Tests of one process must not set what others read: nextest has a process for each, cargo test has not.
        if std::env::var_os(ALONE).is_some() {
            assert_eq!(shared(""), None);
        }
    }
}
