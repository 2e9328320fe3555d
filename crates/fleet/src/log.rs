//! The log of writes: one line of JSON for each wave that begins and each server that was asked.
//!
//! The line of a wave is in the file before the wave begins, so that after a kill the log shows which servers may have
//! been reached. Statements are kept without passwords.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::statement::Statement;

/// The file's name in the folder where state is kept.
pub const NAME: &str = "fleet-writes.jsonl";

/// One line.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    Wave { at: Timestamp, run: &'a str, statement: &'a str, wave: usize, servers: Vec<&'a str> },
    Done { at: Timestamp, run: &'a str, server: &'a str },
    Failed { at: Timestamp, run: &'a str, server: &'a str, error: &'a str, outcome: &'static str },
}

/// An open log.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    run: String,
    statement: String,
}

impl Log {
    /// Opens the log to add to it; the file and its folder are made where they are missing.
    pub fn open(path: &Path, statement: &Statement) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            spindoctor_safefile::make_folder(folder)?;
        }
        let file = spindoctor_safefile::append(path)?;
        let run = format!("{}-{}", Timestamp::now().strftime("%Y%m%dT%H%M%SZ"), std::process::id());
        Ok(Self { file, path: path.to_path_buf(), run, statement: statement.without_secrets() })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A wave begins: on the disk before the first server is asked.
    pub fn wave(&mut self, wave: usize, servers: Vec<&str>) -> io::Result<()> {
        let (run, statement) = (self.run.as_str(), self.statement.as_str());
        let line = Line::Wave { at: Timestamp::now(), run, statement, wave, servers };
        write(&mut self.file, &line)?;
        self.file.sync_data()
    }

    /// Notes that a server ran the statement.
    pub fn done(&mut self, server: &str) -> io::Result<()> {
        write(&mut self.file, &Line::Done { at: Timestamp::now(), run: &self.run, server })
    }

    /// Notes that a server did not run the statement, or that nobody knows.
    pub fn failed(&mut self, server: &str, error: &str, unknown: bool) -> io::Result<()> {
        let outcome = if unknown { "unknown" } else { "not done" };
        write(&mut self.file, &Line::Failed { at: Timestamp::now(), run: &self.run, server, error, outcome })
    }
}

fn write(file: &mut File, line: &Line<'_>) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    // One write: two programs that log at once do not mix their lines.
    file.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_stands_in_the_log_before_its_servers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/for/it").join(NAME);
        let statement = Statement::writing("ALTER USER a IDENTIFIED BY 'hunter2'");
        let mut log = Log::open(&path, &statement).unwrap();
        log.wave(1, vec!["db1:3306", "db2:3306"]).unwrap();
        log.done("db1:3306").unwrap();
        log.failed("db2:3306", "error 1045: no", true).unwrap();
        let text = std::fs::read_to_string(log.path()).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[0]["event"], &lines[0]["servers"][1]), (&"wave".into(), &"db2:3306".into()));
        assert_eq!(lines[0]["statement"], "ALTER USER a IDENTIFIED BY '<secret>'");
        assert_eq!((&lines[1]["event"], &lines[1]["run"]), (&"done".into(), &lines[0]["run"]));
        assert_eq!(lines[2]["outcome"], "unknown");
    }
}
