//! DROP TABLE of a large file on a slow disk.

use std::time::Instant;

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, lists_locks, roots, waiting_for_table};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Data, Server, ServerSpec};

/// Sessions that read the table.
const READERS: u64 = 24;

pub(super) const PILEUP: Pileup = Pileup {
    name: "drop-table",
    story: "A session drops a table of 50 MB on a disk that does one write a second; 24 sessions that read the table wait \
            for it. The drop ends after some seconds.",
    flavors: ALL,
    needs: "root, for a slow disk; a data folder on a disk",
    kinds: &[LockKind::Metadata],
    directly: Some(READERS),
    in_all: READERS,
    spec: |flavor| ServerSpec {
        data: Data::Disk,
        limits: Limits { writes: true, ..Limits::default() },
        tables: Some(TABLES),
        options: lists_locks(flavor),
        ..ServerSpec::default()
    },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| Box::pin(waiting_for_table(server)),
};

/// Makes the server write every changed page when it has nothing else to do.
const WRITE_OUT: [&str; 2] =
    ["SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0", "SET GLOBAL innodb_max_dirty_pages_pct = 0"];

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    // 200,000 rows of 200 bytes.
    const FILL: &str = "CREATE TABLE sbtest.big ENGINE = InnoDB AS \
         SELECT one.* FROM sbtest.sbtest1 one JOIN (SELECT id FROM sbtest.sbtest2 LIMIT 20) twenty";
    server.execute([FILL]).await?;
    // What is not written yet would be written first, at one write a second: the drop would wait for who writes it.
    server.execute(WRITE_OUT).await?;
    let begun = Instant::now();
    while symptom::status(server, "Innodb_buffer_pool_pages_dirty").await? > 0.0
        && begun.elapsed() < super::PATIENCE
    {
        tokio::time::sleep(super::EVERY).await;
    }
    server.limit_writes(Some(1))?;
    let root = sessions.once(server, "DROP TABLE big").await?;
    let roots = roots(server, &[root]).await?;
    const BEGUN: &str = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'DROP TABLE big'";
    while symptom::number(server, BEGUN).await? == 0 {
        tokio::time::sleep(super::EVERY).await;
    }
    for _ in 0..READERS {
        sessions.once(server, "SELECT c FROM big LIMIT 1").await?;
    }
    Ok(roots)
}
