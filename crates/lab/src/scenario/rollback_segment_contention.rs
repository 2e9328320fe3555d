//! Many writers that share one rollback segment in each undo tablespace.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::rollback_segment_contention::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Clients that write.
const WRITERS: u32 = 64;
/// Waits per second for the segments' mutexes that ended in a sleep, from which on the writers queue. Chosen.
const WAITS_PER_S: f64 = 200.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "64 clients update a column without an index, each update its own transaction, on a server with \
            innodb_rollback_segments = 1 instead of 128: all of them share the mutexes of two segments, one in each undo tablespace. \
            Commits do not sync the log, and do not spin for it. Seen to suffer by SHOW ENGINE INNODB MUTEX: hundreds of waits a \
            second for those mutexes.",
    // MariaDB has 128 segments, and no setting for fewer.
    flavors: MYSQL,
    needs: "two CPUs or more",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: [
            "--disable-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-log-writer-threads=OFF",
            "--innodb-redo-log-capacity=2G",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    // A mutex has a row in SHOW ENGINE INNODB MUTEX only where this is on.
    server
        .execute(["SET GLOBAL innodb_monitor_enable = 'latch'", "SET GLOBAL innodb_rollback_segments = 1"])
        .await?;
    let workload = Workload::OltpUpdateNonIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: WRITERS, rate: None, tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    // The row is like `InnoDB | UNDO_SPACE_RSEG | spins=4711,waits=815,calls=4711` (MySQL 8.0 and later).
    let waits = symptom::latch_waits_per_s(server, "UNDO_SPACE_RSEG").await?;
    Ok((waits > WAITS_PER_S).then(|| format!("{waits:.0} waits a second for rollback segments")))
}
