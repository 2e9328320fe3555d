//! What the host's sources say.

use spindoctor_model::Reading;
use spindoctor_model::host::{
    AllowedCpus, CpuTimes, DiskStat, EffectiveCpus, MemoryStat, OpenFiles, OtherProgram, OtherPrograms,
    Quota, SrvCpuUsage, ThreadStat, Throttling,
};
use spindoctor_model::page_cache::{CachedFiles, PageCache};

use super::{Build, SECONDS, answer};

impl Build {
    /// Binary logs in the page cache of a host with 64 GiB, and how much of its memory is free.
    pub(crate) fn logs_cached(self, cached_bytes: u64, free_bytes: u64) -> Self {
        self.each(|at_s, _, host| {
            let cached = 20 << 30;
            host.memory = answer(
                at_s,
                MemoryStat {
                    total_bytes: 64 << 30,
                    available_bytes: cached + free_bytes,
                    cached_bytes: cached,
                    ..MemoryStat::default()
                },
            );
            let binlog = CachedFiles { files: 40, bytes: 40 << 30, cached_bytes };
            host.page_cache = answer(at_s, PageCache { binlog, ..PageCache::default() });
        })
    }

    /// The server's own view of its CPUs, with user CPU in percent of one CPU.
    pub(crate) fn counted_cpus(self, n_cpu: u32, utime_abs: f64) -> Self {
        self.each(|at_s, _, host| {
            let utime_pct = utime_abs / f64::from(n_cpu);
            host.srv_cpu_usage =
                answer(at_s, SrvCpuUsage { n_cpu, utime_abs, utime_pct, ..SrvCpuUsage::default() });
        })
    }

    /// A quota of so many CPUs on a host of so many, with nothing throttled.
    pub(crate) fn quota(self, cpus: f64, online: u32) -> Self {
        self.each(|at_s, _, host| {
            let quota = Quota {
                cpus,
                quota_us: (cpus * 1e5) as u64,
                period_us: 100_000,
                cgroup: "/kubepods/burstable/pod7/mysql".into(),
            };
            host.effective_cpus =
                answer(at_s, EffectiveCpus { cpus, online, quota: Some(quota), ..EffectiveCpus::default() });
        })
        .throttled(0.0, 0.0)
    }

    /// So many of the window's 100 periods throttled, with so many seconds stopped, summed over CPUs.
    pub(crate) fn throttled(self, periods: f64, stopped_s: f64) -> Self {
        let part = move |at_s: f64, of: f64| (of * at_s / SECONDS as f64) as u64;
        self.each(|at_s, _, host| {
            host.throttling = answer(
                at_s,
                Throttling {
                    periods: part(at_s, 100.0),
                    throttled_periods: part(at_s, periods),
                    throttled_us: part(at_s, stopped_s * 1e6),
                    ..Throttling::default()
                },
            );
        })
    }

    /// CPUs that the server's threads used and waited for, spread over sixteen threads.
    pub(crate) fn runs(self, ran_cpus: f64, queued_cpus: f64) -> Self {
        self.each(|at_s, _, host| {
            let part = |cpus: f64| (cpus / 16.0 * at_s * 1e9) as u64;
            let thread = |tid| ThreadStat {
                tid,
                name: "connection".into(),
                state: "S".into(),
                ran_ns: part(ran_cpus),
                run_queue_ns: part(queued_cpus),
                ..ThreadStat::default()
            };
            host.threads = answer(at_s, (4311..4327).map(thread).collect());
        })
    }

    /// CPUs of the host that were busy and idle.
    pub(crate) fn host_cpu(self, busy: f64, idle: f64) -> Self {
        self.each(|at_s, _, host| {
            let part = |cpus: f64| (cpus * at_s * 1e6) as u64;
            host.cpu_times =
                answer(at_s, CpuTimes { user_us: part(busy), idle_us: part(idle), ..CpuTimes::default() });
        })
    }

    /// A server that may run on so many of so many CPUs alone, after [`Build::host_cpu`]; so many of those were busy, where the
    /// kernel's count of each is known.
    pub(crate) fn confined(self, allowed: u32, online: u32, busy: Option<f64>) -> Self {
        self.each(|at_s, _, host| {
            let cpus = f64::from(allowed);
            let granted = EffectiveCpus { cpus, online, cpuset: Some(allowed), ..EffectiveCpus::default() };
            host.effective_cpus = answer(at_s, granted);
            let sum = busy.map(|busy| AllowedCpus {
                cpus: format!("0-{}", allowed - 1),
                count: allowed,
                busy_us: (busy * at_s * 1e6) as u64,
                steal_us: 0,
            });
            if let Reading::Available { value, .. } = &mut host.cpu_times {
                value.allowed = sum;
            }
        })
    }

    /// Files that the server has open, how many it may have, and how many of them are connections.
    pub(crate) fn open_files(self, open: u64, limit: u64, sockets: Option<u64>) -> Self {
        self.each(|at_s, _, host| {
            host.open_files = answer(at_s, OpenFiles { open, limit: Some(limit), sockets });
        })
    }

    /// What the other programs of the host used.
    pub(crate) fn other_programs(self, programs: &[OtherProgram]) -> Self {
        self.each(|at_s, _, host| {
            let known = OtherPrograms { over_s: at_s, programs: programs.to_vec() };
            host.other_programs = answer(at_s, if at_s > 0.0 { known } else { OtherPrograms::default() });
        })
    }

    /// A disk: writes a second, microseconds of a write and of a flush.
    pub(crate) fn disk(self, per_s: f64, write_us: f64, flush_us: f64) -> Self {
        self.each(|at_s, _, host| {
            let count = per_s * at_s;
            host.disks = answer(
                at_s,
                vec![DiskStat {
                    name: "nvme0n1".into(),
                    writes: count as u64,
                    write_us: (count * write_us) as u64,
                    flushes: Some(count as u64),
                    flush_us: Some((count * flush_us) as u64),
                    ..DiskStat::default()
                }],
            );
        })
    }
}
