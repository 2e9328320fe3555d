//! Which server answers: what two servers say never stands in one window.
//!
//! A proxy, a virtual address or a name with several addresses leads to one server now, and to another a moment later. Two
//! readings show it. A proxy greets its client with a number of its own, and the server behind it has another one for the
//! connection (`CONNECTION_ID()`): each statement may go to another server, and such an address is refused. And servers have names
//! of their own: a session is asked for them when it is made and behind each round of questions, and all sessions of one
//! [`Target`](super::Target) and of its clones must lead to the same server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindoctor_model::ServerVersion;

use super::rows::Row;

/// What proxies call themselves where they say it: ProxySQL in `@@version_comment` and in the errors of its own interface, MaxScale
/// in its greeting where it knows no server's version (`5.5.5-10.2.12 23.08.1-maxscale`).
const PROXIES: [(&str, &str); 2] = [("proxysql", "ProxySQL"), ("maxscale", "MaxScale")];

/// What a server of this version is asked for, from the name of its host on: what [`Answerer::read`] reads. MySQL has `server_uuid`
/// from 5.6 on (its manual, "Replication and Binary Logging Options and Variables"), MariaDB has none.
pub fn columns(version: Option<ServerVersion>) -> &'static str {
    match version.is_some_and(|version| version.mysql_at_least(5, 6, 0)) {
        true => "@@hostname, @@port, @@server_id, @@datadir, CONNECTION_ID(), @@server_uuid",
        false => "@@hostname, @@port, @@server_id, @@datadir, CONNECTION_ID()",
    }
}

/// The proxy that a text is of: a version, a comment or an error of something that speaks as a server does.
pub fn proxy_named_in(said: &str) -> Option<&'static str> {
    let said = said.to_ascii_lowercase();
    PROXIES.iter().find(|(word, _)| said.contains(word)).map(|(_, name)| *name)
}

/// What shows that a proxy has greeted us: its number of the connection is not the server's. None where they are the same; the
/// greeting has the lower 32 bits alone (`Protocol::HandshakeV10` of both lines).
pub fn proxy_by_number(greeted: u64, connection_id: u64) -> Option<String> {
    let low = |number: u64| number & u64::from(u32::MAX);
    let is_same = low(greeted) == low(connection_id);
    (!is_same).then(|| format!("it greets as connection {greeted}, which is {connection_id} to the server"))
}

/// A server by its names for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answerer {
    /// Its host's name (`hostname`).
    pub hostname: String,
    /// Where it listens (`port`).
    pub port: String,
    /// Its number among servers that replicate (`server_id`).
    pub server_id: String,
    /// Where its data is (`datadir`).
    pub datadir: String,
    /// MySQL's name for a data folder (`server_uuid`); empty on MariaDB, and before MySQL 5.6.
    pub uuid: String,
}

impl Answerer {
    /// From the cells of [`columns`], which begin at this place, with the server's own number of the connection. None where the
    /// answer has no such number.
    pub fn read(row: Row<'_>, from: usize) -> Option<(Self, u64)> {
        let text = |place: usize| row.at(from + place).unwrap_or_default().to_owned();
        let connection_id = row.at(from + 4)?.parse().ok()?;
        let answerer =
            Self { hostname: text(0), port: text(1), server_id: text(2), datadir: text(3), uuid: text(5) };
        Some((answerer, connection_id))
    }

    /// True for the same server, restarted or not. Where both have a UUID, that decides: a container that was made again has
    /// another host name, and the same data.
    pub fn is_same(&self, other: &Self) -> bool {
        if !self.uuid.is_empty() && !other.uuid.is_empty() {
            return self.uuid == other.uuid;
        }
        (&self.hostname, &self.port, &self.server_id, &self.datadir)
            == (&other.hostname, &other.port, &other.server_id, &other.datadir)
    }
}

impl fmt::Display for Answerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} (server_id {})", self.hostname, self.port, self.server_id)
    }
}

/// The server that a target leads to, once a session has said which. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct OneServer(Arc<Mutex<Option<Answerer>>>);

