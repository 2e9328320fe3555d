//! Which server this is: flavor, version, identity.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reading::Unavailable;

/// The lines of servers that differ in what they offer, and what speaks for a server and is none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// Oracle's MySQL.
    #[default]
    Mysql,
    /// MariaDB Server.
    Mariadb,
    /// Percona Server for MySQL.
    Percona,
    /// Amazon Aurora MySQL: MySQL with a storage of its own.
    Aurora,
    /// TiDB, which speaks as MySQL and is built otherwise.
    Tidb,
    /// Vitess, which stands before many servers of MySQL.
    Vitess,
    /// ProxySQL, which stands before servers of MySQL.
    Proxysql,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mysql => "MySQL",
            Self::Mariadb => "MariaDB",
            Self::Percona => "Percona Server",
            Self::Aurora => "Aurora MySQL",
            Self::Tidb => "TiDB as MySQL",
            Self::Vitess => "Vitess as MySQL",
            Self::Proxysql => "ProxySQL as MySQL",
        })
    }
}

/// A server's version as numbers (10.11 is later than 10.6), with the flavor that gives them meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ServerVersion {
    /// Whose server it is.
    pub flavor: Flavor,
    /// First number: 8 in 8.0.36.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number.
    pub patch: u16,
}

impl ServerVersion {
    /// Parses `@@version`, with `@@version_comment` to distinguish Percona Server from MySQL.
    ///
    /// Formats seen: `9.7.4`, `8.0.29-21` (Percona), `10.11.19-MariaDB-0+deb12u1`,
    /// `5.5.5-10.8.4-MariaDB-1:10.8.4+maria~ubu2204` (the prefix is for old replicas), `5.1.73-log`.
    /// Of others: `8.0.11-TiDB-v7.5.1`, `8.0.30-Vitess`, `8.0.11 (ProxySQL)`, `8.0.mysql_aurora.3.05.2`, which say of which
    /// MySQL they speak the language, the last one by its own numbers (`aurora`).
    /// None where no version number leads the text, or one that is beyond all versions.
    pub fn parse(version: &str, comment: &str) -> Option<Self> {
        let mariadb = version.to_ascii_lowercase().contains("mariadb");
        let text = match version.strip_prefix("5.5.5-") {
            Some(rest) if mariadb => rest,
            _ => version,
        };
        let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = numbers.split('.');
        let (major, minor): (u16, u16) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let patch = match parts.next() {
            None | Some("") => 0,
            Some(digits) => digits.parse().ok()?,
        };
        let said = format!("{version} {comment}").to_ascii_lowercase();
        let flavor = if said.contains("mysql_aurora") || said.contains("aurora") {
            let patch = aurora(major, minor, version).unwrap_or(patch);
            return Some(Self { flavor: Flavor::Aurora, major, minor, patch });
        } else if said.contains("tidb") {
            Flavor::Tidb
        } else if said.contains("vitess") {
            Flavor::Vitess
        } else if said.contains("proxysql") {
            Flavor::Proxysql
        } else if mariadb {
            Flavor::Mariadb
        } else if comment.to_ascii_lowercase().contains("percona") {
            Flavor::Percona
        } else {
            Flavor::Mysql
        };
        Some(Self { flavor, major, minor, patch })
    }

    /// True for what speaks as MySQL and is no such server: its sessions, locks and settings are not those of one server.
    pub fn only_speaks_as_mysql(self) -> bool {
        matches!(self.flavor, Flavor::Tidb | Flavor::Vitess | Flavor::Proxysql)
    }

    /// True for MariaDB.
    pub fn is_mariadb(self) -> bool {
        self.flavor == Flavor::Mariadb
    }

    /// True for MySQL and Percona Server at or after a version; false for MariaDB.
    pub fn mysql_at_least(self, major: u16, minor: u16, patch: u16) -> bool {
        !self.is_mariadb() && (self.major, self.minor, self.patch) >= (major, minor, patch)
    }

    /// True for MariaDB at or after a version; false for MySQL and Percona Server.
    pub fn mariadb_at_least(self, major: u16, minor: u16, patch: u16) -> bool {
        self.is_mariadb() && (self.major, self.minor, self.patch) >= (major, minor, patch)
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}.{}", self.flavor, self.major, self.minor, self.patch)
    }
}

