//! Four clients that use two CPUs fully, and are well served.

use std::time::{Duration, Instant};

use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

/// Milliseconds in which nobody calls a transaction of 14 reads slow. Chosen, not derived.
const WELL_SERVED_MS: f64 = 50.0;
/// The clients' last seconds.
const LATELY: Duration = Duration::from_secs(3);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "four-clients",
    label: None,
    story: "Four clients run sysbench's oltp_read_only as fast as they can: two for each of two CPUs, which are busy without an \
            idle moment and waste nothing. The clients see their transactions end in milliseconds, and the server runs for most of \
            the time. Nothing above a note may be found.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadOnly;
    Suffering::by_load(server, LoadSpec { workload, threads: 4, rate: None, tables: TABLES })
}

/// That it does not suffer, busy as it is.
async fn symptom(server: &Server, fine: &Suffering) -> Result<Option<String>> {
    let (ran, _) = symptom::ran_and_waited(server).await?;
    let Some(load) = fine.load_since(Instant::now() - LATELY) else { return Ok(None) };
    let Some(p95) = load.latency_p95_ms else { return Ok(None) };
    Ok((ran > 0.5 && p95 < WELL_SERVED_MS).then(|| {
        format!("{ran:.1} CPUs busy, {:.0} transactions/s, p95 {p95:.1} ms", load.transactions_per_s)
    }))
}
