//! A quota that is too small for the work.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::cpu_throttled::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients read as fast as they can from a server that may use half a CPU. Reads do not \
            commit, so nothing spins: the server simply wants more than the quota grants, and the kernel \
            stops it in most periods. Seen to suffer by the kernel's count of throttled periods, above half.",
    needs: "root, for a CPU quota",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        limits: Limits { quota_cpus: Some(0.5), ..Limits::default() },
        tables: Some(TABLES),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadOnly;
    Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let share = symptom::throttled_share(server).await?;
    Ok((share > 0.5).then(|| format!("stopped in {:.0} % of periods", 100.0 * share)))
}
