//! A buffer pool that is kept clean, on a disk that writes slowly: the pages that are wanted are on their way to it.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::write_io_bound::CAUSE;

use super::{Scenario, Suffering, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Server, ServerSpec};

/// Some hundred pages, all of which the pool holds: each is changed many times a second.
const HOT: Tables = Tables { count: 2, rows: 10_000 };
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 300;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients update single rows of two small tables, all of whose pages are in memory; commits wait for no sync. \
            Somebody has set innodb_max_dirty_pages_pct to 0, as one does before a shutdown, and left it so, on a disk that \
            does 300 writes a second: whichever page is changed is soon on its way to the disk, and who wants to change it \
            again waits. Seen to suffer by updates that take more than 50 ms for 95 in 100 while pages are written.",
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(HOT),
        options: [
            "--innodb-flush-method=O_DIRECT",
            "--innodb-flush-log-at-trx-commit=0",
            "--loose-disable-log-bin",
            // Else the log's own writes are what they wait for.
            "--innodb-log-buffer-size=64M",
            "--innodb-redo-log-capacity=1G",
            "--innodb-io-capacity=2000",
        ]
        .map(str::to_owned)
        .into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0",
            "SET GLOBAL innodb_max_dirty_pages_pct = 0",
        ])
        .await?;
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpUpdateNonIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: HOT })
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    let written = symptom::status_per_s(server, &["Innodb_buffer_pool_pages_flushed"]).await?[0];
    Ok((p95 > 50.0 && written >= 10.0)
        .then(|| format!("an update takes {p95:.0} ms; {written:.0} pages written/s")))
}
