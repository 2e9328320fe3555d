//! A busy server, where one row of a counter costs a part of the time.

use std::time::Duration;

use spindoctor_rules::causes::row_lock_pileup::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::Server;

/// Transactions a second of the reads: less than half of what two CPUs manage, so that nobody waits for a CPU for long.
const RATE: u32 = 300;
/// Clients that count orders in one row.
const CLIENTS: u32 = 10;
/// How long a client has other things to do with the row locked.
const KEPT: Duration = Duration::from_millis(25);
/// Between two transactions of a client.
const PAUSE: Duration = Duration::from_millis(400);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "row-lock-mild",
    label: Some(CAUSE.name),
    story: "Eight clients run sysbench's oltp_read_only at 300 transactions a second, and ten others count their orders in one row: each \
            keeps its lock for 25 ms, twice a second at most. Seen to suffer by INNODB_TRX beside the thread list: of the sessions at \
            work 5 to 70 % wait for the row.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpReadOnly;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 8, rate: Some(RATE), tables: TABLES })?;
    for _ in 0..CLIENTS {
        let transaction = [
            ("BEGIN".to_owned(), Duration::ZERO),
            ("UPDATE sbtest1 SET k = k + 1 WHERE id = 1".to_owned(), KEPT),
            ("COMMIT".to_owned(), PAUSE),
        ];
        suffering.sessions.transact(server, transaction.into()).await?;
    }
    Ok(suffering)
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let share = symptom::lock_wait_share(server).await?;
    Ok((0.05..=0.70)
        .contains(&share)
        .then(|| format!("{:.0} % of the sessions at work wait for a row lock", 100.0 * share)))
}
