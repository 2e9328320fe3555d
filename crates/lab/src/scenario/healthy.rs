//! A healthy server: its load is far below its capacity.

use super::{Scenario, Suffering, TABLES, with_tables};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

/// Transactions per second: a few percent of what two CPUs manage.
const RATE: u32 = 50;

/// Of the score: from nearly none to a third of what two CPUs manage.
fn rate(server: &Server) -> u32 {
    server.draw().count("rate", RATE, 5..=300)
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: "healthy",
    label: None,
    story: "Eight clients run sysbench's oltp_read_write at 50 transactions a second, far below what the \
            server can do. The clients themselves see the rate reached and transactions end in \
            milliseconds. Nothing above a note may be found.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(async { Ok(symptom(server, suffering)) }),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadWrite;
    Suffering::by_load(server, LoadSpec { workload, threads: 8, rate: Some(rate(server)), tables: TABLES })
}

/// That it does not suffer.
fn symptom(server: &Server, healthy: &Suffering) -> Option<String> {
    let load = healthy.load_since(healthy.began)?;
    let p95 = load.latency_p95_ms?;
    (load.transactions_per_s > 0.5 * f64::from(rate(server)) && p95 < 200.0)
        .then(|| format!("{:.0} transactions/s, p95 {p95:.1} ms", load.transactions_per_s))
}
