//! Threads that spin on latches for far too long.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::spin_burn::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// User CPU per commit over that with the defaults, from which on the server counts as spinning.
const COSTLIER: f64 = 1.3;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "64 clients update an indexed column on a server that keeps its redo log in memory, with \
            innodb_spin_wait_delay and innodb_spin_wait_pause_multiplier at 100 instead of 6 and 50: a full spin \
            on a latch lasts forty times longer than it was meant to. Seen to suffer by user CPU per commit, at \
            least 1.3 times that with the defaults, which the scenario measures first.",
    flavors: MYSQL,
    needs: "two CPUs or more",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        // Without writer threads commits do not spin by themselves: what spins waits for a latch.
        options: ["--disable-log-bin", "--innodb-log-writer-threads=OFF"].map(str::to_owned).into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpUpdateIndex;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 64, rate: None, tables: TABLES })?;
    // The clients need a moment to connect.
    tokio::time::sleep(Duration::from_secs(1)).await;
    suffering.baseline = symptom::user_us_per_commit(server).await?;
    server
        .execute([
            "SET GLOBAL innodb_spin_wait_delay = 100",
            "SET GLOBAL innodb_spin_wait_pause_multiplier = 100",
        ])
        .await?;
    Ok(suffering)
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let (now, meant) = (symptom::user_us_per_commit(server).await?, suffering.baseline);
    Ok((now > COSTLIER * meant)
        .then(|| format!("{now:.0} µs of user CPU a commit, {meant:.0} with the default spin settings")))
}
