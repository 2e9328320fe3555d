//! Who answers, and whether it is the server process that answered before.
//!
//! In: a session. Out: an [`Identity`]. It is asked after each login, so that a restart is seen however short it was, and
//! however long nobody looked.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::ServerVersion;
use spindoctor_model::mysql::NamedValues;

use crate::mysql::target::{Endpoint, Target};
use crate::mysql::{QueryError, Session};

/// `Uptime` has whole seconds, and a busy server answers late: two starts that are less apart are one.
const SAME_START: Duration = Duration::from_secs(5);

/// What is asked: who it is, and where else it listens. Cost: some 700 variables are read from memory, about 1 ms.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('server_uuid', 'admin_address', 'admin_port', 'extra_port')";
const UPTIME: &str = "SHOW GLOBAL STATUS LIKE 'Uptime'";
/// How many connections the account may have: the session's value is the account's own where it has one (MySQL 5.0,
/// MariaDB 5.1), else the server's. 0 is no limit.
const MOST_CONNECTIONS: &str = "SELECT @@SESSION.max_user_connections";

/// A server process, as it says itself and as the kernel knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Identity {
    pub(super) version: Option<ServerVersion>,
    pub(super) version_text: String,
    pub(super) hostname: String,
    pub(super) connection_id: u64,
    uptime_s: Option<u64>,
    asked: Instant,
    /// MySQL's name for a data directory; MariaDB has none.
    uuid: Option<String>,
    /// When it started, by the monotonic clock here and its own `Uptime`; none where that is before this system's start.
    started: Option<Instant>,
    /// The port for administrators, where it has one.
    pub(super) admin: Option<Endpoint>,
    /// How many connections the account may have; 0 where it has no limit.
    pub(super) most_connections: Option<u64>,
}

impl Identity {
    /// Asks a session that has just been made. What the server refuses to say is left out.
    pub(super) async fn ask(session: &mut Session, target: &Target) -> Result<Self, QueryError> {
        let variables = values(session, VARIABLES).await?;
        let asked = Instant::now();
        let uptime_s = values(session, UPTIME).await?.number("Uptime").map(|seconds| seconds as u64);
        let most_connections = match session.query(MOST_CONNECTIONS).await {
            Ok(rows) => rows.first().and_then(|row| row.at(0)?.parse().ok()),
            Err(error) if error.breaks_session() => return Err(error),
            Err(_) => None,
        };
        Ok(Self {
            version: session.version(),
            version_text: session.version_text().to_owned(),
            hostname: session.hostname().to_owned(),
            connection_id: session.connection_id(),
            uptime_s,
            asked,
            uuid: variables.text("server_uuid").map(str::to_owned),
            started: uptime_s.and_then(|seconds| asked.checked_sub(Duration::from_secs(seconds))),
            admin: admin_endpoint(&variables, target),
            most_connections,
        })
    }

    /// For how long it has been up, seconds.
    pub(super) fn uptime_now_s(&self) -> Option<u64> {
        self.uptime_s.map(|then| then + self.asked.elapsed().as_secs())
    }

    /// When it started, by its own uptime and the wall clock of now.
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        let uptime = SignedDuration::from_secs(i64::try_from(self.uptime_now_s()?).ok()?);
        Timestamp::now().checked_sub(uptime).ok()
    }

    /// What changed, in one clause, where this is not the process that answered before.
    pub(super) fn differs_from(&self, before: &Self) -> Option<&'static str> {
        if self.uuid != before.uuid || self.hostname != before.hostname {
            return Some("another server answers");
        }
        if self.version_text != before.version_text {
            return Some("the server was restarted with another version");
        }
        match (self.started, before.started) {
            (Some(now), Some(then)) => (now > then + SAME_START).then_some("the server was restarted"),
            // It, or this system, started less than an uptime ago.
            _ => {
                let went_back =
                    matches!((self.uptime_s, before.uptime_s), (Some(now), Some(then)) if now < then);
                went_back.then_some("the server was restarted")
            }
        }
    }
}

