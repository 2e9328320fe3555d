//! `spindoctor locks` on real servers and on bad days.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use spindoctor_lab::{Server, Which};
use spindoctor_model::mysql::{RowLockWait, ServerThread};
use spindoctor_model::{Reading, Sample, ServerVersion, Window};

use crate::lab::{during, on_both, with_server};
use crate::program::{complained, printed, spindoctor};
use crate::running::{Running, process};
use crate::stacks::may_not_profile;

/// The command for a server of the lab.
fn line(server: &Server, rest: &str) -> String {
    format!("locks -u root -S {} --no-defaults {rest}", server.socket().display())
}

fn look(server: &Server) -> Value {
    let (text, code) = printed(&line(server, "--json"));
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

/// What the command prints of a server while a scenario of the lab makes it suffer.
fn printed_during(scenario: &str, server: &str, rest: &str) -> String {
    let output = during(scenario, server, &format!("locks {rest}"));
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{notes}");
    text.into_owned()
}

#[test]
fn the_client_that_is_idle_in_its_transaction_is_the_root_of_a_chain_of_three() {
    on_both(|which| {
        let server = if which == Which::Mysql { "mysql" } else { "mariadb" };
        let seen = printed_during("metadata-lock-pileup", server, "--json");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        let root = &seen["roots"][0];
        // An ALTER TABLE, and behind it those of 24 readers that have come to it by now: 20 are waited for.
        let behind = root["waiting_in_all"].as_u64().expect("a number");
        assert!((20..=25).contains(&behind), "{server}: {seen:#}");
        assert_eq!(root["doing"], "idle in transaction", "{server}: {seen:#}");
        let id = root["connection_id"].as_u64().expect("an id");
        assert_eq!(root["free_with"], format!("KILL {id}"), "{server}: {seen:#}");
    });
}

#[test]
fn a_chain_of_three_is_a_tree_on_the_terminal_and_a_picture_in_a_file() {
    let text = printed_during("metadata-lock-pileup", "mysql", "");
    assert!(text.contains("idle in transaction") && text.contains("ALTER TABLE"), "{text}");
    assert!(text.contains("more like this") && text.contains("free with  KILL"), "{text}");
    assert!(text.lines().count() < 30, "{text}");

    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("waits.svg");
    printed_during("row-lock-pileup", "mysql", &format!("--output {}", picture.display()));
    let svg = std::fs::read_to_string(&picture).expect("it was written");
    assert!(svg.contains("<svg") && svg.contains("row lock on"), "{svg}");
}

/// All of these look at one server: a start takes longer than any of them.
#[test]
fn a_quiet_server_gets_a_few_calm_lines_a_watch_ends_well_and_a_silent_server_has_its_process_shown() {
    with_server(Which::Mysql, |server| {
        gets_a_few_calm_lines(server);
        has_a_line_for_each_look_of_a_watch_that_ends_well_with_ctrl_c(server);
        has_its_process_shown_where_it_answers_nothing(server);
    });
}

fn gets_a_few_calm_lines(server: &Server) {
    let (text, code) = printed(&line(server, ""));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("no session waits"), "{text}");
    assert!(text.lines().count() <= 8, "{text}");
    let seen = look(server);
    assert_eq!(seen["threads_stopped"], 0, "{seen:#}");
    assert_eq!(seen["edges"], Value::Array(Vec::new()), "{seen:#}");
}

