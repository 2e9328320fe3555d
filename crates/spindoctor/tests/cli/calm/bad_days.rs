//! Servers that are lost while somebody looks, and outputs that cannot be written.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::{Server, Which};

use crate::lab::{in_runtime, on_both, with_lab, with_server};
use crate::program::{complained, spindoctor};
use crate::running::{Running, process};

/// Starts `doctor` of a server for so long.
fn doctor(server: &Server, duration: &str, flag: &str) -> Running {
    let line = format!(
        "doctor -u root --no-defaults --query-timeout 1s --duration {duration} {flag} -S {}",
        server.socket().display()
    );
    Running::start(&mut process(&line))
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(pid, signal).expect("the server runs");
}

#[test]
fn a_server_that_is_killed_meanwhile_is_shown_in_every_report_and_never_as_a_success() {
    const REPORTS: [(&str, i32, &str); 3] = [
        ("--json", 2, "\"because\": \"the server's process ended\""),
        ("--fail-on=never", 2, "the server's process ended"),
        ("--nagios", 3, "SPINDOCTOR UNKNOWN - no finding on MySQL"),
    ];
    with_server(Which::Mysql, |server| {
        // All at once: the last of them has its first sample before the first one is over.
        let mut all = REPORTS.map(|(flag, ..)| doctor(server, "4s", flag));
        all.iter_mut().for_each(|running| running.until_it_notes("1 sample"));
        signal(server, Signal::KILL);
        for (running, (flag, code, text)) in all.into_iter().zip(REPORTS) {
            let ended = running.ended();
            assert_eq!(ended.code, Some(code), "{flag}: {ended:?}");
            assert!(ended.out.contains(text), "{flag}: {ended:?}");
            assert!(!ended.out.contains("Nothing found that costs"), "{flag}: {ended:?}");
        }
    });
}

#[test]
fn a_server_that_is_stopped_meanwhile_is_a_finding_that_explains_the_silence() {
    with_server(Which::Mariadb, |server| {
        let mut running = doctor(server, "4s", "--json");
        running.until_it_notes("1 sample");
        signal(server, Signal::STOP);
        let ended = running.ended();
        signal(server, Signal::CONT);
        let diagnosis: Value = serde_json::from_str(&ended.out).expect("JSON");
        assert_eq!(diagnosis["findings"][0]["cause"], "server-stopped", "{ended:?}");
        assert_eq!(ended.code, Some(1), "{ended:?}");
    });
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_server_is_asked() {
    for flag in ["--html /nonexistent/report.html", "--save-window /nonexistent/window.gz", "--html /tmp"] {
        let (message, code) = complained(&format!("doctor -S /nonexistent/mysqld.sock --no-defaults {flag}"));
        assert_eq!(code, 2, "{flag}: {message}");
        assert_eq!(message.lines().count(), 1, "{flag}: {message}");
        assert!(message.contains("cannot be written; check that its folder exists"), "{flag}: {message}");
    }
}

#[test]
fn a_full_device_is_one_line_and_exit_2_for_every_output() {
    for line in ["explain", "--help", "--version", "explain cpu-saturated --json"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has /dev/full");
        let output = process(line).stdout(full).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.starts_with("spindoctor: could not write to standard output: "), "{line}: {text}");
        assert_eq!(text.lines().count(), 1, "{line}: {text}");
    }
}

#[test]
fn a_duration_that_makes_no_sense_is_refused_with_what_does() {
    for duration in ["0", "0s", "-5s", "1e99s", "300000h"] {
        let (message, code) = complained(&format!("doctor --duration {duration}"));
        assert_eq!(code, 2, "{duration}: {message}");
        assert!(message.contains("it must be between 100ms and 1h"), "{duration}: {message}");
    }
}

#[test]
fn a_login_typed_in_place_of_a_host_is_not_repeated() {
    let (message, code) = complained("doctor app:hunter2@tcp(127.0.0.1:1)/ --no-defaults");
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("mysql://") && !message.contains("hunter2"), "{message}");
}

#[test]
fn a_data_folder_that_does_not_exist_is_shown_once() {
    let output = with_lab("lab up --name named-once --data /nonexistent").output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.matches("No such file or directory").count(), 1, "{text}");
}

/// Nobody listens where the collector should be: the port was given back.
#[test]
fn a_collector_that_is_not_there_is_said_by_the_recorder_once_and_at_its_end() {
    with_server(Which::Mysql, |server| {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let folder = tempfile::tempdir().expect("a folder");
        let line = format!(
            "record -o {} --duration 6s --no-stacks --otlp http://127.0.0.1:{port} -u root -S {} --no-defaults",
            folder.path().join("a.spindoctor").display(),
            server.socket().display()
        );
        let output = spindoctor(&line).output().expect("the program runs");
        let notes = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{notes}");
        let says = format!("the OpenTelemetry collector at 127.0.0.1:{port} takes nothing");
        assert_eq!(notes.matches(&says).count(), 1, "{notes}");
        assert!(notes.contains("requests to the OpenTelemetry collector were lost"), "{notes}");
    });
}

#[test]
fn an_account_that_may_not_see_others_gets_the_grant_from_each_command() {
    on_both(|which| {
        with_server(which.clone(), |server| {
            let account = "CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'poor'";
            in_runtime(server.execute([account])).expect("an account");
            for command in ["workload", "indexes"] {
                let (why, code) = complained(&format!(
                    "{command} --duration 1s --no-defaults -h 127.0.0.1 -P {} -u poor -ppoor",
                    server.port()
                ));
                assert_eq!(code, 2, "{which:?}: {command}: {why}");
                let grant = ["GRANT ", " ON ", " TO ", "poor"];
                assert!(grant.iter().all(|part| why.contains(part)), "{which:?}: {command}: {why}");
            }
        });
    });
}