async fn values(session: &mut Session, statement: &str) -> Result<NamedValues, QueryError> {
    match session.query(statement).await {
        Ok(rows) => Ok(rows.iter().filter_map(|row| Some((row.at(0)?, row.at(1)?))).collect()),
        Err(error) if error.breaks_session() => Err(error),
        Err(_) => Ok(NamedValues::default()),
    }
}

/// Where the server keeps connections for administrators: `admin_address` and `admin_port` of MySQL (8.0.14),
/// `extra_port` of MariaDB and Percona Server.
fn admin_endpoint(variables: &NamedValues, target: &Target) -> Option<Endpoint> {
    let port = |name| {
        let port = variables.number(name).filter(|port| (1.0..65_536.0).contains(port));
        port.map(|port| port as u16)
    };
    let (port, address) = match variables.text("admin_address") {
        Some(address) if !address.is_empty() => (port("admin_port")?, address),
        _ => (port("extra_port")?, "*"),
    };
    let everywhere = matches!(address, "*" | "::" | "0.0.0.0");
    let host = match &target.endpoint {
        Endpoint::Tcp { host, .. } if everywhere => host.clone(),
        Endpoint::Socket(_) if everywhere => "127.0.0.1".to_owned(),
        _ => address.to_owned(),
    };
    Some(Endpoint::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uptime_s: u64, started: Instant) -> Identity {
        Identity {
            version: None,
            version_text: "9.7.4".to_owned(),
            hostname: "db17".to_owned(),
            connection_id: 8,
            uptime_s: Some(uptime_s),
            asked: started,
            uuid: Some("a".to_owned()),
            started: Some(started),
            admin: None,
            most_connections: None,
        }
    }

    #[test]
    fn a_restart_is_shown_by_when_it_started_even_where_the_uptime_has_grown_meanwhile() {
        let start = Instant::now();
        let before = identity(100, start);
        assert_eq!(identity(130, start + Duration::from_secs(1)).differs_from(&before), None);
        let after = identity(700, start + Duration::from_secs(200));
        assert_eq!(after.differs_from(&before), Some("the server was restarted"));
        let unknown = Identity { started: None, ..identity(100, start) };
        let later = Identity { uptime_s: Some(3), ..unknown.clone() };
        assert_eq!(later.differs_from(&unknown), Some("the server was restarted"));
        assert_eq!(unknown.differs_from(&unknown), None);
    }

    #[test]
    fn another_server_behind_the_same_address_and_an_upgrade_are_distinguished() {
        let before = identity(100, Instant::now());
        let other = Identity { uuid: Some("b".to_owned()), ..before.clone() };
        assert_eq!(other.differs_from(&before), Some("another server answers"));
        let upgraded = Identity { version_text: "9.7.5".to_owned(), ..before.clone() };
        assert_eq!(upgraded.differs_from(&before), Some("the server was restarted with another version"));
    }

    #[test]
    fn the_administrators_port_is_found_in_both_dialects() {
        let endpoint = |pairs: &[(&str, &str)], target: Endpoint| {
            admin_endpoint(&pairs.iter().copied().collect(), &Target::new(target, "root"))
        };
        let socket = || Endpoint::Socket("/run/mysqld/mysqld.sock".into());
        let tcp = |host: &str, port| Endpoint::Tcp { host: host.to_owned(), port };
        let mysql = [("admin_address", "10.0.0.7"), ("admin_port", "33062")];
        assert_eq!(endpoint(&mysql, socket()), Some(tcp("10.0.0.7", 33062)));
        assert_eq!(endpoint(&[("admin_address", ""), ("admin_port", "33062")], socket()), None);
        assert_eq!(endpoint(&[("admin_port", "33062")], socket()), None);
        assert_eq!(endpoint(&[("extra_port", "3307")], socket()), Some(tcp("127.0.0.1", 3307)));
        assert_eq!(endpoint(&[("extra_port", "3307")], tcp("db17", 3306)), Some(tcp("db17", 3307)));
        assert_eq!(endpoint(&[("extra_port", "0")], socket()), None);
    }
}
