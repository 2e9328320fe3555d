//! A file of rows: it gets its name only when it is complete and on the disk. Until then it has another name, which
//! readers of a folder skip (it begins with a dot): a killed program leaves no partial file under a name that anybody
//! reads.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::csv::Csv;
use super::parquet::Parquet;
use super::table::{Cell, Sink, Table};
use spindoctor_page::csv::Reader;

/// A way to write tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Typed and compressed.
    Parquet,
    /// Text.
    Csv,
}

impl FileFormat {
    /// Each with its name, and what it is for.
    pub const ALL: &[(&str, &str, Self)] = &[
        ("parquet", "For DuckDB, ClickHouse, Spark, pandas: typed and compressed", Self::Parquet),
        ("csv", "For everything else", Self::Csv),
    ];

    /// How the names of such files end.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
        }
    }
}

/// A file that is being written.
pub struct Writing {
    /// The table whose rows it takes.
    pub table: &'static Table,
    format: FileFormat,
    reader: Reader,
    path: PathBuf,
    rows: u64,
    begun: Option<Begun>,
}

struct Begun {
    sink: Box<dyn Sink>,
    file: File,
    partial: Partial,
}

/// A file that is whole.
#[derive(Debug)]
pub struct Whole {
    /// Where it is.
    pub path: PathBuf,
    /// Its table.
    pub table: &'static Table,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

impl Writing {
    /// One that is made with its first row, and its folder with it.
    pub fn new(format: FileFormat, reader: Reader, table: &'static Table, path: PathBuf) -> Self {
        Self { table, format, reader, path, rows: 0, begun: None }
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it now: it will be there without a row, too.
    ///
    /// # Errors
    /// The folder is full, or cannot be written.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        if let Some(folder) = folder_of(&self.path) {
            make_folder(folder)?;
        }
        let partial = Partial::for_path(&self.path);
        let failed = || format!("could not make {}", partial.0.display());
        let file = spindoctor_safefile::create(&partial.0).with_context(failed)?;
        let out = file.try_clone().with_context(failed)?;
        let sink: Box<dyn Sink> = match self.format {
            FileFormat::Parquet => Box::new(Parquet::begin(out, self.table)?),
            FileFormat::Csv => Box::new(Csv::begin(out, self.table, self.reader)?),
        };
        self.begun = Some(Begun { sink, file, partial });
        Ok(())
    }

    /// Takes a row with a cell for each column of the table.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()> {
        if self.begun.is_none() {
            self.begin()?;
        }
        let Some(begun) = &mut self.begun else { return Ok(()) };
        self.rows += 1;
        begun.sink.row(cells).with_context(|| format!("could not write {}", self.path.display()))
    }

    /// Gives the file its name, in place of one that had it. None where it was never begun.
    ///
    /// # Errors
    /// The disk refuses: then there is no file, or the one that was there before.
    pub fn end(self) -> anyhow::Result<Option<Whole>> {
        let Self { table, path, rows, begun, .. } = self;
        let Some(Begun { sink, file, partial }) = begun else { return Ok(None) };
        sink.finish()
            .and_then(|()| Ok(file.sync_all()?))
            .with_context(|| format!("could not write {}", path.display()))?;
        fs::rename(&partial.0, &path).with_context(|| format!("could not name {}", path.display()))?;
        if let Some(folder) = folder_of(&path) {
            sync(folder);
        }
        let bytes = file.metadata().map_or(0, |file| file.len());
        Ok(Some(Whole { path, table, rows, bytes }))
    }
}

/// The name of a file that is not whole; what has it when this is dropped is removed.
struct Partial(PathBuf);

impl Partial {
    /// `.a.parquet.partial` beside `a.parquet`: the next one to write the same file takes the name over.
    fn for_path(path: &Path) -> Self {
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".partial");
        Self(path.with_file_name(name))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // It is gone where the file got its name; that one cannot be removed changes nothing.
        drop(fs::remove_file(&self.0));
    }
}

/// The folder that a file is in; none for the one where the program runs.
fn folder_of(path: &Path) -> Option<&Path> {
    path.parent().filter(|folder| !folder.as_os_str().is_empty())
}

/// Makes a folder and those above it, in a way that outlives a power cut.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    above.map_or(Ok(()), make_folder)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("could not make {}", folder.display()))
        }
        _ => {
            if let Some(above) = above {
                sync(above);
            }
            Ok(())
        }
    }
}

/// Has a folder's names written to the disk. A file system that cannot do that for folders has no better way.
fn sync(folder: &Path) {
    drop(File::open(folder).and_then(|folder| folder.sync_all()));
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::table::by_name;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn gaps(path: PathBuf) -> Writing {
        Writing::new(FileFormat::Csv, Reader::People, by_name("gaps").unwrap(), path)
    }

    const ROW: [Cell<'static>; 4] = [Cell::Text("db17"), Cell::Nothing, Cell::Nothing, Cell::Text("x")];

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_its_folders_with_its_first_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/gaps.csv");
        let mut file = gaps(path.clone());
        assert!(names(folder.path()).is_empty());
        file.row(&ROW).unwrap();
        assert_eq!(names(path.parent().unwrap()), [".gaps.csv.partial"]);
        let whole = file.end().unwrap().unwrap();
        assert_eq!((whole.rows, whole.bytes), (1, fs::metadata(&path).unwrap().len()));
        assert_eq!(names(path.parent().unwrap()), ["gaps.csv"]);
    }

    #[test]
    fn what_is_broken_off_leaves_the_file_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gaps.csv");
        fs::write(&path, "before").unwrap();
        let mut file = gaps(path.clone());
        file.row(&ROW).unwrap();
        drop(file);
        assert_eq!(
            (names(folder.path()), fs::read_to_string(path).unwrap().as_str()),
            (vec!["gaps.csv".to_owned()], "before")
        );
    }

    #[test]
    fn without_a_row_there_is_a_file_only_where_it_was_begun() {
        let folder = tempfile::tempdir().unwrap();
        assert!(gaps(folder.path().join("gaps.csv")).end().unwrap().is_none());
        assert!(names(folder.path()).is_empty());
        let mut file = gaps(folder.path().join("gaps.csv"));
        file.begin().unwrap();
        assert_eq!(file.end().unwrap().map(|whole| whole.rows), Some(0));
        assert_eq!(names(folder.path()), ["gaps.csv"]);
    }
}
