//! What every test here needs: the program, away from the configuration of the user who runs the tests.

use assert_cmd::Command;
use serde_json::Value;

/// The program with an empty home and no option file, no colour, no zone and no server in its environment.
pub(crate) fn spindoctor(line: &str) -> Command {
    let mut command = Command::cargo_bin("spindoctor").expect("cargo builds the program before its tests");
    command.args(line.split_whitespace()).env_clear().env("HOME", "/nonexistent").env("TZ", "UTC");
    command
}

/// What the program printed on standard output, and its exit code.
pub(crate) fn printed(line: &str) -> (String, i32) {
    let output = spindoctor(line).output().expect("the program runs");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.code().expect("no signal ended it"))
}

/// What the program said on standard error, and its exit code.
pub(crate) fn complained(line: &str) -> (String, i32) {
    let output = spindoctor(line).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "a failure has no result");
    (String::from_utf8(output.stderr).expect("UTF-8"), output.status.code().expect("no signal ended it"))
}

/// What the program printed on standard output, where it was a success.
pub(crate) fn successful(line: &str) -> String {
    let output = spindoctor(line).output().expect("the program runs");
    let (text, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{line}: {text}{notes}");
    text.into_owned()
}

/// The same, which is JSON.
pub(crate) fn json(line: &str) -> Value {
    serde_json::from_str(&successful(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
}
