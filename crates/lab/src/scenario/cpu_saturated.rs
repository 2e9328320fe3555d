//! More work than CPUs.

use spindoctor_model::Flavor;

use super::{ALL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "cpu-saturated",
    label: Some("cpu-saturated"),
    story: "64 clients read as fast as they can from a server with no limit but the machine's own CPUs. Seen \
            to suffer by the number of its threads that run or wait for a CPU, more than twice the CPUs.",
    flavors: ALL,
    needs: "",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadOnly;
    Suffering::by_load(server, LoadSpec { workload, threads: 64, rate: None, tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let runnable = symptom::runnable_threads(server).await?;
    Ok((runnable > 2.0 * cpus as f64).then(|| format!("{runnable:.0} runnable threads on {cpus} CPUs")))
}