fn has_a_line_for_each_look_of_a_watch_that_ends_well_with_ctrl_c(server: &Server) {
    let mut running = Running::start(&mut process(&line(server, "--watch=100ms --json")));
    for _ in 0..3 {
        let look: Value = serde_json::from_str(&running.line().expect("a look")).expect("JSON");
        assert_eq!(look["schema"], "spindoctor.locks/1", "{look:#}");
    }
    let ended = running.interrupted();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

fn has_its_process_shown_where_it_answers_nothing(server: &Server) {
    if may_not_profile() {
        return;
    }
    server.pause(true);
    let output = spindoctor(&line(server, "--connect-timeout 500ms")).output().expect("the program runs");
    server.pause(false);
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{notes}");
    assert!(notes.contains("did not answer within 0.5 s"), "{notes}");
    assert!(text.contains("all its threads are stopped"), "{text}");
    assert!(text.contains("not everything could be checked"), "{text}");
}

/// A process that is no server and whose threads wait for locks of the C library, until this is dropped.
struct Locks {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Locks {
    /// Builds and starts the program that the snapshots' tests have for it.
    fn start(mode: &str) -> Self {
        const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../stacks/tests/capture/locks.c");
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("locks");
        let built =
            Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(SOURCE).status();
        assert!(built.expect("a C compiler").success());
        let mut child = Command::new(program)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let said = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines().next();
        assert_eq!(said.expect("a line").expect("UTF-8"), "ready");
        Self { child, _folder: folder }
    }

    /// The text, once so many threads wait, and have waited for more than a moment.
    fn shown(&self, waiting: &str) -> String {
        let line = format!("locks --pid {} -S /nonexistent/mysqld.sock --no-defaults", self.child.id());
        for _ in 0..100 {
            let (text, code) = printed(&line);
            assert_eq!(code, 0, "{text}");
            let are_all = text.lines().next().is_some_and(|line| line.ends_with(waiting));
            if are_all && !text.contains("No session is blocked for long") {
                return text;
            }
        }
        panic!("not {waiting}: {}", printed(&line).0);
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
    }
}

#[test]
fn the_mutexes_of_any_program_have_their_holders_as_roots() {
    if may_not_profile() {
        return;
    }
    let convoy = Locks::start("convoy").shown(" 20 threads wait");
    assert!(convoy.contains("1 holder (thread "), "{convoy}");
    assert!(convoy.contains(") blocks 20 threads "), "{convoy}");
    assert!(convoy.contains("wanted in wants_mutex"), "{convoy}");

    let chain = Locks::start("chain").shown(" 4 threads wait");
    assert!(chain.contains("holder (thread ") && chain.contains("blocks 4 threads, 1 directly"), "{chain}");
    assert!(chain.contains("└─ between (thread ") && chain.contains("blocks 3"), "{chain}");

    let ended = Locks::start("ended").shown(" 2 threads wait");
    assert!(ended.contains("ended, and never let go of it"), "{ended}");

    let readers = Locks::start("readers").shown(" 2 threads wait");
    assert!(readers.contains("An owner that is not visible blocks"), "{readers}");
}

/// A window of a server on which eleven connections wait for a row, saved where the program can read it. The names are
/// to attack the reader.
fn saved_pileup(folder: &Path) -> String {
    const HOSTILE: &str = "\u{1b}]2;owned\u{7}\u{202e}</svg><script>document.title='owned'</script>";
    let threads = (12..=23).map(|id| ServerThread {
        connection_id: Some(id),
        is_connection: true,
        user: "app".to_owned(),
        command: if id == 12 { "Sleep" } else { "Query" }.to_owned(),
        time_s: 61.0,
        statement: (id > 12).then(|| format!("UPDATE t SET a = '{HOSTILE}' WHERE id = {id}")),
        ..ServerThread::default()
    });
    let waits = (13..=23).map(|id| RowLockWait {
        waiting_connection_id: Some(id),
        blocking_connection_id: Some(12),
        waiting_transaction: id.to_string(),
        blocking_transaction: "12".to_owned(),
        table: format!("app.{HOSTILE}"),
        waited_s: 9.0,
        ..RowLockWait::default()
    });
    fn available<T>(value: T) -> Reading<T> {
        Reading::Available { at_s: 0.0, took_ms: 1.0, value }
    }
    let mut sample = Sample::default();
    sample.server.threads = available(threads.collect());
    sample.server.row_lock_waits = available(waits.collect());
    let mut window = Window { samples: vec![sample], ..Window::default() };
    window.server.version = ServerVersion::parse("9.7.4", "");
    window.server.hostname = "db17".to_owned();
    let file = folder.join("window.json");
    let saved = serde_json::json!({"schema": "spindoctor.window/1", "window": window});
    std::fs::write(&file, saved.to_string()).expect("a test may write to its own folder");
    file.display().to_string()
}

#[test]
fn a_saved_window_shows_who_held_up_whom_in_every_format_and_on_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let window = saved_pileup(folder.path());
    for format in ["text", "dot", "svg", "json"] {
        let (text, code) = printed(&format!("locks --window {window} --format {format}"));
        assert_eq!(code, 0, "{text}");
        assert!(text.to_lowercase().contains("connection"), "{format}: {text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{format}: {text}");
        if format == "svg" {
            assert!(!text.contains("<script"), "{text}");
        }
    }
    let (text, _) = printed(&format!("locks --window {window}"));
    assert!(text.contains("Connection 12 blocks 11 threads"), "{text}");

    let page = folder.path().join("report.html");
    printed(&format!("doctor --window {window} --html {}", page.display()));
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(page.contains("Who blocks whom") && page.contains("connection 12"), "{page}");
    assert!(!page.contains("<script"), "{page}");
}

#[test]
fn what_cannot_be_done_is_one_line_with_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = folder.path().join("mysqld.sock");
    for line in [
        format!("locks --no-defaults -S {}", nobody.display()),
        "locks --watch --format svg --no-defaults".to_owned(),
        "locks --output /nonexistent/waits.svg --no-defaults".to_owned(),
        "locks --window /nonexistent/window.json".to_owned(),
    ] {
        let (message, code) = complained(&line);
        assert_eq!(code, 2, "{line}: {message}");
        assert_eq!(message.lines().count(), 1, "{line}: {message}");
    }
}
