//! How many CPUs the kernel grants the server: the least of those online, in its cpuset, in its
//! affinity mask, and in the tightest quota along its cgroup path (`cpu.max`, or
//! `cpu.cfs_quota_us` and `cpu.cfs_period_us`).

use spindoctor_model::Unavailable;
use spindoctor_model::host::{EffectiveCpus, Quota};

use super::cgroup::{self, Cgroup, Level};
use super::cpu_list::{CpuSet, parse_cpu_list};
use super::source::{HostSource, Target, reading};
use super::{kernel_file, process};
use crate::pace::Pace;
use crate::source::Cadence;

/// What the kernel grants.
pub const SOURCE: HostSource = HostSource {
    name: "cpu.max",
    help: "CPUs granted to the server: quota along the cgroup path, cpuset, affinity, online",
    cost: "some ten small files",
    needs: "",
    cadence: Cadence::Ends,
    pace: Pace::host(10, 60),
    read: |target, sample, now| sample.effective_cpus = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<EffectiveCpus, Unavailable> {
    let online = online(target)?;
    let affinity = process::parse_status(&kernel_file::read(&target.process("status"))?).cpus_allowed;
    let cpuset = cpuset(target);
    let cgroup = cgroup::find(target, "cpu")?;
    let quota = cgroup.as_ref().map(tightest_quota).transpose()?.flatten().map(|(quota, _)| quota);

    let within = |set: &Option<CpuSet>| {
        set.as_ref().map(|set| u32::try_from(set.intersection(&online).count()).unwrap_or(u32::MAX))
    };
    let granted = online
        .iter()
        .filter(|cpu| [&cpuset, &affinity].into_iter().flatten().all(|set| set.contains(cpu)))
        .count();
    let quota_cpus = quota.as_ref().map_or(f64::INFINITY, |quota| quota.cpus);
    Ok(EffectiveCpus {
        cpus: quota_cpus.min(granted as f64),
        online: u32::try_from(online.len()).unwrap_or(u32::MAX),
        cpuset: within(&cpuset),
        affinity: within(&affinity),
        quota,
        cgroup: cgroup.as_ref().map(|cgroup| cgroup.name.clone()).unwrap_or_default(),
        cgroup_version: cgroup.map_or(0, |cgroup| cgroup.version),
    })
}

/// CPUs that the server's main thread may run on now: online, in its cpuset and its affinity mask.
pub(crate) fn runnable_on(target: &Target) -> Result<CpuSet, Unavailable> {
    let mut cpus = online(target)?;
    let affinity = process::parse_status(&kernel_file::read(&target.process("status"))?).cpus_allowed;
    for set in [cpuset(target), affinity].into_iter().flatten() {
        cpus.retain(|cpu| set.contains(cpu));
    }
    Ok(cpus)
}

/// CPUs online: the kernel's list, or the `cpuN` lines of `/proc/stat` where `/sys` is not mounted.
fn online(target: &Target) -> Result<CpuSet, Unavailable> {
    let path = target.sys.join("devices/system/cpu/online");
    match kernel_file::read_if_any(&path)? {
        Some(list) => parse_cpu_list(&list),
        None => Some(parse_stat_cpus(&kernel_file::read(&target.proc.join("stat"))?)),
    }
    .filter(|cpus| !cpus.is_empty())
    .ok_or_else(|| kernel_file::unknown_form(&path))
}

/// Reads the numbers of the `cpuN` lines of `/proc/stat`.
pub fn parse_stat_cpus(text: &str) -> CpuSet {
    text.lines().filter_map(|line| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()).collect()
}

/// The effective cpuset: of the group, or of the nearest ancestor that keeps one.
///
/// The affinity mask is held within it by the kernel, so that a cpuset that cannot be seen hides
/// nothing from the result.
fn cpuset(target: &Target) -> Option<CpuSet> {
    let cgroup = cgroup::find(target, "cpuset").ok()??;
    let names: &[&str] = match cgroup.version {
        1 => &["cpuset.effective_cpus", "cpuset.cpus"],
        _ => &["cpuset.cpus.effective"],
    };
    cgroup
        .levels
        .iter()
        .flat_map(|level| names.iter().map(|name| level.folder.join(name)))
        .find_map(|path| parse_cpu_list(&kernel_file::read(&path).ok()?).filter(|cpus| !cpus.is_empty()))
}

/// The tightest quota from the group up to the root, and the group that sets it.
pub(crate) fn tightest_quota(cgroup: &Cgroup) -> Result<Option<(Quota, &Level)>, Unavailable> {
    let mut tightest: Option<(Quota, &Level)> = None;
    for level in &cgroup.levels {
        let Some((quota_us, period_us)) = quota_of(level, cgroup.version)? else { continue };
        let cpus = quota_us as f64 / period_us as f64;
        if tightest.as_ref().is_none_or(|(quota, _)| cpus < quota.cpus) {
            tightest = Some((Quota { cpus, quota_us, period_us, cgroup: level.name.clone() }, level));
        }
    }
    Ok(tightest)
}

/// Quota and period of one group, microseconds. A group without the files (the root of v2, or a
/// group whose parent does not enable the controller) has none.
fn quota_of(level: &Level, version: u8) -> Result<Option<(u64, u64)>, Unavailable> {
    let read = |name| kernel_file::read_if_any(&level.folder.join(name));
    Ok(if version == 2 {
        read("cpu.max")?.and_then(|text| parse_cpu_max(&text))
    } else {
        match (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?) {
            (Some(quota), Some(period)) => parse_cfs_quota(&quota, &period),
            _ => None,
        }
    })
}

/// Reads v2 `cpu.max`, `50000 100000` or `max 100000`: quota and period in microseconds, None for
/// no limit.
pub fn parse_cpu_max(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?;
    // The period may be left out: it is 100 ms then (Linux, Documentation/admin-guide/cgroup-v2.rst).
    parse_cfs_quota(quota, words.next().unwrap_or("100000"))
}

/// Reads v1 `cpu.cfs_quota_us` (-1 for no limit) and `cpu.cfs_period_us`.
pub fn parse_cfs_quota(quota: &str, period: &str) -> Option<(u64, u64)> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then_some((quota, period))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::testing::{LiveCgroup, never_panics, process, put, target, tree};
    use super::*;

    /// Eight CPUs, of which CPU 7 is offline; the server's mask names CPUs that do not exist.
    fn host(root: &Path) -> Target {
        put(root, "sys/devices/system/cpu/online", "0-6\n");
        put(root, "proc/7/status", "Cpus_allowed_list:\t0-127\n");
        target(root)
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn without_limits_it_is_the_cpus_online() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/cgroup", "0::/\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/cgroup.procs", "7\n");
        let effective = collect(&target).unwrap();
        assert_eq!((effective.cpus, effective.online), (7.0, 7));
        assert_eq!((effective.affinity, effective.cpuset, effective.quota), (Some(7), None, None));
    }

    #[test]
    fn an_ancestors_quota_counts_when_it_is_the_tightest() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/cgroup", "0::/kubepods/pod7/mysql\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/kubepods/pod7/mysql/cpu.max", "400000 100000\n");
        put(root.path(), "sys/fs/cgroup/kubepods/pod7/cpu.max", "75000 50000\n");
        put(root.path(), "sys/fs/cgroup/kubepods/cpu.max", "max 100000\n");
        let effective = collect(&target).unwrap();
        assert_eq!(effective.cpus, 1.5);
        assert_eq!(
            effective.quota.unwrap(),
            Quota { cpus: 1.5, quota_us: 75_000, period_us: 50_000, cgroup: "/kubepods/pod7".into() }
        );
        assert_eq!((effective.cgroup.as_str(), effective.cgroup_version), ("/kubepods/pod7/mysql", 2));
    }

    #[test]
    fn v1_quota_and_cpuset_come_from_their_own_hierarchies() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/cgroup", "3:cpuset:/set\n2:cpu,cpuacct:/a/b\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
        put(root.path(), "sys/fs/cgroup/cpuset/set/cpuset.cpus", "2-3,7\n");
        let effective = collect(&target).unwrap();
        // CPU 7 is offline.
        assert_eq!((effective.cpus, effective.cpuset), (2.0, Some(2)));
        assert_eq!(effective.quota.unwrap().cpus, 2.5);
        assert_eq!((effective.cgroup.as_str(), effective.cgroup_version), ("/a/b", 1));
        assert_eq!(runnable_on(&target).unwrap(), CpuSet::from([2, 3]));
    }

    #[test]
    fn an_empty_cpuset_is_its_parents() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/cgroup", "0::/a/b\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        put(root.path(), "sys/fs/cgroup/a/cpuset.cpus.effective", "0-1\n");
        assert_eq!(collect(&target).unwrap().cpuset, Some(2));
    }

    #[test]
    fn cpuset_and_affinity_are_cut_with_each_other() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/status", "Cpus_allowed_list:\t1-3\n");
        put(root.path(), "proc/7/cgroup", "0::/a\n");
        put(root.path(), "sys/fs/cgroup/a/cpuset.cpus.effective", "3-5\n");
        let effective = collect(&target).unwrap();
        assert_eq!((effective.cpus, effective.cpuset, effective.affinity), (1.0, Some(3), Some(3)));
    }

    #[test]
    fn containers_of_both_versions_are_read_with_a_quota_and_without() {
        for version in [1, 2] {
            let root = tree(&format!("written/host-cgroup-v{version}"));
            for pid in [7, 8] {
                put(root.path(), "sys/devices/system/cpu/online", "0-6\n");
                put(root.path(), &format!("proc/{pid}/status"), "Cpus_allowed_list:\t0-127\n");
            }
            let limited = collect(&process(root.path(), 7)).unwrap();
            assert_eq!((limited.cpus, limited.cgroup_version), (1.5, version));
            assert!(limited.cgroup.starts_with("/system.slice/docker-"), "{limited:?}");
            let free = collect(&process(root.path(), 8)).unwrap();
            assert_eq!((free.cpus, free.quota), (7.0, None));
        }
    }

    #[test]
    fn a_quota_that_cannot_be_seen_leaves_the_answer_open() {
        let root = tempfile::tempdir().unwrap();
        let target = host(root.path());
        put(root.path(), "proc/7/cgroup", "0::/../elsewhere\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/cpu.max", "max 100000\n");
        assert!(collect(&target).unwrap_err().because.contains("/../elsewhere"));
    }

    #[test]
    fn cpus_are_counted_in_proc_stat_where_sys_is_not_mounted() {
        assert_eq!(parse_stat_cpus("cpu  1 2\ncpu0 1 2\ncpu3 1 2\nctxt 5\n"), CpuSet::from([0, 3]));
    }

    #[test]
    fn no_limit_is_none() {
        assert_eq!(parse_cpu_max("max 100000\n"), None);
        assert_eq!(parse_cpu_max("max\n"), None);
        assert_eq!(parse_cpu_max("50000\n"), Some((50_000, 100_000)));
        assert_eq!(parse_cfs_quota("-1\n", "100000\n"), None);
        assert_eq!(parse_cfs_quota("1\n", "0\n"), None);
    }

    #[test]
    fn a_live_quota_of_half_a_cpu_is_half_a_cpu() {
        let Some(cgroup) = LiveCgroup::with_quota("effective", 50_000, 100_000) else { return };
        let effective = collect(&Target::live(cgroup.pid())).unwrap();
        assert_eq!(effective.cpus, 0.5);
        assert_eq!(effective.cgroup, cgroup.name());
        assert_eq!(effective.quota.unwrap().cgroup, cgroup.name());
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_cpu_max);
        never_panics(|text| parse_cfs_quota(text, text));
        never_panics(parse_stat_cpus);
        never_panics(parse_cpu_list);
    }
}
