//! A server that the freezer holds.

use std::fs;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::server_stopped::CAUSE;

use super::{Scenario, Suffering, TABLES};
use crate::cgroup::Limits;
use crate::error::{Error, Result};
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "server-frozen",
    label: Some(CAUSE.name),
    story: "The freezer of the server's control group holds all its threads, as a paused container's does. \
            The process looks like one that sleeps. Seen to suffer by the group's own word for it.",
    needs: "root, for a control group",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(async { symptom(server) }),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        limits: Limits { freezer: true, ..Limits::default() },
        tables: Some(TABLES),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.freeze(true)?;
    Ok(Suffering::by(Sessions::default()))
}

fn symptom(server: &Server) -> Result<Option<String>> {
    let Some(group) = server.group() else { return Ok(None) };
    let (v1, v2) = (group.join("freezer.state"), group.join("cgroup.events"));
    let path = if v1.exists() { v1 } else { v2 };
    let text = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
    Ok(text.lines().any(|line| line == "FROZEN" || line == "frozen 1").then(|| "the group is frozen".into()))
}
