//! More work than CPUs.

use std::time::Duration;

use spindoctor_rules::causes::cpu_saturated::CAUSE;

use super::onset::{Onset, with_its_sessions};
use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "64 clients read as fast as they can from a server with no limit but the machine's own CPUs. Seen \
            to suffer by the number of its threads that run or wait for a CPU, more than twice the CPUs.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "Eight clients read 200 single rows a second; then 64 clients more come, and read as fast as they can.",
    lasts: Duration::from_secs(6),
    spec: with_tables,
    calm: |server| {
        Box::pin(Clients::start(server, 8, 200.0, |rng| {
            format!(
                "SELECT c FROM sbtest{} WHERE id = {}",
                rng.u32(1..=TABLES.count),
                rng.u32(1..=TABLES.rows)
            )
        }))
    },
    begin: |server| Box::pin(begin(server)),
    end: with_its_sessions,
};

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadOnly;
    Suffering::by_load(server, LoadSpec { workload, threads: 64, rate: None, tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let runnable = symptom::runnable_threads(server).await?;
    Ok((runnable > 2.0 * cpus as f64).then(|| format!("{runnable:.0} runnable threads on {cpus} CPUs")))
}
