//! What people see: the text in a real terminal, the page in a real browser.
//!
//! A machine without tmux or chromium skips these, and says so.

use std::path::Path;
use std::process::Command;

use crate::doctor::saved_as;
use crate::program::{printed, spindoctor};

/// A host name that would rename the terminal's window, run a script and turn text around.
const HOSTILE: &str = "db\u{1b}]2;owned\u{7}\u{202e}<script>document.title='owned'</script>🐬";

#[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
pub(crate) fn is_installed(program: &str) -> bool {
    let found =
        Command::new(program).arg(if program == "tmux" { "-V" } else { "--version" }).output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

pub(crate) fn tmux(folder: &Path, arguments: &[&str]) -> String {
    let output =
        Command::new("tmux").arg("-S").arg(folder.join("tmux")).args(arguments).output().expect("tmux runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_terminal_of_80_columns_shows_the_report_and_obeys_no_string_of_the_server() {
    if !is_installed("tmux") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let window = saved_as(folder, "101", HOSTILE);
    let program = spindoctor("").get_program().to_string_lossy().into_owned();
    let tmux_socket = folder.join("tmux").display().to_string();
    let shell = format!("{program} doctor --window {window}; tmux -S {tmux_socket} wait-for -S shown; cat");
    tmux(
        folder,
        &[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "60",
            "env",
            "LC_ALL=C.UTF-8",
            "sh",
            "-c",
            &shell,
        ],
    );
    tmux(folder, &["wait-for", "shown"]);
    let screen = tmux(folder, &["capture-pane", "-p"]);
    let coloured = tmux(folder, &["capture-pane", "-p", "-e"]);
    let title = tmux(folder, &["display-message", "-p", "#{pane_title}"]);
    tmux(folder, &["kill-server"]);

    assert!(screen.contains(r"db\u{1b}]2;owned\u{7}\u{202e}<script>"), "{screen}");
    assert!(screen.contains("1 warning") && screen.contains("cost: "), "{screen}");
    assert!(coloured.contains("\u{1b}["), "a terminal has colour: {coloured}");
    assert_ne!(title.trim(), "owned");
    // What is laid out for 80 columns wraps nowhere: every line begins where the report began it.
    let (report, _) = printed(&format!("doctor --window {window}"));
    let seen: Vec<&str> = screen.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let meant: Vec<&str> = report.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(seen, meant);
}

#[test]
fn a_browser_shows_the_page_and_runs_nothing() {
    if !is_installed("chromium") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("report.html");
    let window = saved_as(folder.path(), "101", HOSTILE);
    printed(&format!("doctor --window {window} --html {}", page.display()));
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("connections-exhausted"), "{dom}");
    assert!(dom.contains("&lt;script&gt;document.title='owned'&lt;/script&gt;"), "{dom}");
    assert!(!dom.contains("<title>owned"), "{dom}");
    assert!(!dom.contains("<script"), "{dom}");
}
