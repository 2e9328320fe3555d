//! Inserts of single rows behind long INSERT ... SELECTs into the same table.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::auto_increment_lock::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Clients that insert single rows.
const CLIENTS: u32 = 12;
/// What the two archivers do: 200,000 rows, some seconds.
const ARCHIVE: &str = "INSERT INTO archive (k, c) SELECT a.k, a.c FROM sbtest1 a JOIN (SELECT id FROM sbtest2 WHERE id <= 20) b";

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two jobs copy 200,000 rows each into a table with an AUTO_INCREMENT column, again and again, and 12 clients insert \
            single rows into it. With innodb_autoinc_lock_mode = 1 an INSERT ... SELECT keeps the table's auto-increment lock \
            until it ends, and everyone else waits. Seen to suffer by SHOW ENGINE INNODB STATUS: two of three clients \
            wait for a lock of the mode AUTO-INC.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: ["--innodb-autoinc-lock-mode=1", "--loose-disable-log-bin"].map(str::to_owned).into(),
        ..ServerSpec::default()
    }
}

fn clients(server: &Server) -> u32 {
    server.draw().count("clients", CLIENTS, 4..=48)
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "CREATE TABLE sbtest.archive (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT, c CHAR(120)) ENGINE = InnoDB",
        ])
        .await?;
    let mut sessions = Sessions::default();
    for _ in 0..2 {
        sessions.repeat(server, ARCHIVE.to_owned()).await?;
    }
    for client in 0..clients(server) {
        sessions.repeat(server, format!("INSERT INTO archive (k, c) VALUES ({client}, 'one row')")).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::auto_increment_waiters(server).await?;
    Ok((waiting as u64 >= u64::from(clients(server) * 2 / 3).max(1))
        .then(|| format!("{waiting} transactions wait for an auto-increment lock")))
}
