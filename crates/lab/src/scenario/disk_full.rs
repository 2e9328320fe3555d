//! Commits on a file system that is full.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::disk_full::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::load::sessions::Sessions;
use crate::server::{Data, Server, ServerSpec};

/// Sessions that commit.
const WRITERS: u32 = 16;
/// Bytes of each statement: most of what is written goes into the binary log.
const STATEMENT_BYTES: usize = 100_000;
/// Space that is left when they begin.
const ROOM_BYTES: u64 = 8 << 20;

/// How long the server has for its status: it answers within milliseconds where it answers at all.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions update single rows with long statements, which the binary log keeps as they are, on a file system \
            with 8 MiB of space; within seconds it is full. Seen to suffer by the server's error log, which says that it waits \
            for someone to free space, and by Handler_commit, which no longer grows.",
    needs: "root, for a file system of its own",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        data: Data::OwnTmpfs,
        tables: Some(TABLES),
        options: ["--log-bin=binlog", "--binlog-format=STATEMENT", "--loose-innodb-redo-log-capacity=8M"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server.leave_room(ROOM_BYTES)?;
    let mut sessions = Sessions::default();
    for writer in 1..=WRITERS {
        let padding = "x".repeat(STATEMENT_BYTES);
        let id = 100 * writer;
        sessions
            .repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {id} AND pad <> '{padding}'"))
            .await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let log = server.log();
    let said = std::fs::read_to_string(&log).map_err(Error::file("read", &log))?;
    if !said.contains("Waiting for someone to free space") {
        return Ok(None);
    }
    // Only SHOW: an information_schema table needs space, too.
    let status = symptom::status_per_s(server, &["Handler_commit"]);
    // On MySQL 5.7 it waits for the mutex of the log, which the thread keeps that waits for space.
    let Ok(status) = tokio::time::timeout(ANSWER_WITHIN, status).await else {
        return Ok(Some(
            "the error log says that the disk is full, and SHOW GLOBAL STATUS is not answered".into(),
        ));
    };
    let commits_per_s = status?[0];
    Ok((commits_per_s < 1.0)
        .then(|| "the error log says that the disk is full, and nothing is committed".into()))
}
