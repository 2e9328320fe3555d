//! `spindoctor export`: tables of a recording as files that other programs read at once.
//!
//! Samples are read a few minutes at a time, and a file has its name only when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use spindoctor_record::Recording;

use crate::cli::{Export as Asked, FileFormat};
use crate::exit::ExitStatus;
use crate::export::csv::Csv;
use crate::export::parquet::Parquet;
use crate::export::table::{Cell, Rows, Sink, TABLES, Table, Whose, by_name};
use crate::incident::Span;
use crate::incident::scope::after;
use crate::incident::told::day_and_time;
use crate::output;
use crate::report::number;
use crate::terminal::safe;

/// So much of a recording is held in memory at once: samples of a large server take a hundred kilobytes each.
const AT_ONCE: Duration = Duration::from_secs(120);
/// A recording keeps times to the millisecond: the next sample begins no earlier.
const ONE_MORE: Duration = Duration::from_millis(1);

/// Writes the tables, and says what it wrote.
pub(crate) fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let plan = Plan::of(asked)?;
    let recording = Recording::open(&asked.file)?;
    let Some((first, last)) = recording.extent()? else {
        bail!("{} has no sample yet; the recorder writes one a second", asked.file.display());
    };
    let from = asked.from.map_or(first, |from| from.of(last));
    let to = asked.to.map_or(last, |to| to.of(last));
    if from > to {
        bail!("--from {} is after --to {}", day_and_time(from), day_and_time(to));
    }
    let mut files = plan.begin()?;
    write(&recording, Span::new(from, to), &mut files)?;
    let mut told = String::new();
    for file in files {
        told.push_str(&file.end()?);
    }
    output::print(&told)?;
    Ok(ExitStatus::Done)
}

/// Which tables go where.
struct Plan {
    format: FileFormat,
    tables: Vec<(&'static Table, PathBuf)>,
}

impl Plan {
    fn of(asked: &Asked) -> anyhow::Result<Self> {
        let by_name_of_file = match asked.out.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Some(FileFormat::Parquet),
            Some("csv") => Some(FileFormat::Csv),
            _ => None,
        };
        let format = asked.format.or(by_name_of_file).unwrap_or(FileFormat::Parquet);
        let wanted: Vec<&'static Table> = asked.table.iter().filter_map(|name| by_name(name)).collect();
        let is_file = by_name_of_file.is_some() && !asked.out.is_dir();
        if is_file {
            let table = match wanted.as_slice() {
                [] => &TABLES[0],
                [table] => *table,
                _ => bail!("{} is one file; several tables need a folder", asked.out.display()),
            };
            output::expect_writable(&asked.out)?;
            return Ok(Self { format, tables: vec![(table, asked.out.clone())] });
        }
        let wanted = if wanted.is_empty() { TABLES.iter().collect() } else { wanted };
        fs::create_dir_all(&asked.out).with_context(|| format!("could not make {}", asked.out.display()))?;
        let place = |table: &Table| asked.out.join(format!("{}.{}", table.name, format.extension()));
        let tables: Vec<_> = wanted.into_iter().map(|table| (table, place(table))).collect();
        for (_, file) in &tables {
            output::expect_writable(file)?;
        }
        Ok(Self { format, tables })
    }

    fn begin(self) -> anyhow::Result<Vec<Writing>> {
        self.tables.into_iter().map(|(table, path)| Writing::begin(self.format, table, path)).collect()
    }
}

/// A file that is being written, under another name until it is whole.
struct Writing {
    table: &'static Table,
    path: PathBuf,
    partial: PathBuf,
    sink: Box<dyn Sink>,
    rows: u64,
    is_whole: bool,
}

impl Writing {
    fn begin(format: FileFormat, table: &'static Table, path: PathBuf) -> anyhow::Result<Self> {
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).with_context(|| format!("could not make {}", partial.display()))?;
        let sink: Box<dyn Sink> = match format {
            FileFormat::Parquet => Box::new(Parquet::begin(file, table)?),
            FileFormat::Csv => Box::new(Csv::begin(file, table)?),
        };
        Ok(Self { table, path, partial, sink, rows: 0, is_whole: false })
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> anyhow::Result<()> {
        self.rows += 1;
        self.sink.row(cells).with_context(|| format!("could not write {}", self.partial.display()))
    }

    /// Gives the file its name; says what is in it.
    fn end(mut self) -> anyhow::Result<String> {
        let sink = std::mem::replace(&mut self.sink, Box::new(Nowhere));
        sink.finish().with_context(|| format!("could not write {}", self.partial.display()))?;
        fs::rename(&self.partial, &self.path)
            .with_context(|| format!("could not name {}", self.path.display()))?;
        self.is_whole = true;
        let bytes = fs::metadata(&self.path).map_or(0, |file| file.len());
        Ok(format!(
            "{:<12} {:>16} {:>9}  {}\n",
            self.table.name,
            number::counted(self.rows, "row", "rows"),
            number::bytes(bytes as f64),
            safe(&self.path.display().to_string()),
        ))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_whole {
            remove(&self.partial);
        }
    }
}

/// What is left of a file that could not be finished; that it cannot be removed either changes nothing.
fn remove(partial: &Path) {
    drop(fs::remove_file(partial));
}

/// Stands in place of a sink that is finished.
struct Nowhere;

impl Sink for Nowhere {
    fn row(&mut self, _: &[Cell<'_>]) -> anyhow::Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        Ok(())
    }
}

fn write(recording: &Recording, span: Span, files: &mut [Writing]) -> anyhow::Result<()> {
    let segments = recording.segments()?;
    let whose = Whose::of(&segments);
    if files.iter().any(|file| matches!(file.table.rows, Rows::Samples(_))) {
        let mut next = span.from;
        while next <= span.to {
            let to = after(next, AT_ONCE).min(span.to);
            for sample in recording.samples(next, to)? {
                for file in &mut *files {
                    if let Rows::Samples(rows) = file.table.rows {
                        rows(&whose, &sample, &mut |cells| file.row(cells))?;
                    }
                }
            }
            next = after(to, ONE_MORE);
        }
    }
    for head in recording.events()?.iter().filter(|head| span.meets_event(head)) {
        let Some(event) = recording.event(head.id)? else { continue };
        for file in &mut *files {
            if let Rows::Events(rows) = file.table.rows {
                rows(&whose, &event, &mut |cells| file.row(cells))?;
            }
        }
    }
    let settings = recording.settings(span.to)?;
    // What is damaged is found when it is read: the gaps come last.
    let gaps = recording.gaps()?;
    for file in files {
        match file.table.rows {
            Rows::Settings(rows) => {
                settings
                    .iter()
                    .try_for_each(|setting| rows(&whose, setting, &mut |cells| file.row(cells)))?;
            }
            Rows::Gaps(rows) => gaps
                .iter()
                .filter(|gap| span.meets_gap(gap))
                .try_for_each(|gap| rows(&whose, gap, &mut |cells| file.row(cells)))?,
            Rows::Segments(rows) => {
                segments
                    .iter()
                    .try_for_each(|segment| rows(&whose, segment, &mut |cells| file.row(cells)))?;
            }
            Rows::Samples(_) | Rows::Events(_) => {}
        }
    }
    Ok(())
}
