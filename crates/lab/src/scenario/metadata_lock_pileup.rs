//! A DDL waits for an old transaction and everyone waits for the DDL.

use spindoctor_rules::causes::metadata_lock_pileup::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that only want to read the table.
const READERS: u32 = 24;
/// How the servers call the wait.
const STATE: &str = "Waiting for table metadata lock";

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A session reads a table and idles with its transaction open; an ALTER TABLE waits for it; 24 \
            sessions that only read the table wait for the ALTER TABLE. Seen to suffer by the thread list: \
            most of them in the state `Waiting for table metadata lock`.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn readers(server: &Server) -> u32 {
    server.draw().count("readers", READERS, 1..=96)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    sessions.hold(server, &["BEGIN", "SELECT c FROM sbtest1 WHERE id = 1"]).await?;
    sessions.repeat(server, "ALTER TABLE sbtest1 ADD COLUMN note INT".into()).await?;
    // Those who ask before the ALTER TABLE does get through once, and wait the next time.
    for _ in 0..readers(server) {
        sessions.repeat(server, "SELECT c FROM sbtest1 WHERE id = 1".into()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, STATE).await?;
    Ok((waiting >= symptom::most_of(readers(server)))
        .then(|| format!("{waiting} sessions in the state `{STATE}`")))
}
