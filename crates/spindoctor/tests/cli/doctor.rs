//! `spindoctor doctor` on saved windows: no server is needed.

use std::path::Path;
use std::process::Stdio;

use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Reading, Sample, ServerVersion, Window};

use crate::program::{complained, printed, spindoctor};

/// Ten seconds of a server whose connections are all taken, or of one with room.
fn window(connected: &str) -> Window {
    let sample = |at_s: f64| {
        let mut sample = Sample { at_s, ..Sample::default() };
        let status = [
            ("Threads_connected", connected),
            ("Connection_errors_max_connections", "0"),
            ("Connections", "900"),
        ];
        sample.server.status =
            Reading::Available { at_s, took_ms: 1.0, value: NamedValues::from_iter(status) };
        let variables = NamedValues::from_iter([("max_connections", "100")]);
        sample.server.variables = Reading::Available { at_s, took_ms: 1.0, value: variables };
        sample
    };
    let mut window = Window { samples: vec![sample(0.0), sample(10.0)], ..Window::default() };
    window.server.version = ServerVersion::parse("8.0.36", "");
    window
}

/// Saves a window of `db17` where the program can read it.
fn saved(folder: &Path, connected: &str) -> String {
    saved_as(folder, connected, "db17")
}

/// Saves a window of a host where the program can read it.
pub(crate) fn saved_as(folder: &Path, connected: &str, hostname: &str) -> String {
    let path = folder.join("window.json");
    let mut window = window(connected);
    window.server.hostname = hostname.to_owned();
    let file = serde_json::json!({"schema": "spindoctor.window/1", "window": window});
    std::fs::write(&path, file.to_string()).expect("a test may write to its own folder");
    path.display().to_string()
}

#[test]
fn a_finding_at_the_threshold_exits_with_1_and_below_it_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let full = saved(folder.path(), "101");
    let (report, code) = printed(&format!("doctor --window {full}"));
    assert!(report.starts_with("MySQL 8.0.36 on db17, 10 s"), "{report}");
    assert!(report.contains("connections-exhausted"), "{report}");
    assert_eq!(code, 1);
    assert_eq!(printed(&format!("doctor --window {full} --fail-on never")).1, 0);
}

#[test]
fn a_server_without_a_known_cause_exits_with_0_and_is_not_called_healthy_where_its_sessions_were_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (report, code) = printed(&format!("doctor --window {}", saved(folder.path(), "10")));
    assert!(report.contains("No known cause found"), "{report}");
    assert!(!report.contains("Nothing found"), "{report}");
    assert_eq!(code, 0);
}

#[test]
fn a_window_that_is_saved_again_gives_the_same_diagnosis() {
    let folder = tempfile::tempdir().unwrap();
    let first = saved(folder.path(), "101");
    let second = folder.path().join("again.json.gz").display().to_string();
    let (text, _) = printed(&format!("doctor --json --window {first} --save-window {second}"));
    assert_eq!(text, printed(&format!("doctor --json --window {second}")).0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["schema"], "spindoctor.diagnosis/1");
}

#[test]
fn the_html_report_is_written_beside_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let (report, _) =
        printed(&format!("doctor --window {} --html {}", saved(folder.path(), "101"), page.display()));
    assert!(report.contains("connections-exhausted"));
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn nagios_gets_its_states_and_unknown_when_it_could_not_be_done() {
    let folder = tempfile::tempdir().unwrap();
    let (line, code) = printed(&format!("doctor --nagios --window {}", saved(folder.path(), "10")));
    assert!(line.starts_with("SPINDOCTOR OK - "), "{line}");
    assert_eq!(code, 0);
    let (line, code) = printed("doctor --nagios --window /nonexistent/window.json");
    assert!(line.starts_with("SPINDOCTOR UNKNOWN - could not read the window file"), "{line}");
    assert_eq!(code, 3);
    let (line, code) = printed("doctor --nagios --no-such-flag");
    assert!(line.starts_with("SPINDOCTOR UNKNOWN - unexpected argument '--no-such-flag'"), "{line}");
    assert_eq!(code, 3);
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "[doctor]\nno-such-key = 1\n").unwrap();
    std::fs::set_permissions(&wrong, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let (line, code) = printed(&format!("doctor --nagios --config {}", wrong.display()));
    assert!(line.starts_with("SPINDOCTOR UNKNOWN - ") && line.contains("unknown key no-such-key"), "{line}");
    assert_eq!(code, 3);
}

#[test]
fn what_cannot_be_done_is_one_clear_line_and_exit_2() {
    let (message, code) = complained("doctor --window /nonexistent/window.json");
    assert_eq!(code, 2);
    assert!(
        message.starts_with("spindoctor: could not read the window file /nonexistent/window.json: "),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn a_reader_that_went_away_is_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = saved(folder.path(), "101");
    let mut command = std::process::Command::new(spindoctor("").get_program());
    let status = command.args(["doctor", "--window", &full]).stdout(Stdio::from(writer)).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
