//! Logins that are refused: no command locks an account, and the recorder leaves connections to others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use spindoctor_lab::{Server, Which};

use crate::lab::{in_runtime, on_both, with_server};
use crate::program::{complained, spindoctor};
use crate::running::{Running, process, wait_until};
use crate::screen::is_installed;
use crate::top::Terminal;

/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The account that is tried in vain.
const ACCOUNT: &str = "watcher";
const RIGHT: &str = "right-Password-1";

fn execute(server: &Server, statements: &[String]) {
    in_runtime(server.execute(statements)).expect("root may do it");
}

/// An account that three wrong passwords lock.
fn make_account(which: &Which, server: &Server, options: &str) {
    let lock = if *which == Which::Mysql { "FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2" } else { "" };
    execute(
        server,
        &[
            format!("DROP USER IF EXISTS {ACCOUNT}@localhost"),
            format!("CREATE USER {ACCOUNT}@localhost IDENTIFIED BY '{RIGHT}' {options} {lock}"),
            format!("GRANT PROCESS ON *.* TO {ACCOUNT}@localhost"),
        ],
    );
    if *which == Which::Mariadb {
        execute(server, &["SET GLOBAL max_password_errors = 3".to_owned()]);
    }
}

/// An option file with this password for the account.
fn option_file(folder: &Path, server: &Server, password: &str) -> PathBuf {
    let file = folder.join("my.cnf");
    let socket = server.socket().display();
    fs::write(&file, format!("[client]\nuser={ACCOUNT}\npassword={password}\nsocket={socket}\n"))
        .expect("a file");
    file
}

/// True where the right password lets the account in.
fn is_let_in(folder: &Path, server: &Server, password: &str) -> bool {
    let file = option_file(folder, server, password);
    let line = format!("host --defaults-file={} --json", file.display());
    spindoctor(&line).output().expect("the program runs").status.success()
}

fn record(file: &Path, recording: &Path) -> Running {
    let line = format!("record --defaults-file={} --no-stacks -o {}", file.display(), recording.display());
    Running::start_unread(&mut process(&line))
}

/// The ids of the account's connections.
fn connections(server: &Server) -> Vec<String> {
    let asked = format!(
        "SELECT GROUP_CONCAT(ID) FROM information_schema.PROCESSLIST WHERE USER IN ('{ACCOUNT}', 'spindoctor')"
    );
    let ids = in_runtime(server.ask(&asked)).expect("root may ask").unwrap_or_default();
    ids.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

#[test]
fn a_wrong_password_is_an_error_of_every_command_and_locks_no_account() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let folder = tempfile::tempdir().expect("a folder");
            let folder = folder.path();
            make_account(&which, server, "");
            let recording = folder.join("r.rec").display().to_string();
            for command in [
                &format!("record -o {recording}"),
                "top --once",
                "doctor --duration 1s",
                "workload --duration 1s",
                "locks --watch",
                "stacks --by digest --duration 1s",
                "connections --duration 1s",
                "tune --plan --duration 1s",
            ] {
                let file = option_file(folder, server, "wrong-Password-2");
                let line = format!("{command} --defaults-file={}", file.display());
                let (why, code) = complained(&line);
                assert!(code == 2 && why.contains("Access denied"), "{which:?} {line}: {code}, {why}");
                // This, too, sets the server's count of wrong passwords back.
                assert!(is_let_in(folder, server, RIGHT), "{which:?}: `{command}` locked the account");
            }
        });
    });
}

#[test]
fn an_expired_password_and_a_locked_account_end_the_recorder_with_an_error() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let folder = tempfile::tempdir().expect("a folder");
            for (options, said) in [("PASSWORD EXPIRE", "password"), ("ACCOUNT LOCK", "locked")] {
                make_account(&which, server, "");
                execute(server, &[format!("ALTER USER {ACCOUNT}@localhost {options}")]);
                let file = option_file(folder.path(), server, RIGHT);
                let recording = folder.path().join("r.rec");
                let line = format!("record --defaults-file={} -o {}", file.display(), recording.display());
                let (why, code) = complained(&line);
                assert!(code == 2 && why.contains(said), "{which:?} {options}: {code}, {why}");
            }
        });
    });
}

