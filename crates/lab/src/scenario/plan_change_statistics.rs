//! A statement that reads far more rows each time, since the statistics of its table are others.

use mysql_async::prelude::Queryable as _;
use spindoctor_model::Flavor;
use spindoctor_rules::causes::plan_change::CAUSE;

use super::{Scenario, Suffering, plan_change};
use crate::error::{Error, Result};
use crate::server::{Server, ServerSpec};

/// By the customer five rows of the 10,000 are found, by the state 9,500.
const LOOK_UP: &str = "SELECT c FROM orders WHERE customer = 77 AND state = 1";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "plan-change-statistics",
    label: Some(CAUSE.name),
    story: "Two sessions look orders of a customer up, thousands of times a second, for eight seconds, on a server whose optimizer goes \
            by statistics alone (eq_range_index_dive_limit = 1), as it does for long lists. Five orders of 10,000 are of each customer, \
            and 9,500 are in one state. Then a batch gives all orders to one customer and each a state of its own, ANALYZE TABLE computes \
            the statistics meanwhile, and the batch is rolled back: the rows are as they were, the statistics are not, and the same \
            statement reads 9,500 rows by the state each time. Seen to suffer by the server's handler counters: more than 1000 rows read \
            for each query.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(plan_change::symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let mut spec = plan_change::spec(flavor);
    // Without the intersection of two indexes, which reads both of them.
    spec.options
        .extend(["--eq-range-index-dive-limit=1", "--optimizer-switch=index_merge=off"].map(str::to_owned));
    spec
}

async fn begin(server: &Server) -> Result<Suffering> {
    server
        .execute([
            "CREATE TABLE sbtest.orders (id INT PRIMARY KEY, customer INT NOT NULL, state INT NOT NULL, c CHAR(120) NOT NULL, \
             KEY by_customer (customer), KEY by_state (state)) ENGINE = InnoDB STATS_PERSISTENT = 1 STATS_AUTO_RECALC = 0",
            "INSERT INTO sbtest.orders SELECT id, id % 2000, IF(id % 20 = 0, 2 + id % 7, 1), c FROM sbtest.sbtest1",
            "ANALYZE TABLE sbtest.orders",
        ])
        .await?;
    let sessions = plan_change::look_up(server, LOOK_UP).await?;
    tokio::time::sleep(plan_change::FAST).await;
    let statement = Error::statement;
    let mut batch = server.connect().await.map_err(statement("connect"))?;
    for change in ["START TRANSACTION", "UPDATE sbtest.orders SET customer = 1, state = id"] {
        batch.query_drop(change).await.map_err(statement(change))?;
    }
    server.execute(["ANALYZE TABLE sbtest.orders"]).await?;
    batch.query_drop("ROLLBACK").await.map_err(statement("ROLLBACK"))?;
    let _closed = batch.disconnect().await;
    Ok(Suffering::by(sessions))
}
