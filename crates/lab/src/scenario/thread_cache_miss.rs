//! A thread is created for every connection.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::thread_cache_miss::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Connections per second.
const RATE: u32 = 200;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Eight clients connect, read one row and disconnect, 200 times a second, on a server with \
            thread_cache_size = 0. Seen to suffer by the server's counters: a thread is created for nine in \
            ten connections or more.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec!["--thread-cache-size=0".into()],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::Connect;
    Suffering::by_load(server, LoadSpec { workload, threads: 8, rate: Some(RATE), tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let rates = symptom::status_per_s(server, &["Connections", "Threads_created"]).await?;
    let (connections, threads) = (rates[0], rates[1]);
    Ok((connections > 100.0 && threads > 0.9 * connections)
        .then(|| format!("{threads:.0} threads created for {connections:.0} connections/s")))
}
