//! A user-level lock that an idle session holds.

use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, lists_locks, roots};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};

/// Sessions that want the lock.
const WAITERS: u64 = 24;

pub(super) const PILEUP: Pileup = Pileup {
    name: "user",
    story: "A session has taken the user-level lock `nightly job` with GET_LOCK and idles; 24 sessions want it too.",
    flavors: ALL,
    needs: "",
    kinds: &[LockKind::User],
    directly: Some(WAITERS),
    in_all: WAITERS,
    spec: |flavor| ServerSpec { tables: Some(TABLES), options: lists_locks(flavor), ..ServerSpec::default() },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| Box::pin(symptom::sessions_in_state(server, "User lock")),
};

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    let root = sessions.hold(server, &["DO GET_LOCK('nightly job', 0)"]).await?;
    for _ in 0..WAITERS {
        sessions.once(server, "DO GET_LOCK('nightly job', 3600)").await?;
    }
    roots(server, &[root]).await
}
