//! A replica's appliers that commit in the order of the source, behind one that waits for a row.

use spindoctor_model::Flavor;
use spindoctor_model::wait_graph::LockKind;

use super::{ALL, Pileup, Root, TABLES, roots};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::replica;
use crate::scenario::symptom;
use crate::server::{Server, ServerSpec};

/// Appliers, each with a transaction.
const APPLIERS: u64 = 4;

pub(super) const PILEUP: Pileup = Pileup {
    name: "commit-order",
    story: "A session of a replica changes a row and idles with its transaction open. Four appliers have a transaction of \
            the source each: the first wants that row, the others have applied theirs and wait to commit after it.",
    flavors: ALL,
    needs: "",
    kinds: &[LockKind::Row],
    directly: Some(1),
    in_all: APPLIERS,
    spec: |flavor| ServerSpec { tables: Some(TABLES), options: options(flavor), ..ServerSpec::default() },
    begin: |server, sessions| Box::pin(begin(server, sessions)),
    waiting: |server| Box::pin(waiting(server)),
};

fn options(flavor: Flavor) -> Vec<String> {
    match flavor {
        Flavor::Mariadb => {
            ["--slave-parallel-threads=4", "--slave-parallel-mode=optimistic"].map(str::to_owned).into()
        }
        _ => ["--replica-parallel-workers=4", "--replica-preserve-commit-order=ON"].map(str::to_owned).into(),
    }
}

async fn begin(server: &Server, sessions: &mut Sessions) -> Result<Vec<Root>> {
    let change = |id: u64| format!("UPDATE sbtest.sbtest1 SET k = k + 1 WHERE id = {id}");
    let source = replica::source(server, TABLES, &[]).await?;
    let root = sessions.hold(server, &["BEGIN", &change(1)]).await?;
    server.execute(replica::follow(server, source.port())).await?;
    // The first shows the source from where on it knows which rows its transactions changed; the others are independent.
    source.execute([change(100)]).await?;
    source.execute((1..=APPLIERS).map(change)).await?;
    sessions.keep(source);
    roots(server, &[root]).await
}

/// The appliers that wait for the one before them, and the one that waits for the row.
async fn waiting(server: &Server) -> Result<u64> {
    const WAITING: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    let in_order = match server.version().flavor {
        Flavor::Mariadb => "Waiting for prior transaction%",
        _ => "Waiting for preceding transaction%",
    };
    Ok(symptom::number(server, WAITING).await? + symptom::sessions_in_state(server, in_order).await?)
}
