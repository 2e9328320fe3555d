//! Results as the environment wants them: as wide as `COLUMNS`, in the characters of the locale.

use crate::doctor::saved_as;
use crate::program::{printed, spindoctor};
use crate::report::recording;

/// What the program printed on standard output with these variables set.
fn printed_with(variables: &[(&str, &str)], line: &str) -> String {
    let output = spindoctor(line).envs(variables.iter().copied()).output().expect("the program runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_pipe_is_as_wide_as_columns_says() {
    let widest = |variables: &[(&str, &str)]| {
        let text = printed_with(variables, "explain metadata-lock-pileup");
        text.lines().map(|line| line.chars().count()).max().expect("lines")
    };
    for (columns, width) in [("60", 60), ("96", 96), ("wide", 80), ("0", 80), ("", 80)] {
        let widest = widest(&[("COLUMNS", columns)]);
        assert!(widest <= width && widest + 8 > width, "{columns}: {widest}");
    }
    assert_eq!(widest(&[]), widest(&[("COLUMNS", "80")]));
}

#[test]
fn a_screen_is_as_large_as_columns_and_lines_say_in_the_characters_of_the_locale() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("top --once --replay {}", recording(folder.path()).display());
    let drawn = |columns: &str, lines: &str| {
        let screen = printed_with(&[("COLUMNS", columns), ("LINES", lines)], &line);
        let widest = screen.lines().map(|line| line.chars().count()).max().expect("lines");
        (widest, screen.lines().count())
    };
    assert_eq!(drawn("120", "40"), (120, 40));
    assert_eq!(drawn("2", "9999"), (40, 1_000), "as large as a screen may be");
    assert_eq!(drawn("wide", ""), (80, 24));
    let utf8 = printed_with(&[], &line);
    let ascii = printed_with(&[("LANG", "C")], &line);
    assert!(ascii.is_ascii() && !utf8.is_ascii(), "{ascii}");
}

#[test]
fn a_locale_without_utf8_has_ascii_and_json_and_pages_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recording(folder.path());
    let (in_ascii, in_utf8) = (folder.path().join("ascii.html"), folder.path().join("utf8.html"));
    let report = |variables: &[(&str, &str)], page: &std::path::Path| {
        printed_with(variables, &format!("report {} --html {}", file.display(), page.display()))
    };
    let utf8 = report(&[("LC_ALL", "C.UTF-8"), ("LANG", "C")], &in_utf8);
    assert!(utf8.contains("max_connections 151 → 1000"), "{utf8}");
    assert_eq!(utf8, report(&[], &in_utf8), "where no locale is set, it is UTF-8");
    for variables in [&[("LANG", "C")][..], &[("LC_ALL", "POSIX"), ("LANG", "C.UTF-8")]] {
        let ascii = report(variables, &in_ascii);
        assert!(ascii.is_ascii() && ascii.contains("max_connections 151 -> 1000"), "{ascii}");
    }
    let page = |path| std::fs::read_to_string(path).expect("the page");
    assert!(!page(&in_utf8).is_ascii());
    assert_eq!(page(&in_ascii), page(&in_utf8));

    let window = saved_as(folder.path(), "101", "dbü17");
    let text = printed_with(&[("LANG", "C")], &format!("doctor --window {window}"));
    assert!(text.is_ascii() && text.contains("on db?17"), "{text}");
    let json = format!("doctor --json --window {window}");
    assert!(printed(&json).0.contains("dbü17"));
    assert_eq!(printed_with(&[("LANG", "C")], &json), printed(&json).0);

    let refused = spindoctor("report /nonexistent/dbü").env("LANG", "C").output().expect("the program runs");
    assert!(refused.stderr.is_ascii(), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nonexistent/db?"));
}
