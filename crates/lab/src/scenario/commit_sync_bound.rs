//! Commits wait for a disk that is slow to sync.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::commit_sync_bound::CAUSE;

use super::{DURABLE_COMMITS, Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Writes per second of the disk that the data is on: a spinning disk.
const DISK_WRITES_PER_S: u32 = 150;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients update single rows, each commit durable (innodb_flush_log_at_trx_commit = 1, \
            binary log with sync_binlog = 1), on a disk that does 150 writes a second. The CPUs idle; the \
            commits wait for fsync. Seen to suffer by commits that take more than 20 ms for 95 in 100.",
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), options: DURABLE_COMMITS.map(str::to_owned).into(), ..on_slow_disk() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpUpdateNonIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: TABLES })
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    // MariaDB counts the syncs of all of InnoDB's files in one.
    let syncs = symptom::status_per_s(server, &["Innodb_os_log_fsyncs", "Innodb_data_fsyncs"]).await?;
    let syncs = if server.version().is_mariadb() { syncs[1] } else { syncs[0] };
    Ok((p95 > 20.0).then(|| format!("commits take {p95:.0} ms; {syncs:.0} syncs/s")))
}
