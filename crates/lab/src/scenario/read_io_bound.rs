//! Point reads of tables that do not fit into memory, on a slow disk.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::read_io_bound::CAUSE;

use super::{Scenario, Suffering, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Server, ServerSpec};

/// About 100 MB.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };
/// Reads per second of the disk that the data is on.
const DISK_READS_PER_S: u32 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Twelve clients read single rows of 100 MB of tables through a buffer pool of 5 MB (MariaDB: 20 MB), without the kernel's cache \
            (O_DIRECT), on a disk that does 20 reads a second: most rows have to be read. Seen to suffer by reads that \
            take more than 50 ms for 95 in 100, and by the server's count of pages that it had to read.",
    needs: "root, for a slow disk; a data folder on a disk",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    // MariaDB 10.11 does not start with less.
    let pool = if flavor == Flavor::Mariadb { "20M" } else { "5M" };
    ServerSpec {
        tables: Some(LARGE),
        options: [
            &format!("--innodb-buffer-pool-size={pool}"),
            "--innodb-flush-method=O_DIRECT",
            "--loose-disable-log-bin",
            // Else the server reads its last pool again when it starts.
            "--innodb-buffer-pool-load-at-startup=OFF",
        ]
        .map(|option: &str| option.to_owned())
        .into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.limit_reads(Some(DISK_READS_PER_S))?;
    let workload = Workload::OltpPointSelect;
    Suffering::by_load(server, LoadSpec { workload, threads: 12, rate: None, tables: LARGE })
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    let reads = symptom::status_per_s(server, &["Innodb_buffer_pool_reads"]).await?[0];
    Ok((p95 > 50.0 && reads > 4.0).then(|| format!("a row takes {p95:.0} ms; {reads:.0} pages read/s")))
}
