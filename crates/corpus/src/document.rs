//! One file of the corpus: named parts, each below a line `==> NAME <== WHAT`.
//!
//! ```text
//! ==> SHOW GLOBAL STATUS at 0.0 s <== SHOW GLOBAL STATUS
//! Variable_name<TAB>Value
//! Aborted_clients<TAB>0
//! ==> proc/7/stat <==
//! 7 (mysqld) S 1 7 7 ...
//! ```

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::table::Table;
use crate::{COMPRESSED, Error, PLAIN, file};

/// A document larger than this is compressed.
const PLAIN_BYTES_MAX: usize = 8 << 10;

const OPEN: &str = "==> ";
const CLOSE: &str = " <==";

/// Named parts, in the order in which they were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// The parts.
    pub parts: Vec<Part>,
}

/// What one source or file said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The name of the source, with when it was read where that matters, or a path: `SHOW GLOBAL STATUS at 1.0 s`.
    pub name: String,
    /// The statement that was asked; empty for a path.
    pub asked: String,
    /// The answer, without the line break at its end.
    pub text: String,
}

impl Document {
    /// Reads a document, compressed or not.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut bytes = fs::read(path).map_err(file("read", path))?;
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut plain = Vec::new();
            GzDecoder::new(bytes.as_slice()).read_to_end(&mut plain).map_err(file("unpack", path))?;
            bytes = plain;
        }
        Self::of_text(&String::from_utf8_lossy(&bytes))
            .map_err(|line| Error::NoDocument { path: path.to_owned(), line })
    }

    /// Writes it as `NAME.txt` or, where it is large, as `NAME.txt.gz` below a folder; returns the file's name.
    pub fn write(&self, folder: &Path, name: &str) -> Result<PathBuf, Error> {
        let text = self.to_text();
        let [plain, packed] = [PLAIN, COMPRESSED].map(|ending| folder.join(format!("{name}.{ending}")));
        if let Some(parent) = plain.parent() {
            fs::create_dir_all(parent).map_err(file("create the folder", parent))?;
        }
        let (path, other) = if text.len() > PLAIN_BYTES_MAX { (packed, plain) } else { (plain, packed) };
        let bytes = match text.len() > PLAIN_BYTES_MAX {
            false => text.into_bytes(),
            true => {
                // No time and no name in the header: the same text is the same file.
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                let packed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
                packed.map_err(file("pack", &path))?
            }
        };
        fs::write(&path, bytes).map_err(file("write", &path))?;
        if other.exists() {
            fs::remove_file(&other).map_err(file("remove", &other))?;
        }
        Ok(path)
    }

    /// The document as text.
    pub fn to_text(&self) -> String {
        let part = |part: &Part| {
            let asked = part.asked.split_whitespace().collect::<Vec<_>>().join(" ");
            let space = if asked.is_empty() { "" } else { " " };
            format!("{OPEN}{}{CLOSE}{space}{asked}\n{}\n", part.name, part.text)
        };
        self.parts.iter().map(part).collect()
    }

    /// Reads a document's text; the number of the first line that is in no part is the error.
    pub fn of_text(text: &str) -> Result<Self, usize> {
        let mut parts: Vec<Part> = Vec::new();
        let body = text.strip_suffix('\n').unwrap_or(text);
        for (number, line) in body.split('\n').enumerate() {
            match line.strip_prefix(OPEN).and_then(|rest| rest.split_once(CLOSE)) {
                Some((name, asked)) => parts.push(Part {
                    name: name.to_owned(),
                    asked: asked.trim().to_owned(),
                    // Begins as if a line had ended: taken off below.
                    text: String::new(),
                }),
                None => {
                    let part = parts.last_mut().ok_or(number + 1)?;
                    part.text.push('\n');
                    part.text += line;
                }
            }
        }
        for part in &mut parts {
            part.text = part.text.strip_prefix('\n').unwrap_or_default().to_owned();
        }
        Ok(Self { parts })
    }

    /// The answers of a source, in the order in which they were read.
    pub fn all<'a>(&'a self, source: &'a str) -> impl Iterator<Item = &'a Part> {
        self.parts.iter().filter(move |part| part.is_of(source))
    }

    /// The first answer of a source.
    pub fn part(&self, source: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.is_of(source))
    }

    /// The first answer of a source as rows; None where it is not here, and where the server refused to answer.
    pub fn table(&self, source: &str) -> Option<Table> {
        self.part(source).filter(|part| !part.is_error()).map(Part::table)
    }

    /// Writes each part as a file of its name below a folder: for parts that are a tree of `/proc` and `/sys`.
    pub fn unpack(&self, root: &Path) -> Result<(), Error> {
        for part in &self.parts {
            let path = root.join(part.name.trim_start_matches('/'));
            let parent = path.parent().unwrap_or(root);
            fs::create_dir_all(parent).map_err(file("create the folder", parent))?;
            let text = if part.text.is_empty() { String::new() } else { format!("{}\n", part.text) };
            fs::write(&path, text).map_err(file("write", &path))?;
        }
        Ok(())
    }
}

impl Part {
    /// True where this is an answer of that source, whenever it was read.
    pub fn is_of(&self, source: &str) -> bool {
        self.name == source || self.name.strip_prefix(source).is_some_and(|rest| rest.starts_with(" at "))
    }

    /// The answer as rows.
    pub fn table(&self) -> Table {
        match self.text.starts_with("***") {
            true => Table::of_vertical(&self.text),
            false => Table::of_text(&self.text),
        }
    }

    /// True where the server refused to answer.
    pub fn is_error(&self) -> bool {
        self.text.starts_with("ERROR ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, asked: &str, text: &str) -> Part {
        Part { name: name.into(), asked: asked.into(), text: text.into() }
    }

    #[test]
    fn comes_back_as_it_was() {
        let document = Document {
            parts: vec![
                part("SHOW GLOBAL STATUS at 0.0 s", "SHOW GLOBAL STATUS", "Variable_name\tValue\nA\t1"),
                part("empty", "", ""),
                part("SHOW GLOBAL STATUS at 1.0 s", "SHOW GLOBAL STATUS", "\n\nends with a line break\n"),
                part("last", "SELECT 1", "==> not closed"),
            ],
        };
        let text = document.to_text();
        assert_eq!(Document::of_text(&text), Ok(document.clone()), "{text}");
        assert_eq!(document.all("SHOW GLOBAL STATUS").count(), 2);
        assert_eq!(Document::of_text("no part\n"), Err(1));
        let folder = tempfile::tempdir().unwrap();
        for times in [1, 100_000] {
            let parts = vec![part("p", "", &"x".repeat(times))];
            let document = Document { parts };
            document.write(folder.path(), "a/b").unwrap();
            assert_eq!(crate::document_in(folder.path(), "a/b").unwrap(), document);
            // Only one of the two forms is there.
            assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_tree_is_laid_out_as_files() {
        let folder = tempfile::tempdir().unwrap();
        let tree = "==> proc/7/stat <==\n7 (a) S\n==> sys/none <==\n";
        Document::of_text(tree).unwrap().unpack(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("proc/7/stat")).unwrap(), "7 (a) S\n");
        assert_eq!(fs::read_to_string(folder.path().join("sys/none")).unwrap(), "");
    }
}
