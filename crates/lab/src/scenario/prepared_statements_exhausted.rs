//! Clients that are refused another prepared statement.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::prepared_statements_exhausted::CAUSE;

use super::{Scenario, Suffering, TABLES};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// `max_prepared_stmt_count`.
const ROOM: usize = 200;
/// Connections of the pool that holds all of them.
const HOLDERS: usize = 10;
/// Clients that ask for one more.
const ASKING: u32 = 10;
/// Refusals that show that it suffers.
const REFUSED: u64 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "max_prepared_stmt_count is 200. A pool of ten connections has prepared 20 statements in each, and closes none of \
            them. Ten more clients prepare a statement, run it and close it, 20 times a second each: all of that is refused. Seen to suffer \
            by the clients: error 1461, no more than max_prepared_stmt_count statements.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |_, suffering| Box::pin(async { Ok(symptom(suffering)) }),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec![format!("--max-prepared-stmt-count={ROOM}")],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    let held: Vec<String> = (0..ROOM / HOLDERS)
        .map(|at| format!("PREPARE held{at} FROM 'SELECT c FROM sbtest1 WHERE id = ? AND k > {at}'"))
        .collect();
    let held: Vec<&str> = held.iter().map(String::as_str).collect();
    for _ in 0..HOLDERS {
        sessions.hold(server, &held).await?;
    }
    for _ in 0..server.draw().count("clients", ASKING, 1..=40) {
        sessions.prepare(server, "SELECT c FROM sbtest1 WHERE id = ?").await?;
    }
    Ok(Suffering::by(sessions))
}

fn symptom(suffering: &Suffering) -> Option<String> {
    let refused = suffering.sessions.refused();
    (refused > REFUSED).then(|| format!("{refused} prepared statements refused"))
}
