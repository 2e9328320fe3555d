//! Updates all over tables that do not fit into memory, on a disk that writes slowly.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::free_page_wait::CAUSE;

use super::{MYSQL, Scenario, Suffering, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Server, ServerSpec};

/// About 100 MB.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// Writes per second of the disk that the data is on.
const DISK_WRITES_PER_S: u32 = 300;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Twelve clients update an indexed column of single rows, all over 100 MB of tables, through a buffer pool of \
            5 MB, on a disk that reads fast and does 300 writes a second; commits wait for no sync. Nearly all pages are dirty, and each page that is read needs one to be written first. Seen to suffer by \
            Innodb_buffer_pool_wait_free, ten or more a second, and updates that take more than 20 ms for 95 in 100.",
    // MariaDB 10.11 reads little here before its cleaner has written: its counter hardly grows.
    flavors: MYSQL,
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(LARGE),
        options: [
            "--innodb-buffer-pool-size=5M",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-flush-log-at-trx-commit=0",
            "--loose-disable-log-bin",
            // Room for more than the window changes: the log must not be what they wait for.
            "--loose-innodb-redo-log-capacity=512M",
            "--innodb-buffer-pool-load-at-startup=OFF",
        ]
        .map(str::to_owned)
        .into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpUpdateIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: 12, rate: None, tables: LARGE })
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    let waits = symptom::status_per_s(server, &["Innodb_buffer_pool_wait_free"]).await?[0];
    Ok((p95 > 20.0 && waits >= 10.0)
        .then(|| format!("an update takes {p95:.0} ms; {waits:.0} waits for a free page/s")))
}
