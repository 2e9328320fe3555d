//! A node of a Galera cluster, or a member of a replication group, that has lost the other one.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::cluster_partition::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::galera::{self, GaleraNode};
use crate::load::sessions::Sessions;
use crate::replication_group;
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
    story: "Two nodes are a Galera cluster (MariaDB) or a replication group (MySQL), and the second is stopped by a signal, as where its \
            machine hangs or the network between them is cut. One of two is no majority: after some seconds Galera's first node leaves \
            the primary part and refuses what its eight clients send, and that of Group Replication lets their commits wait. Seen to \
            suffer by the clients, error 1047, or by the list of the members and the sessions in their commit.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let common = ServerSpec { tables: Some(TABLES), ..ServerSpec::default() };
    match flavor {
        Flavor::Mariadb => ServerSpec { galera: Some(GaleraNode::First), ..common },
        _ => ServerSpec {
            options: replication_group::OPTIONS.iter().map(|&option| option.to_owned()).collect(),
            ..common
        },
    }
}

fn clients(server: &Server) -> u32 {
    server.draw().count("clients", CLIENTS, 2..=20)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let second = match server.version().is_mariadb() {
        true => galera::second(server, TABLES).await?,
        false => replication_group::second(server, TABLES).await?,
    };
    let mut sessions = Sessions::default();
    for at in 0..clients(server) {
        sessions.write(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", at + 1), EVERY).await?;
    }
    second.pause(true);
    sessions.keep(second);
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    if server.version().is_mariadb() {
        let refused = suffering.sessions.refused();
        return Ok((refused > REFUSED).then(|| format!("{refused} statements refused")));
    }
    let lost = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'UNREACHABLE'";
    let lost = symptom::number(server, lost).await?;
    let waiting = symptom::sessions_in_state(server, "waiting for handler commit").await?;
    Ok((lost >= 1 && waiting >= symptom::most_of(clients(server)))
        .then(|| format!("{lost} member unreachable, {waiting} sessions at their commit")))
}
