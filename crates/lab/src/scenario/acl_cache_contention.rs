//! Two loops of GRANT and FLUSH PRIVILEGES beside clients that connect for each query.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::acl_cache_contention::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Clients that connect for each query.
const CLIENTS: u32 = 40;

/// Accounts that the server has: FLUSH PRIVILEGES reads all of them.
const ACCOUNTS: u32 = 600;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two sessions give rights to accounts and flush the privileges after each, over and over, on a server with 600 accounts; \
            40 clients connect for each query. Seen to suffer by the thread list: at least 10 sessions in the state Waiting for acl \
            cache lock.",
    // MariaDB's waits for its cache have no state; its stacks show a mutex below the login.
    flavors: MYSQL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec!["--thread-cache-size=64".into(), "--sync-binlog=0".into()],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute(
            (0..ACCOUNTS).map(|at| format!("CREATE USER tenant{at}@localhost IDENTIFIED BY 'tenant{at}'")),
        )
        .await?;
    let mut sessions = Sessions::default();
    for at in 0..2 {
        let job = format!(
            "CREATE PROCEDURE sbtest.grants{at}() BEGIN LOOP GRANT SELECT ON sbtest.* TO tenant{at}@localhost; \
                           FLUSH PRIVILEGES; END LOOP; END"
        );
        server.execute([job]).await?;
    }
    sessions.once_as(server, "root", "CALL sbtest.grants0()").await?;
    sessions.once_as(server, "root", "CALL sbtest.grants1()").await?;
    let load = LoadSpec { workload: Workload::Connect, threads: CLIENTS, rate: None, tables: TABLES };
    Ok(Suffering { sessions, ..Suffering::by_load(server, load)? })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, "Waiting for acl cache lock").await?;
    Ok((waiting >= 10).then(|| format!("{waiting} sessions wait for the lock of the privilege cache")))
}
