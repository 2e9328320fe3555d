//! Transactions that wait for one row.

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, roots};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};

/// Sessions that want the row.
const WAITERS: u64 = 24;

pub(super) const PILEUP: Pileup = Pileup {
    name: "row",
    story: "A session changes a row and idles with its transaction open; 24 others want to change the same row.",
    flavors: ALL,
    needs: "",
    kinds: &[LockKind::Row],
    // Servers say that those who came later wait for those who came before as well.
    directly: None,
    in_all: WAITERS,
    spec: |_| ServerSpec { tables: Some(TABLES), ..ServerSpec::default() },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| {
        const WAITING: &str =
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        Box::pin(symptom::number(server, WAITING))
    },
};

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    const CHANGE: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
    let root = sessions.hold(server, &["BEGIN", CHANGE]).await?;
    for _ in 0..WAITERS {
        sessions.repeat(server, CHANGE.into()).await?;
    }
    roots(server, &[root]).await
}
