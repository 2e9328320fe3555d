//! Commits that spin on CPU time the quota does not grant.

use std::time::Duration;

use spindoctor_model::Flavor;
use spindoctor_rules::causes::quota_blind_spin::CAUSE;

use super::{MYSQL, Scenario, Suffering, TABLES, symptom};
use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// User CPU per commit while spinning over user CPU per commit when spinning is forbidden, from which
/// on the server counts as spinning. Seen on two CPUs: 13 to 15; a busy machine alone makes 2.
const COSTLIER: f64 = 3.0;

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "64 clients update an indexed column on a server that may use one CPU of two and keeps its redo \
            log in memory. innodb_log_writer_threads is ON and there is no binary log, so each commit waits \
            for the log writer by itself; the low-water mark is lowered to 20 % because two CPUs leave no \
            room above its default of 80. The server counts two CPUs, so its high-water mark of 50 % lies at \
            one whole CPU, which the quota never lets it reach: it spins for ever. Seen to suffer by user \
            CPU per commit, at least 3 times that with spinning forbidden (innodb_log_spin_cpu_pct_hwm = \
            0), which the scenario measures first. On two CPUs the correction to 25 gave 7 to 8 times the \
            transactions.",
    flavors: MYSQL,
    needs: "root, for a CPU quota; two CPUs or more",
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, suffering| Box::pin(symptom(server, suffering)),
    ..Scenario::USUAL
};

fn spec(_: Flavor) -> ServerSpec {
    // Half of what the server counts: its high-water mark of 50 % is then exactly out of reach.
    let quota = std::thread::available_parallelism().map_or(2, usize::from) as f64 / 2.0;
    ServerSpec {
        limits: Limits { quota_cpus: Some(quota), ..Limits::default() },
        tables: Some(TABLES),
        options: ["--disable-log-bin", "--innodb-log-writer-threads=ON", "--innodb-log-spin-cpu-abs-lwm=20"]
            .map(str::to_owned)
            .into(),
        ..ServerSpec::default()
    }
}

async fn begin(server: &Server) -> Result<Suffering> {
    let workload = Workload::OltpUpdateIndex;
    let mut suffering =
        Suffering::by_load(server, LoadSpec { workload, threads: 64, rate: None, tables: TABLES })?;
    set_high_water_mark(server, 0).await?;
    suffering.baseline = symptom::user_us_per_commit(server).await?;
    set_high_water_mark(server, 50).await?;
    Ok(suffering)
}

async fn set_high_water_mark(server: &Server, percent: u32) -> Result<()> {
    server.execute([format!("SET GLOBAL innodb_log_spin_cpu_pct_hwm = {percent}")]).await?;
    // The server looks at its CPU use about once a second before it decides to spin.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    Ok(())
}

async fn symptom(server: &Server, suffering: &Suffering) -> Result<Option<String>> {
    let (now, without) = (symptom::user_us_per_commit(server).await?, suffering.baseline);
    Ok((now > COSTLIER * without)
        .then(|| format!("{now:.0} µs of user CPU a commit, {without:.0} with spinning forbidden")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::installation::Which;
    use crate::scenario::run::suffer;

    #[test]
    fn the_corrected_high_water_mark_ends_the_spinning() {
        if !crate::command::is_root() {
            println!("skipped: a CPU quota needs root");
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let home = Home::open().unwrap();
            let (server, suffering, seen) =
                suffer(&home, &SCENARIO, &Which::Mysql, &|line| println!("{line}")).await.unwrap();
            // floor(50 * quota / CPUs that the server counts), with the quota at half of them.
            set_high_water_mark(&server, 25).await.unwrap();
            // Whatever else this machine does may keep the server below the mark for a second: then it spins by right.
            let mut spins = None;
            for _ in 0..5 {
                spins = symptom(&server, &suffering).await.unwrap();
                if spins.is_none() {
                    break;
                }
            }
            assert_eq!(spins, None, "before: {seen}");
        });
    }
}
