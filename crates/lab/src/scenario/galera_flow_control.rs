//! A node of a Galera cluster, or a member of a replication group, that applies more slowly than the other one writes.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::galera_flow_control::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::galera::{self, GaleraNode};
use crate::load::sessions::Sessions;
use crate::replication_group;
use crate::server::{Server, ServerSpec};

/// Clients of the first node, each of which changes its own row without a pause.
const CLIENTS: u32 = 16;
/// How long the second node may take to have the table.
const TABLE_WITHIN: Duration = Duration::from_secs(20);
/// Part of the time in which the cluster must pause.
const PAUSED: f64 = 0.3;

/// Transactions that a member of the group may have to apply before flow control acts.
const TO_APPLY: u64 = 50;
/// How long a session of the second member keeps the table from its applier, and how long it then lets it go on.
const KEPT: Duration = Duration::from_millis(300);
const FREE: Duration = Duration::from_millis(30);

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two nodes are a Galera cluster (MariaDB) or a replication group (MySQL), and sixteen clients of the first change rows as \
            fast as they can. Of Galera's second node a table of 40,000 rows has no index any more, so that it reads the whole table for \
            each row that it applies, and asks the cluster to pause again and again: seen to suffer by wsrep_flow_control_paused_ns, 30 % \
            of the time and more. Of the group's second member a session locks the table for most of the time, and flow control acts from \
            50 transactions on: seen to suffer by the queue of its applier and the clients in their commit.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let common = ServerSpec { tables: Some(TABLES), ..ServerSpec::default() };
    match flavor {
        Flavor::Mariadb => ServerSpec { galera: Some(GaleraNode::First), ..common },
        _ => {
            let limit = format!("--group-replication-flow-control-applier-threshold={TO_APPLY}");
            let options = replication_group::OPTIONS.iter().map(|&option| option.to_owned()).chain([limit]);
            ServerSpec { options: options.collect(), ..common }
        }
    }
}

fn clients(server: &Server) -> u32 {
    server.draw().count("clients", CLIENTS, CLIENTS / 2..=CLIENTS * 2)
}

async fn begin(server: &Server) -> Result<Suffering> {
    match server.version().is_mariadb() {
        true => of_galera(server).await,
        false => of_group(server).await,
    }
}

async fn of_galera(server: &Server) -> Result<Suffering> {
    let second = galera::second(server, TABLES).await?;
    let make =
        "CREATE TABLE sbtest.plain (k INT NOT NULL, n INT NOT NULL, filler CHAR(120) NOT NULL, KEY (k))";
    let fill = (1..=TABLES.count).map(|table| {
        let after = (table - 1) * TABLES.rows;
        format!("INSERT INTO sbtest.plain SELECT id + {after}, 0, c FROM sbtest.sbtest{table}")
    });
    server.execute(std::iter::once(make.to_owned()).chain(fill)).await?;
    wait_for_table(&second).await?;
    // On this node alone.
    second.execute(["SET SESSION wsrep_on = OFF", "ALTER TABLE sbtest.plain DROP KEY k"]).await?;
    let mut sessions = Sessions::default();
    let clients = clients(server);
    for client in 1..=clients {
        let row = client * TABLES.count * TABLES.rows / (clients + 1);
        sessions.repeat(server, format!("UPDATE plain SET n = n + 1 WHERE k = {row}")).await?;
    }
    sessions.keep(second);
    Ok(Suffering::by(sessions))
}

async fn of_group(server: &Server) -> Result<Suffering> {
    let second = replication_group::second(server, TABLES).await?;
    let mut sessions = Sessions::default();
    let lock = [("LOCK TABLES sbtest1 READ".to_owned(), KEPT), ("UNLOCK TABLES".to_owned(), FREE)];
    sessions.transact(&second, lock.into()).await?;
    for client in 1..=clients(server) {
        sessions.repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {client}")).await?;
    }
    sessions.keep(second);
    Ok(Suffering::by(sessions))
}

/// Until the second node has applied what makes and fills the table.
async fn wait_for_table(second: &Server) -> Result<()> {
    let begun = std::time::Instant::now();
    loop {
        // Until it is there, the question is an error.
        let rows = symptom::number(second, "SELECT COUNT(*) FROM sbtest.plain").await.unwrap_or(0);
        if rows >= u64::from(TABLES.count * TABLES.rows) {
            return Ok(());
        }
        if begun.elapsed() > TABLE_WITHIN {
            return Err(Error::Unable {
                what: "a second node",
                because: format!("it has {rows} rows after {} s", TABLE_WITHIN.as_secs()),
            });
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    if server.version().is_mariadb() {
        let paused_ns_per_s = symptom::status_per_s(server, &["wsrep_flow_control_paused_ns"]).await?;
        let paused = paused_ns_per_s.first().copied().unwrap_or_default() / 1e9;
        return Ok(
            (paused >= PAUSED).then(|| format!("the cluster pauses for {:.0} % of the time", paused * 100.0))
        );
    }
    let queue = "SELECT MAX(COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE) FROM performance_schema.replication_group_member_stats";
    let queue = symptom::number(server, queue).await?;
    let waiting = symptom::sessions_in_state(server, "waiting for handler commit").await?;
    Ok((queue > TO_APPLY && waiting >= symptom::most_of(clients(server)))
        .then(|| format!("{queue} transactions to apply, {waiting} sessions at their commit")))
}
