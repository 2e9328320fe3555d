//! The servers that belong to a server: its replicas and theirs, the members of its replication group or Galera
//! cluster.
//!
//! Each server that is found is asked in turn, so a chain of replicas is followed to its end; a server that appears
//! again under another name is recognised by its own id. Answers are parsed by pure functions.

use std::collections::HashSet;
use std::sync::Arc;

use spindoctor_collect::mysql::{Endpoint, Target};

use crate::ask::Question;
use crate::failure::Failure;
use crate::list::{Address, Listed};
use crate::piece::Columns;
use crate::schedule::Limits;
use crate::statement::Statement;
use crate::wire::rows::Rows;

/// More servers than this are no topology, but a mistake.
const MOST_SERVERS: usize = 100_000;

/// ER_UNKNOWN_SYSTEM_VARIABLE.
const UNKNOWN_VARIABLE: u16 = 1193;

/// Who the server itself is. MariaDB has no `server_uuid`: its id is that of its place in the topology.
const IDENTITY: [&str; 2] = [
    "SELECT @@server_uuid AS id, @@read_only AS read_only, @@port AS port",
    "SELECT CONCAT(@@server_id, '@', @@hostname, ':', @@port) AS id, @@read_only AS read_only, @@port AS port",
];
/// MySQL 8.0.22 has the new words only since 8.4; MariaDB knows both since 10.5.
const REPLICAS: [&str; 2] = ["SHOW REPLICAS", "SHOW SLAVE HOSTS"];
const DUMPS: &str = "SELECT HOST FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'";
const MEMBERS: &str = "SELECT * FROM performance_schema.replication_group_members";
const GALERA: &str = "SHOW GLOBAL STATUS LIKE 'wsrep_incoming_addresses'";
const SOURCE: [&str; 2] = ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"];

/// What one server said.
#[derive(Debug, Default)]
struct Topology {
    id: Option<String>,
    is_replica: bool,
    found: Vec<Listed>,
}

/// The server that was named and all that belong to it, each with its `role`.
pub async fn discover(start: &Target, limits: Limits) -> Result<Vec<Listed>, Failure> {
    let mut all: Vec<Listed> = Vec::new();
    let mut ids: HashSet<String> = HashSet::new();
    let mut seen: HashSet<Address> = HashSet::new();
    let mut next: Vec<(Listed, bool)> = vec![(Listed { address: of_target(start), tags: [].into() }, true)];
    while let Some((mut listed, is_start)) = next.pop() {
        if !seen.insert(listed.address.clone()) || all.len() >= MOST_SERVERS {
            continue;
        }
        let said = match ask_one(&to_target(start, &listed.address), limits).await {
            Ok(said) => said,
            Err(failure) if is_start => return Err(failure),
            // It belongs to the fleet and does not answer: it stays in the list, so that the report names it.
            Err(_) => Topology::default(),
        };
        if said.id.is_some_and(|id| !ids.insert(id)) {
            continue;
        }
        if !listed.tags.contains_key("role") {
            let role = if said.is_replica { "replica" } else { "source" };
            listed.tags.insert("role".to_owned(), role.to_owned());
        }
        all.push(listed);
        // The next one popped is the first one found.
        next.extend(said.found.into_iter().rev().map(|found| (found, false)));
    }
    Ok(all)
}

fn of_target(target: &Target) -> Address {
    match &target.endpoint {
        Endpoint::Tcp { host, port } => Address::of_host(host, *port),
        Endpoint::Socket(path) => Address::Socket(path.display().to_string()),
    }
}

fn to_target(start: &Target, address: &Address) -> Target {
    let mut target = start.clone();
    if let Address::Host { host, port } = address {
        target.endpoint = Endpoint::Tcp { host: host.clone(), port: port.unwrap_or(3306) };
    }
    target
}

/// A statement of those above.
fn statement(sql: &str) -> Statement {
    Statement::reading(sql).expect("these only read")
}

async fn ask_one(target: &Target, limits: Limits) -> Result<Topology, Failure> {
    let first = Question::new(Arc::from([target.clone()]), statement(IDENTITY[0]), limits).repeated();
    let said = topology(&first).await;
    first.close().await;
    said
}

/// What this server says, over one connection.
async fn topology(first: &Question) -> Result<Topology, Failure> {
    let mut said = Topology::default();
    let identity = match first.one_answer(0).await {
        Err(failure) if failure.code == Some(UNKNOWN_VARIABLE) => {
            first.instead(statement(IDENTITY[1])).one_answer(0).await?
        }
        other => other?,
    };
    let row = texts(&identity.0, &identity.1).into_iter().next().unwrap_or_default();
    said.id = row.text("id").map(str::to_owned);
    let own_port = row.text("port").and_then(|port| port.parse().ok()).unwrap_or(3306);
    let asked = async |sql: &str| {
        let answer = first.instead(statement(sql)).one_answer(0).await;
        // Not every server has every one of these, and not every account may ask: what is not answered is left out.
        answer.map(|(columns, rows)| texts(&columns, &rows)).unwrap_or_default()
    };
    for sql in SOURCE {
        said.is_replica |= !asked(sql).await.is_empty();
    }
    let members = members(&asked(MEMBERS).await);
    let galera = galera(&asked(GALERA).await, own_port);
    let mut replicas = Vec::new();
    for sql in REPLICAS {
        if replicas.is_empty() {
            replicas = of_report_host(&asked(sql).await);
        }
    }
    if replicas.is_empty() {
        replicas = of_dumps(&asked(DUMPS).await, own_port);
    }
    said.found = [members, galera, replicas].into_iter().flatten().collect();
    Ok(said)
}

