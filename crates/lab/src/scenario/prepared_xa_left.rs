//! A prepared XA transaction that nobody ends.

use spindoctor_rules::causes::prepared_xa_left::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that want the row.
const WAITERS: u32 = 24;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A client updates a row in an XA transaction, prepares it and is gone: no connection has it any more, and it keeps \
            its lock. 24 sessions update the same row and wait. Seen to suffer by XA RECOVER, which lists the transaction, and \
            by INNODB_TRX: most of them in LOCK WAIT.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn waiters(server: &Server) -> u32 {
    server.draw().count("waiters", WAITERS, 1..=96)
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "XA START 'order-4711','branch-2'",
            "UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = 1",
            "XA END 'order-4711','branch-2'",
            "XA PREPARE 'order-4711','branch-2'",
        ])
        .await?;
    let mut sessions = Sessions::default();
    for _ in 0..waiters(server) {
        sessions.repeat(server, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1".into()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    const WAITING: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let is_left = server.ask("XA RECOVER").await?.is_some();
    let waiting = symptom::number(server, WAITING).await?;
    Ok((is_left && waiting >= symptom::most_of(waiters(server)))
        .then(|| format!("a prepared XA transaction is left, {waiting} transactions wait for a row lock")))
}
