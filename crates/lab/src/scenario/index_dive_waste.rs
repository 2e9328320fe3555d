//! Lists of values that are looked up in two indexes alike before one row is read.

use spindoctor_rules::causes::index_dive_waste::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom, with_tables};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::Server;

/// Clients that ask: of one alone a CPU has too little to do to be judged in a short window beside other work.
const CLIENTS: u32 = 2;
/// Values of the list: just below what both servers estimate without a look (eq_range_index_dive_limit = 200).
const VALUES: u32 = 190;
/// Pages that each statement looks into, at least: a descent for both ends of each value's range in each of the two indexes,
/// through a root and a leaf.
const PAGES: f64 = 600.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two clients ask for one row that has one of 190 values, again and again. Two indexes begin with that column, and the \
            optimizer looks each value up in both before the statement reads its one row. Seen to suffer by InnoDB's counters: \
            more than 600 pages for each statement, which reads fewer than ten rows.",
    spec: with_tables,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

async fn begin(server: &Server) -> Result<Suffering> {
    server.execute(["CREATE INDEX k_and_c ON sbtest.sbtest1 (k, c)"]).await?;
    // sysbench's values of k lie around the middle of the table's ids.
    let values: Vec<String> = (0..VALUES).map(|at| (TABLES.rows / 2 - VALUES + 2 * at).to_string()).collect();
    let mut sessions = Sessions::default();
    let asked = format!("SELECT id FROM sbtest1 WHERE k IN ({}) LIMIT 1", values.join(", "));
    for _ in 0..CLIENTS {
        sessions.repeat(server, asked.clone()).await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let names = ["Innodb_buffer_pool_read_requests", "Com_select", "Handler_read_key", "Handler_read_next"];
    let [pages, selects, keys, nexts] = symptom::status_per_s(server, &names).await?[..] else {
        return Ok(None);
    };
    let (pages, rows) = (pages / selects.max(1.0), (keys + nexts) / selects.max(1.0));
    Ok((selects > 100.0 && pages > PAGES && rows < 10.0)
        .then(|| format!("{pages:.0} pages and {rows:.1} rows for each of {selects:.0} statements/s")))
}
