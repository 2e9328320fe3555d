//! A killed batch job that rolls back, and sessions that want its rows.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::rollback_running::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that want a row.
const WAITERS: u32 = 24;

/// How often the job changes every row of every table: undoing it must take longer than the window and what is read before and
/// after it. MariaDB undoes more changes a second; how many, the finding of `spindoctor lab run rollback-running` says.
fn rounds(server: &Server) -> u32 {
    if server.version().is_mariadb() { 40 } else { 20 }
}

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A batch job changes a million rows in one transaction and is killed, because 24 sessions wait for one of them: now it \
            rolls back, and they wait on. Seen to suffer by INNODB_TRX: a transaction in the state ROLLING BACK, and most of \
            the 24 in LOCK WAIT.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// With a redo log that takes all of it: a full one would be another cause.
fn spec(_: Flavor) -> ServerSpec {
    let options = vec!["--innodb-redo-log-capacity=1G".to_owned()];
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

fn waiters(server: &Server) -> u32 {
    server.draw().count("waiters", WAITERS, 1..=96)
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    let round = |table: u32| format!("UPDATE sbtest{table} SET k = k + 1, pad = REVERSE(pad)");
    let changes = (0..rounds(server)).flat_map(|_| (1..=TABLES.count).map(round));
    let statements: Vec<String> = std::iter::once("BEGIN".to_owned()).chain(changes).collect();
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    let job = sessions.hold(server, &statements).await?;
    for _ in 0..waiters(server) {
        sessions.repeat(server, "UPDATE sbtest1 SET k = k + 1 WHERE id = 1".into()).await?;
    }
    server.execute([format!("KILL {job}")]).await?;
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    const IN_STATE: &str = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = ";
    let rolling_back = symptom::number(server, &format!("{IN_STATE}'ROLLING BACK'")).await?;
    let waiting = symptom::number(server, &format!("{IN_STATE}'LOCK WAIT'")).await?;
    Ok((rolling_back >= 1 && waiting >= symptom::most_of(waiters(server)))
        .then(|| format!("a transaction rolls back, {waiting} transactions wait for a row lock")))
}
