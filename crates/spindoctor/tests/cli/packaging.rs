//! The files of `packaging/` say what the program needs, no more and no less.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use spindoctor_collect::follow::CONNECTIONS;
use spindoctor_collect::mysql::SOURCES;
use spindoctor_collect::mysql::logins::LEFT_TO_OTHERS;
use spindoctor_model::ServerVersion;

use crate::program::{complained, printed};

fn packaged(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    fs::read_to_string(folder.join(file)).expect("the file is there")
}

/// Every `GRANT ... ON ...` among these lines, without who gets it.
fn granted<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let grants = lines.filter_map(|line| line.strip_prefix("GRANT ")?.split_once(" TO "));
    grants.map(|(grant, _)| format!("GRANT {grant}")).collect()
}

#[test]
fn the_account_may_do_what_the_sources_ask_for_and_nothing_else() {
    let text = packaged("least-privilege.sql");
    let mysql = granted(text.lines());
    let mariadb = granted(text.lines().filter_map(|line| line.strip_prefix("-- ")));
    for (granted, version) in [(mysql, "8.4.0"), (mariadb, "10.11.19-MariaDB")] {
        let version = ServerVersion::parse(version, "").expect("a version");
        let wanted = SOURCES.iter().map(|source| (source.grant)(version)).filter(|grant| !grant.is_empty());
        assert_eq!(granted, wanted.map(str::to_owned).collect(), "{version}");
    }
}

#[test]
fn the_book_makes_the_same_account_with_room_for_the_recorder_and_others() {
    let text = packaged("least-privilege.sql");
    let page = packaged("../docs/src/privileges.md");
    let is_statement = |line: &&str| {
        ["CREATE USER spindoctor@", "GRANT ", "INSTALL SONAME"].iter().any(|begin| line.starts_with(begin))
            && !line.contains("tuner@")
    };
    let statements = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.strip_prefix("-- ").unwrap_or(line));
        lines.filter(is_statement).map(str::to_owned).collect()
    };
    assert_eq!(statements(&page), statements(&text));
    let most = (CONNECTIONS + LEFT_TO_OTHERS).to_string();
    for line in page.lines().chain(text.lines()) {
        if let Some((_, number)) = line.split_once("MAX_USER_CONNECTIONS ") {
            assert_eq!(number.trim_end_matches(';'), most, "{line}");
        }
    }
}

#[test]
fn a_service_whose_password_is_wrong_is_not_started_again_and_again() {
    let unit = packaged("spindoctor-record.service");
    assert!(unit.lines().any(|line| line == "RestartPreventExitStatus=2"));
}

#[test]
fn the_service_starts_the_recorder_with_flags_that_it_has() {
    let unit = packaged("spindoctor-record.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a line that starts it");
    let arguments = start.strip_prefix("/usr/bin/spindoctor ").expect("the program's place");
    // %d and %S are folders of systemd's: here there are none, and any port will do.
    let line = arguments.replace("%d", "/nonexistent").replace("%S", "/nonexistent").replace(":19104", ":0");
    let (why, code) = complained(&line);
    assert!(code == 2 && why.contains("/nonexistent/my.cnf") && !why.contains("Usage"), "{why}");
}

#[test]
fn a_package_restarts_a_recorder_that_runs_ends_it_when_it_goes_and_starts_none() {
    for (script, act) in [
        ("debian/postinst", "try-restart"),
        ("debian/prerm", "stop"),
        ("debian/postrm", "purge"),
        ("rpm/scripts", "disable --now"),
        ("rpm/scripts", "try-restart"),
    ] {
        let text = packaged(script);
        assert!(text.contains(&format!("{act} spindoctor-record.service")), "{script}: {act}");
        let starts =
            |line: &&str| !line.starts_with('#') && (line.contains(" start ") || line.contains(" enable "));
        assert_eq!(text.lines().find(starts), None, "{script}");
    }
}

/// 9104 is mysqld_exporter's port, and both may run on one host.
#[test]
fn the_recorders_metrics_have_a_port_of_their_own_wherever_one_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "packaging/spindoctor-record.service",
        "packaging/spindoctor.toml",
        "packaging/prometheus/spindoctor.rules.yml",
        "packaging/kubernetes/sidecar.yaml",
        "packaging/kubernetes/daemonset.yaml",
        "packaging/container/record-node",
        "docs/src/commands/export.md",
        "docs/src/monitoring.md",
        "docs/src/containers.md",
        "docs/src/fleet-history.md",
    ] {
        let text = fs::read_to_string(root.join(file)).expect(file);
        assert!(text.contains("19104"), "{file} names no port");
        let theirs =
            |line: &str| line.replace("19104", "").contains("9104") && !line.contains("mysqld_exporter");
        assert_eq!(text.lines().find(|line| theirs(line)), None, "{file}");
    }
    let (help, _) = printed("help record --all");
    assert!(help.contains("127.0.0.1:19104"), "{help}");
}

#[test]
fn the_recorders_account_does_not_get_the_folder_that_roots_tune_trusts() {
    let unit = packaged("spindoctor-record.service");
    let folders = unit.lines().find_map(|line| line.strip_prefix("StateDirectory=")).expect("a state folder");
    // TakeOptions::of_process: /var/lib/spindoctor.
    assert!(
        folders.split_whitespace().all(|folder| folder != "spindoctor" && !folder.starts_with("spindoctor/"))
    );
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a line that starts it");
    assert!(start.contains(&format!("%S/{folders}/")), "{start}");
}

#[test]
fn the_metadata_lock_plugin_is_installed_where_a_source_needs_it() {
    let text = packaged("least-privilege.sql");
    for source in SOURCES.iter().filter(|source| !source.install.is_empty()) {
        let statement = source.install.trim_end_matches(';');
        assert!(text.to_uppercase().contains(&statement.to_uppercase()), "{statement}");
    }
}

#[test]
fn the_example_of_a_configuration_has_only_keys_and_values_that_the_program_takes() {
    let text = packaged("spindoctor.toml");
    // As somebody has it who takes every # away that stands before a key.
    let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    let lines = text.lines().map(|line| line.strip_prefix("# ").filter(|rest| is_key(rest)).unwrap_or(line));
    let all: Vec<&str> = lines.collect();
    let keys = all.iter().filter(|line| !line.starts_with('#') && is_key(line)).count();
    assert!(keys >= 30 && !text.lines().any(|line| !line.starts_with('#') && is_key(line)), "{keys} keys");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), all.join("\n")).expect("it is written");
    let (shown, code) = printed(&format!("config show --json --config {}", file.path().display()));
    assert_eq!(code, 0);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let values = shown["values"].as_array().expect("values");
    for line in all.iter().filter(|line| !line.starts_with('#') && is_key(line)) {
        let key = line.split_once(" = ").expect("a key").0;
        assert!(values.iter().any(|value| value["name"] == key && value["from"] == "file"), "{key}");
    }
}
