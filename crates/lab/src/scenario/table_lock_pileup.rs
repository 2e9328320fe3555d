//! Updates of a MyISAM table behind a long SELECT.

use spindoctor_rules::causes::table_lock_pileup::CAUSE;

use super::{Scenario, Suffering, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Sessions that update.
const WAITERS: u32 = 24;
/// A report that reads the table again for each of its rows, and again for each of these: it takes hours.
const REPORT: &str = "SELECT COUNT(*) FROM visits a WHERE a.k < (SELECT COUNT(*) FROM visits b WHERE b.c < a.c AND b.k > \
                      (SELECT COUNT(*) FROM visits c WHERE c.c < b.c AND c.k < a.k))";

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "A report of subqueries reads a MyISAM table of 10,000 rows for hours, and 24 sessions want to update single rows \
            of it: the whole table is locked for as long. Seen to suffer by the thread list: most of them in the state \
            Waiting for table level lock.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn waiters(server: &Server) -> u32 {
    server.draw().count("waiters", WAITERS, 1..=90)
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "CREATE TABLE sbtest.visits (id INT PRIMARY KEY, k INT NOT NULL, c CHAR(120) NOT NULL) ENGINE = MyISAM",
            "INSERT INTO sbtest.visits SELECT id, k, c FROM sbtest.sbtest1",
        ])
        .await?;
    let mut sessions = Sessions::default();
    sessions.once(server, REPORT).await?;
    for client in 1..=waiters(server) {
        sessions.repeat(server, format!("UPDATE visits SET k = k + 1 WHERE id = {}", 100 * client)).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let waiting = symptom::sessions_in_state(server, "Waiting for table level lock").await?;
    Ok((waiting >= symptom::most_of(waiters(server)))
        .then(|| format!("{waiting} sessions wait for a table lock")))
}
