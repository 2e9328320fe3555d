//! Page splits that hold the index lock.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::index_lock::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that change wide rows.
const WRITERS: u32 = 32;
/// Rows of the table.
const ROWS: u32 = 5_000;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "32 sessions change rows of 1 to 8 kB at random in one table, so that hardly a change fits its page: \
            pages are split and merged all the time, each time with the index locked. Commits do not sync the \
            log. Seen to suffer by SHOW ENGINE INNODB MUTEX: hundreds of waits a second for latches of indexes.",
    // MariaDB's programs name no function of InnoDB: nothing shows an index lock there.
    flavors: MYSQL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: [
            "--innodb-buffer-pool-size=512M",
            "--innodb-redo-log-capacity=2G",
            "--innodb-flush-log-at-trx-commit=0",
            "--disable-log-bin",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute(["CREATE TABLE sbtest.wide (id INT PRIMARY KEY, body VARBINARY(8000)) ENGINE = InnoDB"])
        .await?;
    let mut sessions = Sessions::default();
    let change = format!(
        "INSERT INTO wide VALUES (FLOOR({ROWS} * RAND()), REPEAT('x', 1000 + 7000 * RAND())) \
         ON DUPLICATE KEY UPDATE body = VALUES(body)"
    );
    sessions.churn(server, WRITERS, &change).await?;
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    // Index latches and those of statistics are created in the same file; nothing else takes the latter here.
    let waits = symptom::latch_waits_per_s(server, "dict0dict.cc").await?;
    Ok((waits > 200.0).then(|| format!("{waits:.0} waits a second for latches of indexes")))
}
