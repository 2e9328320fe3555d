//! `spindoctor export`: tables of a recording as files that other programs read at once.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use spindoctor_export::table::by_name;
use spindoctor_export::{Dated, FileFormat, More, Position, TABLES, Table, Touching, Whole, Writing};
use spindoctor_record::Recording;

use super::args::{Export as Asked, Layout};
use crate::common::exit::ExitStatus;
use crate::common::stalls::day_and_time;
use crate::common::{output, recorded, terminal};
use spindoctor_page::csv::Reader;
use spindoctor_page::number;
use spindoctor_page::safe::safe;
use spindoctor_record::span::{Ends, Span};

/// What is past is laid out in the largest files that there are.
const A_DAY: Duration = Duration::from_secs(86_400);

/// Writes the tables, and says what it wrote.
pub fn run(asked: &Asked) -> anyhow::Result<ExitStatus> {
    let plan = Plan::from_flags(asked)?;
    let recording = recorded::open(&asked.file)?;
    let Some((first, last)) = recording.extent()? else {
        bail!("{} has no sample yet; the recorder writes one a second", asked.file.display());
    };
    let written = match plan {
        Plan::Flat { format, reader, tables } => {
            let from = asked.from.map_or(first, |from| from.resolved(last));
            let to = asked.to.map_or(last, |to| to.resolved(last));
            if from > to {
                bail!("--from {} is after --to {}", day_and_time(from), day_and_time(to));
            }
            flat(&recording, Span::new(from, to), format, reader, tables)?
        }
        Plan::Dated(dated) => all_of(&recording, &dated)?,
    };
    output::print(&written.iter().map(summary).collect::<String>())?;
    Ok(ExitStatus::Done)
}

/// Which tables go where.
enum Plan {
    Flat { format: FileFormat, reader: Reader, tables: Vec<(&'static Table, PathBuf)> },
    Dated(Dated),
}

impl Plan {
    fn from_flags(asked: &Asked) -> anyhow::Result<Self> {
        if asked.layout == Layout::Dated && (asked.from.is_some() || asked.to.is_some()) {
            bail!("--layout dated lays out the whole recording; leave --from and --to out");
        }
        let by_name_of_file = match asked.out.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Some(FileFormat::Parquet),
            Some("csv") => Some(FileFormat::Csv),
            _ => None,
        };
        let format = asked.format.or(by_name_of_file).unwrap_or(FileFormat::Parquet);
        let reader = terminal::csv_reader(asked.raw_csv, true);
        let wanted: Vec<&'static Table> = asked.table.iter().filter_map(|name| by_name(name)).collect();
        let is_file = by_name_of_file.is_some() && !asked.out.is_dir();
        if is_file && asked.layout == Layout::Flat {
            let table = match wanted.as_slice() {
                [] => &TABLES[0],
                [table] => *table,
                _ => bail!("{} is one file; several tables need a folder", asked.out.display()),
            };
            output::expect_writable(&asked.out, &[])?;
            return Ok(Self::Flat { format, reader, tables: vec![(table, asked.out.clone())] });
        }
        output::expect_folder(&asked.out)?;
        let wanted = if wanted.is_empty() { TABLES.iter().collect() } else { wanted };
        spindoctor_safefile::make_folder(&asked.out)
            .with_context(|| format!("could not make {}", asked.out.display()))?;
        if asked.layout == Layout::Dated {
            let folder = asked.out.clone();
            return Ok(Self::Dated(Dated { folder, tables: wanted, format, reader, every: A_DAY }));
        }
        let place = |table: &Table| asked.out.join(format!("{}.{}", table.name, format.extension()));
        let tables: Vec<_> = wanted.into_iter().map(|table| (table, place(table))).collect();
        for (_, file) in &tables {
            output::expect_writable(file, &[])?;
        }
        Ok(Self::Flat { format, reader, tables })
    }
}

/// A file of each table, there even without a row.
fn flat(
    recording: &Recording,
    span: Span,
    format: FileFormat,
    reader: Reader,
    tables: Vec<(&'static Table, PathBuf)>,
) -> anyhow::Result<Vec<Whole>> {
    let mut files: Vec<Writing> =
        tables.into_iter().map(|(table, path)| Writing::new(format, reader, table, path)).collect();
    files.iter_mut().try_for_each(Writing::begin)?;
    let ends = Ends::of_segments(&recording.segments()?, &recording.stretches(0)?);
    spindoctor_export::write(recording, &Touching { span, ends }, &mut files)?;
    files.into_iter().filter_map(|file| file.end().transpose()).collect()
}

/// All that a recording has by now, day by day.
fn all_of(recording: &Recording, dated: &Dated) -> anyhow::Result<Vec<Whole>> {
    let mut written = Vec::new();
    let mut position = Position::default();
    let stretches = recording.stretches(0)?;
    while let Some((behind, files)) = dated.step(recording, &stretches, &position, More::Ended)? {
        position = behind;
        written.extend(files);
    }
    Ok(written)
}

fn summary(Whole { path, table, rows, bytes }: &Whole) -> String {
    format!(
        "{:<16} {:>16} {:>9}  {}\n",
        table.name,
        number::counted(*rows, "row", "rows"),
        number::bytes(*bytes as f64),
        safe(&path.display().to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_and_sizes_of_all_tables_stand_in_one_column() {
        for table in TABLES {
            let line = summary(&Whole { path: "x".into(), table, rows: 12, bytes: 2_048 });
            assert_eq!(line.find("12 rows"), Some(26), "{line}");
        }
    }
}