impl OneServer {
    /// A session is with this server: the first one that is said is the server of all.
    ///
    /// # Errors
    /// The server of the sessions before, where that is another one.
    pub fn expect(&self, answerer: &Answerer) -> Result<(), Answerer> {
        let mut known = self.known();
        if let Some(before) = known.as_ref().filter(|before| !before.is_same(answerer)) {
            return Err(before.clone());
        }
        *known = Some(answerer.clone());
        Ok(())
    }

    /// The server of all, where it is another one than this.
    pub(super) fn other_than(&self, answerer: &Answerer) -> Option<Answerer> {
        self.known().as_ref().filter(|known| !known.is_same(answerer)).cloned()
    }

    /// The next server that is said is that of all: sampling without an end goes on with the one that takes another's place.
    pub(crate) fn forget(&self) {
        *self.known() = None;
    }

    fn known(&self) -> MutexGuard<'_, Option<Answerer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::*;

    fn server(hostname: &str, uuid: &str) -> Answerer {
        let text = str::to_owned;
        Answerer {
            hostname: text(hostname),
            port: text("3306"),
            server_id: text("1"),
            datadir: text("/var/lib/mysql/"),
            uuid: text(uuid),
        }
    }

    #[test]
    fn what_a_server_says_of_itself_is_read_from_where_it_begins() {
        let cells = ["9.7.4", "db17", "3306", "1", "/var/lib/mysql/", "4294967308", "a-b"];
        let columns = cells.map(str::to_owned).to_vec();
        let rows = Rows::new(columns, vec![cells.map(|cell| Some(cell.to_owned())).to_vec()]);
        let (answerer, connection_id) = Answerer::read(rows.first().unwrap(), 1).unwrap();
        assert_eq!((answerer, connection_id), (server("db17", "a-b"), (1 << 32) + 12));
        assert!(Answerer::read(rows.first().unwrap(), 3).is_none(), "no number stands there");
    }

    #[test]
    fn uuids_are_asked_of_servers_that_have_them() {
        let of = |version| columns(ServerVersion::parse(version, ""));
        assert!(of("5.6.14").ends_with("@@server_uuid") && of("9.7.4").ends_with("@@server_uuid"));
        for version in ["5.5.34", "11.8.9-MariaDB", "5.5.5-10.2.12 23.08.1-maxscale", ""] {
            assert!(!of(version).contains("uuid"), "{version}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_its_name_or_by_its_number_of_the_connection() {
        assert_eq!(proxy_named_in("8.0.11 (ProxySQL)"), Some("ProxySQL"));
        assert_eq!(proxy_named_in("5.5.5-10.2.12 23.08.1-maxscale"), Some("MaxScale"));
        assert_eq!(proxy_named_in("9.7.4 Source distribution"), None);
        assert_eq!(proxy_by_number(12, 12), None);
        assert_eq!(proxy_by_number(12, (1 << 32) + 12), None, "the greeting has 32 bits of it");
        assert!(proxy_by_number(12, 345).is_some_and(|why| why.contains("12") && why.contains("345")));
    }

    #[test]
    fn servers_are_distinguished_by_their_uuid_and_without_one_by_where_they_are() {
        assert!(server("db17", "a").is_same(&server("db18", "a")), "a container with the same data");
        assert!(!server("db17", "a").is_same(&server("db17", "b")));
        assert!(!server("db17", "").is_same(&server("db18", "")));
        assert!(!server("db17", "").is_same(&Answerer { server_id: "2".into(), ..server("db17", "") }));
        assert!(server("db17", "").is_same(&server("db17", "a")), "one of them was not asked for it");
    }

    #[test]
    fn the_first_server_is_that_of_all_until_it_is_forgotten() {
        let one = OneServer::default();
        let (a, b) = (server("a", "1"), server("b", "2"));
        assert_eq!(one.other_than(&b), None);
        assert_eq!(one.clone().expect(&a), Ok(()));
        assert_eq!((one.expect(&a), one.expect(&b)), (Ok(()), Err(a.clone())));
        assert_eq!((one.other_than(&a), one.other_than(&b)), (None, Some(a.clone())));
        one.forget();
        assert_eq!((one.expect(&b), one.expect(&a)), (Ok(()), Err(b)));
    }
}
