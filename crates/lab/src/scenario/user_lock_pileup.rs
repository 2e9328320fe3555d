//! Forty sessions that wait for a lock of GET_LOCK.

use spindoctor_rules::causes::user_lock_pileup::CAUSE;

use super::{Scenario, Suffering, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that want the lock.
const WAITERS: u32 = 40;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "An application guards a job with GET_LOCK; one session got the lock and idles, and 40 sessions wait for it. \
            Seen to suffer by the thread list: most of them in the state User lock.",
    is_calm: true,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn waiters(server: &Server) -> u32 {
    server.draw().count("waiters", WAITERS, 1..=120)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    sessions.hold_as(server, "root", &["SELECT GET_LOCK('nightly', 600)"]).await?;
    for _ in 0..waiters(server) {
        sessions.repeat(server, "SELECT GET_LOCK('nightly', 600)".to_owned()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, "User lock").await?;
    Ok((waiting >= symptom::most_of(waiters(server)))
        .then(|| format!("{waiting} sessions wait for a user lock")))
}
