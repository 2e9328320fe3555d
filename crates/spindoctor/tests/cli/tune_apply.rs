//! `tune --apply` against real servers under sysbench's load.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use spindoctor_lab::load::{Load, LoadSpec, Tables, Workload};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{runtime, start};
use crate::running::{Running, process, wait_until};

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
        let runtime = runtime();
        let spec = ServerSpec { which, tables: Some(TABLES), ..ServerSpec::default() };
        let server = runtime.block_on(start(&spec));
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
        let socket = self.server.socket().display();
        let mut command = process(&format!("tune --apply --no-defaults -u root -S {socket} {flags}"));
        command.env("XDG_STATE_HOME", self.state.path());
        command
    }

    /// The trial of a `tune --apply` in which Ctrl-C is pressed once this is so: it leaves nothing behind.
    fn interrupted_once(&self, flags: &str, what: &str, is_so: impl Fn() -> bool) -> Value {
        let running = Running::start(&mut self.apply(flags));
        wait_until(2 * PATIENCE, what, is_so);
        let ended = running.interrupted();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert_eq!(self.leftovers(), ("0".to_owned(), Vec::new()), "{ended:?}");
        serde_json::from_str(&ended.out).expect("JSON")
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
    assert_eq!(lab.value("innodb_spin_wait_delay"), "6", "it was not kept: {trial:#}");
    assert_eq!(lab.value("innodb_spin_wait_pause_multiplier"), "50", "it was not kept: {trial:#}");
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()), "events or files are left");
    let page = fs::read_to_string(page).expect("the page").replace("<wbr>", "");
    assert!(page.contains("Helps") && page.contains("innodb_spin_wait_delay"), "{page}");
    let log = fs::read_to_string(lab.state.path().join("spindoctor/trials.jsonl")).expect("the log");
    let logged: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(logged["start"], trial["start"], "another trial was logged: {log}");
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
    assert_eq!(lab.value("innodb_sync_spin_loops"), before, "it was not put back: {report}");
    assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()), "events or files are left");
}

#[test]
fn ctrl_c_in_a_new_block_puts_the_old_value_back_and_reports_what_was_seen() {
    let lab = Lab::new(Which::Mysql, Some((Workload::OltpPointSelect, 8)), &[]);
    let before = lab.value("innodb_sync_spin_loops");
    // Long blocks: it is in the middle of one for sure.
    let flags = "--only innodb_sync_spin_loops=31 --settle 1s --measure 4s --max-time 10m --json";
    let is_set = || lab.value("innodb_sync_spin_loops") != before;
    let trial = lab.interrupted_once(flags, "the new value is set", is_set);
    assert_eq!(lab.value("innodb_sync_spin_loops"), before, "{trial:#}");
    assert_eq!(trial["verdict"], "inconclusive", "{trial:#}");
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
    // Old blocks have as many segments in four tablespaces as two had before.
    let is_old_block = || {
        let has_begun = lab.value("innodb_rollback_segments") == "64";
        assert!(!has_begun || made() == "2", "an old block began with {} of 2 tablespaces", made());
        has_begun
    };
    let trial = lab.interrupted_once(flags, "an old block begins", is_old_block);
    assert!(trial.to_string().contains("2 undo tablespaces were made (spindoctor_undo_"), "{trial:#}");
    let left = (made(), lab.value("innodb_rollback_segments"));
    assert_eq!(left, ("0".to_owned(), "128".to_owned()), "{trial:#}");
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
        assert_eq!(lab.value("innodb_sync_spin_loops"), "30", "it was changed: {text}");
        assert_eq!(lab.leftovers(), ("0".to_owned(), Vec::new()), "events or files are left");
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
