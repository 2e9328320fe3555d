//! A chain of three: an idle client, a DDL that waits for it, and readers that wait for the DDL.

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, roots, waiting_for_table};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that only want to read the table.
const READERS: u64 = 200;

pub(super) const PILEUP: Pileup = Pileup {
    name: "chain",
    story: "A session reads a table and idles with its transaction open; an ALTER TABLE waits for it; 200 sessions that \
            only read the table wait for the ALTER TABLE.",
    flavors: ALL,
    needs: "",
    kinds: &[LockKind::Metadata],
    directly: Some(1),
    in_all: 1 + READERS,
    spec: |_| ServerSpec {
        tables: Some(TABLES),
        options: vec!["--max-connections=300".into()],
        ..ServerSpec::default()
    },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| Box::pin(waiting_for_table(server)),
};

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    const READ: &str = "SELECT c FROM sbtest1 WHERE id = 1";
    let root = sessions.hold(server, &["BEGIN", READ]).await?;
    sessions.once(server, "ALTER TABLE sbtest1 ADD COLUMN note INT").await?;
    while waiting_for_table(server).await? == 0 {
        tokio::time::sleep(super::EVERY).await;
    }
    for _ in 0..READERS {
        sessions.once(server, READ).await?;
    }
    roots(server, &[root]).await
}
