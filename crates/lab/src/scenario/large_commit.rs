//! A job whose transactions have a binary log cache of 200 MB each, and clients with small commits.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::large_commit::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Clients that change one row each time.
const CLIENTS: u32 = 8;

/// How often each of them would: the machine has CPU left for the job.
const EVERY: Duration = Duration::from_millis(5);

/// Documents of a megabyte each.
const DOCUMENTS: u32 = 100;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A job changes a counter in each of 100 rows that hold a document of a megabyte: the binary log gets every row twice, \
            and the transaction's cache of 200 MB is copied into it at the commit, over and over. 8 clients change one small \
            row each, 200 times a second if they could. Seen to suffer by the thread list: at least 6 of them in commit at once.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// Row images are whole, as they are by default; a binary log is removed a second after the next one has begun, so that they
/// fill no disk.
fn spec(_: Flavor) -> ServerSpec {
    let options = [
        "--log-bin=binlog",
        "--binlog-format=ROW",
        "--binlog-cache-size=32K",
        "--max-binlog-size=64M",
        "--binlog-expire-logs-seconds=1",
        "--innodb-redo-log-capacity=1G",
    ];
    let options = options.map(str::to_owned).to_vec();
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let insert = |id| format!("INSERT INTO sbtest.documents VALUES ({id}, 0, REPEAT('x', 1000000))");
    let create = "CREATE TABLE sbtest.documents (id INT PRIMARY KEY, reads_n INT, body LONGBLOB)".to_owned();
    server.execute(std::iter::once(create).chain((0..DOCUMENTS).map(insert))).await?;
    let mut sessions = Sessions::default();
    sessions.repeat(server, "UPDATE documents SET reads_n = reads_n + 1".into()).await?;
    for client in 1..=CLIENTS {
        let statement = format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 100 * client);
        sessions.repeat_every(server, statement, EVERY).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    // MySQL 8.0, MariaDB, MySQL 5.7.
    let mut waiting = 0;
    for state in ["waiting for handler commit", "Commit", "query end"] {
        waiting += symptom::sessions_in_state(server, state).await?;
    }
    Ok((waiting >= 6).then(|| format!("{waiting} sessions are in commit at once")))
}
