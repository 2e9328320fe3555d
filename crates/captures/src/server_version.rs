//! The server's version where a text names it: a log, a console, a folder that the server was built in.

use spindoctor_model::ServerVersion;

use crate::rows::is_border;

/// What MariaDB from 10.11 on writes before its version when it starts, and systemd for it; and what the script of its container writes.
const STARTING: &str = "Starting MariaDB ";
const ENTRYPOINT: &str = "script for MariaDB Server 1:";
/// What MySQL from 8.0.28 on writes before its version when it crashes.
const CRASHED: &str = "Server Version: ";

/// `Version: '5.7.21-log'  socket: ...`, `mysqld (mysqld 8.0.36) starting as process 1`, `Server version: 10.6.12-MariaDB`, and
/// `mysqld  Ver 8.0.36 for Linux on x86_64` of `mysqld --version`
pub(crate) fn version(line: &str) -> Option<ServerVersion> {
    const BEFORE: [&str; 12] = [
        "Version: '",
        "(mysqld ",
        "(mariadbd ",
        "Server version: ",
        "Server version:\t",
        "mysqld  Ver ",
        "mariadbd  Ver ",
        STARTING,
        ENTRYPOINT,
        "script for MySQL Server ",
        // mysqltuner: `Currently running supported MySQL version 10.6.12-MariaDB`, or unsupported.
        "supported MySQL version ",
        CRASHED,
    ];
    let before = BEFORE.iter().find(|before| line.contains(**before))?;
    let (_, rest) = line.split_once(before)?;
    let rest = rest.trim_start();
    let version = rest.split(['\'', ')', ' ']).next()?;
    // Other programs have one, too: `docker info`.
    if *before == CRASHED && !["MySQL", "Percona", "MariaDB"].iter().any(|name| rest.contains(name)) {
        return None;
    }
    match [STARTING, ENTRYPOINT].contains(before) {
        // Of a package that names the series alone the version is not known.
        true if version.split('.').count() < 3 => None,
        true => ServerVersion::parse(&format!("{version}-MariaDB"), rest),
        false => ServerVersion::parse(version, rest),
    }
}

/// The names of columns that have the version alone.
const SELECTED: [&str; 3] = ["version()", "@@version", "@@global.version"];

/// The cells of a line of a frame, or of what a client prints in batch mode.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim().trim_matches('|').split(['|', '\t']).map(str::trim)
}

fn is_selected_name(cell: &str) -> bool {
    SELECTED.iter().any(|name| cell.eq_ignore_ascii_case(name))
}

/// `8.0.35-0ubuntu0.20.04.1`
fn is_version(cell: &str) -> bool {
    let numbers = cell.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    numbers.split('.').filter(|number| !number.is_empty()).count() == 3
}

/// The version that somebody selected: below the name of its column, in a frame or without, or behind it.
pub(crate) fn selected(text: &str) -> Option<ServerVersion> {
    /// A line of more bytes is another list's. By judgement.
    const LONGEST: usize = 400;
    let mut lines = text.lines().filter(|line| line.len() <= LONGEST);
    while let Some(line) = lines.next() {
        if let Some((_, value)) = line.split_once(": ").filter(|(name, _)| is_selected_name(name.trim())) {
            return ServerVersion::parse(value.trim(), "").filter(|_| is_version(value.trim()));
        }
        let Some(at) = cells(line).position(is_selected_name) else { continue };
        let below = lines.find(|below| !is_border(below))?;
        if let Some(version) = cells(below).nth(at).filter(|cell| is_version(cell)) {
            return ServerVersion::parse(version, below);
        }
    }
    None
}

/// True for a line of such a list with nothing but the version in it.
pub(crate) fn is_of_selected(line: &str) -> bool {
    let mut cells = cells(line);
    let only = cells.next().filter(|_| cells.next().is_none());
    is_border(line) || only.is_some_and(|cell| is_selected_name(cell) || is_version(cell))
}

/// A package's version without the series before it: `5.5.44` of `5.5-5.5.44`.
fn without_series(version: &str) -> &str {
    let is_series =
        |(series, rest): &(&str, &str)| rest.strip_prefix(series).is_some_and(|patch| patch.starts_with('.'));
    version.split_once('-').filter(is_series).map_or(version, |(_, rest)| rest)
}

