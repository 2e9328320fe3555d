//! The server's version where a text names it: a log, a console, a folder that the server was built in.

use spindoctor_model::ServerVersion;

/// `Version: '5.7.21-log'  socket: ...`, `mysqld (mysqld 8.0.36) starting as process 1`, `Server version: 10.6.12-MariaDB`, and
/// `mysqld  Ver 8.0.36 for Linux on x86_64` of `mysqld --version`
pub(crate) fn version(line: &str) -> Option<ServerVersion> {
    const BEFORE: [&str; 7] = [
        "Version: '",
        "(mysqld ",
        "(mariadbd ",
        "Server version: ",
        "Server version:\t",
        "mysqld  Ver ",
        "mariadbd  Ver ",
    ];
    let before = BEFORE.iter().find(|before| line.contains(**before))?;
    let (_, rest) = line.split_once(before)?;
    let rest = rest.trim_start();
    let version = rest.split(['\'', ')', ' ']).next()?;
    ServerVersion::parse(version, rest)
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
