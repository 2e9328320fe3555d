//! A statement that reads far more rows each time, since other values are asked for.

use spindoctor_rules::causes::plan_change::CAUSE;

use super::{Scenario, Suffering, plan_change};
use crate::error::Result;
use crate::server::Server;

/// A state that five of 10,000 rows have, and one that half of them have.
const RARE: u32 = 77;
const COMMON: u32 = 0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "plan-change-parameter",
    label: Some(CAUSE.name),
    story: "Two sessions ask for the orders of a state that five of 10,000 have, thousands of times a second, for eight seconds. Then they \
            ask by the same statement for the state that half of the orders have: the indexes and the statistics are as they were, and \
            each execution reads 5,000 rows and more. Seen to suffer by the server's handler counters: more than 1000 rows read for \
            each query.",
    spec: plan_change::spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(plan_change::symptom(server)),
    ..Scenario::USUAL
};

/// One row is sent, however many are read.
fn look_up(state: u32) -> String {
    format!("SELECT MAX(c) FROM orders WHERE state = {state}")
}

async fn begin(server: &Server) -> Result<Suffering> {
    let rows = format!(
        "INSERT INTO sbtest.orders SELECT id, IF(id % 2 = 0, {COMMON}, id % 2000), c FROM sbtest.sbtest1"
    );
    server
        .execute([
            "CREATE TABLE sbtest.orders (id INT PRIMARY KEY, state INT NOT NULL, c CHAR(120) NOT NULL, KEY by_state (state)) \
             ENGINE = InnoDB STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0",
            rows.as_str(),
            "ANALYZE TABLE sbtest.orders",
        ])
        .await?;
    let sessions = plan_change::look_up(server, &look_up(RARE)).await?;
    tokio::time::sleep(plan_change::FAST).await;
    drop(sessions);
    Ok(Suffering::by(plan_change::look_up(server, &look_up(COMMON)).await?))
}
