//! A server that suffers from this: many statements scan whole tables at once.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::rows_read_waste::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Statements per second: TO WRITE: why so many.
const RATE: u32 = 200;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "TO WRITE: what is done to the server, with its numbers, and by which of the server's own readings it is \
            seen to suffer.",
    // Where they differ from the usual: `flavors: MYSQL` where MariaDB cannot suffer so (say why in a comment); `needs`, what it
    // needs of the machine: "root, for a slow disk"; `is_calm: true` where the server only waits: then it is tested beside others;
    // `onset: Some(ONSET)` where a calm server can come to suffer so within seconds: `record` is tested with it.
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

/// The server: its tables, options, limits of its control group.
fn spec(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }
}

/// Makes it suffer: by sysbench's clients, or by sessions of the lab's own (`Suffering::by`).
async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::Scan;
    Suffering::by_load(server, LoadSpec { workload, threads: 4, rate: Some(RATE), tables: TABLES })
}

/// What shows that it suffers, read without spindoctor's own sources; None where it does not (yet).
async fn symptom(server: &Server) -> Result<Option<String>> {
    let per_s = symptom::status_per_s(server, &["Select_scan"]).await?[0];
    Ok((per_s > 100.0).then(|| format!("{per_s:.0} tables scanned per second")))
}