/// The version in the name of a folder that the server was built in: `/pb2/build/.../mysql-5.5.40/storage/innobase/dict/dict0dict.c`
pub(crate) fn built_in(text: &str) -> Option<ServerVersion> {
    for (folder, comment) in [
        ("percona-server-", "Percona"),
        ("Percona-Server-", "Percona"),
        ("Percona-XtraDB-Cluster-", "Percona"),
        ("percona-xtradb-cluster-", "Percona"),
        ("mariadb-", "MariaDB"),
        ("mysql-", ""),
    ] {
        for (at, _) in text.match_indices(folder).take(20) {
            let rest = &text[at + folder.len()..];
            let version = rest.split('/').next().unwrap_or_default();
            let is_name = version.chars().all(|c| c.is_ascii_alphanumeric() || "._-+~".contains(c));
            let is_path = rest.len() > version.len() && version.len() <= 40 && is_name;
            if is_path && version.split('.').count() >= 3 {
                let version = without_series(version);
                let said =
                    if comment == "MariaDB" { format!("{version}-MariaDB") } else { version.to_owned() };
                if let Some(version) = ServerVersion::parse(&said, comment) {
                    return Some(version);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_names_its_version() {
        let line = "/usr/sbin/mysqld  Ver 8.4.2 for Linux on x86_64 (MySQL Community Server - GPL)";
        assert_eq!(version(line).map(|v| v.to_string()).as_deref(), Some("MySQL 8.4.2"));
        let line = "mariadbd  Ver 10.11.6-MariaDB for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(version(line).map(|v| v.to_string()).as_deref(), Some("MariaDB 10.11.6"));
    }

    #[test]
    fn the_version_that_somebody_selected_is_the_server_s() {
        for (text, wanted) in [
            ("VERSION()\n8.0.36-0ubuntu0.22.04.1\n", "MySQL 8.0.36"),
            (
                "mysql> select @@version;\n+----------------+\n| @@version      |\n+----------------+\n\
                 | 10.6.14-MariaDB |\n+----------------+\n1 row in set (0.00 sec)\n",
                "MariaDB 10.6.14",
            ),
            (
                "@@hostname\t@@version\t@@version_comment\ndb7\t8.0.34-26\tPercona Server (GPL)\n",
                "Percona Server 8.0.34",
            ),
            ("*** 1. row ***\nversion(): 5.7.44-log\n", "MySQL 5.7.44"),
        ] {
            assert_eq!(selected(text).map(|v| v.to_string()).as_deref(), Some(wanted), "{text}");
        }
        for text in ["select version();\n", "| version() |\n| yes |\n", "version()\n3\n", "version()\n"] {
            assert_eq!(selected(text), None, "{text}");
        }
    }

    #[test]
    fn a_server_that_starts_and_the_script_before_it_name_the_version() {
        for (line, wanted) in [
            (
                "2024-03-04 10:11:12 0 [Note] Starting MariaDB 11.4.2-MariaDB-ubu2404 source revision 3fca as process 1",
                "MariaDB 11.4.2",
            ),
            (
                "Server Version: 8.0.32-24 Percona Server (GPL), Release 24, Revision a",
                "Percona Server 8.0.32",
            ),
            (
                "Mar 04 10:11:12 db1 systemd[1]: Starting MariaDB 10.1.38 database server...",
                "MariaDB 10.1.38",
            ),
            (
                "2024-03-04 10:11:12+00:00 [Note] [Entrypoint]: Entrypoint script for MariaDB Server 1:11.4.2+maria~ubu2404 started.",
                "MariaDB 11.4.2",
            ),
            (
                "2024-03-04 10:11:12+00:00 [Note] [Entrypoint]: Entrypoint script for MySQL Server 8.4.2-1.el9 started.",
                "MySQL 8.4.2",
            ),
            ("[!!] Currently running unsupported MySQL version 10.3.39-MariaDB-0+deb10u1", "MariaDB 10.3.39"),
        ] {
            assert_eq!(version(line).map(|v| v.to_string()).as_deref(), Some(wanted), "{line}");
        }
        assert_eq!(version("[21:02:52] INFO: Starting MariaDB"), None);
        assert_eq!(version("Server Version: 1.10.3"), None);
        assert_eq!(version("db1 systemd[1]: Starting MariaDB 10.6 database server..."), None);
    }

    #[test]
    fn a_folder_of_the_build_names_the_version() {
        let version = |text| built_in(text).map(|v| v.to_string());
        assert_eq!(
            version("file /pb2/mysql-5.5.40/mysql-5.5.40/storage/x.c line 3").as_deref(),
            Some("MySQL 5.5.40")
        );
        assert_eq!(version("/build/mariadb-10.6.12/storage").as_deref(), Some("MariaDB 10.6.12"));
        assert_eq!(version("mysql-bin.000003"), None);
    }

    #[test]
    fn a_folder_that_names_the_series_before_the_version_has_the_version() {
        let version = |text| built_in(text).map(|v| v.to_string());
        assert_eq!(version("/a/mysql-5.5-5.5.44/storage/").as_deref(), Some("MySQL 5.5.44"));
        assert_eq!(version("/a/mysql-8.0-8.0.36/sql/").as_deref(), Some("MySQL 8.0.36"));
        assert_eq!(version("/a/mariadb-10.6-10.6.12/sql/").as_deref(), Some("MariaDB 10.6.12"));
    }
}
