//! Commits behind a sync that hangs.

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, roots};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Data, Server, ServerSpec};

/// Sessions that commit.
const WRITERS: u64 = 16;

pub(super) const PILEUP: Pileup = Pileup {
    name: "sync",
    story: "Sixteen sessions commit, with a binary log that each commit syncs, on a disk that does one write a second: one \
            of them leads the group and stands in fsync, and the others wait for it.",
    flavors: ALL,
    needs: "root, for a slow disk; a data folder on a disk",
    kinds: &[LockKind::CommitQueue],
    directly: None,
    in_all: WRITERS - 1,
    spec: |_| ServerSpec {
        data: Data::Disk,
        limits: Limits { writes: true, ..Limits::default() },
        tables: Some(TABLES),
        options: ["--log-bin=binlog", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=0"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| {
        // `waiting for handler commit` on MySQL, `Commit` on MariaDB.
        Box::pin(async { Ok(symptom::sessions_in_state(server, "%commit%").await?.min(WRITERS - 1)) })
    },
};

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    let mut writers = Vec::new();
    for writer in 1..=WRITERS {
        let change = format!("UPDATE sbtest1 SET k = k + 1 WHERE id = {}", 100 * writer);
        writers.push(sessions.repeat(server, change).await?);
    }
    let roots = roots(server, &writers).await?;
    server.limit_writes(Some(1))?;
    Ok(roots)
}
