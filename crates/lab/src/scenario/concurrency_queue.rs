//! Statements that queue for one of InnoDB's two places.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::concurrency_queue::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that scan.
const CLIENTS: u32 = 16;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen sessions scan indexes of 10,000 rows again and again, and innodb_thread_concurrency = 2 lets two of them in \
            at a time: the others sleep in InnoDB's queue. Seen to suffer by SHOW ENGINE INNODB STATUS: at least eight queries \
            in queue.",
    // MariaDB ignores the variable from 10.5 on, and has no queue.
    flavors: MYSQL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: [
            "--innodb-thread-concurrency=2",
            // Who finds no place sleeps for 100 ms; else they come to look so often that on a busy machine they rather wait
            // for a CPU.
            "--innodb-thread-sleep-delay=100000",
            "--innodb-adaptive-max-sleep-delay=0",
        ]
        .map(str::to_owned)
        .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for client in 0..CLIENTS {
        let table = client % TABLES.count + 1;
        // InnoDB itself leaves out what k % 20 does not want (index condition pushdown).
        let scan =
            format!("SELECT pad FROM sbtest{table} FORCE INDEX (k_{table}) WHERE k > 0 AND k % 20 = 0");
        sessions.repeat(server, scan).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let queued = symptom::queries_in_queue(server).await?;
    Ok((queued >= 8).then(|| format!("{queued} queries in InnoDB's queue")))
}
