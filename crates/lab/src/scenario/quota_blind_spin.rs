//! Commits that spin on CPU time the quota does not grant.

use std::time::{Duration, Instant};

use spindoctor_model::Flavor;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// User CPU per commit while spinning over user CPU per commit when spinning is forbidden, from which
/// on the server counts as spinning. Seen on two CPUs: 2 to 12.
const DEARER: f64 = 1.5;
/// How long commits are counted for a mean.
const SPAN: Duration = Duration::from_secs(2);

pub(super) const SCENARIO: Scenario = Scenario {
    name: "quota-blind-spin",
    label: Some("quota-blind-spin"),
    story: "64 clients update an indexed column on a server that may use one CPU of two and keeps its redo \
            log in memory. innodb_log_writer_threads is ON and there is no binary log, so each commit waits \
            for the log writer by itself; the low-water mark is lowered to 20 % because two CPUs leave no \
            room above its default of 80. The server counts two CPUs, so its high-water mark of 50 % lies at \
            one whole CPU, which the quota never lets it reach: it spins for ever. Seen to suffer by user \
            CPU per commit, at least 1.5 times that with spinning forbidden (innodb_log_spin_cpu_pct_hwm = \
            0), which the scenario measures first. On two CPUs the correction to 25 gave 2 to 7 times the \
            transactions.",
    flavors: MYSQL,
    needs: "root, for a CPU quota; two CPUs or more",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
};

fn spec(_: Flavor) -> ServerSpec {
    // Half of what the server counts: its high-water mark of 50 % is then exactly out of reach.
    let quota = std::thread::available_parallelism().map_or(2, usize::from) as f64 / 2.0;
    ServerSpec {
        limits: Limits { quota: Some(quota), ..Limits::default() },
        tables: Some(TABLES),
        options: ["--disable-log-bin", "--innodb-log-writer-threads=ON", "--innodb-log-spin-cpu-abs-lwm=20"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpUpdateIndex;
    let suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 64, rate: None, tables: TABLES })?;
    Ok(suffering)
}

async fn symptom(server: &Server, _: &Suffering) -> Result<Option<String>> {
    server.execute(["SET GLOBAL innodb_log_spin_cpu_pct_hwm = 0"]).await?;
    let without = user_us_per_commit(server).await?;
    server.execute(["SET GLOBAL innodb_log_spin_cpu_pct_hwm = 50"]).await?;
    let with = user_us_per_commit(server).await?;
    let throttled = symptom::throttled_share(server).await?;
    Ok((with > DEARER * without && throttled > 0.2).then(|| {
        format!(
            "{with:.0} µs of user CPU a commit, {without:.0} with spinning forbidden; stopped in {:.0} % of periods",
            100.0 * throttled
        )
    }))
}

async fn user_us_per_commit(server: &Server) -> Result<f64> {
    // The server looks at its CPU use about once a second before it decides to spin.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let commits = async || symptom::status(server, "Handler_commit").await;
    let (start, user, before) = (Instant::now(), symptom::user_cpu_s(server)?, commits().await?);
    tokio::time::sleep(SPAN.saturating_sub(start.elapsed())).await;
    let (user, commits) = (symptom::user_cpu_s(server)? - user, commits().await? - before);
    Ok(1e6 * user / commits.max(1.0))
}
