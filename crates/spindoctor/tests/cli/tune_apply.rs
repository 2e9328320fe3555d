//! `tune --apply` against real servers under sysbench's load.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Home, Server, ServerSpec, Which};

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// How long a busy machine may take for what takes a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A loaded server, and what a test asks of it.
struct Lab {
    runtime: tokio::runtime::Runtime,
    server: Server,
    _load: Option<Load>,
    state: tempfile::TempDir,
}

impl Lab {
    fn new(which: Which, load: Option<(Workload, u32)>, settings: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let home = Home::open().expect("the lab has a folder");
        let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
        let server = runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server");
        runtime.block_on(server.execute(settings.iter().copied())).expect("settings");
        let load = load.map(|(workload, threads)| {
            let _entered = runtime.enter();
            let spec = LoadSpec { workload, threads, rate: None, tables: TABLES };
            Load::start(server.socket(), spec).expect("sysbench")
        });
        Self { runtime, server, _load: load, state: tempfile::tempdir().expect("a folder") }
    }

    fn value(&self, variable: &str) -> String {
        let answer = self.runtime.block_on(self.server.ask(&format!("SELECT @@GLOBAL.{variable}")));
        answer.expect("an answer").expect("a value")
    }

    /// `tune --apply` with its state in a folder of the test.
    fn apply(&self, flags: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor"));
        let line =
            format!("tune --apply --no-defaults -u root -S {} {flags}", self.server.socket().display());
        command.args(line.split_whitespace()).env_clear().env("XDG_STATE_HOME", self.state.path());
        command
    }

    /// What is left of a tuner: events on the server, and files in its state folder but for the log.
    fn leftovers(&self) -> (String, Vec<String>) {
        let events = self.runtime.block_on(self.server.ask("SELECT COUNT(*) FROM information_schema.EVENTS"));
        let folder = self.state.path().join("spindoctor");
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let is_journal = |name: &String| name.ends_with(".journal") || name.ends_with(".undo");
        (events.expect("an answer").expect("a count"), names.filter(is_journal).collect())
    }
}

#[test]
fn a_setting_that_helps_is_kept_reported_and_logged() {
    let lab = Lab::new(
        Which::Mysql,
        Some((Workload::OltpUpdateIndex, 64)),
        &["SET GLOBAL innodb_spin_wait_delay = 100", "SET GLOBAL innodb_spin_wait_pause_multiplier = 100"],
    );
    let page = lab.state.path().join("trial.html");
    let flags = format!(
        "--only innodb_spin_wait_delay=6 --only innodb-spin-wait-pause-multiplier=50 --settle 100ms --measure 400ms \
         --max-time 90s --json --html {}",
        page.display()
    );
    let output = lab.apply(&flags).output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let trial: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(trial["schema"], "spindoctor.trial/1");
    assert_eq!(trial["verdict"], "helps", "{trial:#}");
    assert_eq!(
        (&trial["kept"], trial["variable"].as_str()),
        (&Value::Bool(true), Some("innodb_spin_wait_delay,innodb_spin_wait_pause_multiplier"),)
    );
    assert!(trial["effect"]["throughput"]["low"].as_f64().is_some_and(|low| low > 1.05), "{trial:#}");
    for quantity in ["p95", "cpu_per_query"] {
        assert!(trial["effect"][quantity]["ratio"].is_f64(), "{quantity}: {trial:#}");
    }
    assert_eq!(lab.value("innodb_spin_wait_delay"), "6");
    assert_eq!(lab.value("innodb_spin_wait_pause_multiplier"), "50");
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()));
    let page = fs::read_to_string(page).expect("the page").replace("<wbr>", "");
    assert!(page.contains("Helps") && page.contains("innodb_spin_wait_delay"));
    let log = fs::read_to_string(lab.state.path().join("spindoctor/trials.jsonl")).expect("the log");
    let logged: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(logged["start"], trial["start"]);
}

