//! `tune --apply` killed in the middle of a trial, and `tune --recover` after everything was killed. That a server is left
//! as it was by a hundred kills is tested where the settings are lent: `crates/tune/tests/kill.rs`.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::{Home, Server, ServerSpec, Which};

use crate::program::{complained, spindoctor};

/// On a machine that is on its knees. How long it takes is measured where a hundred are killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a value that is no default, in a thread with which it ends.
fn with_server(which: Which, options: &[&str], look: impl FnOnce(&Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    options.push("--innodb-spin-wait-delay=7".to_owned());
    let spec = ServerSpec { which, options, ..ServerSpec::default() };
    look(&runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server"));
}

fn ask(server: &Server, question: &str) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(server.ask(question)).expect("it answers").unwrap_or_default()
}

/// Asks again and again, which is load enough for a trial, until the answer is this.
fn until_answer_is(server: &Server, question: &str, wanted: &str) {
    let begun = Instant::now();
    loop {
        let answer = ask(server, question);
        if answer == wanted {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{question}: {answer}, not {wanted}");
    }
}

const VALUE: &str = "SELECT @@GLOBAL.innodb_spin_wait_delay";
const EVENTS: &str = "SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_NAME LIKE 'spindoctor%'";

/// A trial of short blocks that has just set its value.
fn in_the_middle_of_a_trial(server: &Server, state: &Path) -> Child {
    let child = Command::new(spindoctor("").get_program())
        .args([
            "tune",
            "--apply",
            "--only",
            "innodb_spin_wait_delay=1",
            "--settle",
            "100ms",
            "--measure",
            "300ms",
        ])
        .args(["-u", "root", "--no-defaults", "-S"])
        .arg(server.socket())
        .env("XDG_STATE_HOME", state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    until_answer_is(server, VALUE, "1");
    child
}

fn journals(state: &Path) -> usize {
    let files = std::fs::read_dir(state.join("spindoctor")).expect("a trial makes the folder").flatten();
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "journal")).count()
}

fn kill(child: &mut Child) {
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// The processes that a process started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_trial_that_is_killed_leaves_the_server_as_it_was() {
    for (which, options) in
        [(Which::Mysql, &[][..]), (Which::Mariadb, &["--event-scheduler=ON"]), (Which::Mariadb, &[])]
    {
        with_server(which, options, |server| {
            let state = tempfile::tempdir().expect("a folder");
            let mut trial = in_the_middle_of_a_trial(server, state.path());
            kill(&mut trial);
            until_answer_is(server, VALUE, "7");
            until_answer_is(server, EVENTS, "0");
            let killed = Instant::now();
            while journals(state.path()) > 0 {
                assert!(killed.elapsed() < PATIENCE, "a journal is left");
            }
        });
    }
}

#[test]
fn after_everything_was_killed_recover_puts_back_and_says_so_once() {
    // Without an EVENT nothing else is left that could.
    with_server(Which::Mariadb, &[], |server| {
        let state = tempfile::tempdir().expect("a folder");
        let mut trial = in_the_middle_of_a_trial(server, state.path());
        let id = |pid: u32| i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
        // Stopped, so that it starts no other guardian.
        kill_process(id(trial.id()), Signal::STOP).expect("it runs");
        let guardians = children(trial.id());
        assert_eq!(guardians.len(), 1, "{guardians:?}");
        kill_process(id(guardians[0]), Signal::KILL).expect("it runs");
        kill(&mut trial);
        let recover = || {
            let line = format!("tune --recover -u root -S {} --no-defaults", server.socket().display());
            let output =
                spindoctor(&line).env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let told = recover();
        assert!(
            told.contains("ended without a word; the old values are back: innodb_spin_wait_delay = 7"),
            "{told}"
        );
        assert_eq!(ask(server, VALUE), "7");
        assert_eq!(journals(state.path()), 0);
        let again = recover();
        assert!(again.contains("nothing to put back"), "{again}");
    });
}

#[test]
fn the_guardian_is_no_command_for_people() {
    let (message, code) = complained("tune-guardian");
    assert_eq!(code, 2);
    assert!(message.contains("is started by `spindoctor tune`"), "{message}");
}
