//! A table cache that is too small for the tables in use.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::table_cache_contention::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::{Server, ServerSpec};

/// Tables that the clients read, each as often as any other.
const MANY: Tables = Tables { count: 200, rows: 10_000 };
/// Tables that the cache holds.
const CACHED: u32 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients look rows up by primary key in 200 tables, and table_open_cache holds 20: nearly every \
            lookup opens its table and closes another. Seen to suffer by the status: more than half of the \
            queries open a table.",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(TABLES),
        options: vec![format!("--table-open-cache={CACHED}")],
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let more = (TABLES.count + 1..=MANY.count)
        .map(|table| format!("CREATE TABLE sbtest.sbtest{table} LIKE sbtest.sbtest1"));
    server.execute(more).await?;
    let workload = Workload::OltpPointSelect;
    Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: MANY })
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let rates = symptom::status_per_s(server, &["Opened_tables", "Com_select"]).await?;
    let (opened, queries) = (rates[0], rates[1]);
    Ok((opened > 100.0 && opened > 0.5 * queries)
        .then(|| format!("{opened:.0} tables opened a second for {queries:.0} queries")))
}
