//! `tune --apply` killed in the middle of a trial, and `tune --recover` after everything was killed. That a server is left
//! as it was by a hundred kills is tested where the settings are lent: `crates/tune/tests/kill.rs`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use spindoctor_lab::{Server, ServerSpec, Which};

use crate::lab::{in_runtime, start};
use crate::program::{complained, spindoctor};
use crate::running::{Running, process, wait_until};

/// On a machine that is on its knees. How long it takes is measured where a hundred are killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a value that is no default, in a thread with which it ends.
fn with_server(which: Which, options: &[&str], look: impl FnOnce(&Server)) {
    let mut options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    options.push("--innodb-spin-wait-delay=7".to_owned());
    let spec = ServerSpec { which, options, ..ServerSpec::default() };
    look(&in_runtime(start(&spec)));
}

fn ask(server: &Server, question: &str) -> String {
    in_runtime(server.ask(question)).expect("it answers").unwrap_or_default()
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
fn in_the_middle_of_a_trial(server: &Server, state: &Path) -> Running {
    let line = format!(
        "tune --apply --only innodb_spin_wait_delay=1 --settle 100ms --measure 300ms -u root --no-defaults -S {}",
        server.socket().display()
    );
    // Its guardian, which has its outputs, outlives it.
    let trial = Running::start_unread(process(&line).env("XDG_STATE_HOME", state).stderr(Stdio::null()));
    until_answer_is(server, VALUE, "1");
    trial
}

fn journals(state: &Path) -> usize {
    let files = std::fs::read_dir(state.join("spindoctor")).expect("a trial makes the folder").flatten();
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "journal")).count()
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
    let servers: [(Which, &[&str]); 3] =
        [(Which::Mysql, &[]), (Which::Mariadb, &["--event-scheduler=ON"]), (Which::Mariadb, &[])];
    // All at once: a trial looks at its server for seconds before it sets anything.
    std::thread::scope(|scope| {
        for (which, options) in servers {
            scope.spawn(move || with_server(which, options, is_left_as_it_was_by_a_trial_that_is_killed));
        }
    });
}

fn is_left_as_it_was_by_a_trial_that_is_killed(server: &Server) {
    let state = tempfile::tempdir().expect("a folder");
    in_the_middle_of_a_trial(server, state.path()).kill();
    until_answer_is(server, VALUE, "7");
    until_answer_is(server, EVENTS, "0");
    wait_until(PATIENCE, "no journal is left", || journals(state.path()) == 0);
}

#[test]
fn after_everything_was_killed_recover_puts_back_and_says_so_once() {
    // Without an EVENT nothing else is left that could.
    with_server(Which::Mariadb, &[], |server| {
        let state = tempfile::tempdir().expect("a folder");
        let trial = in_the_middle_of_a_trial(server, state.path());
        // Stopped, so that it starts no other guardian.
        trial.signal(Signal::STOP);
        let guardians = children(trial.id());
        assert_eq!(guardians.len(), 1, "{guardians:?}");
        let guardian = i32::try_from(guardians[0]).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(guardian, Signal::KILL).expect("it runs");
        trial.kill();
        let recover = || {
            let line = format!("tune --recover -u root -S {} --no-defaults", server.socket().display());
            let output =
                spindoctor(&line).env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let text = recover();
        assert!(
            text.contains("ended without a word; the old values are back: innodb_spin_wait_delay = 7"),
            "{text}"
        );
        assert_eq!(ask(server, VALUE), "7", "the value is not as it was");
        assert_eq!(journals(state.path()), 0, "a journal is left");
        let again = recover();
        assert!(again.contains("nothing to put back"), "{again}");
    });
}

/// A journal of a tuner that is dead, as another account would forge it for this server: with variables that no tuner changes.
fn forged(server: &Server, held: &str) -> String {
    let started = ask(server, &format!("SELECT {}", spindoctor_tune::lease::started(server.version())));
    let uuid = ask(
        server,
        "SELECT VARIABLE_VALUE FROM performance_schema.global_variables WHERE VARIABLE_NAME = 'server_uuid'",
    );
    format!(
        r#"{{"schema": "spindoctor.journal/1", "address": "x", "server": "{uuid}", "server_started": {started},
            "taken": "2026-01-01T00:00:00Z", "tuner": {{"pid": 1, "start_ticks": 1, "boot": "x"}}, "holder": 1,
            "event_schema": null, "is_kept": false, "variables": [{held}]}}"#
    )
}

const INIT_CONNECT: &str = r#"{"name": "init_connect", "original": "SET @owned = 1", "set": ["", "x"]}"#;
const LOG_FILE: &str = r#"{"name": "general_log_file", "original": "/tmp/owned", "set": []}"#;
const SPIN: &str = r#"{"name": "innodb_spin_wait_delay", "original": "99", "set": ["7"]}"#;

