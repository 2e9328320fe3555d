//! A node of a Galera cluster that has lost the other one.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::cluster_partition::CAUSE;

use super::{Scenario, Suffering, TABLES};
use crate::error::Result;
use crate::galera::{GaleraNode, second};
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Clients of the node that is left.
const CLIENTS: u32 = 8;
/// How often each of them changes a row.
const EVERY: Duration = Duration::from_millis(20);
/// Refusals that show that it suffers.
const REFUSED: u64 = 100;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two nodes are a Galera cluster, and the second is stopped by a signal, as where its machine hangs or the network between them \
            is cut. One of two is no majority: after some seconds the first leaves the primary part and refuses what its eight clients \
            send. Seen to suffer by the clients: error 1047.",
    // What the lab has of Galera is for MariaDB.
    flavors: &[Flavor::Mariadb],
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(async { Ok(symptom(suffering)) }),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), galera: Some(GaleraNode::First), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let second = second(server, TABLES).await?;
    let mut sessions = Sessions::default();
    for at in 0..server.draw().count("clients", CLIENTS, 2..=20) {
        sessions.write(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", at + 1), EVERY).await?;
    }
    second.pause(true);
    sessions.keep(second);
    Ok(Suffering::by(sessions))
}

fn symptom(suffering: &Suffering) -> Option<String> {
    let refused = suffering.sessions.refused();
    (refused > REFUSED).then(|| format!("{refused} statements refused"))
}
