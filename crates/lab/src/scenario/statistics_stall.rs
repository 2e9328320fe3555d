//! Index statistics that are recomputed again and again.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::statistics_stall::CAUSE;

use super::onset::Onset;
use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::sessions::{self, Sessions};
use crate::server::{Server, ServerSpec};

/// Sessions that change tasks.
const WORKERS: u32 = 16;
/// Sessions that come at once in [`ONSET`].
const CROWD: u32 = 48;
/// Rows of the table, two to a page.
const ROWS: u32 = 2_000;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions change the state of tasks, which an index holds, in a table of 2000 wide rows without \
            persistent statistics: after each sixteenth of the rows the session that comes along recomputes \
            them from a thousand pages, and the others wait. Seen to suffer by SHOW ENGINE INNODB STATUS: at least \
            four threads wait for a semaphore.",
    // MariaDB's programs name no function of InnoDB: nothing shows what its sessions wait for.
    flavors: MYSQL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "Sixteen clients change 300 tasks a second; then 48 sessions more change tasks as fast as they can.",
    lasts: Duration::from_secs(6),
    spec,
    calm: |server| Box::pin(work(server)),
    begin: |server| {
        Box::pin(async move {
            let mut sessions = Sessions::default();
            sessions.call_churn(server, CROWD).await?;
            Ok(Suffering::by(sessions))
        })
    },
    end: |server, suffering| Box::pin(suffering.sessions.kill(server)),
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: [
            "--innodb-stats-transient-sample-pages=1000",
            "--innodb-flush-log-at-trx-commit=0",
            "--disable-log-bin",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    make_table(server).await?;
    let mut sessions = Sessions::default();
    sessions.churn(server, WORKERS, &change_own(WORKERS)).await?;
    Ok(Suffering::by(sessions))
}

async fn work(server: &Server) -> Result<Clients> {
    make_table(server).await?;
    sessions::make_churn(server, &change_own(CROWD)).await?;
    Clients::start(server, WORKERS, 300.0, |rng| {
        format!("UPDATE tasks SET state = state + 1 WHERE id = {}", rng.u32(1..=ROWS))
    })
    .await
}

/// Each of so many sessions has rows of its own.
fn change_own(sessions: u32) -> String {
    format!(
        "UPDATE tasks SET state = state + 1 WHERE id = 1 + (CONNECTION_ID() % {sessions}) * {}",
        ROWS / sessions
    )
}

async fn make_table(server: &Server) -> Result<()> {
    let rows = format!(
        "INSERT INTO sbtest.tasks SELECT id, id, REPEAT('x', 7000) FROM sbtest.sbtest1 WHERE id <= {ROWS}"
    );
    server
        .execute([
            "CREATE TABLE sbtest.tasks (id INT PRIMARY KEY, state INT, body VARBINARY(7000), KEY (state)) \
             ENGINE = InnoDB STATS_PERSISTENT = 0",
            rows.as_str(),
        ])
        .await
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::semaphore_waiters(server).await?;
    Ok((waiting >= 4).then(|| format!("{waiting} threads wait for a semaphore")))
}
