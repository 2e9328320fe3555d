//! FLUSH TABLES WITH READ LOCK.

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, lists_locks, roots};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};

/// Sessions that want to write.
const WRITERS: u64 = 24;

pub(super) const PILEUP: Pileup = Pileup {
    name: "global",
    story: "A session has run FLUSH TABLES WITH READ LOCK, as a backup script does, and idles; 24 sessions want to write.",
    flavors: ALL,
    needs: "",
    // MariaDB makes it a backup lock.
    kinds: &[LockKind::Global, LockKind::Backup],
    directly: Some(WRITERS),
    in_all: WRITERS,
    spec: |flavor| ServerSpec { tables: Some(TABLES), options: lists_locks(flavor), ..ServerSpec::default() },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| Box::pin(waiting(server)),
};

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    let root = sessions.hold_as(server, "root", &["FLUSH TABLES WITH READ LOCK"]).await?;
    for writer in 0..WRITERS {
        let table = 1 + writer % u64::from(TABLES.count);
        sessions
            .repeat(server, format!("UPDATE sbtest{table} SET k = k + 1 WHERE id = {}", 1 + writer))
            .await?;
    }
    roots(server, &[root]).await
}

async fn waiting(server: &Server) -> Result<u64> {
    let global = symptom::sessions_in_state(server, "Waiting for global read lock").await?;
    Ok(global + symptom::sessions_in_state(server, "Waiting for backup lock").await?)
}