/// The patch of MySQL that an Aurora is compatible with, from its own numbers (Amazon's "Document history for the Aurora
/// MySQL Release Notes"); of one that is newer than this table, the last that is known. None without such numbers.
fn aurora(major: u16, minor: u16, version: &str) -> Option<u16> {
    /// Aurora's numbers, and MySQL's patch from that one on.
    const OF_8_0: [((u16, u16), u16); 10] = [
        ((3, 1), 23),
        ((3, 3), 26),
        ((3, 4), 28),
        ((3, 5), 32),
        ((3, 6), 34),
        ((3, 7), 36),
        ((3, 8), 39),
        ((3, 9), 40),
        ((3, 10), 42),
        ((3, 12), 44),
    ];
    const OF_5_7: [((u16, u16), u16); 2] = [((2, 0), 12), ((2, 12), 44)];
    let (_, own) = version.split_once("mysql_aurora.")?;
    let mut numbers = own.split(|c: char| !c.is_ascii_digit());
    let own = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let table = match (major, minor) {
        (8, 0) => &OF_8_0[..],
        (5, 7) => &OF_5_7[..],
        _ => return None,
    };
    table.iter().rev().find(|(from, _)| own >= *from).map(|(_, patch)| *patch)
}

/// Who is examined, and through what.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerIdentity {
    /// None when the server never answered.
    pub version: Option<ServerVersion>,
    /// `@@version` as the server said it.
    pub version_text: String,
    /// `@@hostname`, or the host that was asked.
    pub hostname: String,
    /// What was connected to: `/run/mysqld/mysqld.sock`, `db17:3306`.
    pub address: String,
    /// The server's process on this host, where it was found.
    pub pid: Option<u32>,
    /// Why there is no process to look at, where there is none.
    pub no_pid: Option<Unavailable>,
    /// Seconds since the server started, at the start of the window.
    pub uptime_s: Option<u64>,
    /// Why no session could be had, where none could: the host's sources are read all the same.
    pub no_session: Option<NoSession>,
    /// The connection id of spindoctor's own session, left out of every list of threads.
    pub own_connection_id: Option<u64>,
}

/// A connection that did not come about, where that itself is a reading.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NoSession {
    /// What kind of refusal it was.
    pub kind: NoSessionKind,
    /// What happened, in one clause, as the user should read it.
    pub because: String,
}

