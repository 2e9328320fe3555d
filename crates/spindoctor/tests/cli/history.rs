//! `record --parquet` on real servers: what is in the files is what is in the recording, whatever happened in between.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::{Home, Server, ServerSpec};
use spindoctor_record::Recording;

use crate::program::{complained, printed, spindoctor};

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let spec = ServerSpec::default();
    runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server")
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
        let asked = spindoctor(&line);
        let mut command = Command::new(asked.get_program());
        command.args(asked.get_args()).env_clear().env("HOME", "/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Records, with an event that begins at once and lasts.
    fn start(&self) -> Child {
        let flags = format!("--parquet {} --parquet-every 2s", self.history().display());
        let mut command = self.command(&flags);
        command.args(["--when", "Uptime > 0"]);
        command.spawn().expect("the program runs")
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

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn samples(file: &Path) -> usize {
    let Ok(recording) = Recording::open(file) else { return 0 };
    let Ok(Some((from, to))) = recording.extent() else { return 0 };
    recording.samples(from, to).map_or(0, |samples| samples.len())
}

fn end(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// A recorder is killed while it writes files, the next one ends as it should: then the files have each row of the recording
/// once, as `export` has it.
#[test]
fn nothing_is_lost_and_nothing_is_there_twice_when_a_recorder_is_killed() {
    let server = server();
    let place = Place::for_server(&server);
    let mut killed = place.start();
    wait_until("a third file", || parquet_files(&place.history().join("samples")).len() >= 3);
    killed.kill().expect("it runs");
    killed.wait().expect("it ends");
    let by_then: BTreeSet<String> = place.rows("samples").into_iter().collect();
    assert!(!by_then.is_empty());

    let kept = samples(&place.recording());
    let next = place.start();
    wait_until("a sample of the next recorder", || samples(&place.recording()) > kept + 2);
    end(next);
    server.stop().expect("it stops");

    let flat = place.folder.path().join("flat");
    let line = format!("export {} --out {}", place.recording().display(), flat.display());
    assert_eq!(printed(&line).1, 0);
    for table in TABLES {
        let mut exported = rows_of(&flat.join(format!("{table}.parquet")));
        exported.sort_unstable();
        let (shipped, all) = (place.rows(table), exported.len());
        assert!(shipped == exported, "{table}: {} rows in files, {all} in the recording", shipped.len());
    }
    assert_eq!(place.rows("segments").len(), 2);
    assert!(place.rows("events").len() >= 2, "an event of each recorder");
    assert!(place.rows("samples").iter().all(|row| row.contains("server: \"db17\"")));
    assert!(by_then.is_subset(&place.rows("samples").into_iter().collect()), "what was there is there");
    assert!(parquet_files(&place.history().join("threads")).is_empty(), "it was not asked for");
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
            "--parquet {}/history --parquet-every 1s --parquet-table samples --duration 22s",
            file.display()
        );
        let Output { status, stderr, .. } =
            place.command(&flags).stderr(Stdio::piped()).output().expect("the program runs");
        server.stop().expect("it stops");
        let said = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(0), "{said}");
        let about: Vec<&str> = said.lines().filter(|line| line.contains("Parquet")).collect();
        assert_eq!(about.len(), 1, "{said}");
        assert!(
            about[0].contains("no Parquet files for now: could not make") && about[0].contains("a-file"),
            "{said}"
        );
        let kept = samples(&place.recording());
        assert!(kept >= 15, "{kept} samples");
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
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}
