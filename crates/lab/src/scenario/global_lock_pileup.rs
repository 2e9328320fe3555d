//! FLUSH TABLES WITH READ LOCK.

use spindoctor_rules::causes::global_lock_pileup::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that want to write.
const WRITERS: u32 = 24;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A session has run FLUSH TABLES WITH READ LOCK, as a backup script does, and idles; 24 sessions \
            that write to four tables wait for it. Seen to suffer by the thread list: most of them \
            wait for the global read lock (MariaDB: backup lock).",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn writers(server: &Server) -> u32 {
    server.draw().count("writers", WRITERS, 1..=96)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    sessions.hold_as(server, "root", &["FLUSH TABLES WITH READ LOCK"]).await?;
    for writer in 0..writers(server) {
        let table = 1 + writer % TABLES.count;
        sessions
            .repeat(server, format!("UPDATE sbtest{table} SET k = k + 1 WHERE id = {}", 1 + writer))
            .await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    // `Waiting for global read lock`, `Waiting for backup lock`.
    let global = symptom::sessions_in_state(server, "Waiting for global read lock").await?;
    let waiting = global + symptom::sessions_in_state(server, "Waiting for backup lock").await?;
    Ok((waiting >= symptom::most_of(writers(server)))
        .then(|| format!("{waiting} sessions wait for the global lock")))
}
