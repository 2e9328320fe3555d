//! Forty sessions that wait for a replication position: nothing in the catalogue explains it, and the diagnosis still says who
//! waits for what.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::unnamed_wait::CAUSE;

use super::{Scenario, Suffering, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that want to read what was written.
const WAITERS: u32 = 40;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A proxy sends reads to a replica and has each wait until the replica has what its client wrote: 40 sessions wait \
            for a GTID (WAIT_FOR_EXECUTED_GTID_SET, MASTER_GTID_WAIT) that never comes, because nothing is replicated. No \
            cause of the catalogue explains that. Seen to suffer by the thread list: most of them in the state of \
            that wait.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let options: &[&str] = match flavor {
        Flavor::Mariadb => &[],
        _ => &["--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
    };
    ServerSpec { options: options.iter().map(|&option| option.to_owned()).collect(), ..ServerSpec::default() }
}

fn waiters(server: &Server) -> u32 {
    server.draw().count("waiters", WAITERS, 1..=120)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let wait = match server.version().flavor {
        Flavor::Mariadb => "SELECT MASTER_GTID_WAIT('0-2-4711', 600)",
        _ => "SELECT WAIT_FOR_EXECUTED_GTID_SET('3e11fa47-71ca-11e1-9e33-c80aa9429562:4711', 600)",
    };
    let mut sessions = Sessions::default();
    for _ in 0..waiters(server) {
        sessions.repeat(server, wait.to_owned()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let state = match server.version().flavor {
        Flavor::Mariadb => "Waiting in MASTER_GTID_WAIT()%",
        _ => "Waiting for GTID to be committed",
    };
    let waiting = symptom::sessions_in_state(server, state).await?;
    Ok((waiting >= symptom::most_of(waiters(server))).then(|| format!("{waiting} sessions wait for a GTID")))
}
