//! A disk that hardly answers.

use std::time::Duration;

use spindoctor_rules::causes::storage_stalled::CAUSE;

use super::onset::{Onset, free_disk};
use super::{Scenario, Suffering, TABLES, on_slow_disk, symptom};
use crate::error::Result;
use crate::load::clients::Clients;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that commit.
const WRITERS: u32 = 16;
/// A sync writes the log's blocks and the file system's, and each of these takes seconds.
const COMMITS_PER_S: f64 = 3.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions update single rows, each commit durable, and the disk takes one write and 8 KiB a second: \
            each sync stands in the kernel for seconds, and all sessions behind it. Seen to suffer by Handler_commit: fewer \
            than three commits a second.",
    needs: "root, for a slow disk; a data folder on a disk",
    is_calm: true,
    spec: |_| spec(),
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    onset: Some(ONSET),
    ..Scenario::USUAL
};

const ONSET: Onset = Onset {
    story: "Sixteen clients update 200 single rows a second, each commit durable; then the disk takes one write and 8 KiB a \
            second.",
    lasts: Duration::from_secs(6),
    spec: |_| spec(),
    calm: |server| {
        Box::pin(Clients::start(server, WRITERS, 200.0, |rng| {
            format!(
                "UPDATE sbtest{} SET k = k + 1 WHERE id = {}",
                rng.u32(1..=TABLES.count),
                rng.u32(1..=TABLES.rows)
            )
        }))
    },
    begin: |server| {
        Box::pin(async move {
            server.hang_writes()?;
            Ok(Suffering::by(Sessions::default()))
        })
    },
    end: free_disk,
};

fn spec() -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: ["--innodb-flush-log-at-trx-commit=1", "--loose-disable-log-bin"].map(str::to_owned).into(),
        ..on_slow_disk()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for writer in 1..=WRITERS {
        sessions.repeat(server, format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 100 * writer)).await?;
    }
    server.hang_writes()?;
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let [commits] = symptom::status_per_s(server, &["Handler_commit"]).await?[..] else { return Ok(None) };
    Ok((commits < COMMITS_PER_S).then(|| format!("{commits:.0} commits/s")))
}
