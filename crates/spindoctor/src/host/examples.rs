//! A window of a throttled server, for the tests of the report and of its look.

use spindoctor_model::host::{DataDirectory, Quota, Throttling};
use spindoctor_model::{HostSample, ServerIdentity, ServerVersion};

use spindoctor_model::host::{
    CpuModel, CpuTimes, DiskStat, EffectiveCpus, MemoryStat, NumaNode, PauseLatency, ProcessStat,
    SrvCpuUsage, ThreadStat,
};
use spindoctor_model::{Reading, Sample, Window};

fn read<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 0.1, value }
}

/// Two seconds of a throttled server: the counters of the second sample are those of the first
/// and what two seconds added.
pub fn throttled_window() -> Window {
    let start = "2026-07-01T09:30:00Z".parse().expect("a time that is written here");
    let version = ServerVersion::parse("9.7.4", "");
    let server = ServerIdentity {
        version,
        hostname: "db17".to_owned(),
        address: "/run/mysqld/mysqld.sock".to_owned(),
        pid: Some(4310),
        ..ServerIdentity::default()
    };
    Window { server, start, samples: vec![at(0.0), at(2.0)], ..Window::default() }
}

fn at(at_s: f64) -> Sample {
    let us = |cpus: f64| (cpus * at_s * 1e6) as u64;
    let count = |per_s: f64| (per_s * at_s) as u64;
    let quota = Quota {
        cpus: 1.0,
        quota_us: 100_000,
        period_us: 100_000,
        cgroup: "/kubepods/burstable/pod7/mysql".to_owned(),
    };
    let thread = |tid, name: &str, user, system, waited: f64| ThreadStat {
        tid,
        name: name.to_owned(),
        state: "S".to_owned(),
        user_us: us(user),
        system_us: us(system),
        ran_ns: us(user + system) * 1_000,
        run_queue_ns: us(waited) * 1_000,
        last_cpu: Some(tid % 6),
    };
    let host = HostSample {
        effective_cpus: read(
            at_s,
            EffectiveCpus {
                cpus: 1.0,
                online: 6,
                cpuset: Some(6),
                affinity: Some(6),
                quota: Some(quota.clone()),
                cgroup: quota.cgroup.clone(),
                cgroup_version: 2,
            },
        ),
        throttling: read(
            at_s,
            Throttling {
                cgroup: quota.cgroup,
                periods: count(10.0),
                throttled_periods: count(4.0),
                throttled_us: us(0.41),
                usage_us: Some(us(0.97)),
            },
        ),
        pressure: Reading::Unavailable(
            spindoctor_model::Unavailable::because("/proc/pressure is not there")
                .unlock("boot the kernel with psi=1"),
        ),
        pause: read(
            at_s,
            PauseLatency {
                instruction: "pause".to_owned(),
                ns: 10.9,
                core_cycles: Some(39.0),
                tsc_ticks: Some(28.0),
                per_cpu_ns: vec![(0, 10.9), (1, 10.9)],
                cost_ms: 2.0,
            },
        ),
        cpu: read(
            at_s,
            CpuModel {
                name: "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz".to_owned(),
                microarchitecture: Some("Cascade Lake".to_owned()),
                vendor: "GenuineIntel".to_owned(),
                family_model: Some((6, 85)),
                virtualised: true,
            },
        ),
        cpu_times: read(
            at_s,
            CpuTimes {
                user_us: us(1.2),
                system_us: us(0.3),
                idle_us: us(4.2),
                iowait_us: us(0.3),
                steal_us: 0,
                runnable: 9,
                blocked: 0,
                context_switches: count(21_000.0),
                allowed: None,
            },
        ),
        process: read(
            at_s,
            ProcessStat {
                name: "mysqld".to_owned(),
                state: "S".to_owned(),
                user_us: us(0.8),
                system_us: us(0.17),
                threads: 287,
                resident_bytes: 1_288_490_188,
                ..ProcessStat::default()
            },
        ),
        threads: read(
            at_s,
            vec![
                thread(4351, "connection", 0.3, 0.05, 0.4),
                thread(4320, "ib_log_writer", 0.1, 0.02, 0.01),
                thread(4321, "ib_pg_flush_co", 0.0, 0.0, 0.0),
            ],
        ),
        numa: read(
            at_s,
            vec![NumaNode {
                id: 0,
                cpus: vec![0, 1, 2, 3, 4, 5],
                total_bytes: 17_179_869_184,
                free_bytes: 4_294_967_296,
                server_bytes: Some(1_288_490_188),
            }],
        ),
        disks: read(
            at_s,
            vec![
                DiskStat {
                    name: "nvme0n1".to_owned(),
                    writes: count(900.0),
                    written_bytes: count(12_000_000.0),
                    write_us: count(180_000.0),
                    busy_us: us(0.21),
                    flushes: Some(count(300.0)),
                    flush_us: Some(count(240_000.0)),
                    ..DiskStat::default()
                },
                DiskStat { name: "sdb".to_owned(), ..DiskStat::default() },
            ],
        ),
        memory: read(
            at_s,
            MemoryStat {
                total_bytes: 17_179_869_184,
                available_bytes: 9_663_676_416,
                cached_bytes: 6_442_450_944,
                cgroup_limit_bytes: Some(2_147_483_648),
                cgroup_used_bytes: Some(1_610_612_736),
                ..MemoryStat::default()
            },
        ),
        srv_cpu_usage: read(
            at_s,
            SrvCpuUsage { n_cpu: 6, utime_abs: 80.0, stime_abs: 17.0, utime_pct: 13.3, stime_pct: 2.8 },
        ),
        data_directory: read(
            at_s,
            DataDirectory {
                path: "/var/lib/mysql".to_owned(),
                total_bytes: 107_374_182_400,
                free_bytes: 64_424_509_440,
                ..DataDirectory::default()
            },
        ),
        ..HostSample::default()
    };
    let variables = [
        ("innodb_sync_spin_loops", "30"),
        ("innodb_spin_wait_delay", "6"),
        ("innodb_spin_wait_pause_multiplier", "50"),
    ];
    let mut sample = Sample { at_s, host, ..Sample::default() };
    sample.server.variables = read(at_s, variables.into_iter().collect());
    sample
}
