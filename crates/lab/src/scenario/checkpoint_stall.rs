//! A redo log that is too small for the write rate.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::checkpoint_stall::CAUSE;

use super::onset::{Onset, free_disk};
use super::{Scenario, Suffering, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Server, ServerSpec};

/// Enough rows that the updates dirty many pages: 100 MB, all of it in the buffer pool.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 1_500;
/// Checkpoint age from which on a redo log of 8 MiB holds clients up, before MySQL 8.0.11, bytes.
const ASYNC_AGE_OF_8_MIB: u64 = 5_200_000;
/// Clients.
const CLIENTS: u32 = 32;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "32 clients update rows at random in 100 MB of tables; the redo log holds 8 MiB (MariaDB: 4 MiB) \
            and the disk 1500 writes a second. Commits do not sync the log, so the disk is not what they \
            wait for: the log is full before the pages that it covers are written, and everyone waits for \
            the checkpoint. Seen to suffer by log_on_file_space_waits (MariaDB: a checkpoint age above 3/4 \
            of its limit).",
    needs: "root, for a slow disk; a data folder on a disk",
    spec: |flavor| spec(if flavor == Flavor::Mariadb { 4 } else { 8 }),
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "32 clients update 100 rows a second at random, and pages are written as fast: a redo log of 16 MiB is \
            enough; then 32 clients more update as fast as they can, on a disk that does 1500 writes a second, and \
            within seconds the log is full.",
    lasts: Duration::from_secs(12),
    spec: |_| spec(16),
    calm: |server| {
        Box::pin(Clients::start(server, CLIENTS, 100.0, |rng| {
            format!(
                "UPDATE sbtest{} SET k = k + 1 WHERE id = {}",
                rng.u32(1..=LARGE.count),
                rng.u32(1..=LARGE.rows)
            )
        }))
    },
    begin: |server| Box::pin(begin(server)),
    end: free_disk,
};

fn spec(log_mib: u32) -> ServerSpec {
    ServerSpec {
        tables: Some(LARGE),
        options: [
            format!("--innodb-redo-log-capacity={log_mib}M").as_str(),
            "--innodb-buffer-pool-size=256M",
            "--innodb-flush-log-at-trx-commit=2",
            "--loose-disable-log-bin",
            "--loose-innodb-monitor-enable=log_on_file_space_waits",
        ]
        .map(str::to_owned)
        .into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpUpdateIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: CLIENTS, rate: None, tables: LARGE })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    if server.version().is_mariadb() {
        let age = symptom::status(server, "Innodb_checkpoint_age").await?;
        let most = symptom::status(server, "Innodb_checkpoint_max_age").await?;
        return Ok((age > 0.75 * most).then(|| format!("checkpoint age {age} of {most} bytes")));
    }
    // It has no counter of the waits. Pages are written at the clients' cost from some 0.63 of the files on
    // (log0log.cc, log_calc_max_ages: 0.9 of the files without 0.8 MiB, of that 0.9, of that 7/8).
    if !server.version().mysql_at_least(8, 0, 11) {
        let age = symptom::checkpoint_age(server).await?;
        return Ok((age > ASYNC_AGE_OF_8_MIB).then(|| format!("checkpoint age {age} of 8 MiB")));
    }
    const WAITS: &str =
        "SELECT count FROM information_schema.innodb_metrics WHERE name = 'log_on_file_space_waits'";
    let before = symptom::number(server, WAITS).await?;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let waits = symptom::number(server, WAITS).await? - before;
    Ok((waits > 10).then(|| format!("{waits} waits for room in the redo log in a second")))
}
