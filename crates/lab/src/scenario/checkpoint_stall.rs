//! A redo log that is too small for the write rate.

use spindoctor_model::Flavor;

use super::{ALL, Scenario, Suffering, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Data, Server, ServerSpec};

/// Enough rows that the updates dirty many pages: 100 MB, all of it in the buffer pool.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 1_500;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "checkpoint-stall",
    label: Some("checkpoint-stall"),
    story: "32 clients update rows at random in 100 MB of tables; the redo log holds 8 MiB (MariaDB: 4 MiB) \
            and the disk 1500 writes a second. Commits do not sync the log, so the disk is not what they \
            wait for: the log is full before the pages that it covers are written, and everyone waits for \
            the checkpoint. Seen to suffer by log_on_file_space_waits (MariaDB: a checkpoint age above 3/4 \
            of its limit).",
    flavors: ALL,
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
};

fn spec(flavor: Flavor) -> ServerSpec {
    let log = match flavor {
        Flavor::Mariadb => "--innodb-log-file-size=4M",
        Flavor::Mysql | Flavor::Percona => "--innodb-redo-log-capacity=8M",
    };
    ServerSpec {
        data: Data::Disk,
        limits: Limits { writes: true, ..Limits::default() },
        tables: Some(LARGE),
        options: [
            log,
            "--innodb-buffer-pool-size=256M",
            "--innodb-flush-log-at-trx-commit=2",
            "--loose-disable-log-bin",
            "--loose-innodb-monitor-enable=log_on_file_space_waits",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpUpdateIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: 32, rate: None, tables: LARGE })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    if server.version().is_mariadb() {
        let age = symptom::status(server, "Innodb_checkpoint_age").await?;
        let most = symptom::status(server, "Innodb_checkpoint_max_age").await?;
        return Ok((age > 0.75 * most).then(|| format!("checkpoint age {age} of {most} bytes")));
    }
    const WAITS: &str =
        "SELECT count FROM information_schema.innodb_metrics WHERE name = 'log_on_file_space_waits'";
    let before = symptom::number(server, WAITS).await?;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let waits = symptom::number(server, WAITS).await? - before;
    Ok((waits > 10).then(|| format!("{waits} waits for room in the redo log in a second")))
}
