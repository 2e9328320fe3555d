//! Option files of Percona Toolkit, Connector/Python and Debian.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use spindoctor_collect::mysql::option_file::{Line, Reader, Settings, parse};

use super::{fixtures, read};

/// As `pt-mysql-summary` prints an option file: groups, and names padded to 35.
fn pretty(lines: &[(usize, Line)]) -> String {
    let mut out = String::new();
    for (_, line) in lines {
        match line {
            Line::Group(name) => out += &format!("\n[{name}]\n"),
            Line::Option { key, value } => {
                out += &format!("{key:<35} = {}\n", value.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }
    out
}

#[test]
fn reads_a_file_as_percona_toolkit_does() {
    let Some(folder) = fixtures("mycnf") else { return };
    let text = fs::read(folder.join("pt-my.cnf-001.txt")).unwrap();
    let expected = read(&folder.join("pt-my.cnf-001.expected.txt"));
    let lines = parse(&text);
    // pt removes neither quotes nor `_`.
    let folded = |text: &str| text.replace('_', "-").replace('"', "").trim().to_owned();
    assert_eq!(folded(&pretty(&lines)), folded(&expected));
}

#[test]
fn every_file_of_the_collection_has_groups_and_nothing_wrong() {
    let Some(folder) = fixtures("mycnf") else { return };
    let mut folders = vec![folder];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("pt-myprintdef001.txt") || path.to_string_lossy().contains("expected") {
                continue; // output of programs, not option files
            }
            let lines = parse(&fs::read(&path).unwrap());
            assert!(!lines.is_empty(), "{}", path.display());
            for (number, line) in lines {
                assert!(!matches!(line, Line::Wrong(_)), "{} {number}: {line:?}", path.display());
            }
            seen += 1;
        }
    }
    assert!(seen >= 18, "only {seen} files");
}

fn settings(root: &Path, path: &str, groups: &[&str]) -> Settings {
    let groups: Vec<String> = groups.iter().map(|&group| group.to_owned()).collect();
    let mut reader = Reader::new(&groups, root);
    reader.read_if_there(&root.join(path));
    reader.finish()
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
}

fn values(found: &Settings) -> Vec<&str> {
    found.settings.iter().map(|setting| setting.value.as_deref().unwrap_or("-")).collect()
}

#[test]
fn follows_debians_tree_of_includes() {
    let Some(debian) = fixtures("mycnf/debian") else { return };
    let root = tempfile::tempdir().unwrap();
    for path in
        ["etc/mysql/mariadb.cnf", "etc/mysql/conf.d/mysqldump.cnf", "etc/mysql/mariadb.conf.d/50-server.cnf"]
    {
        write(root.path(), path, &read(&debian.join(path)));
    }
    std::os::unix::fs::symlink("mariadb.cnf", root.path().join("etc/mysql/my.cnf")).unwrap();
    let found = settings(root.path(), "etc/mysql/my.cnf", &["client-server", "mysqldump", "mysqld"]);
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    assert_eq!(values(&found)[..4], ["/run/mysqld/mysqld.sock", "-", "-", "16M"]);
    assert!(found.settings.iter().any(|s| s.group == "mysqld" && s.key == "bind-address"));
}
