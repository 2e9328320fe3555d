//! `/proc/meminfo`, `/proc/vmstat` and the cgroup's memory limit.

use spindoctor_model::host::MemoryStat;
use spindoctor_model::{HostSample, Unavailable};

use super::process::{kilobytes, named_values};
use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file};
use crate::source::{Answer, Cadence};

/// Memory and swap.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/meminfo",
    help: "memory and swap of the host, pages swapped, and the cgroup's memory limit",
    cost: "some eight small files",
    needs: "",
    cadence: Cadence::EverySample,
    read,
};

fn read(target: &Target, sample: &mut HostSample, now: &dyn Fn() -> Answer) {
    sample.memory = reading(collect(target), now);
}

fn collect(target: &Target) -> Result<MemoryStat, Unavailable> {
    let path = target.proc.join("meminfo");
    let mut memory =
        parse_meminfo(&kernel_file::read(&path)?).ok_or_else(|| kernel_file::unknown_form(&path))?;
    let path = target.proc.join("vmstat");
    let swapped = parse_swapped_pages(&kernel_file::read(&path)?);
    (memory.swap_in_pages, memory.swap_out_pages) =
        swapped.ok_or_else(|| kernel_file::unknown_form(&path))?;
    (memory.cgroup_limit_bytes, memory.cgroup_used_bytes) = cgroup_memory(target, memory.total_bytes);
    Ok(memory)
}

/// The tightest limit along the path and what the group that sets it uses.
///
/// A limit at or above the host's memory limits nothing; v1 writes "none" as a number near 2^63.
fn cgroup_memory(target: &Target, total_bytes: u64) -> (Option<u64>, Option<u64>) {
    let Ok(Some(cgroup)) = cgroup::find(target, "memory") else { return (None, None) };
    let (limit, used) = match cgroup.version {
        1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => ("memory.max", "memory.current"),
    };
    let number =
        |level: &cgroup::Level, file| parse_bytes(&kernel_file::read(&level.folder.join(file)).ok()?);
    let tightest = cgroup
        .levels
        .iter()
        .filter_map(|level| Some((number(level, limit).filter(|&limit| limit < total_bytes)?, level)))
        .min_by_key(|(limit, _)| *limit);
    match tightest {
        Some((limit, level)) => (Some(limit), number(level, used)),
        None => (None, cgroup.levels.first().and_then(|level| number(level, used))),
    }
}

/// Reads a number of bytes; None for `max`.
pub fn parse_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Reads `/proc/meminfo`; None without `MemTotal`. Swapped pages and the cgroup are left at zero.
pub fn parse_meminfo(text: &str) -> Option<MemoryStat> {
    let find = |wanted| kilobytes(named_values(text).find(|(name, _)| *name == wanted)?.1);
    let or_zero = |wanted| find(wanted).unwrap_or(0);
    let cached = or_zero("Cached");
    Some(MemoryStat {
        total_bytes: find("MemTotal")?,
        available_bytes: find("MemAvailable")
            .unwrap_or_else(|| or_zero("MemFree").saturating_add(or_zero("Buffers")).saturating_add(cached)),
        cached_bytes: cached,
        swap_total_bytes: or_zero("SwapTotal"),
        swap_free_bytes: or_zero("SwapFree"),
        ..MemoryStat::default()
    })
}

/// Reads pages swapped in and out of `/proc/vmstat`.
pub fn parse_swapped_pages(text: &str) -> Option<(u64, u64)> {
    let find = |wanted| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == wanted).then(|| value.trim().parse().ok()).flatten()
        })
    };
    Some((find("pswpin")?, find("pswpout")?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FIXTURES, never_panics, put, target};
    use super::*;

    fn fixture(name: &str) -> String {
        std::fs::read_to_string(format!("{FIXTURES}/procfs/{name}")).unwrap()
    }

    #[test]
    fn before_linux_3_14_what_is_available_is_estimated() {
        let memory = parse_meminfo(&fixture("pmp/meminfo-001.txt")).unwrap();
        assert_eq!(memory.total_bytes, 502_412 * 1024);
        assert_eq!(memory.available_bytes, (38_228 + 20_216 + 67_376) * 1024);
        assert_eq!((memory.swap_total_bytes, memory.swap_free_bytes), (1_015_800 * 1024, 738_288 * 1024));
    }

    #[test]
    fn what_is_available_is_the_kernels_word_where_it_has_one() {
        let memory = parse_meminfo(&fixture("ghw-8581cf3a52/proc/meminfo")).unwrap();
        assert!(memory.available_bytes > 0 && memory.available_bytes < memory.total_bytes);
        assert_eq!(
            parse_meminfo("MemTotal: 9 kB\nMemAvailable: 5 kB\nMemFree: 1 kB\n").unwrap().available_bytes,
            5120
        );
    }

    #[test]
    fn swapped_pages_are_counted() {
        assert_eq!(parse_swapped_pages(&fixture("pmp/vmstat-001.txt")), Some((32, 1_274)));
    }

    #[test]
    fn a_containers_limit_is_found_and_no_limit_is_none() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = format!("{FIXTURES}/procfs/gopsutil/cgroup");
        let proc = root.path().join("proc");
        let scope =
            "/system.slice/docker-fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210.scope";
        let docker = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        for (version, line) in [(1, "9:memory:"), (2, "0::")] {
            let sys = format!("{cgroups}/cgroup{version}/sys");
            let target = Target::under(7, &proc, sys);
            put(root.path(), "proc/7/cgroup", &format!("{line}{scope}\n"));
            assert_eq!(cgroup_memory(&target, 1 << 34), (Some(268_435_456), Some(123_456_789)));
            put(root.path(), "proc/7/cgroup", &format!("{line}{docker}\n"));
            assert_eq!(cgroup_memory(&target, 1 << 34), (None, Some(26_591_232)));
        }
    }

    #[test]
    fn an_ancestors_limit_goes_with_the_ancestors_use() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/pod/db\n");
        put(root.path(), "sys/fs/cgroup/pod/db/memory.max", "max\n");
        put(root.path(), "sys/fs/cgroup/pod/db/memory.current", "100\n");
        put(root.path(), "sys/fs/cgroup/pod/memory.max", "1000\n");
        put(root.path(), "sys/fs/cgroup/pod/memory.current", "900\n");
        let target = target(root.path());
        assert_eq!(cgroup_memory(&target, 1 << 34), (Some(1000), Some(900)));
    }

    #[test]
    fn this_host_answers() {
        let memory = collect(&Target::live(std::process::id())).unwrap();
        assert!(memory.total_bytes > memory.available_bytes && memory.available_bytes > 0);
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_meminfo);
        never_panics(parse_swapped_pages);
        never_panics(parse_bytes);
    }
}