/// The refusals that say something about the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoSessionKind {
    /// Something listens and does not answer within the deadline.
    #[default]
    Silent,
    /// Error 1040: too many connections.
    TooManyConnections,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_speaks_as_mysql_is_named() {
        let parse = |text, comment| ServerVersion::parse(text, comment).unwrap();
        for (text, comment, named) in [
            ("5.7.25-TiDB-v7.5.1", "TiDB Server (Apache License 2.0)", "TiDB as MySQL 5.7.25"),
            ("8.0.11-TiDB-v8.1.0", "", "TiDB as MySQL 8.0.11"),
            ("8.0.30-Vitess", "Version: 19.0.4", "Vitess as MySQL 8.0.30"),
            ("8.0.11 (ProxySQL)", "", "ProxySQL as MySQL 8.0.11"),
            ("8.0.36", "(ProxySQL)", "ProxySQL as MySQL 8.0.36"),
        ] {
            assert_eq!(parse(text, comment).to_string(), named);
            assert!(parse(text, comment).only_speaks_as_mysql());
        }
        for (text, named) in [
            ("8.0.mysql_aurora.3.05.2", "Aurora MySQL 8.0.32"),
            ("8.0.mysql_aurora.3.02.0", "Aurora MySQL 8.0.23"),
            ("8.0.mysql_aurora.3.04.4", "Aurora MySQL 8.0.28"),
            ("8.0.mysql_aurora.3.10.0", "Aurora MySQL 8.0.42"),
            ("5.7.mysql_aurora.2.11.2", "Aurora MySQL 5.7.12"),
            ("5.7.mysql_aurora.2.12.5", "Aurora MySQL 5.7.44"),
        ] {
            assert_eq!(parse(text, "").to_string(), named);
            assert!(!parse(text, "").only_speaks_as_mysql() && parse(text, "").mysql_at_least(5, 7, 8));
        }
    }

    #[test]
    fn parses_the_versions_that_servers_print() {
        let parse = |text, comment| ServerVersion::parse(text, comment).map(|v| v.to_string());
        assert_eq!(parse("9.7.4", "Source distribution").as_deref(), Some("MySQL 9.7.4"));
        assert_eq!(parse("5.1.73-log", "").as_deref(), Some("MySQL 5.1.73"));
        assert_eq!(
            parse("8.0.29-21", "Percona Server (GPL), Release 21").as_deref(),
            Some("Percona Server 8.0.29")
        );
        assert_eq!(
            parse("5.5.5-10.8.4-MariaDB-1:10.8.4+maria~ubu2204", "").as_deref(),
            Some("MariaDB 10.8.4")
        );
        assert_eq!(parse("10.11.19-MariaDB-0+deb12u1", "").as_deref(), Some("MariaDB 10.11.19"));
        assert_eq!(parse("unknown", ""), None);
    }

    #[test]
    fn versions_of_vendors_and_of_years_to_come_are_read_by_their_numbers() {
        let parse = |text, comment| ServerVersion::parse(text, comment).unwrap();
        for (text, comment, named) in [
            ("5.7.44-rds.20240408-log", "Source distribution", "MySQL 5.7.44"),
            ("8.0.39", "Source distribution", "MySQL 8.0.39"),
            ("8.0.37-google", "(Google)", "MySQL 8.0.37"),
            ("8.0.40-azure", "Source distribution", "MySQL 8.0.40"),
            ("8.0.36-28.1", "Percona XtraDB Cluster (GPL), Release rel28", "Percona Server 8.0.36"),
            ("10.6.14-MariaDB-log", "managed by a cloud", "MariaDB 10.6.14"),
            ("10.11.18.4-MariaDB-cloud-log", "", "MariaDB 10.11.18"),
            ("11.4.7-4-MariaDB-enterprise-log", "MariaDB Enterprise Server", "MariaDB 11.4.7"),
            ("26.7.1-MariaDB", "", "MariaDB 26.7.1"),
            ("26.7", "", "MySQL 26.7.0"),
        ] {
            assert_eq!(parse(text, comment).to_string(), named);
            assert!(!parse(text, comment).only_speaks_as_mysql());
        }
        assert!(
            parse("26.7", "").mysql_at_least(9, 7, 4)
                && parse("26.7.1-MariaDB", "").mariadb_at_least(12, 0, 0)
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(version in "(?s).{0,60}", comment in "(?s).{0,60}") {
            ServerVersion::parse(&version, &comment);
        }

        #[test]
        fn gives_the_numbers_that_lead_the_text(
            major: u16, minor: u16, patch: u16,
            tail in "(-[ -~]{0,40})?", maria: bool, comment in "[ -~]{0,40}",
        ) {
            let maria = if maria { "-MariaDB" } else { "" };
            let parsed = ServerVersion::parse(&format!("{major}.{minor}.{patch}{maria}{tail}"), &comment);
            let parsed = parsed.expect("a version leads the text");
            // `5.5.5-` before a version of MariaDB is for old replicas.
            proptest::prop_assume!((major, minor, patch) != (5, 5, 5));
            proptest::prop_assert_eq!((parsed.major, parsed.minor, parsed.patch), (major, minor, patch));
        }

        #[test]
        fn a_number_beyond_all_versions_is_no_version(number in 65_536_u64.., place in 0..3_usize) {
            let mut numbers = [8, 0, 36];
            numbers[place] = number;
            let text = format!("{}.{}.{}", numbers[0], numbers[1], numbers[2]);
            proptest::prop_assert_eq!(ServerVersion::parse(&text, ""), None);
        }
    }

    #[test]
    fn orders_versions_as_numbers_not_as_text() {
        let maria = ServerVersion::parse("10.11.2-MariaDB", "").unwrap();
        assert!(maria.mariadb_at_least(10, 6, 0));
        assert!(!maria.mysql_at_least(5, 7, 0));
    }
}
