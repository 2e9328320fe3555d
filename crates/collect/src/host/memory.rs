//! `/proc/meminfo`, `/proc/vmstat` and the cgroup's memory limit.

use spindoctor_model::Unavailable;
use spindoctor_model::host::MemoryStat;

use super::process::{kilobytes, named_values};
use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file};
use crate::pace::Pace;
use crate::source::Cadence;

/// Memory and swap.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/meminfo",
    help: "memory and swap of the host, pages swapped, and the cgroup's memory limit",
    cost: "some eight small files",
    needs: "",
    cadence: Cadence::EverySample,
    pace: Pace::host(5, 60),
    read: |target, sample, now| sample.memory = reading(collect(target), now),
};

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
    use super::super::testing::{never_panics, part, process, put, target, tree};
    use super::*;

    #[test]
    fn before_linux_3_14_what_is_available_is_estimated() {
        let memory = parse_meminfo(&part("written/host-old-kernel", "proc/meminfo")).unwrap();
        assert_eq!(memory.total_bytes, 1_034_000 * 1024);
        assert_eq!(memory.available_bytes, (41_000 + 22_000 + 210_000) * 1024);
        assert_eq!((memory.swap_total_bytes, memory.swap_free_bytes), (2_096_440 * 1024, 1_990_000 * 1024));
    }

    #[test]
    fn what_is_available_is_the_kernels_word_where_it_has_one() {
        let memory = parse_meminfo(&part("written/host-numa-two-nodes", "proc/meminfo")).unwrap();
        assert_eq!(memory.available_bytes, 21_400_800 * 1024);
        assert_eq!(
            parse_meminfo("MemTotal: 9 kB\nMemAvailable: 5 kB\nMemFree: 1 kB\n").unwrap().available_bytes,
            5120
        );
    }

    #[test]
    fn swapped_pages_are_counted() {
        assert_eq!(parse_swapped_pages(&part("written/host-old-kernel", "proc/vmstat")), Some((45, 3_120)));
    }

    #[test]
    fn a_containers_limit_is_found_and_no_limit_is_none() {
        for version in [1, 2] {
            let root = tree(&format!("written/host-cgroup-v{version}"));
            let memory = |pid| cgroup_memory(&process(root.path(), pid), 1 << 34);
            assert_eq!(memory(7), (Some(512 << 20), Some(383 << 20)), "version {version}");
            assert_eq!(memory(8), (None, Some(70 << 20)), "version {version}");
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
