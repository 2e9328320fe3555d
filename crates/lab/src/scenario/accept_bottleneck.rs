//! The accepting thread is the limit for new connections.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use spindoctor_model::Flavor;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// File descriptors that are left when the clients come. spindoctor takes two or three of them.
const LEFT: u64 = 10;
/// Clients that come and go: more than there is room for, few enough that each gets in within some seconds.
const CLIENTS: u32 = 16;
/// How long each stays.
const STAY: Duration = Duration::from_millis(300);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "accept-bottleneck",
    label: Some("accept-bottleneck"),
    story: "The server's process may open ten more files than it has open, and sixteen clients come, stay for 0.3 s, and \
            come again. Whenever the descriptors are used up accept fails, and the accepting thread sleeps for a \
            second, though others have left meanwhile. Seen to suffer by the server's counter of failed accepts.",
    // MySQL 9.7 resets clients whose session finds no descriptor, spindoctor's among them.
    flavors: &[Flavor::Mariadb],
    needs: "",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    // What statements open once is open before the limit falls.
    symptom::status(server, "Connection_errors_accept").await?;
    leave_descriptors(server, LEFT)?;
    let mut sessions = Sessions::default();
    for _ in 0..CLIENTS {
        sessions.come_and_go(server, STAY);
    }
    Ok(Suffering::by(sessions))
}

/// Lets the server's process open so many more files than it has open now. It ends with the server.
fn leave_descriptors(server: &Server, left: u64) -> Result<()> {
    let folder = format!("/proc/{}/fd", server.pid());
    let open = fs::read_dir(&folder).map_err(Error::file("list", folder.as_ref()))?.count() as u64;
    let unable = |because: String| Error::Unable { what: "a limit on the server's open files", because };
    let pid = Pid::from_raw(server.pid().cast_signed()).ok_or_else(|| unable("it has no process".into()))?;
    let most = Some(open + left);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: most, maximum: most })
        .map_err(|error| unable(error.to_string()))?;
    Ok(())
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let rates = symptom::status_per_s(server, &["Connection_errors_accept", "Connections"]).await?;
    Ok((rates[0] > 0.0)
        .then(|| format!("accept fails {:.1} times a second, {:.1} connections/s", rates[0], rates[1])))
}
