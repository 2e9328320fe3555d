//! Finished runs of a sweep, kept in a file as they come: one line of JSON each, the first line says what they were
//! made with. However the sweep ends, at most the current run is lost.

use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use spindoctor_tune::sweep::{Conditions, Measured};

/// Name and version of the file's form.
const SCHEMA: &str = "spindoctor.sweep-runs/1";

/// The file.
#[derive(Debug)]
pub struct Cells {
    file: File,
    path: PathBuf,
    /// What it holds.
    pub done: Vec<Measured>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    schema: String,
    #[serde(flatten)]
    conditions: Conditions,
}

/// A lock goes with every copy of the file's handle: a child that was just forked has one until it runs its own program.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Only one sweep writes to a file.
fn lock(file: &File, path: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => bail!("another sweep writes to {} now", path.display()),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("could not lock {}", path.display()));
            }
        }
    }
}

impl Cells {
    /// Opens the file, or makes it. What it holds must have been made under the same conditions.
    pub fn open(path: &Path, conditions: &Conditions) -> anyhow::Result<Self> {
        let mut file = spindoctor_safefile::read_write(path)
            .with_context(|| format!("could not open {}", path.display()))?;
        lock(&file, path)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("could not read {}", path.display()))?;
        // A line without its end was being written when the sweep was killed.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let done = read(&text[..whole], conditions).with_context(|| format!("{}", path.display()))?;
        let mut cells = Self { file, path: path.to_owned(), done };
        cells.file.set_len(whole as u64).with_context(|| format!("could not write {}", path.display()))?;
        cells.file.seek(SeekFrom::End(0)).with_context(|| format!("could not write {}", path.display()))?;
        if whole == 0 {
            cells.write(&Header { schema: SCHEMA.to_owned(), conditions: conditions.clone() })?;
        }
        Ok(cells)
    }

    /// Keeps one more.
    pub fn push(&mut self, measured: Measured) -> anyhow::Result<()> {
        self.write(&measured)?;
        self.done.push(measured);
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file.
    pub fn remove(&self) {
        // One that stays is read by nobody who does not name it.
        let _stays = fs::remove_file(&self.path);
    }

    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(line).context("could not write a run as JSON")?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("could not write to {}", self.path.display()))
    }
}

fn read(text: &str, conditions: &Conditions) -> anyhow::Result<Vec<Measured>> {
    let mut lines = text.lines();
    let Some(first) = lines.next() else { return Ok(Vec::new()) };
    let header: Header = serde_json::from_str(first)
        .ok()
        .filter(|header: &Header| header.schema == SCHEMA)
        .context(
        "this is not a file of a sweep's runs; name another file with --resume, or one that is not there yet",
    )?;
    if let Some((what, before, now)) = difference(&header.conditions, conditions) {
        bail!(
            "its runs were made with another {what} ({before}, now {now}) and cannot stand beside these; name another \
             file with --resume"
        );
    }
    lines
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| format!("line {} is not a run of a sweep", at + 2))
        })
        .collect()
}

/// What differs first, before and now.
fn difference(before: &Conditions, now: &Conditions) -> Option<(&'static str, String, String)> {
    let text = |conditions: &Conditions| {
        [
            ("server", conditions.server.clone()),
            ("address", conditions.address.clone()),
            ("machine", conditions.machine.clone()),
            ("quota", format!("{:?}", conditions.quota_cpus)),
            ("set of options", conditions.options.join(" ")),
            ("workload", conditions.workload.clone()),
            ("number of tables", conditions.tables.to_string()),
            ("number of rows", conditions.rows.to_string()),
            ("warm-up", format!("{} s", conditions.warmup_s)),
            ("measured time", format!("{} s", conditions.measured_s)),
        ]
    };
    let both = text(before).into_iter().zip(text(now));
    both.filter(|(before, now)| before != now)
        .map(|((what, before), (_, now))| (what, before, now))
        .next()
        .or_else(|| {
            // A file of before 2026-11-26 has none.
            let values =
                now.settings.iter().filter_map(|(name, now)| Some((name, before.settings.get(name)?, now)));
            let changed = values.into_iter().find(|(_, before, now)| before != now);
            changed.map(|(name, before, now)| ("setting", format!("{name} = {before}"), now.clone()))
        })
}

#[cfg(test)]
mod tests {
    use spindoctor_tune::sweep::{Cell, Setting};

    use super::*;

    fn conditions(workload: &str) -> Conditions {
        Conditions { workload: workload.to_owned(), ..Conditions::default() }
    }

    fn run(run: u32) -> Measured {
        let cell = Cell { setting: Setting::default(), threads: 4, run };
        Measured { cell, transactions_per_s: 12.5, ..Measured::default() }
    }

    #[test]
    fn a_run_that_was_being_written_is_lost_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let mut cells = Cells::open(&path, &conditions("a")).unwrap();
        cells.push(run(0)).unwrap();
        cells.push(run(1)).unwrap();
        drop(cells);
        let text = fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let mut cells = Cells::open(&path, &conditions("a")).unwrap();
            let whole = text[..cut].matches('\n').count().saturating_sub(1);
            assert_eq!(cells.done.len(), whole, "{cut}");
            cells.push(run(7)).unwrap();
            drop(cells);
            assert_eq!(Cells::open(&path, &conditions("a")).unwrap().done.last(), Some(&run(7)), "{cut}");
        }
    }

    #[test]
    fn runs_under_other_conditions_and_other_files_are_refused_and_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let held = Cells::open(&path, &conditions("a")).unwrap();
        let busy = Cells::open(&path, &conditions("a")).unwrap_err();
        assert!(busy.to_string().contains("another sweep"), "{busy}");
        drop(held);
        let other = format!("{:#}", Cells::open(&path, &conditions("b")).unwrap_err());
        assert!(other.contains("another workload (a, now b)"), "{other}");
        let with = |value: &str| {
            let mut conditions = conditions("a");
            conditions.settings.insert("sync_binlog".to_owned(), value.to_owned());
            conditions
        };
        let changed = folder.path().join("changed.jsonl");
        drop(Cells::open(&changed, &with("1")).unwrap());
        let refused = format!("{:#}", Cells::open(&changed, &with("0")).unwrap_err());
        assert!(refused.contains("another setting (sync_binlog = 1, now 0)"), "{refused}");
        for text in ["{\"schema\":\"other/1\"}\n", "something else\n"] {
            fs::write(&path, text).unwrap();
            let refused = format!("{:#}", Cells::open(&path, &conditions("a")).unwrap_err());
            assert!(refused.contains("--resume"), "{refused}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }
}
