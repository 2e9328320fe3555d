//! Another service on the same machine takes the CPUs.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::noisy_neighbour::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::neighbour::Neighbour;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Transactions per second of the server's own clients: two CPUs manage it, and a seventh of them does not.
const RATE: u32 = 500;
/// Processes of the neighbour, for each CPU.
const PROCESSES_PER_CPU: usize = 4;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Thirty-two clients run sysbench's oltp_read_write at 500 transactions a second, below what the server can do. Then \
            another service of the machine, in a control group with six times the weight of the server's, compresses with four \
            processes for each CPU and leaves none idle. Seen to suffer by the kernel's own account of the server's threads: \
            they wait for a CPU for longer than they run.",
    needs: "root, for a control group",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// In a group of its own: in the group of the lab each of its threads would weigh as much as a whole group, where that is the
/// root.
fn spec(_: Flavor) -> ServerSpec {
    let limits = Limits { weight: Some(1), ..Limits::default() };
    ServerSpec { tables: Some(TABLES), limits, ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadWrite;
    let spec = LoadSpec { workload, threads: 32, rate: Some(RATE), tables: TABLES };
    let mut suffering = Suffering::by_load(server, spec)?;
    let cpus = std::thread::available_parallelism().map_or(2, usize::from);
    suffering.neighbour = Some(Neighbour::start(PROCESSES_PER_CPU * cpus)?);
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let (ran, waited) = symptom::ran_and_waited(server).await?;
    Ok((waited > ran && waited > 0.3)
        .then(|| format!("each second its threads run for {ran:.1} s and wait for a CPU for {waited:.1} s")))
}
