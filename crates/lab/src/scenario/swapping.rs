//! A server whose memory is larger than what its control group may use.

use std::time::Duration;

use spindoctor_rules::causes::swapping::CAUSE;

use super::{ALL, Scenario, Suffering, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Data, Server, ServerSpec};

/// About 100 MB, all of it in the buffer pool.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// More than the server ever uses: until it is warm nothing is short.
const ENOUGH: u64 = 8 << 30;
/// Of the memory that the server uses when it is warm, what it may keep.
const KEPT: f64 = 0.8;
/// Reads per second of the disk that the swap space is on.
const DISK_READS_PER_S: u32 = 100;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Twelve clients read single rows of 100 MB of tables that are in the buffer pool; then the server's control group is \
            limited to 80 % of the memory that it uses, the rest goes to swap, and the disk that the swap space is on does 100 \
            reads a second. Seen to suffer by major page faults, twenty or more a second, and reads of a row that take more than \
            5 ms for 95 in 100.",
    flavors: ALL,
    needs: "root, for control groups and swap space; a disk",
    is_calm: false,
    spec: |_| spec(),
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    onset: None,
};

fn spec() -> ServerSpec {
    ServerSpec {
        data: Data::Disk,
        limits: Limits { memory_bytes: Some(ENOUGH), writes: true, ..Limits::default() },
        tables: Some(LARGE),
        options: [
            "--innodb-buffer-pool-size=256M",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-buffer-pool-load-at-startup=OFF",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    for table in 1..=LARGE.count {
        server
            .execute([format!("SELECT COUNT(*) FROM sbtest.sbtest{table} WHERE pad LIKE '%nowhere%'")])
            .await?;
    }
    let workload = Workload::OltpPointSelect;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 12, rate: None, tables: LARGE })?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (used, _) = symptom::memory(server)?;
    suffering.swap = Some(server.swap_out((used as f64 * KEPT) as u64)?);
    server.limit_reads(Some(DISK_READS_PER_S))?;
    Ok(suffering)
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    let before = symptom::memory(server)?.1;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let faults = symptom::memory(server)?.1.saturating_sub(before);
    Ok((p95 > 5.0 && faults >= 20).then(|| format!("a row takes {p95:.0} ms; {faults} major page faults/s")))
}
