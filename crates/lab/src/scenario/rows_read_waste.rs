//! Rows read far beyond rows sent.

use spindoctor_rules::causes::rows_read_waste::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

/// Lookups per second: each reads a table of 10,000 rows, so the CPUs stay mostly idle.
const RATE: u32 = 200;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Four clients look single rows up by an expression that no index serves, 200 times a second; each \
            lookup reads 10,000 rows to send one. The CPUs are far from saturated. Seen to suffer by the \
            server's handler counters: more than 1000 rows read for each query.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::Scan;
    Suffering::by_load(server, LoadSpec { workload, threads: 4, rate: Some(RATE), tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let rates = symptom::status_per_s(server, &["Handler_read_rnd_next", "Com_select"]).await?;
    let (read, queries) = (rates[0], rates[1]);
    Ok((queries > 0.0 && read / queries > 1000.0)
        .then(|| format!("{:.0} rows read for each query", read / queries)))
}