#[test]
fn a_journal_that_another_account_may_have_written_changes_nothing() {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::os::unix::process::CommandExt as _;

    /// `nobody`.
    const OTHER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can act as another account");
        return;
    }
    with_server(Which::Mysql, &[], |server| {
        let state = tempfile::tempdir().expect("a folder");
        let folder = state.path().join("spindoctor");
        let recover = || {
            let line = format!("tune --recover -u root -S {} --no-defaults", server.socket().display());
            let output =
                spindoctor(&line).env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            (said.into_owned(), output.status.code())
        };
        let untouched = |what: &str| {
            let values = ask(
                server,
                "SELECT CONCAT(@@GLOBAL.init_connect, ' ', @@GLOBAL.innodb_spin_wait_delay, ' ', @@GLOBAL.general_log_file = '/tmp/owned')",
            );
            assert_eq!(values, " 7 0", "{what}");
        };
        // The attack works on every program that trusts the file: the very same journal from root's own hand.
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("its mode");
        let journal = folder.join("tune-1-1.journal");
        std::fs::write(&journal, forged(server, SPIN)).expect("a file");
        let (said, code) = recover();
        assert!(
            said.contains("the old values are back: innodb_spin_wait_delay = 99") && code == Some(0),
            "{said}"
        );
        ask(server, "SET GLOBAL innodb_spin_wait_delay = 7");

        // Names and values that no tuner writes, even there.
        for held in [
            INIT_CONNECT,
            LOG_FILE,
            r#"{"name": "innodb_spin_wait_delay", "original": "7, GLOBAL init_connect = 'x'", "set": ["7"]}"#,
        ] {
            std::fs::write(&journal, forged(server, held)).expect("a file");
            let (said, code) = recover();
            assert!(said.contains("is not used") && code == Some(2), "{said}");
            untouched(held);
        }
        std::fs::remove_file(&journal).expect("it is there");

        // A file of the other account's in root's folder, a link to one, a second name of one, a FIFO, one without an end.
        let theirs = state.path().join("theirs");
        std::fs::write(&theirs, forged(server, SPIN)).expect("a file");
        chown(&theirs, Some(OTHER), Some(OTHER)).expect("root may");
        let make: [(&str, &dyn Fn()); 5] = [
            ("belongs to uid 65534", &|| {
                std::fs::copy(&theirs, &journal).expect("a copy");
                chown(&journal, Some(OTHER), Some(OTHER)).expect("root may");
            }),
            ("symbolic link", &|| symlink(&theirs, &journal).expect("a link")),
            ("belongs to uid 65534", &|| std::fs::hard_link(&theirs, &journal).expect("a name")),
            ("is a FIFO", &|| {
                assert!(Command::new("mkfifo").arg(&journal).status().expect("it runs").success());
            }),
            ("more than 1048576 bytes", &|| make_endless(&journal)),
        ];
        for (reason, make) in make {
            make();
            let (said, code) = recover();
            assert!(
                said.contains("a journal is not used") && said.contains(reason) && code == Some(2),
                "{said}"
            );
            assert_eq!(said.lines().filter(|line| line.contains("is not used")).count(), 1, "{said}");
            untouched(reason);
            std::fs::remove_file(&journal).expect("it is there");
        }

        // A folder of the other account's, and root's own below such: nothing in it is looked at, nor is anything written.
        let recover_refused = |reason: &str| {
            let (said, code) = recover();
            assert!(said.contains(reason) && code == Some(2), "{said}");
            untouched(reason);
            let apply = format!(
                "tune --apply --only innodb_spin_wait_delay=6 -u root -S {} --no-defaults",
                server.socket().display()
            );
            let output = spindoctor(&apply).env("XDG_STATE_HOME", state.path()).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(reason) && output.status.code() == Some(2), "{said}");
            untouched(reason);
        };
        std::fs::remove_dir(&folder).expect("it is empty");
        std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o1777)).expect("its mode");
        let line = format!(
            "mkdir -m 777 {0} && cat >{0}/tune-1-1.journal && ln -s /etc/hostname {0}/trials.jsonl",
            folder.display()
        );
        let mut other = Command::new("sh")
            .args(["-c", &line])
            .uid(OTHER)
            .gid(OTHER)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        std::io::Write::write_all(&mut other.stdin.take().expect("a pipe"), forged(server, SPIN).as_bytes())
            .expect("it reads");
        assert!(other.wait().expect("it ends").success());
        recover_refused("belongs to uid 65534");
        // Its own folder, given to root: what others can write is not trusted.
        chown(&folder, Some(0), Some(0)).expect("root may");
        recover_refused("can be changed by other accounts");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("its mode");
        std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o777)).expect("its mode");
        recover_refused("can be changed by other accounts");
    });
}

/// A file that has no end, as far as anybody would wait for it.
fn make_endless(path: &Path) {
    std::fs::File::create(path).expect("a file").set_len(1 << 40).expect("a sparse file");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_armed() {
    with_server(Which::Mariadb, &[], |server| {
        let state = tempfile::tempdir().expect("a folder");
        let refused = |flags: &str, reason: &str| {
            let begun = Instant::now();
            let line = format!("tune --apply {flags} -u root -S {} --no-defaults", server.socket().display());
            let output =
                spindoctor(&line).env("XDG_STATE_HOME", state.path()).output().expect("the program runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains(reason) && output.status.code() == Some(2), "{said}");
            // Far from the half minute that looking at the server takes.
            assert!(begun.elapsed() < PATIENCE / 4, "{:?}", begun.elapsed());
            assert!(!state.path().join("spindoctor").exists(), "{flags}");
        };
        refused("--only innodb_io_capacity=99999999999", "a whole number from 100 to 4294967295");
        refused("--only innodb_spin_wait_delay=6001", "a whole number from 0 to 6000");
        refused("--only innodb_io_capacity=4000000", "is more than innodb_io_capacity_max = ");
        refused(
            "--only innodb_spin_wait_delay=6 --max-time 12s",
            "--max-time 12s is too short: the server is watched for 30s, and four blocks take 40s at least",
        );
        assert_eq!(ask(server, VALUE), "7", "the value is not as it was");
    });
}

#[test]
fn the_guardian_is_no_command_for_people() {
    let (message, code) = complained("tune-guardian");
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("is started by `spindoctor tune`"), "{message}");
}
