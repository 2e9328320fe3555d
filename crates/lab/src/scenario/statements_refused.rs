//! A server that is read-only, and clients that write.

use std::time::Duration;

use spindoctor_rules::causes::statements_refused::CAUSE;

use super::{Scenario, Suffering, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Clients that write.
const WRITERS: u32 = 8;
/// How often each of them does.
const EVERY: Duration = Duration::from_millis(20);
/// Clients that read, at the same pace.
const READERS: u32 = 4;
/// Refusals that show that it suffers.
const REFUSED: u64 = 100;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A primary was left read-only (SET GLOBAL read_only = ON), as a failover leaves it. Eight clients update a row 50 times a second \
            each, and four read one: each write is refused at once, each read is served. Seen to suffer by the clients: error 1290, the \
            server is running with the --read-only option.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(async { Ok(symptom(suffering)) }),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    server.execute(["SET GLOBAL read_only = ON"]).await?;
    let mut sessions = Sessions::default();
    for at in 0..server.draw().count("writers", WRITERS, 2..=20) {
        let update = format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", at + 1);
        sessions.write(server, update, EVERY).await?;
    }
    for at in 0..READERS {
        sessions.repeat_every(server, format!("SELECT c FROM sbtest1 WHERE id = {}", at + 1), EVERY).await?;
    }
    Ok(Suffering::by(sessions))
}

fn symptom(suffering: &Suffering) -> Option<String> {
    let refused = suffering.sessions.refused();
    (refused > REFUSED).then(|| format!("{refused} writes refused"))
}
