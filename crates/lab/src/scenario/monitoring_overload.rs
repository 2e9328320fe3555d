//! Exporters that ask the server about itself all the time.

use spindoctor_rules::causes::monitoring_overload::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions of exporters.
const EXPORTERS: u32 = 16;

/// What they ask for: the columns of all tables are read from the dictionary each time.
const QUESTION: &str = "SELECT COUNT(*), MAX(ordinal_position) FROM information_schema.columns";

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions of exporters read the columns of all tables, over and over, and nobody else has work. Seen to suffer by \
            the thread list: most of them at that statement at once.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn exporters(server: &Server) -> u32 {
    server.draw().count("exporters", EXPORTERS, 4..=64)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for _ in 0..exporters(server) {
        sessions.repeat(server, QUESTION.to_owned()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    const ASKING: &str =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT COUNT(*), MAX(ordinal%'";
    let asking = symptom::number(server, ASKING).await?;
    Ok((asking >= symptom::most_of(exporters(server)))
        .then(|| format!("{asking} sessions ask the server about itself at once")))
}
