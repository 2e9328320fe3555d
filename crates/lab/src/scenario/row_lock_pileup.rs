//! Many transactions wait for one row.

use spindoctor_rules::causes::row_lock_pileup::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that want the row.
const WAITERS: u32 = 24;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A session updates a row and then idles without a commit; 24 others update the same row and wait \
            for it. Seen to suffer by INNODB_TRX: most of them in LOCK WAIT.",
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
    let mut sessions = Sessions::default();
    sessions.hold(server, &["BEGIN", "UPDATE sbtest1 SET k = k + 1 WHERE id = 1"]).await?;
    for _ in 0..waiters(server) {
        sessions.repeat(server, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1".into()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    const WAITING: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let waiting = symptom::number(server, WAITING).await?;
    Ok((waiting >= symptom::most_of(waiters(server)))
        .then(|| format!("{waiting} transactions wait for a row lock")))
}
