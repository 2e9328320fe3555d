//! The program against real servers, started for the test and gone with it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::{Home, Server, ServerSpec, Which};

use crate::program::{complained, printed, spindoctor};

/// Does something with a server of the lab. The server ends with the thread that started it.
pub(crate) fn with_server(which: Which, look: impl FnOnce(&Server)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let home = Home::open().expect("the lab has a folder");
    let spec = ServerSpec { which, ..ServerSpec::default() };
    let server = runtime.block_on(Server::start(&home, &spec, &|_| {})).expect("a server");
    look(&server);
}

fn json(line: &str) -> Value {
    let (text, code) = printed(line);
    assert_eq!(code, 0, "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn mysql_and_mariadb_are_diagnosed_through_their_sockets_with_their_host() {
    for (which, flavor) in [(Which::Mysql, "mysql"), (Which::Mariadb, "mariadb")] {
        with_server(which, |server| {
            let socket = server.socket().display();
            let line =
                format!("doctor -u root -S {socket} --no-defaults --duration 1s --json --fail-on never");
            let diagnosis = json(&line);
            assert_eq!(diagnosis["server"]["flavor"], flavor);
            assert_eq!(diagnosis["server"]["pid"], server.pid());
            assert!(
                diagnosis["host"]["effective_cpus"].as_f64().is_some_and(|cpus| cpus > 0.0),
                "{diagnosis}"
            );
            assert_eq!(diagnosis["cost"]["threads_stopped"], 0);
            assert!(diagnosis["cost"]["server_queries"].as_u64().is_some_and(|queries| queries > 0));
        });
    }
}

#[test]
fn a_remote_server_is_diagnosed_without_its_host_and_says_so() {
    with_server(Which::Mysql, |server| {
        let line = format!(
            "doctor -h 127.0.0.1 -P {} -u spindoctor -pspindoctor --no-defaults --remote --duration 1s --json \
             --fail-on never",
            server.port()
        );
        let diagnosis = json(&line);
        assert_eq!(diagnosis["server"]["pid"], Value::Null);
        assert_eq!(diagnosis["host"]["effective_cpus"], Value::Null);
        assert_eq!(diagnosis["host"]["unavailable"], "--remote was given");
        let unexamined = diagnosis["not_examined"].as_array().expect("a list");
        let throttled = unexamined.iter().find(|missing| missing["cause"] == "cpu-throttled");
        let unlock = throttled.and_then(|missing| missing["unlock"].as_str());
        assert!(unlock.is_some_and(|unlock| unlock.contains("without --remote")), "{unexamined:?}");
    });
}

#[test]
fn a_wrong_password_is_one_line_that_does_not_repeat_it() {
    with_server(Which::Mysql, |server| {
        let line = format!("doctor -h 127.0.0.1 -P {} -u spindoctor -phunter2 --no-defaults", server.port());
        let (message, code) = complained(&line);
        assert_eq!(code, 2);
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains("spindoctor") && !message.contains("hunter2"), "{message}");
    });
}

#[test]
fn the_host_of_a_process_is_shown_with_and_without_a_session() {
    with_server(Which::Mysql, |server| {
        let socket = server.socket().display();
        let host = json(&format!("host -u root -S {socket} --no-defaults --json"));
        assert_eq!(host["schema"], "spindoctor.host/1");
        assert_eq!(host["server"]["pid"], server.pid());
        assert!(host["pause"]["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{host}");
        let pid = server.pid();
        let alone = json(&format!("host --pid {pid} -S /nonexistent/mysqld.sock --no-defaults --json"));
        assert_eq!(alone["server"]["version"], Value::Null);
        assert_eq!(alone["effective_cpus"], host["effective_cpus"]);
    });
}

#[test]
fn an_option_file_leads_to_the_server() {
    with_server(Which::Mariadb, |server| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("my.cnf");
        let options = format!("[client]\nuser=root\n[spindoctor]\nsocket={}\n", server.socket().display());
        std::fs::write(&file, options).expect("a test may write to its own folder");
        let line = format!("doctor --defaults-file={} --duration 1s --fail-on never", file.display());
        let (report, code) = printed(&line);
        assert_eq!(code, 0, "{report}");
        assert!(report.starts_with("MariaDB 10.11."), "{report}");
    });
}

#[test]
fn a_lab_command_that_looks_at_the_suffering_server_decides_over_the_exit_code() {
    let program = spindoctor("").get_program().to_string_lossy().into_owned();
    let home = Home::open().expect("the lab has a folder");
    let line = format!(
        "lab run connections-exhausted -- {program} doctor -u root -S {{socket}} --no-defaults --duration 1s"
    );
    let output = spindoctor(&line)
        .env("SPINDOCTOR_LAB", home.root())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("the program runs");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("connections-exhausted"), "{report}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn ctrl_c_ends_the_window_early_and_what_was_seen_is_diagnosed() {
    with_server(Which::Mysql, |server| {
        let mut child = Command::new(spindoctor("").get_program())
            .args(["doctor", "-u", "root", "--no-defaults", "--duration", "1h", "-S"])
            .arg(server.socket())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut notes = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let watching = notes.find(|line| line.as_ref().is_ok_and(|line| line.contains("1 sample")));
        assert!(watching.is_some(), "the first sample is shown");
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::INT).expect("it runs");
        let mut report = String::new();
        child.stdout.take().expect("it is piped").read_to_string(&mut report).expect("UTF-8");
        let status = child.wait().expect("it ends");
        assert!(report.contains("cost: "), "{report}");
        assert!(report.contains("of 60 min 0 s: the user stopped it"), "{report}");
        assert!(!report.contains("Nothing found that costs"), "one second is no diagnosis: {report}");
        assert_eq!(status.code(), Some(2), "{report}");
    });
}
