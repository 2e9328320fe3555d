//! Clients that connect for each query.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::connection_churn::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Connections per second: many for one query each, few enough to leave the CPUs alone.
const RATE: u32 = 200;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Eight clients connect, read one row and disconnect, 200 times a second; the thread cache holds \
            their threads. Seen to suffer by the server's counters: more than 100 connections a second.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec!["--thread-cache-size=32".into()],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::Connect;
    Suffering::by_load(server, LoadSpec { workload, threads: 8, rate: Some(RATE), tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let rates = symptom::status_per_s(server, &["Connections", "Threads_created"]).await?;
    Ok((rates[0] > 100.0)
        .then(|| format!("{:.0} connections/s, {:.0} threads created/s", rates[0], rates[1])))
}
