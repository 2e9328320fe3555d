//! Help, version, and mistakes on the command line.

use crate::program::{complained, printed};

#[test]
fn help_names_every_command() {
    let (help, code) = printed("--help");
    assert_eq!(code, 0);
    for command in [
        "doctor",
        "host",
        "stacks",
        "locks",
        "cache",
        "connections",
        "workload",
        "indexes",
        "fleet",
        "explain",
        "lab",
    ] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command}");
    }
}

#[test]
fn the_help_of_doctor_is_this() {
    let (help, code) = printed("doctor --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_stacks_is_this() {
    let (help, code) = printed("stacks --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_locks_is_this() {
    let (help, code) = printed("locks --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_cache_is_this() {
    let (help, code) = printed("cache --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_connections_is_this() {
    let (help, code) = printed("connections --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn the_help_of_top_is_this() {
    let (help, code) = printed("top --help");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn help_is_where_people_look_for_it() {
    for (line, same) in [
        ("help", "--help"),
        ("-h", "--help"),
        ("help doctor", "doctor --help"),
        ("doctor -h", "doctor --help"),
        ("help fleet query", "fleet query --help"),
        ("lab -h", "lab --help"),
    ] {
        assert_eq!(printed(line), printed(same), "{line}");
    }
    let (message, code) = complained("doctor -h nobody.invalid --duration 1s --no-defaults");
    assert_eq!(code, 2);
    assert!(message.contains("nobody.invalid"), "-h with a value is the host: {message}");
}

#[test]
fn the_help_of_connections_that_all_commands_share_is_this() {
    let (help, code) = printed("help connection");
    assert_eq!(code, 0);
    insta::assert_snapshot!(help);
}

#[test]
fn what_is_wanted_rarely_is_on_the_page_of_all_flags() {
    let (short, all) = (printed("help record"), printed("help record --all"));
    assert_eq!((short.1, all.1), (0, 0));
    for flag in ["--parquet-every <TIME>", "--webhook-template <TEXT>", "--ssl-ca <FILE>"] {
        assert!(!short.0.contains(flag) && all.0.contains(flag), "{flag}");
    }
    assert!(
        short.0.contains("`spindoctor help record --all`")
            && short.0.contains("`spindoctor help connection`")
    );
    let (message, code) = complained("help record --every");
    assert_eq!((code, message.contains("--every")), (2, true));
}

#[test]
fn the_version_is_a_result() {
    assert_eq!(printed("--version"), (format!("spindoctor {}\n", env!("CARGO_PKG_VERSION")), 0));
}

#[test]
fn a_mistake_is_shown_on_standard_error_with_exit_2() {
    for line in ["", "doctr", "doctor --fail-on sometimes", "doctor --duration 3d", "help doctr"] {
        let (message, code) = complained(line);
        assert_eq!(code, 2, "{line}");
        assert!(!message.is_empty(), "{line}");
    }
}

#[test]
fn no_command_writes_under_the_name_of_another_kind_of_file() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| folder.path().join(name).display().to_string();
    for (line, text) in [
        (format!("locks -o {}", named("x.pdf")), "x.pdf ends in .pdf, which this does not write"),
        (format!("locks --html {}", named("x.svg")), "x.svg ends in .svg, which this does not write"),
        (format!("stacks --html {}", named("x.txt")), "x.txt ends in .txt, which this does not write"),
        (format!("stacks -o {}", named("x.png")), "x.png ends in .png, which this does not write"),
        (format!("doctor --html {}", named("x.svg")), "x.svg ends in .svg, which this does not write"),
        ("doctor --html -".to_owned(), "- is not standard output here"),
        (format!("export /nonexistent.rec --out {}", named("ex.xlsx")), "ex.xlsx would be a folder"),
    ] {
        let server = if line.starts_with("export") { "" } else { " --no-defaults -S /nonexistent" };
        let (message, code) = complained(&format!("{line}{server}"));
        assert_eq!((code, message.lines().count()), (2, 1), "{line}: {message}");
        assert!(message.contains(text), "{line}: {message}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn a_server_that_is_not_there_is_said_to_be_that_without_the_systems_numbers() {
    for command in ["stacks", "cache", "locks", "doctor", "workload", "indexes", "connections"] {
        let (message, code) =
            complained(&format!("{command} --no-defaults -u x -px -S /nonexistent/mysqld.sock"));
        assert_eq!(code, 2, "{command}: {message}");
        let says = "there is no server socket /nonexistent/mysqld.sock";
        assert!(message.contains(says) && message.contains("(-S)"), "{command}: {message}");
        assert!(!message.contains("os error"), "{command}: {message}");
    }
}
