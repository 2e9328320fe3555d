//! `doctor` and `host` of real servers that have nothing to do, and of one that suffers.

use serde_json::Value;
use spindoctor_lab::{Server, Which};

use crate::lab::{during, with_server};
use crate::program::{complained, json, printed};
use crate::running::{Running, process};

/// All of these look at one server: a start takes longer than most of them.
#[test]
fn an_idle_mysql_is_diagnosed_here_and_from_afar_with_the_host_that_can_be_read_and_until_ctrl_c() {
    with_server(Which::Mysql, |server| {
        is_diagnosed_through_its_socket_with_its_host(server, "mysql");
        is_diagnosed_from_afar_without_its_host_and_says_so(server);
        answers_a_wrong_password_with_one_line_that_does_not_repeat_it(server);
        has_its_host_shown_with_and_without_a_session(server);
        is_diagnosed_of_what_was_seen_until_ctrl_c(server);
    });
}

#[test]
fn an_idle_mariadb_is_diagnosed_through_its_socket_and_found_by_an_option_file() {
    with_server(Which::Mariadb, |server| {
        is_diagnosed_through_its_socket_with_its_host(server, "mariadb");
        is_found_by_an_option_file(server);
    });
}

fn is_diagnosed_through_its_socket_with_its_host(server: &Server, flavor: &str) {
    let socket = server.socket().display();
    let line = format!("doctor -u root -S {socket} --no-defaults --duration 1s --json --fail-on never");
    let diagnosis = json(&line);
    assert_eq!(diagnosis["server"]["flavor"], flavor, "{diagnosis:#}");
    assert_eq!(diagnosis["server"]["pid"], server.pid(), "{diagnosis:#}");
    assert!(diagnosis["host"]["effective_cpus"].as_f64().is_some_and(|cpus| cpus > 0.0), "{diagnosis:#}");
    assert_eq!(diagnosis["cost"]["threads_stopped"], 0, "{diagnosis:#}");
    assert!(diagnosis["cost"]["server_queries"].as_u64().is_some_and(|queries| queries > 0), "{diagnosis:#}");
}

fn is_diagnosed_from_afar_without_its_host_and_says_so(server: &Server) {
    let line = format!(
        "doctor -h 127.0.0.1 -P {} -u spindoctor -pspindoctor --no-defaults --remote --duration 1s --json \
         --fail-on never",
        server.port()
    );
    let diagnosis = json(&line);
    assert_eq!(diagnosis["server"]["pid"], Value::Null, "{diagnosis:#}");
    assert_eq!(diagnosis["host"]["effective_cpus"], Value::Null, "{diagnosis:#}");
    assert_eq!(diagnosis["host"]["unavailable"], "--remote was given", "{diagnosis:#}");
    let unexamined = diagnosis["not_examined"].as_array().expect("a list");
    let throttled = unexamined.iter().find(|missing| missing["cause"] == "cpu-throttled");
    let unlock = throttled.and_then(|missing| missing["unlock"].as_str());
    assert!(unlock.is_some_and(|unlock| unlock.contains("without --remote")), "{unexamined:?}");
}

fn answers_a_wrong_password_with_one_line_that_does_not_repeat_it(server: &Server) {
    let line = format!("doctor -h 127.0.0.1 -P {} -u spindoctor -phunter2 --no-defaults", server.port());
    let (message, code) = complained(&line);
    assert_eq!(code, 2, "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("spindoctor") && !message.contains("hunter2"), "{message}");
}

fn has_its_host_shown_with_and_without_a_session(server: &Server) {
    let socket = server.socket().display();
    let host = json(&format!("host -u root -S {socket} --no-defaults --json"));
    assert_eq!(host["schema"], "spindoctor.host/1", "{host:#}");
    assert_eq!(host["server"]["pid"], server.pid(), "{host:#}");
    assert!(host["pause"]["ns"].as_f64().is_some_and(|ns| ns > 0.0), "{host:#}");
    let pid = server.pid();
    let alone = json(&format!("host --pid {pid} -S /nonexistent/mysqld.sock --no-defaults --json"));
    assert_eq!(alone["server"]["version"], Value::Null, "{alone:#}");
    assert_eq!(alone["effective_cpus"], host["effective_cpus"], "{alone:#}");
}

fn is_diagnosed_of_what_was_seen_until_ctrl_c(server: &Server) {
    let line = format!("doctor -u root --no-defaults --duration 1h -S {}", server.socket().display());
    let mut running = Running::start(&mut process(&line));
    running.until_it_notes("1 sample");
    let ended = running.interrupted();
    let report = &ended.out;
    assert!(report.contains("cost: "), "{report}");
    assert!(report.contains("of 60 min 0 s: the user stopped it"), "{report}");
    assert!(!report.contains("Nothing found that costs"), "one second is no diagnosis: {report}");
    assert_eq!(ended.code, Some(2), "{report}");
}

fn is_found_by_an_option_file(server: &Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("my.cnf");
    let options = format!("[client]\nuser=root\n[spindoctor]\nsocket={}\n", server.socket().display());
    std::fs::write(&file, options).expect("a test may write to its own folder");
    let line = format!("doctor --defaults-file={} --duration 1s --fail-on never", file.display());
    let (report, code) = printed(&line);
    assert_eq!(code, 0, "{report}");
    assert!(report.starts_with("MariaDB 10.11."), "{report}");
}

#[test]
fn a_lab_command_that_looks_at_the_suffering_server_decides_over_the_exit_code() {
    let output = during("connections-exhausted", "mysql", "doctor --duration 1s");
    let report = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("connections-exhausted"), "{report}{said}");
    assert_eq!(output.status.code(), Some(1), "{report}{said}");
}
