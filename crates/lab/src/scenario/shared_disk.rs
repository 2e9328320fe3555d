//! Commits wait for a disk that other programs fill, which use hardly any CPU.

use std::time::{Duration, Instant};

use spindoctor_model::Flavor;
use spindoctor_rules::causes::commit_sync_bound::CAUSE;

use super::{DURABLE_COMMITS, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::disk_writers::DiskWriters;
use crate::load::{LoadSpec, Workload};
use crate::server::{Data, Server, ServerSpec};

/// Programs that write.
const WRITERS: u32 = 6;
/// KiB that each writes through to the disk at once.
const BLOCK_KIB: u32 = 256;
/// How long the server has its disk for itself first.
const ALONE: Duration = Duration::from_secs(3);
/// Looks of half a second each, for a mean.
const LOOKS: usize = 4;
/// Beside the others it commits less than this part of what it committed before.
const LEFT: f64 = 0.75;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "shared-disk",
    label: Some(CAUSE.name),
    story: "Sixteen clients update single rows, each commit durable (innodb_flush_log_at_trx_commit = 1, binary log with sync_binlog = 1). \
            Then six other programs write to the server's disk past the page cache, 256 KiB at once and each through to the disk before \
            the next, and use hardly any CPU. Seen to suffer by Handler_commit: a quarter fewer commits a second than before.",
    needs: "root, to see what others write; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        data: Data::Disk,
        options: DURABLE_COMMITS.map(str::to_owned).into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpUpdateNonIndex;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: TABLES })?;
    tokio::time::sleep(ALONE).await;
    suffering.baseline = commits_per_s(server).await?;
    let draw = server.draw();
    let writers = draw.count("other writers", WRITERS, 4..=12);
    let block_bytes = draw.count("block", BLOCK_KIB, 64..=1024) << 10;
    let folder = server.data().parent().unwrap_or(server.data());
    suffering.disk_writers = Some(DiskWriters::start(folder, writers, block_bytes)?);
    suffering.began = Instant::now();
    Ok(suffering)
}

async fn commits_per_s(server: &Server) -> Result<f64> {
    let mut sum = 0.0;
    for _ in 0..LOOKS {
        sum += symptom::status_per_s(server, &["Handler_commit"]).await?[0];
    }
    Ok(sum / LOOKS as f64)
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let (now, before) = (commits_per_s(server).await?, suffering.baseline);
    Ok((now < LEFT * before).then(|| format!("{now:.0} commits/s in place of {before:.0}")))
}
