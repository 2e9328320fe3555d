//! No room for another connection.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::connections_exhausted::CAUSE;

use super::{Scenario, Suffering, TABLES};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// `max_connections`.
const ROOM: u32 = 20;
/// Clients that ask for more.
const KNOCKING: u32 = 10;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "max_connections is 20; 20 sessions of an application hold all of them, as a leaking pool does, \
            and ten more clients keep asking. An administrator still gets in by the place that the server \
            keeps for one. Seen to suffer by the clients: error 1040, too many connections.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(async { Ok(symptom(suffering)) }),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec![format!("--max-connections={ROOM}")],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    Ok(Suffering::by(Sessions::full_pool(server, ROOM, KNOCKING).await?))
}

fn symptom(suffering: &Suffering) -> Option<String> {
    let refused = suffering.sessions.refused();
    (refused > 20).then(|| format!("{refused} connections refused"))
}
