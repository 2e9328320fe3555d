//! Passwords: neither other users of the machine nor a core dump see what the program was given.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// Ended with its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn proc(&self, file: &str) -> Vec<u8> {
        fs::read(format!("/proc/{}/{file}", self.0.id())).unwrap_or_default()
    }

    fn holds(&self, file: &str, text: &str) -> bool {
        self.proc(file).windows(text.len()).any(|part| part == text.as_bytes())
    }
}

/// A program that waits for a server which takes connections and never says a word: it has read its arguments once the
/// server has its connection.
fn waiting(arguments: impl Fn(u16) -> Vec<String>, password: Option<&str>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindoctor"));
    command.args(arguments(port)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.env_remove("MYSQL_PWD");
    if let Some(password) = password {
        command.env("MYSQL_PWD", password);
    }
    let running = Running(command.spawn().unwrap());
    let (stream, _) = listener.accept().unwrap();
    // Until the test ends.
    std::mem::forget((stream, listener));
    running
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_password_on_the_command_line_is_crossed_out_where_others_look() {
    for line in [
        "doctor -h 127.0.0.1 -P PORT -u app -phunter2secret --no-defaults --connect-timeout 60s",
        "doctor -h 127.0.0.1 -P PORT -u app --password=hunter2secret --no-defaults --connect-timeout 60s",
        "doctor mysql://app:hunter2secret@127.0.0.1:PORT/ --no-defaults --connect-timeout 60s",
        "doctor h=127.0.0.1,P=PORT,u=app,p=hunter2secret --no-defaults --connect-timeout 60s",
    ] {
        let running = waiting(|port| words(&line.replace("PORT", &port.to_string())), None);
        let shown = String::from_utf8_lossy(&running.proc("cmdline")).into_owned();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("xxxxxxxxxxxxx") && shown.contains("app"), "{shown}");
    }
}

#[test]
fn a_password_of_the_environment_is_gone_from_it() {
    let arguments = |port: u16| {
        words(&format!("doctor -h 127.0.0.1 -P {port} -u app --no-defaults --connect-timeout 60s"))
    };
    let running = waiting(arguments, Some("hunter2secret"));
    assert!(!running.holds("environ", "hunter2"));
    assert!(running.holds("environ", "PATH="), "the rest is there");
}

#[test]
fn a_child_has_no_password_in_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let seen = folder.path().join("environment");
    let status = Command::new(env!("CARGO_BIN_EXE_spindoctor"))
        .args(["fleet", "servers", "--no-defaults", "--servers-from"])
        .arg(format!("cat /proc/self/environ /proc/$$/environ > {}; echo 127.0.0.1:1", seen.display()))
        .env("MYSQL_PWD", "hunter2secret")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    let environment = fs::read(&seen).unwrap_or_else(|error| panic!("{status}: {error}"));
    let text = String::from_utf8_lossy(&environment);
    assert!(text.contains("PATH=") && !text.contains("hunter2") && !text.contains("MYSQL_PWD"), "{text}");
}

#[test]
fn there_is_no_core_dump_and_no_other_account_looks_in() {
    let arguments = |port: u16| {
        words(&format!("doctor -h 127.0.0.1 -P {port} -u app -px --no-defaults --connect-timeout 60s"))
    };
    let running = waiting(arguments, None);
    let limits = String::from_utf8(running.proc("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
}
