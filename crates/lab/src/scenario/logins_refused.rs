//! An account at its limit of connections, on a server with room.

use spindoctor_rules::causes::logins_refused::CAUSE;

use super::{Scenario, Suffering, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Connections that the account may have.
const LIMIT: u32 = 4;
/// Clients that ask for one more.
const KNOCKING: u32 = 5;
/// Refusals that show that it suffers.
const REFUSED: u64 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "An application's account may have 4 connections (MAX_USER_CONNECTIONS). Its pool holds all of them, and 5 workers that \
            know nothing of the pool ask for one of their own, again and again. The server has room for 147 more. Seen to suffer by \
            the clients: error 1226, the limit of the account is reached.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(async { Ok(symptom(suffering)) }),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    server.execute([format!("ALTER USER app@localhost WITH MAX_USER_CONNECTIONS {LIMIT}")]).await?;
    Ok(Suffering::by(Sessions::full_pool(server, LIMIT, KNOCKING).await?))
}

fn symptom(suffering: &Suffering) -> Option<String> {
    let refused = suffering.sessions.refused();
    (refused > REFUSED).then(|| format!("{refused} logins refused"))
}
