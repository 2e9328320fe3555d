//! `spindoctor lab`: throw-away servers, for people and for proving the diagnosis.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use spindoctor_lab::load::Tables;
use spindoctor_lab::{Data, Home, Limits, Listed, ServerSpec, Which, down, list, up};

use super::wait_for;
use crate::cli::{Lab, LabServer, LabUp, LabWhich};
use crate::exit::ExitStatus;
use crate::output;
use crate::report::json;
use crate::report::page::Page;
use crate::terminal::Look;

/// Runs one of the lab's commands.
pub(crate) fn run(asked: &Lab) -> anyhow::Result<ExitStatus> {
    let home = Home::open()?;
    match asked {
        Lab::List(asked) => show(&list(&home)?, asked.json)?,
        Lab::Up(asked) => show(&[wait_for(start(&home, asked))?], asked.json)?,
        Lab::Down(asked) => down(&home, &asked.name)?,
    }
    Ok(ExitStatus::Done)
}

/// Starts a server that stays; Ctrl-C before it is up ends it, and leaves nothing.
async fn start(home: &Home, asked: &LabUp) -> anyhow::Result<Listed> {
    let spec = ServerSpec {
        which: which(&asked.server),
        name: Some(asked.name.clone()),
        data: data(&asked.server.data),
        limits: Limits { quota: asked.quota, cpuset: asked.cpuset.clone(), ..Limits::default() },
        tables: (asked.tables > 0).then_some(Tables { count: asked.tables, rows: asked.rows }),
        options: asked.options.clone(),
    };
    tokio::select! {
        started = up(home, &spec, &tell) => Ok(started?),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted.context("could not listen for Ctrl-C")?;
            bail!("interrupted; the server was ended again")
        }
    }
}

/// What the lab does meanwhile.
fn tell(doing: &str) {
    output::note(&format!("lab: {doing}"));
}

fn which(asked: &LabServer) -> Which {
    match (&asked.basedir, asked.server) {
        (Some(folder), _) => Which::Basedir(folder.clone()),
        (None, LabWhich::Mysql) => Which::Mysql,
        (None, LabWhich::Mariadb) => Which::Mariadb,
        (None, LabWhich::Path) => Which::OnPath,
    }
}

fn data(place: &Path) -> Data {
    match place.to_str() {
        Some("tmpfs") => Data::Tmpfs,
        Some("disk") => Data::Disk,
        _ => Data::In(place.to_owned()),
    }
}

/// The lab's servers for machines.
#[derive(Serialize)]
struct Servers<'a> {
    schema: &'static str,
    servers: &'a [Listed],
}

fn show(servers: &[Listed], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let listed = Servers { schema: "spindoctor.lab/1", servers };
        return output::print(&json::to_text(&listed).context("could not write the servers as JSON")?);
    }
    let mut page = Page::new(Look::of_stdout());
    if servers.is_empty() {
        page.push("No server of the lab is up; `spindoctor lab up` starts one.");
    }
    for server in servers {
        page.entry(&server.name, &told(server), 12);
        // Commands are for copying: never broken over two lines.
        page.push(&format!("    spindoctor doctor -u root -S {}", server.socket.display()));
        page.push(&format!("    spindoctor lab down {}", server.name));
    }
    output::print(&page.finish())
}

fn told(server: &Listed) -> String {
    let mut parts = vec![server.version.to_string()];
    parts.push(server.pid.map_or("not running".to_owned(), |pid| format!("pid {pid}")));
    parts.push(format!("port {}", server.port));
    parts.extend(server.quota.map(|cpus| format!("quota {cpus} CPUs")));
    parts.push(format!("data in {}", server.data.display()));
    if !server.stays {
        parts.push("belongs to a running command".to_owned());
    }
    parts.join(", ")
}
