//! Which server this is: flavor, version, identity.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reading::Unavailable;

/// The three lines of servers that differ in what they offer.
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
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mysql => "MySQL",
            Self::Mariadb => "MariaDB",
            Self::Percona => "Percona Server",
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
    /// Parses `@@version`, with `@@version_comment` to tell Percona Server from MySQL.
    ///
    /// Formats seen: `9.7.4`, `8.0.29-21` (Percona), `10.11.19-MariaDB-0+deb12u1`,
    /// `5.5.5-10.8.4-MariaDB-1:10.8.4+maria~ubu2204` (the prefix is for old replicas), `5.1.73-log`.
    /// None where no version number leads the text, or one that is beyond all versions.
    pub fn parse(version: &str, comment: &str) -> Option<Self> {
        let mariadb = version.to_ascii_lowercase().contains("mariadb");
        let text = match version.strip_prefix("5.5.5-") {
            Some(rest) if mariadb => rest,
            _ => version,
        };
        let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut parts = numbers.split('.');
        let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let patch = match parts.next() {
            None | Some("") => 0,
            Some(digits) => digits.parse().ok()?,
        };
        let flavor = if mariadb {
            Flavor::Mariadb
        } else if comment.to_ascii_lowercase().contains("percona") {
            Flavor::Percona
        } else {
            Flavor::Mysql
        };
        Some(Self { flavor, major, minor, patch })
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
