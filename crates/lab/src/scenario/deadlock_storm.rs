//! Transactions that update the same rows in opposite order.

use std::time::Duration;

use spindoctor_rules::causes::deadlock_storm::CAUSE;

use super::{Scenario, Suffering, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Clients; half of them begin with the row where the others end.
const CLIENTS: u32 = 16;
/// Pairs of rows.
const PAIRS: u32 = 2;
/// What a client does between its two updates.
const BETWEEN: Duration = Duration::from_millis(20);
/// Deadlocks a second that are a storm.
const STORM_PER_S: f64 = 20.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients move amounts between two pairs of accounts: each transaction updates two rows, 20 ms apart, half of the clients \
            in the opposite order, and begins again when it was a deadlock's victim. Seen to suffer by the clients: at least 20 \
            of their transactions end with error 1213 each second.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(symptom(suffering)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for client in 0..CLIENTS {
        let first = 100 * (client / 2 % PAIRS + 1);
        let (from, to) = if client % 2 == 0 { (first, first + 50) } else { (first + 50, first) };
        let transaction = [
            ("BEGIN".to_owned(), Duration::ZERO),
            (format!("UPDATE sbtest1 SET k = k - 1 WHERE id = {from}"), BETWEEN),
            (format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {to}"), Duration::ZERO),
            ("COMMIT".to_owned(), Duration::ZERO),
        ];
        sessions.transact(server, transaction.into()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(suffering: &Suffering) -> Result<Option<String>> {
    let per_s = suffering.sessions.deadlocks_per_s().await;
    Ok((per_s >= STORM_PER_S).then(|| format!("{per_s:.0} deadlocks/s")))
}
