//! Commits that wait for a replica that does not exist.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::semi_sync_wait::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that commit.
const CLIENTS: u32 = 12;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Semi-synchronous replication waits for as long as it takes, with no replica connected, too, and the last replica is \
            gone: the first commit of each of 12 sessions never returns. On MySQL one waits for the acknowledgement and the \
            others for their turn behind it. Seen to suffer by the thread list: a session in the state Waiting for semi-sync ACK, \
            and most of them at their commit.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let semi_sync: &[&str] = match flavor {
        Flavor::Mariadb => &[
            "--rpl-semi-sync-master-enabled=1",
            "--rpl-semi-sync-master-timeout=4294967295",
            "--rpl-semi-sync-master-wait-no-slave=1",
        ],
        _ => &[
            "--plugin-load-add=rpl_semi_sync_source=semisync_source.so",
            "--rpl-semi-sync-source-enabled=1",
            "--rpl-semi-sync-source-timeout=4294967295",
            "--rpl-semi-sync-source-wait-no-replica=1",
        ],
    };
    let options = ["--log-bin=binlog"].iter().chain(semi_sync).map(|&option| option.to_owned()).collect();
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

fn clients(server: &Server) -> u32 {
    server.draw().count("clients", CLIENTS, 1..=64)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for client in 1..=clients(server) {
        sessions.repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 100 * client)).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, "Waiting for semi-sync ACK%").await?;
    let behind = symptom::sessions_in_state(server, "Waiting for handler commit").await?;
    Ok((waiting >= 1 && waiting + behind >= symptom::most_of(clients(server)))
        .then(|| format!("{waiting} sessions wait for a replica's acknowledgement, {behind} behind them")))
}
