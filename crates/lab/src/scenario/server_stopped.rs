//! A server that a signal has stopped.

use spindoctor_rules::causes::server_stopped::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "SIGSTOP has stopped the server, as a debugger or a script does. Connections are made by the \
            kernel and nobody answers. Seen to suffer by the state of its process: T.",
    is_calm: true,
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(async { symptom(server) }),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    server.pause(true);
    Ok(Suffering::by(Sessions::default()))
}

fn symptom(server: &Server) -> Result<Option<String>> {
    let state = symptom::process_state(server)?;
    Ok((state == 'T').then(|| "the process is in state T".into()))
}
