//! The query cache's one lock: a job tidies it up all the time.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::query_cache_contention::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Clients that read: each statement's answer is in the cache, or goes into it.
const CLIENTS: u32 = 32;
/// Jobs that tidy the cache up.
const JOBS: u32 = 2;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "32 clients read rows by primary key with a query cache of 512 MiB that holds up to 40,000 answers, and a job runs \
            FLUSH QUERY CACHE over and over, which holds the cache's lock while it moves the answers together. Seen to suffer \
            by the thread list: at least 4 sessions in the state Waiting for query cache lock.",
    // MySQL has no query cache since 8.0.
    flavors: &[Flavor::Mariadb],
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: ["--query-cache-type=ON", "--query-cache-size=512M", "--query-cache-min-res-unit=512"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.execute(["GRANT RELOAD ON *.* TO app@localhost"]).await?;
    let workload = Workload::OltpPointSelect;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: CLIENTS, rate: None, tables: TABLES })?;
    for _ in 0..JOBS {
        suffering.sessions.repeat(server, "FLUSH QUERY CACHE".to_owned()).await?;
    }
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, "Waiting for query cache lock").await?;
    Ok((waiting >= 4).then(|| format!("{waiting} sessions wait for the query cache's lock")))
}
