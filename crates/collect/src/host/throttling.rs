//! `cpu.stat` of the cgroup that sets the tightest quota: how often and how long the kernel stopped
//! the group for having used its share of a period.

use spindoctor_model::Unavailable;
use spindoctor_model::host::Throttling;

use super::cgroup::{self, Cgroup};
use super::effective_cpus::tightest_quota;
use super::kernel_file;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// Bandwidth control's counters.
pub const SOURCE: HostSource = HostSource {
    name: "cpu.stat",
    help: "periods in which the CPU quota stopped the server, and for how long",
    cost: "some five small files",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.throttling = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<Throttling, Unavailable> {
    let Some(cgroup) = cgroup::find(target, "cpu")? else {
        return Err(Unavailable::because("this kernel has no cpu cgroup controller, and so no quota"));
    };
    let level = match tightest_quota(&cgroup)? {
        Some((_, level)) => level,
        None => &cgroup.levels[0],
    };
    let stat = kernel_file::read_if_any(&level.folder.join("cpu.stat"))?.unwrap_or_default();
    let mut throttling = parse_cpu_stat(&stat);
    throttling.cgroup.clone_from(&level.name);
    if cgroup.version == 1 {
        throttling.usage_us = cpuacct_usage_us(target, &cgroup, &level.name);
    }
    Ok(throttling)
}

/// CPU time of a v1 group. `cpuacct` may be a hierarchy of its own, in which the server is in some
/// other group: its counter would be of other processes.
fn cpuacct_usage_us(target: &Target, cpu: &Cgroup, name: &str) -> Option<u64> {
    let cpuacct = cgroup::find(target, "cpuacct").ok()??;
    let level = cpuacct.levels.iter().find(|level| cpuacct.name == cpu.name && level.name == name)?;
    parse_cpuacct_usage(&kernel_file::read(&level.folder.join("cpuacct.usage")).ok()?)
}

/// Reads `cpu.stat` of v2 (`throttled_usec`, `usage_usec`) or v1 (`throttled_time`, nanoseconds).
/// What it does not name is zero; the group's name is left to the caller.
pub fn parse_cpu_stat(text: &str) -> Throttling {
    let mut throttling = Throttling::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        match name {
            "nr_periods" => throttling.periods = value,
            "nr_throttled" => throttling.throttled_periods = value,
            "throttled_usec" => throttling.throttled_us = value,
            "throttled_time" => throttling.throttled_us = value / 1_000,
            "usage_usec" => throttling.usage_us = Some(value),
            _ => {}
        }
    }
    throttling
}

/// Reads v1 `cpuacct.usage`, nanoseconds, as microseconds.
pub fn parse_cpuacct_usage(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().map(|ns| ns / 1_000)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::testing::{LiveCgroup, never_panics, part, put, target, tree};
    use super::*;

    #[test]
    fn a_container_is_read_by_either_version_alike() {
        let membership = part("written/host-cgroup-v2", "proc/7/cgroup");
        let scope = membership.trim().trim_start_matches("0::");
        for version in [1, 2] {
            let root = tree(&format!("written/host-cgroup-v{version}"));
            assert_eq!(
                collect(&target(root.path())).unwrap(),
                Throttling {
                    cgroup: scope.into(),
                    periods: 64,
                    throttled_periods: 11,
                    throttled_us: 905_300,
                    usage_us: Some(7_300_125),
                },
                "version {version}"
            );
        }
    }

    #[test]
    fn a_throttled_server_is_stopped_more_often_from_one_reading_to_the_next() {
        for (server, _) in spindoctor_corpus::captures("host-of-a-throttled-server").unwrap() {
            let root = tree(&format!("{server}/host-of-a-throttled-server"));
            let pid = server_of(root.path());
            let at = |root: &std::path::Path| collect(&super::super::testing::process(root, pid)).unwrap();
            let (before, after) = (at(root.path()), at(&root.path().join("later")));
            assert!(after.throttled_periods > before.throttled_periods, "{server}: {before:?} {after:?}");
            assert!(after.throttled_us > before.throttled_us && after.periods > before.periods, "{server}");
            assert!(after.usage_us >= before.usage_us, "{server}");
        }
    }

    /// The only process of a captured tree.
    fn server_of(root: &std::path::Path) -> u32 {
        let entries = std::fs::read_dir(root.join("proc")).unwrap();
        let mut pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.next().unwrap()
    }

    #[test]
    fn v1_counts_nanoseconds() {
        let stat = parse_cpu_stat("nr_periods 7\nnr_throttled 3\nthrottled_time 123456789\nnr_bursts 0\n");
        assert_eq!((stat.periods, stat.throttled_periods, stat.throttled_us), (7, 3, 123_456));
        assert_eq!(parse_cpuacct_usage("2500000000\n"), Some(2_500_000));
    }

    #[test]
    fn the_counters_are_of_the_group_that_sets_the_quota() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "2:cpuacct,cpu:/pod/db\n");
        let tree = "sys/fs/cgroup/cpu";
        put(root.path(), &format!("{tree}/pod/db/cpu.stat"), "nr_throttled 1\n");
        put(
            root.path(),
            &format!("{tree}/pod/cpu.stat"),
            "nr_periods 9\nnr_throttled 8\nthrottled_time 7000\n",
        );
        put(root.path(), &format!("{tree}/pod/cpuacct.usage"), "5000\n");
        put(root.path(), &format!("{tree}/pod/cpu.cfs_quota_us"), "50000\n");
        put(root.path(), &format!("{tree}/pod/cpu.cfs_period_us"), "100000\n");
        let target = target(root.path());
        assert_eq!(
            collect(&target).unwrap(),
            Throttling {
                cgroup: "/pod".into(),
                periods: 9,
                throttled_periods: 8,
                throttled_us: 7,
                usage_us: Some(5),
            }
        );
    }

    #[test]
    fn usage_of_another_group_is_not_taken_for_the_servers() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "2:cpuacct:/\n1:cpu:/db\n");
        put(root.path(), "sys/fs/cgroup/cpu/db/cpu.stat", "nr_periods 0\n");
        put(root.path(), "sys/fs/cgroup/cpuacct/cpuacct.usage", "5000\n");
        let target = target(root.path());
        assert_eq!(collect(&target).unwrap().usage_us, None);
    }

    #[test]
    fn a_process_that_wants_more_than_its_quota_is_throttled() {
        let Some(mut cgroup) = LiveCgroup::with_quota("throttling", 1_000, 10_000) else { return };
        let target = Target::live(cgroup.pid());
        let before = collect(&target).unwrap();
        assert_eq!(before.cgroup, cgroup.name());
        // Copying takes CPU: a tenth of one is used up soon, however fast the machine is.
        let block = vec![0_u8; 1 << 20];
        let throttled = (0..100_000).any(|_| {
            cgroup.input().write_all(&block).unwrap();
            collect(&target).unwrap().throttled_periods > before.throttled_periods
        });
        let after = collect(&target).unwrap();
        assert!(throttled && after.periods > before.periods, "{before:?} {after:?}");
        assert!(after.throttled_us >= before.throttled_us);
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_cpu_stat);
        never_panics(parse_cpuacct_usage);
    }
}
