//! Commit spin under a CPU quota, without and with the published workaround.

use spindoctor_model::Flavor;

use super::{Experiment, Setup};
use crate::cgroup::Limits;
use crate::load::{LoadSpec, Tables, Workload};
use crate::server::ServerSpec;

const TABLES: Tables = Tables { count: 4, rows: 10_000 };
/// The default of `innodb_log_spin_cpu_pct_hwm`: percent of all CPUs that the server counts.
const DEFAULT_MARK: f64 = 50.0;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "quota-spin",
    story: "A server under CPUQuota=100% that counts six CPUs burned 21 % of its CPU in log_write_up_to; counted as \
            one, 64 clients of oltp_update_index got 4,677 transactions a second instead of 3,462, and \
            innodb_log_spin_cpu_pct_hwm = 8 did about the same. Here: a quota of half of the CPUs, 64 clients of \
            oltp_update_index, innodb_log_writer_threads ON, no binary log, data in memory, and the low-water mark at 20 \
            %, because two CPUs leave no room above its default of 80. The high-water mark is tried at its default of 50 \
            % of the CPUs that the server counts, which the quota puts out of reach, and at 50 % of those that it is \
            granted.",
    flavors: &[Flavor::Mysql, Flavor::Percona],
    needs: "root, for a CPU quota; two CPUs or more",
    setup: || Ok(setup(std::thread::available_parallelism().map_or(2, usize::from) as f64)),
};

fn setup(cpus: f64) -> Setup {
    let quota = cpus / 2.0;
    let corrected = (DEFAULT_MARK * quota / cpus).floor();
    Setup {
        spec: ServerSpec {
            limits: Limits { quota_cpus: Some(quota), ..Limits::default() },
            tables: Some(TABLES),
            options: ["--disable-log-bin", "--innodb-log-writer-threads=ON", "--innodb-log-spin-cpu-abs-lwm=20"]
                .map(str::to_owned)
                .into(),
            ..ServerSpec::default()
        },
        load: LoadSpec { workload: Workload::OltpUpdateIndex, threads: 64, rate: None, tables: TABLES },
        changes: vec![("innodb_log_spin_cpu_pct_hwm", DEFAULT_MARK.to_string(), corrected.to_string())],
        text: format!(
            "a quota of {quota} of {cpus} CPUs, 64 clients of oltp_update_index, innodb_log_writer_threads ON, \
             innodb_log_spin_cpu_abs_lwm 20"
        ),
    }
    .with_old_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corrected_mark_is_half_of_what_the_quota_grants() {
        assert_eq!(setup(2.0).changes[0].2, "25");
        assert_eq!(setup(6.0).spec.limits.quota_cpus, Some(3.0));
    }
}
