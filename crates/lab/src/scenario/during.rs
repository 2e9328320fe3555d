//! Reproduces a problem on a server while a command of the user runs.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use super::Scenario;
use super::run::suffer;
use crate::command::Progress;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::installation::Which;
use crate::server::Server;

/// Makes a server suffer, runs a command meanwhile, ends the server, and says how the command ended.
///
/// The command gets the server when it runs: its socket, where `root` needs no password. It is in
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
    let ended = wait(spawn(&server, command(&server))?).await?;
    drop(suffering);
    server.stop()?;
    Ok(ended)
}

/// Starts a calm server, runs a command, and has the server suffer meanwhile: once, after so long, for as long as the onset
/// lasts. Ends the server when the command ends, and says how that ended.
///
/// The command gets the server as in [`during`].
pub async fn through(
    home: &Home,
    scenario: &'static Scenario,
    which: &Which,
    calm_for: Duration,
    command: impl FnOnce(&Server) -> Command,
    progress: Progress<'_>,
) -> Result<ExitStatus> {
    let name = scenario.name;
    progress(&format!("{name}: starting the server"));
    let calm = tokio::select! {
        calm = scenario.calm(home, which, progress) => calm?,
        _ = tokio::signal::ctrl_c() => return Err(Error::Interrupted),
    };
    let child = spawn(calm.server(), command(calm.server()))?;
    let suffers = async {
        progress(&format!("{name}: the server is calm for {:.0} s", calm_for.as_secs_f64()));
        tokio::time::sleep(calm_for).await;
        progress(&format!("{name}: the server suffers for {:.0} s", calm.suffers_for().as_secs_f64()));
        calm.suffer().await?;
        progress(&format!("{name}: the server is calm again"));
        Result::Ok(())
    };
    let mut waited = std::pin::pin!(wait(child));
    let ended = tokio::select! {
        ended = &mut waited => ended?,
        suffered = suffers => {
            let ended = waited.await?;
            suffered?;
            ended
        }
    };
    calm.stop()?;
    Ok(ended)
}

fn spawn(server: &Server, mut command: Command) -> Result<Child> {
    let program = command.get_program().to_owned();
    command.env("MYSQL_UNIX_PORT", server.socket()).spawn().map_err(Error::file("run", program.as_ref()))
}

async fn wait(mut child: Child) -> Result<ExitStatus> {
    tokio::task::spawn_blocking(move || child.wait())
        .await
        .expect("waiting for a process does not panic")
        .map_err(Error::file("wait for", Path::new("the command")))
}
