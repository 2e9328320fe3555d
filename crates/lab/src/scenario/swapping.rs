//! A server whose memory is larger than what its control group may use.

use std::time::Duration;

use spindoctor_rules::causes::swapping::CAUSE;

use super::{Scenario, Suffering, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::Tables;
use crate::load::sessions::Sessions;
use crate::server::{Data, Server, ServerSpec};

/// About 100 MB, all of it in the buffer pool.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// More than the server ever uses: until it is warm nothing is short.
const ENOUGH: u64 = 8 << 30;
/// What it may keep when it is warm: less than the tables. What a server never touches is swapped out first.
const KEPT_BYTES: u64 = 85 << 20;
/// Sessions that read.
const READERS: u32 = 12;
/// Reads per second of the disk that the swap space is on.
const DISK_READS_PER_S: u32 = 400;
/// What all of them need is read again first, and meanwhile nobody is answered.
const SETTLES: Duration = Duration::from_secs(12);
/// Major page faults a second from which on it suffers.
const FAULTS_PER_S: u64 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Twelve sessions read single rows, all over 100 MB of tables that are in the buffer pool; the server's control group is \
            limited to 85 MiB of memory, the rest goes to swap, and the disk that the swap space is on does 400 reads a second. \
            Seen to suffer by major page faults, twenty or more a second.",
    needs: "root, for control groups and swap space; a disk",
    spec: |_| spec(),
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
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
    let reads: Vec<String> = (1..=LARGE.count)
        .map(|table| {
            let id = format!("SET @id = FLOOR(1 + RAND() * {})", LARGE.rows);
            format!("{id}; SELECT LENGTH(pad) INTO @length FROM sbtest{table} WHERE id = @id")
        })
        .collect();
    let mut sessions = Sessions::default();
    sessions.churn(server, READERS, &reads.join("; ")).await?;
    let mut suffering = Suffering::by(sessions);
    suffering.swap = Some(server.swap_out(KEPT_BYTES)?);
    server.limit_reads(Some(DISK_READS_PER_S))?;
    tokio::time::sleep(SETTLES).await;
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let before = symptom::major_faults(server)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let faults = symptom::major_faults(server)?.saturating_sub(before);
    Ok((faults >= FAULTS_PER_S).then(|| format!("{faults} major page faults/s")))
}
