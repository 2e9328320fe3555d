//! `record --parquet` on real servers: what is in the files is what is in the recording, whatever happened in between.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use spindoctor_lab::{Server, ServerSpec};

use crate::lab::{in_runtime, start};
use crate::program::{complained, printed};
use crate::record::samples;
use crate::running::{Running, process, wait_until};

/// For what is not promised, on a machine that is on its knees.
const PATIENCE: Duration = Duration::from_secs(120);
/// Every table that is written without being named.
const TABLES: [&str; 11] = [
    "samples",
    "minutes",
    "digests",
    "waits",
    "settings",
    "events",
    "findings",
    "wait_edges",
    "probes",
    "segments",
    "gaps",
];

fn server() -> Server {
    in_runtime(start(&ServerSpec::default()))
}

/// A recorder of a server, with the files' folder and the recording in a folder.
struct Place {
    folder: tempfile::TempDir,
    socket: PathBuf,
}

impl Place {
    fn for_server(server: &Server) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), socket: server.socket().to_owned() }
    }

    fn recording(&self) -> PathBuf {
        self.folder.path().join("a.rec")
    }

    fn history(&self) -> PathBuf {
        self.folder.path().join("history")
    }

    fn command(&self, flags: &str) -> Command {
        let line = format!(
            "record --no-defaults -u root -S {} -o {} --no-stacks --name db17 {flags}",
            self.socket.display(),
            self.recording().display(),
        );
        process(&line)
    }

    /// Records, with an event that begins at once and lasts.
    fn start(&self) -> Running {
        let flags = format!("--parquet {} --parquet-every 2s", self.history().display());
        Running::start_unread(self.command(&flags).args(["--when", "Uptime > 0"]))
    }

    /// The rows of a table in all its files, in order.
    fn rows(&self, table: &str) -> Vec<String> {
        let mut rows: Vec<String> =
            parquet_files(&self.history().join(table)).iter().flat_map(|file| rows_of(file)).collect();
        rows.sort_unstable();
        rows
    }
}

fn parquet_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(parquet_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            files.push(path);
        }
    }
    files
}

fn rows_of(file: &Path) -> Vec<String> {
    let name = file.display();
    let file = File::open(file).expect("the file opens");
    let reader = SerializedFileReader::new(file).unwrap_or_else(|why| panic!("{name} is not whole: {why}"));
    let rows = reader.get_row_iter(None).expect("rows");
    rows.map(|row| row.expect("a row").to_string()).collect()
}

/// A recorder is killed while it writes files, the next one ends as it should: then the files have each row of the recording
/// once, as `export` has it.
#[test]
fn nothing_is_lost_and_nothing_is_there_twice_when_a_recorder_is_killed() {
    let server = server();
    let place = Place::for_server(&server);
    let killed = place.start();
    wait_until(PATIENCE, "a third file", || parquet_files(&place.history().join("samples")).len() >= 3);
    killed.kill();
    let by_then: BTreeSet<String> = place.rows("samples").into_iter().collect();
    assert!(!by_then.is_empty(), "three files have no row");

    let kept = samples(&place.recording());
    let next = place.start();
    wait_until(PATIENCE, "a sample of the next recorder", || samples(&place.recording()) > kept + 2);
    next.end();
    server.stop().expect("it stops");

    let flat = place.folder.path().join("flat");
    let line = format!("export {} --out {}", place.recording().display(), flat.display());
    let (said, code) = printed(&line);
    assert_eq!(code, 0, "{said}");
    for table in TABLES {
        let mut exported = rows_of(&flat.join(format!("{table}.parquet")));
        exported.sort_unstable();
        let (shipped, all) = (place.rows(table), exported.len());
        assert!(shipped == exported, "{table}: {} rows in files, {all} in the recording", shipped.len());
    }
    assert_eq!(place.rows("segments").len(), 2, "each recorder has a segment of its own");
    let events = place.rows("events");
    assert!(events.len() >= 2, "a recorder has no event: {events:#?}");
    let rows = place.rows("samples");
    assert!(rows.iter().all(|row| row.contains("server: \"db17\"")), "another server: {:?}", rows.first());
    assert!(by_then.is_subset(&rows.into_iter().collect()), "a row that was there is gone");
    assert!(parquet_files(&place.history().join("threads")).is_empty(), "threads were not asked for");
}

/// Who writes the files takes the CPU that others leave, and has seconds to end: only what needs no files may be beside others.
mod calm {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_is_one_line_and_the_recording_goes_on() {
        let server = server();
        let place = Place::for_server(&server);
        let file = place.folder.path().join("a-file");
        fs::write(&file, "no folder").expect("a file");
        let flags = format!(
            "--parquet {}/history --parquet-every 1s --parquet-table samples --duration 10s",
            file.display()
        );
        let output = place.command(&flags).output().expect("the program runs");
        server.stop().expect("it stops");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let about: Vec<&str> = said.lines().filter(|line| line.contains("Parquet")).collect();
        assert_eq!(about.len(), 1, "{said}");
        assert!(
            about[0].contains("no Parquet files for now: could not make") && about[0].contains("a-file"),
            "{said}"
        );
        let kept = samples(&place.recording());
        assert!(kept >= 7, "only {kept} samples in 10 s");
    }
}

#[test]
fn flags_that_belong_to_files_need_a_folder() {
    for flags in ["--parquet-every 1m", "--parquet-table events"] {
        let (why, code) = complained(&format!("record {flags}"));
        assert!(code == 2 && why.contains("--parquet <FOLDER>"), "{why}");
    }
    let (why, code) = complained("record --parquet x --parquet-every 100ms");
    assert!(code == 2 && why.contains("between 1s and 1h"), "{why}");
}

#[test]
fn the_help_of_record_is_this() {
    let (help, code) = printed("record --help");
    assert_eq!(code, 0, "{help}");
    insta::assert_snapshot!(help);
}