#[test]
fn put_back_gives_the_old_value_back_whatever_the_verdict() {
    let lab = Lab::new(Which::Mariadb, Some((Workload::OltpPointSelect, 8)), &[]);
    let before = lab.value("innodb_sync_spin_loops");
    let flags = "--only innodb_sync_spin_loops=20 --put-back --settle 100ms --measure 400ms --max-time 15s";
    let output = lab.apply(flags).output().expect("the program runs");
    let (report, text) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(report.contains("innodb_sync_spin_loops  30 → 20"), "{report}");
    assert!(report.contains("Put back: innodb_sync_spin_loops = 30"), "{report}");
    assert_eq!(lab.value("innodb_sync_spin_loops"), before);
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()));
}

#[test]
fn ctrl_c_in_a_new_block_puts_the_old_value_back_and_reports_what_was_seen() {
    let lab = Lab::new(Which::Mysql, Some((Workload::OltpPointSelect, 8)), &[]);
    let before = lab.value("innodb_sync_spin_loops");
    // Long blocks: it is in the middle of one for sure.
    let flags = "--only innodb_sync_spin_loops=31 --settle 1s --measure 4s --max-time 10m --json";
    let child = lab.apply(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let deadline = Instant::now() + 2 * PATIENCE;
    while lab.value("innodb_sync_spin_loops") == before {
        assert!(Instant::now() < deadline, "the new value was never set");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::INT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(lab.value("innodb_sync_spin_loops"), before);
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()));
    assert_eq!(output.status.code(), Some(2));
    let trial: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(trial["verdict"], "inconclusive");
    assert!(trial["why"].as_str().is_some_and(|why| why.contains("interrupted")), "{trial:#}");
}

#[test]
fn undo_tablespaces_are_made_where_they_are_named_and_gone_after_ctrl_c() {
    let lab = Lab::new(Which::Mysql, Some((Workload::OltpUpdateIndex, 8)), &[]);
    let made = || {
        let count = "SELECT COUNT(*) FROM information_schema.INNODB_TABLESPACES WHERE NAME LIKE 'spindoctor\\_undo\\_%'";
        lab.runtime.block_on(lab.server.ask(count)).expect("an answer").expect("a count")
    };
    let flags = "--only undo_tablespaces=4 --settle 500ms --measure 3s --max-time 10m --json";
    let child = lab.apply(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let deadline = Instant::now() + 2 * PATIENCE;
    // Old blocks have as many segments in four tablespaces as two had before.
    while lab.value("innodb_rollback_segments") != "64" {
        assert!(Instant::now() < deadline, "{} were made, and no old block began", made());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(made(), "2");
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    kill_process(pid, Signal::INT).expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let trial: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(2), "{trial:#}");
    assert!(trial.to_string().contains("2 undo tablespaces were made (spindoctor_undo_"), "{trial:#}");
    assert_eq!((made().as_str(), lab.value("innodb_rollback_segments").as_str()), ("0", "128"));
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()));
}

/// Of a server that has nothing to do.
mod calm {
    use super::*;

    #[test]
    fn a_server_without_load_gets_its_settings_untouched_and_is_shown_why() {
        let lab = Lab::new(Which::Mysql, None, &[]);
        let flags = "--only innodb_sync_spin_loops=31 --settle 100ms --measure 400ms";
        let output = lab.apply(flags).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("run it again when there is load"), "{text}");
        assert_eq!(lab.value("innodb_sync_spin_loops"), "30");
        assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()));
    }
}

#[test]
fn what_is_not_on_the_list_is_refused_before_anything_is_asked() {
    for (only, wanted) in [
        ("datadir=/tmp", "not on the list"),
        ("innodb_spin_wait_delay=9999", ""),
        ("undo_tablespaces=2", "from 3 to 127"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor"));
        command.args(["tune", "--apply", "--no-defaults", "-S", "/nonexistent/mysqld.sock", "--only", only]);
        let output = command.env_clear().env("HOME", "/nonexistent").output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(wanted), "{text}");
    }
}
