//! A node of a Galera cluster that applies more slowly than the other one writes.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::galera_flow_control::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::galera::{GaleraNode, second};
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Clients of the first node, each of which changes its own row without a pause.
const CLIENTS: u32 = 16;
/// How long the second node may take to have the table.
const TABLE_WITHIN: Duration = Duration::from_secs(20);
/// Part of the time in which the cluster must pause.
const PAUSED: f64 = 0.3;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two nodes are a Galera cluster. A table of 40,000 rows has no primary key, and the index that it has on the first node \
            was dropped on the second, which then reads the whole table for each row that it applies: sixteen clients of the first \
            node change rows as fast as they can, and the second asks the cluster to pause again and again. Seen to suffer by \
            wsrep_flow_control_paused_ns: 30 % of the time and more.",
    // What the lab has of Galera is for MariaDB.
    flavors: &[Flavor::Mariadb],
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), galera: Some(GaleraNode::First), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let second = second(server, TABLES).await?;
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
    let clients = server.draw().count("clients", CLIENTS, CLIENTS / 2..=CLIENTS * 2);
    for client in 1..=clients {
        let row = client * TABLES.count * TABLES.rows / (clients + 1);
        sessions.repeat(server, format!("UPDATE plain SET n = n + 1 WHERE k = {row}")).await?;
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
    let paused_ns_per_s = symptom::status_per_s(server, &["wsrep_flow_control_paused_ns"]).await?;
    let paused = paused_ns_per_s.first().copied().unwrap_or_default() / 1e9;
    Ok((paused >= PAUSED).then(|| format!("the cluster pauses for {:.0} % of the time", paused * 100.0)))
}