/// A row whose cells are found by their columns' names.
#[derive(Debug, Default, Clone, PartialEq)]
struct Texts(Vec<(String, String)>);

impl Texts {
    fn text(&self, column: &str) -> Option<&str> {
        let cell = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(column));
        cell.map(|(_, text)| text.as_str()).filter(|text| !text.is_empty())
    }
}

fn texts(columns: &Columns, rows: &Rows) -> Vec<Texts> {
    rows.iter()
        .map(|row| {
            let cells = columns.iter().zip(row.cells());
            let cells = cells.map(|(column, cell)| {
                (column.name.clone(), String::from_utf8_lossy(cell.unwrap_or_default()).into_owned())
            });
            Texts(cells.collect())
        })
        .collect()
}

fn found(host: &str, port: u16, role: &str) -> Listed {
    Listed { address: Address::of_host(host, port), tags: [("role".to_owned(), role.to_owned())].into() }
}

/// Members of a replication group. Before 8.0 they had no role.
fn members(rows: &[Texts]) -> Vec<Listed> {
    let members = rows.iter().filter_map(|row| {
        let port = row.text("MEMBER_PORT")?.parse().ok()?;
        let role = row.text("MEMBER_ROLE").unwrap_or("member").to_ascii_lowercase();
        let mut member = found(row.text("MEMBER_HOST")?, port, &role);
        let state = row.text("MEMBER_STATE").unwrap_or("unknown").to_ascii_lowercase();
        member.tags.insert("state".to_owned(), state);
        Some(member)
    });
    members.collect()
}

/// `10.0.0.1:3306,10.0.0.2:3306,,AUTO`: a member that has not said its address stands as nothing or AUTO.
fn galera(rows: &[Texts], own_port: u16) -> Vec<Listed> {
    let list = rows.first().and_then(|row| row.text("Value")).unwrap_or_default();
    let members = list.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "AUTO");
    members
        .map(|word| match word.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                found(host.trim_matches(['[', ']']), port.parse().unwrap_or(own_port), "galera")
            }
            _ => found(word, own_port, "galera"),
        })
        .collect()
}

/// Replicas that say who they are (`report_host`).
fn of_report_host(rows: &[Texts]) -> Vec<Listed> {
    let replicas = rows.iter().filter_map(|row| {
        let port = row.text("Port")?.parse().ok().filter(|port| *port != 0)?;
        Some(found(row.text("Host")?, port, "replica"))
    });
    replicas.collect()
}

/// Replicas that only read the binary log: their host is known, and their port is supposed to be the source's.
fn of_dumps(rows: &[Texts], own_port: u16) -> Vec<Listed> {
    let replicas = rows.iter().filter_map(|row| {
        let host = row.text("HOST")?;
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        (host != "localhost").then(|| found(host, own_port, "replica"))
    });
    replicas.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> Texts {
        Texts(cells.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
    }

    fn lines(listed: &[Listed]) -> Vec<String> {
        listed
            .iter()
            .map(|server| {
                let tags: Vec<String> = server.tags.iter().map(|(n, v)| format!("{n}={v}")).collect();
                format!("{:?} {}", server.address, tags.join(" "))
            })
            .collect()
    }

    #[test]
    fn members_of_a_group_have_their_roles() {
        // MySQL 8.0 and later; the second one is being recovered.
        let rows = [
            row(&[
                ("MEMBER_HOST", "db1"),
                ("MEMBER_PORT", "3306"),
                ("MEMBER_STATE", "ONLINE"),
                ("MEMBER_ROLE", "PRIMARY"),
            ]),
            row(&[
                ("MEMBER_HOST", "db2"),
                ("MEMBER_PORT", "3307"),
                ("MEMBER_STATE", "RECOVERING"),
                ("MEMBER_ROLE", ""),
            ]),
            // A server that belongs to no group has one row with nothing in it.
            row(&[
                ("MEMBER_HOST", ""),
                ("MEMBER_PORT", ""),
                ("MEMBER_STATE", "OFFLINE"),
                ("MEMBER_ROLE", ""),
            ]),
        ];
        assert_eq!(
            lines(&members(&rows)),
            [
                "Host(db1, Some(3306)) role=primary state=online",
                "Host(db2, Some(3307)) role=member state=recovering"
            ]
        );
    }

    #[test]
    fn members_of_a_galera_cluster_are_those_that_said_their_address() {
        let of = |list| {
            lines(&galera(&[row(&[("Variable_name", "wsrep_incoming_addresses"), ("Value", list)])], 3306))
        };
        assert_eq!(
            of("10.0.0.1:3306,AUTO,,10.0.0.3:3307,[::1]:3308"),
            [
                "Host(10.0.0.1, Some(3306)) role=galera",
                "Host(10.0.0.3, Some(3307)) role=galera",
                "Host(::1, Some(3308)) role=galera"
            ]
        );
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn replicas_are_found_by_what_they_report_or_by_whom_they_read() {
        let reported = [
            row(&[("Server_Id", "2"), ("Host", "db2"), ("Port", "3307"), ("Source_Id", "1")]),
            row(&[("Server_Id", "3"), ("Host", ""), ("Port", "3306")]),
        ];
        assert_eq!(lines(&of_report_host(&reported)), ["Host(db2, Some(3307)) role=replica"]);
        let dumps = [row(&[("HOST", "10.0.0.7:51234")]), row(&[("HOST", "localhost")])];
        assert_eq!(lines(&of_dumps(&dumps, 3310)), ["Host(10.0.0.7, Some(3310)) role=replica"]);
    }
}
