//! A statement that reads far more rows each time than it did.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::plan_change::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that look rows up.
const CLIENTS: u32 = 2;
/// How long they do so by the index: tens of thousands of executions, as a server that has been up for a while has them.
pub(super) const FAST: Duration = Duration::from_secs(8);

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two sessions look rows up by an index, thousands of times a second, for eight seconds. Then the index is made invisible (on \
            MariaDB ignored), and the same statement reads the whole table of 10,000 rows each time. Seen to suffer by the server's \
            handler counters: more than 1000 rows read for each query.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// MariaDB keeps the summary of statements only where performance_schema was switched on.
pub(super) fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: ["--performance-schema=ON"].map(str::to_owned).into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    // sysbench's values of k lie around the middle of the table's ids.
    let asked = format!("SELECT c FROM sbtest1 WHERE k = {}", TABLES.rows / 2);
    let sessions = look_up(server, &asked).await?;
    tokio::time::sleep(FAST).await;
    hide_index(server).await?;
    Ok(Suffering::by(sessions))
}

/// Clients that run a statement again and again.
pub(super) async fn look_up(server: &Server, statement: &str) -> Result<Sessions> {
    let mut sessions = Sessions::default();
    for _ in 0..CLIENTS {
        sessions.repeat(server, statement.to_owned()).await?;
    }
    Ok(sessions)
}

/// Invisible on MySQL 8.0, ignored on MariaDB 10.6, dropped before.
async fn hide_index(server: &Server) -> Result<()> {
    let hidden =
        ["INVISIBLE", "IGNORED"].map(|how| format!("ALTER TABLE sbtest.sbtest1 ALTER INDEX k_1 {how}"));
    for statement in &hidden {
        if server.execute([statement.as_str()]).await.is_ok() {
            return Ok(());
        }
    }
    server.execute(["ALTER TABLE sbtest.sbtest1 DROP INDEX k_1"]).await
}

/// Rows read for each query, by a scan or by an index.
pub(super) async fn symptom(server: &Server) -> Result<Option<String>> {
    let counters = ["Handler_read_rnd_next", "Handler_read_next", "Com_select"];
    let rates = symptom::status_per_s(server, &counters).await?;
    let (read, queries) = (rates[0] + rates[1], rates[2]);
    Ok((queries > 0.0 && read / queries > 1000.0)
        .then(|| format!("{:.0} rows read for each query", read / queries)))
}
