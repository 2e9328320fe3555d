//! A general log that somebody left on, in a file each of whose writes waits for a slow disk.

use std::fs::File;
use std::process::Command;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::statement_log_contention::CAUSE;

use super::{Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::command::run;
use crate::error::{Error, Result};
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Clients that read.
const CLIENTS: u32 = 16;
/// Writes per second of the disk that the log is on: each line is one, and one more of the file system's now and then.
const DISK_WRITES_PER_S: u32 = 100;
/// So many statements a second at most, where each waits for the log.
const STATEMENTS_PER_S: f64 = 4.0 * DISK_WRITES_PER_S as f64;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients read rows by primary key, all in memory, and the general log is on. Its file is one whose writes go to the \
            disk at once, as on a share that is mounted so, and the disk does 100 writes a second. Seen to suffer by the server's \
            own count of statements: fewer than 400 a second.",
    needs: "root, for a slow disk; a data folder on a disk, of a file system with attributes (chattr +S)",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), options: vec!["--log-output=FILE".to_owned()], ..on_slow_disk() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    // Whether a write waits is decided when the file is opened.
    let file = server.data().join("statements.log");
    File::create(&file).map_err(Error::file("create", &file))?;
    run(Command::new("chattr").arg("+S").arg(&file))?;
    server
        .execute([
            format!("SET GLOBAL general_log_file = '{}'", file.display()),
            "SET GLOBAL general_log = ON".into(),
        ])
        .await?;
    server.limit_writes(Some(DISK_WRITES_PER_S))?;
    let workload = Workload::OltpPointSelect;
    Suffering::by_load(server, LoadSpec { workload, threads: CLIENTS, rate: None, tables: TABLES })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let statements = symptom::status_per_s(server, &["Questions"]).await?[0];
    // Some of them are the lab's own.
    Ok((statements > 0.0 && statements < STATEMENTS_PER_S).then(|| format!("{statements:.0} statements/s")))
}
