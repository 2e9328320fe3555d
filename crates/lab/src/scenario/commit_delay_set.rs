//! Commits that wait for others to commit with them, because variables of the server ask for it.

use spindoctor_model::Flavor;
use spindoctor_rules::causes::commit_delay_set::CAUSE;

use super::{Scenario, Suffering, TABLES, symptom};
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "Sixteen clients update single rows, with a binary log, and the server holds each group of commits back \
            for 200 ms so that more come together: binlog_group_commit_sync_delay = 200000, on MariaDB \
            binlog_commit_wait_usec = 200000 with binlog_commit_wait_count = 100. CPUs and disk idle. Seen to suffer by commits \
            that take more than 150 ms for 95 in 100.",
    is_calm: true,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let delay: &[&str] = match flavor {
        Flavor::Mariadb => &["--binlog-commit-wait-count=100", "--binlog-commit-wait-usec=200000"],
        _ => &["--binlog-group-commit-sync-delay=200000"],
    };
    let options =
        ["--log-bin=binlog", "--sync-binlog=1"].iter().chain(delay).map(|&option| option.to_owned());
    ServerSpec { tables: Some(TABLES), options: options.collect(), ..ServerSpec::default() }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpUpdateNonIndex;
    Suffering::by_load(server, LoadSpec { workload, threads: 16, rate: None, tables: TABLES })
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let Some(load) = suffering.load_since(suffering.began) else { return Ok(None) };
    let p95 = load.latency_p95_ms.unwrap_or_default();
    let commits = symptom::status_per_s(server, &["Handler_commit"]).await?[0];
    Ok((p95 > 150.0).then(|| format!("commits take {p95:.0} ms; {commits:.0} commits/s")))
}
