//! What every test here needs: the program, away from the configuration of the user who runs the tests.

use assert_cmd::Command;

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
