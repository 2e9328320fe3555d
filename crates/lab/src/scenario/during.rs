//! Makes a server suffer for as long as somebody else's command looks at it.

use std::process::{Command, ExitStatus};

use super::Scenario;
use super::run::suffer;
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::Which;
use crate::server::Server;

/// Makes a server suffer, runs a command meanwhile, ends the server, and says how the command ended.
///
/// The command is told the server when it runs: its socket, where `root` needs no password. It is in
/// `MYSQL_UNIX_PORT` too, which an option file overrules. Ctrl-C before the command runs ends everything; from then on it is the
/// command's, which gets it from the terminal too.
pub async fn during(
    home: &Home,
    scenario: &'static Scenario,
    which: &Which,
    command: impl FnOnce(&Server) -> Command,
    progress: Progress<'_>,
) -> Result<ExitStatus> {
    let (server, suffering, seen) = tokio::select! {
        suffers = suffer(home, scenario, which, progress) => suffers?,
        _ = tokio::signal::ctrl_c() => return Err(Error::Interrupted),
    };
    progress(&format!("{}: {seen}", scenario.name));
    let mut command = command(&server);
    let program = command.get_program().to_owned();
    let mut child = command
        .env("MYSQL_UNIX_PORT", server.socket())
        .spawn()
        .map_err(Error::file("run", program.as_ref()))?;
    let ended = tokio::task::spawn_blocking(move || child.wait())
        .await
        .expect("waiting for a process does not panic")
        .map_err(Error::file("wait for", program.as_ref()))?;
    drop(suffering);
    server.stop()?;
    Ok(ended)
}
