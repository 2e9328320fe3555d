//! TRUNCATE TABLE on a slow disk.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::dictionary_stall::CAUSE;

use super::onset::{Onset, free_disk};
use super::{Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that read the table.
const READERS: u32 = 24;
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 20;
/// How the servers call the wait for a table.
const STATE: &str = "Waiting for table metadata lock";

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A job empties a table with TRUNCATE TABLE again and again on a disk that does 20 writes a second: \
            each time a file is made and another deleted, and 24 sessions that read the table wait until that \
            is on disk. Seen to suffer by the thread list: at least 20 sessions in the state `Waiting for \
            table metadata lock` while the TRUNCATE TABLE itself does not wait for one.",
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "24 clients read 500 single rows a second of four tables; then one of the tables is emptied again and again \
            with TRUNCATE TABLE, on a disk that does 20 writes a second from then on.",
    lasts: Duration::from_secs(6),
    spec,
    calm: |server| {
        Box::pin(Clients::start(server, READERS, 500.0, |rng| {
            format!(
                "SELECT c FROM sbtest{} WHERE id = {}",
                rng.u32(1..=TABLES.count),
                rng.u32(1..=TABLES.rows)
            )
        }))
    },
    begin: |server| Box::pin(empty(server)),
    end: free_disk,
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..on_slow_disk() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut suffering = empty(server).await?;
    for _ in 0..READERS {
        suffering.sessions.repeat(server, "SELECT c FROM sbtest1 WHERE id = 1".into()).await?;
    }
    Ok(suffering)
}

/// The table is emptied on a slow disk, over and over.
async fn empty(server: &Server) -> Result<Suffering> {
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let mut sessions = Sessions::default();
    sessions.repeat(server, "TRUNCATE TABLE sbtest1".into()).await?;
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let works = symptom::number(
        server,
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'TRUNCATE%' \
         AND state NOT LIKE 'Waiting for%'",
    );
    if works.await? == 0 {
        return Ok(None);
    }
    let waiting = symptom::sessions_in_state(server, STATE).await?;
    Ok((waiting >= 20)
        .then(|| format!("{waiting} sessions in the state `{STATE}`, and TRUNCATE TABLE works")))
}
