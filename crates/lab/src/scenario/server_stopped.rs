//! A server that a signal has stopped.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::server_stopped::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "SIGSTOP has stopped the server, as a debugger or a script does. Connections are made by the \
            kernel and nobody answers. Seen to suffer by the state of its process: T.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(async { symptom(server) }),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.pause(true);
    Ok(Suffering::by(Sessions::default()))
}

fn symptom(server: &Server) -> Result<Option<String>> {
    let state = symptom::process_state(server)?;
    Ok((state == 'T').then(|| "the process is in state T".into()))
}
