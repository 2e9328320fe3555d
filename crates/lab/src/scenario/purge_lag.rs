//! Old row versions that cannot be purged, and writers that are delayed for it.

use super::{ALL, Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// Sessions that change rows.
const WRITERS: u64 = 8;
/// Length of the list from which on changes are delayed; below four times 300 the server delays nobody.
const MOST_LAG: u32 = 1_500;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "purge-lag",
    label: Some("purge-lag"),
    story: "A session has opened a consistent snapshot and forgotten it; eight sessions change rows, and purge may remove \
            nothing. From 1500 entries of the history list on (innodb_max_purge_lag) the server delays each change, up to \
            300 ms. Seen to suffer by the list's length, twice what is allowed.",
    flavors: ALL,
    needs: "",
    spec: |_| ServerSpec {
        tables: Some(TABLES),
        options: vec![
            format!("--innodb-max-purge-lag={MOST_LAG}"),
            "--innodb-max-purge-lag-delay=300000".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--loose-disable-log-bin".to_owned(),
        ],
        ..ServerSpec::default()
    },
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
};

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    // The snapshot is of the first read.
    sessions
        .hold(server, &["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT k FROM sbtest1 WHERE id = 1"])
        .await?;
    for writer in 1..=WRITERS {
        let table = 1 + writer % u64::from(TABLES.count);
        sessions
            .repeat(server, format!("UPDATE sbtest{table} SET k = k + 1 WHERE id = {}", 100 * writer))
            .await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let length = symptom::history_length(server).await?;
    Ok((length >= 2 * u64::from(MOST_LAG)).then(|| format!("{length} entries of the history list")))
}
