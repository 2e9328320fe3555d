//! Groups that do not fit into a temporary table in memory.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::temporary_table_spill::CAUSE;

use super::{MYSQL, Scenario, Suffering, symptom};
use crate::error::Result;
use crate::load::Tables;
use crate::load::sessions::Sessions;
use crate::server::{Server, ServerSpec};

/// About 25 MB each.
const LARGE: Tables = Tables { count: 4, rows: 100_000 };

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Two sessions group 100,000 rows by a column that is different in each, over and over, where a temporary table may \
            have 1 MiB: it goes to disk each time, and most of the work is done there. Seen to suffer by \
            Created_tmp_disk_tables, which grows.",
    // MariaDB's packages do not name the functions of its engine for such tables.
    flavors: MYSQL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    ServerSpec {
        tables: Some(LARGE),
        options: ["--tmp-table-size=1M", "--max-heap-table-size=1M", "--innodb-buffer-pool-size=512M"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let mut sessions = Sessions::default();
    for table in 1..=2 {
        sessions
            .repeat(server, format!("SELECT LEFT(c, 60) AS g, COUNT(*) FROM sbtest{table} GROUP BY g"))
            .await?;
    }
    Ok(Suffering::by(sessions))
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    let before = symptom::status(server, "Created_tmp_disk_tables").await?;
    tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let made = symptom::status(server, "Created_tmp_disk_tables").await? - before;
    Ok((made >= 1.0).then(|| format!("{made:.0} temporary tables went to disk within 4 s")))
}