#[test]
fn a_password_that_is_changed_under_the_recorder_locks_no_account() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let folder = tempfile::tempdir().expect("a folder");
            make_account(&which, server, "");
            let file = option_file(folder.path(), server, RIGHT);
            let recorder = record(&file, &folder.path().join("r.rec"));
            wait_until(PATIENCE, "three connections", || connections(server).len() == 3);
            execute(server, &[format!("ALTER USER {ACCOUNT}@localhost IDENTIFIED BY 'another-Password-3'")]);
            // All three are closed at once, again and again: each wants to come back.
            for id in connections(server) {
                execute(server, &[format!("KILL {id}")]);
            }
            wait_until(PATIENCE, "no connection", || connections(server).is_empty());
            std::thread::sleep(Duration::from_secs(12));
            let came_back = connections(server);
            assert!(came_back.is_empty(), "{which:?}: {came_back:?} came back with the old password");
            let other = tempfile::tempdir().expect("a folder");
            assert!(
                is_let_in(other.path(), server, "another-Password-3"),
                "{which:?}: the account is locked"
            );
            // It goes on where the option file has the new password and the program gets a SIGHUP.
            option_file(folder.path(), server, "another-Password-3");
            recorder.signal(Signal::HUP);
            wait_until(PATIENCE, "three connections again", || connections(server).len() == 3);
            recorder.end();
        });
    });
}

/// The account as the packaged file makes it.
fn packaged_account(which: &Which, server: &Server) -> u64 {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/least-privilege.sql");
    let text = fs::read_to_string(file).expect("it is there");
    let lines = text.lines().filter_map(|line| match which {
        Which::Mariadb => line.strip_prefix("-- "),
        _ => Some(line),
    });
    let is_statement = |line: &&str| line.starts_with("CREATE USER") || line.starts_with("GRANT ");
    let statements: Vec<String> = lines
        .filter(is_statement)
        .map(|line| line.trim_end_matches(';').replace("'...'", &format!("'{RIGHT}'")))
        .collect();
    execute(server, &["DROP USER IF EXISTS spindoctor@localhost".to_owned()]);
    execute(server, &statements);
    let (_, most) = statements[0].split_once("MAX_USER_CONNECTIONS ").expect("a limit");
    most.parse().expect("a number")
}

#[test]
fn with_the_packaged_account_the_recorder_top_and_doctor_run_beside_each_other() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let folder = tempfile::tempdir().expect("a folder");
            let most = packaged_account(&which, server);
            let file = folder.path().join("my.cnf");
            let socket = server.socket().display();
            fs::write(&file, format!("[client]\nuser=spindoctor\npassword={RIGHT}\nsocket={socket}\n"))
                .expect("a file");
            let named = format!("--defaults-file={}", file.display());
            let doctor = format!("doctor {named} --duration 2s --json --fail-on never");
            for (most, kept) in [(most, 3), (5, 2), (3, 1), (1, 1)] {
                let limit = format!("ALTER USER spindoctor@localhost WITH MAX_USER_CONNECTIONS {most}");
                execute(server, &[limit]);
                let recorder = record(&file, &folder.path().join(format!("{most}.rec")));
                wait_until(PATIENCE, "its connections", || connections(server).len() == kept);
                let terminal = (most >= 6 && is_installed("tmux"))
                    .then(|| Terminal::running(&format!("top {named}"), 120, 40));
                if terminal.is_some() {
                    wait_until(PATIENCE, "top's connections", || connections(server).len() == kept + 2);
                }
                if most > 1 {
                    let output = spindoctor(&doctor).output().expect("the program runs");
                    let why = String::from_utf8_lossy(&output.stderr);
                    assert!(output.status.success(), "{which:?} with {most} connections: {why}");
                    assert!(!why.contains("no more connections"), "{which:?} with {most} connections: {why}");
                }
                assert!(connections(server).len() >= kept, "{which:?}: it does not keep what it has");
                if let Some(terminal) = &terminal {
                    terminal.press("q");
                    wait_until(PATIENCE, "top's end", || connections(server).len() == kept);
                }
                recorder.end();
                wait_until(PATIENCE, "no connection", || connections(server).is_empty());
            }
        });
    });
}
