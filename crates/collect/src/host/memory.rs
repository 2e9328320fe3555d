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
    cost: "some dozen small files",
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
    let of_group = cgroup_memory(target, memory.total_bytes);
    Ok(MemoryStat {
        cgroup_limit_bytes: of_group.cgroup_limit_bytes,
        cgroup_used_bytes: of_group.cgroup_used_bytes,
        cgroup_high_bytes: of_group.cgroup_high_bytes,
        cgroup_limit_hits: of_group.cgroup_limit_hits,
        cgroup_oom_kills: of_group.cgroup_oom_kills,
        cgroup_kept_bytes: of_group.cgroup_kept_bytes,
        cgroup_swap_left_bytes: of_group.cgroup_swap_left_bytes,
        is_under_oom: of_group.is_under_oom,
        ..memory
    })
}

/// What must be left of a group's limit at most for `memory.stat` to be asked, and for what it says to be kept. Before Linux 6.8 the kernel
/// adds up all groups for each answer; and a group with more room than all buffers of some hundred connections take is in no danger,
/// however large the part of its limit that a buffer pool fills. Chosen.
const NEAR_LIMIT_BYTES: u64 = 512 << 20;

/// The tightest limits along the path, and what the group that sets the tighter one uses and has met; of the host nothing.
///
/// A limit at or above the host's memory limits nothing; v1 writes "none" as a number near 2^63.
fn cgroup_memory(target: &Target, total_bytes: u64) -> MemoryStat {
    let Ok(Some(cgroup)) = cgroup::find(target, "memory") else { return MemoryStat::default() };
    let (limit, used) = match cgroup.version {
        1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        _ => ("memory.max", "memory.current"),
    };
    let text = |level: &cgroup::Level, file| kernel_file::read(&level.folder.join(file)).ok();
    let number = |level: &cgroup::Level, file| parse_bytes(&text(level, file)?);
    let tightest = |file| {
        let limits = cgroup.levels.iter().filter_map(|level| Some((number(level, file)?, level)));
        limits.filter(|(limit, _)| *limit < total_bytes).min_by_key(|(limit, _)| *limit)
    };
    let (limit, high) = (tightest(limit), tightest("memory.high"));
    let bound = limit.into_iter().chain(high).min_by_key(|(bytes, _)| *bytes);
    let level = bound.map(|(_, level)| level).or_else(|| cgroup.levels.first());
    let met = level.and_then(|level| match cgroup.version {
        1 => {
            Some(parse_memory_failures(&text(level, "memory.failcnt")?, &text(level, "memory.oom_control")?))
        }
        _ => Some(parse_memory_events(&text(level, "memory.events")?)),
    });
    let kept = limit.and_then(|(limit, level)| {
        let is_near = number(level, used)? >= limit.saturating_sub(NEAR_LIMIT_BYTES);
        let kept = parse_kept_bytes(&is_near.then(|| text(level, "memory.stat")).flatten()?)?;
        (kept >= limit.saturating_sub(NEAR_LIMIT_BYTES)).then_some(kept)
    });
    MemoryStat {
        cgroup_limit_bytes: limit.map(|(bytes, _)| bytes),
        cgroup_high_bytes: high.map(|(bytes, _)| bytes),
        cgroup_used_bytes: level.and_then(|level| number(level, used)),
        cgroup_kept_bytes: kept,
        cgroup_swap_left_bytes: kept.and_then(|_| swap_left_bytes(&cgroup)),
        ..met.unwrap_or_default()
    }
}

/// v1 writes a limit that is none as a number near 2^63.
const NO_LIMIT_BYTES: u64 = 1 << 62;

/// What the group and its ancestors may still write to swap; None where none of them bounds it. v1 bounds memory and swap together
/// (Documentation/admin-guide/cgroup-v1/memory.rst): what is left of memory's own limit is taken first, and is no swap.
fn swap_left_bytes(cgroup: &cgroup::Cgroup) -> Option<u64> {
    let of_level = |level: &cgroup::Level| {
        let number = |file: &str| parse_bytes(&kernel_file::read(&level.folder.join(file)).ok()?);
        let left = |most: u64, used: &str| most.saturating_sub(number(used).unwrap_or(0));
        if cgroup.version == 2 {
            return Some(left(number("memory.swap.max")?, "memory.swap.current"));
        }
        let both = number("memory.memsw.limit_in_bytes").filter(|&most| most < NO_LIMIT_BYTES)?;
        let of_memory = left(number("memory.limit_in_bytes")?, "memory.usage_in_bytes");
        Some(left(both, "memory.memsw.usage_in_bytes").saturating_sub(of_memory))
    };
    cgroup.levels.iter().filter_map(of_level).min()
}

/// Reads `memory.events` of v2: how often the group came to `memory.high` or `memory.max`, and processes that were ended.
///
/// ```text
/// high 12
/// max 40
/// oom_kill 0
/// ```
pub fn parse_memory_events(text: &str) -> MemoryStat {
    let find = |wanted| counted(text, wanted);
    let hits = find("high").into_iter().chain(find("max")).reduce(u64::saturating_add);
    MemoryStat { cgroup_limit_hits: hits, cgroup_oom_kills: find("oom_kill"), ..MemoryStat::default() }
}

/// Reads v1's `memory.failcnt`, a number, and `memory.oom_control` (`under_oom 0`; `oom_kill 3` from Linux 4.13 on).
pub fn parse_memory_failures(failures: &str, oom_control: &str) -> MemoryStat {
    MemoryStat {
        cgroup_limit_hits: parse_bytes(failures),
        cgroup_oom_kills: counted(oom_control, "oom_kill"),
        is_under_oom: counted(oom_control, "under_oom") == Some(1),
        ..MemoryStat::default()
    }
}

/// Reads what `memory.stat` has of memory that is in no file: with the groups below it, also of v1, where `rss` is the group's own.
/// Pages that are locked are among these; of the two none is in the other.
pub fn parse_kept_bytes(text: &str) -> Option<u64> {
    let (anonymous, shared) = match counted(text, "anon") {
        Some(anonymous) => (anonymous, counted(text, "shmem")),
        None => (counted(text, "total_rss")?, counted(text, "total_shmem")),
    };
    Some(anonymous.saturating_add(shared.unwrap_or(0)))
}

/// The number in the line that a name begins: `max 40`.
fn counted(text: &str, wanted: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == wanted).then(|| value.trim().parse().ok()).flatten()
    })
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
    let unwritten = find("Dirty").zip(find("Writeback"));
    Some(MemoryStat {
        total_bytes: find("MemTotal")?,
        available_bytes: find("MemAvailable")
            .unwrap_or_else(|| or_zero("MemFree").saturating_add(or_zero("Buffers")).saturating_add(cached)),
        cached_bytes: cached,
        unwritten_bytes: unwritten.map(|(dirty, on_its_way)| dirty.saturating_add(on_its_way)),
        swap_total_bytes: or_zero("SwapTotal"),
        swap_free_bytes: or_zero("SwapFree"),
        ..MemoryStat::default()
    })
}

/// Reads pages swapped in and out of `/proc/vmstat`.
pub fn parse_swapped_pages(text: &str) -> Option<(u64, u64)> {
    Some((counted(text, "pswpin")?, counted(text, "pswpout")?))
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
    fn what_is_not_on_storage_yet_is_dirty_or_on_its_way() {
        let unwritten = |text| parse_meminfo(text).unwrap().unwritten_bytes;
        assert_eq!(
            unwritten("MemTotal: 9 kB\nDirty: 5 kB\nWriteback: 2 kB\nWritebackTmp: 1 kB\n"),
            Some(7168)
        );
        assert_eq!(unwritten("MemTotal: 9 kB\nDirty: 5 kB\n"), None);
    }

    #[test]
    fn swapped_pages_are_counted() {
        assert_eq!(parse_swapped_pages(&part("written/host-old-kernel", "proc/vmstat")), Some((45, 3_120)));
    }

    #[test]
    fn a_containers_limit_is_found_and_no_limit_is_none() {
        for version in [1, 2] {
            let root = tree(&format!("written/host-cgroup-v{version}"));
            let memory = |pid| {
                let memory = cgroup_memory(&process(root.path(), pid), 1 << 34);
                (memory.cgroup_limit_bytes, memory.cgroup_used_bytes)
            };
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
        let memory = cgroup_memory(&target, 1 << 34);
        assert_eq!((memory.cgroup_limit_bytes, memory.cgroup_used_bytes), (Some(1000), Some(900)));
        assert_eq!((memory.cgroup_high_bytes, memory.cgroup_limit_hits), (None, None));
    }

    #[test]
    fn memory_that_stays_is_asked_for_where_little_is_left_and_kept_where_it_is_what_leaves_little() {
        let kept = |used_mib: u64, anonymous_mib: u64| {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), "proc/7/cgroup", "0::/db\n");
            put(root.path(), "sys/fs/cgroup/db/memory.max", "8589934592\n");
            put(root.path(), "sys/fs/cgroup/db/memory.current", &format!("{}\n", used_mib << 20));
            put(
                root.path(),
                "sys/fs/cgroup/db/memory.stat",
                &format!("anon {}\nshmem 0\n", anonymous_mib << 20),
            );
            cgroup_memory(&target(root.path()), 1 << 36).cgroup_kept_bytes
        };
        assert_eq!(kept(8_100, 7_900), Some(7_900 << 20));
        assert_eq!(kept(8_190, 5_000), None, "the rest is page cache");
        assert_eq!(kept(7_600, 7_500), None, "592 MiB are left");
    }

    #[test]
    fn a_group_may_write_less_to_swap_than_the_host_has_free() {
        let left = |files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), "proc/7/cgroup", "0::/pod/db\n");
            for (file, text) in files {
                put(root.path(), &format!("sys/fs/cgroup/pod/{file}"), text);
            }
            put(root.path(), "sys/fs/cgroup/pod/db/memory.max", "1000\n");
            put(root.path(), "sys/fs/cgroup/pod/db/memory.current", "990\n");
            put(root.path(), "sys/fs/cgroup/pod/db/memory.stat", "anon 950\nshmem 0\n");
            let memory = cgroup_memory(&target(root.path()), 1 << 34);
            let free = MemoryStat { swap_free_bytes: 5_000, ..memory };
            (free.cgroup_swap_left_bytes, free.swap_left_bytes())
        };
        assert_eq!(left(&[("db/memory.swap.max", "0\n"), ("db/memory.swap.current", "0\n")]), (Some(0), 0));
        assert_eq!(left(&[("db/memory.swap.max", "max\n"), ("memory.swap.max", "max\n")]), (None, 5_000));
        assert_eq!(left(&[]), (None, 5_000), "a kernel without swap");
        let of_ancestor =
            [("db/memory.swap.max", "max\n"), ("memory.swap.max", "800\n"), ("memory.swap.current", "300\n")];
        assert_eq!(left(&of_ancestor), (Some(500), 500));
    }

    #[test]
    fn in_v1_swap_is_what_memory_and_swap_together_may_have_beyond_memory() {
        let left = |both: &str| {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), "proc/7/cgroup", "5:memory:/db\n");
            for (file, text) in [
                ("limit_in_bytes", "1000\n"),
                ("usage_in_bytes", "990\n"),
                ("stat", "total_rss 950\ntotal_shmem 0\n"),
                ("memsw.limit_in_bytes", both),
                ("memsw.usage_in_bytes", "1090\n"),
            ] {
                put(root.path(), &format!("sys/fs/cgroup/memory/db/memory.{file}"), text);
            }
            cgroup_memory(&target(root.path()), 1 << 34).cgroup_swap_left_bytes
        };
        // 100 are in swap, and 10 more of memory may be used.
        assert_eq!((left("1000\n"), left("1100\n"), left("1300\n")), (Some(0), Some(0), Some(200)));
        assert_eq!(left("9223372036854771712\n"), None);
    }

    #[test]
    fn where_the_kernel_throttles_before_the_limit_that_bounds_the_group() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/db\n");
        put(root.path(), "sys/fs/cgroup/db/memory.max", "1000\n");
        put(root.path(), "sys/fs/cgroup/db/memory.high", "800\n");
        put(root.path(), "sys/fs/cgroup/db/memory.current", "790\n");
        let events = "low 0\nhigh 12\nmax 40\noom 2\noom_kill 1\noom_group_kill 0\n";
        put(root.path(), "sys/fs/cgroup/db/memory.events", events);
        let memory = cgroup_memory(&target(root.path()), 1 << 34);
        assert_eq!(
            memory,
            MemoryStat {
                cgroup_limit_bytes: Some(1000),
                cgroup_high_bytes: Some(800),
                cgroup_used_bytes: Some(790),
                cgroup_limit_hits: Some(52),
                cgroup_oom_kills: Some(1),
                ..MemoryStat::default()
            }
        );
        assert_eq!(memory.cgroup_bound_bytes(), Some(800));
    }

    #[test]
    fn v1_counts_failures_and_says_who_waits_for_memory() {
        let memory = parse_memory_failures("17\n", "oom_kill_disable 1\nunder_oom 1\noom_kill 0\n");
        assert_eq!((memory.cgroup_limit_hits, memory.cgroup_oom_kills), (Some(17), Some(0)));
        assert!(memory.is_under_oom);
        assert!(!parse_memory_failures("0\n", "oom_kill_disable 0\nunder_oom 0\n").is_under_oom);
    }

    #[test]
    fn what_the_kernel_cannot_take_back_is_anonymous_or_shared() {
        assert_eq!(parse_kept_bytes("anon 100\nfile 70\nkernel 9\nshmem 20\ninactive_anon 5\n"), Some(120));
        assert_eq!(
            parse_kept_bytes("cache 70\nrss 1\ntotal_cache 70\ntotal_rss 100\ntotal_shmem 20\n"),
            Some(120)
        );
        assert_eq!(parse_kept_bytes("cache 70\n"), None);
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
        never_panics(parse_memory_events);
        never_panics(parse_kept_bytes);
        never_panics(|text| parse_memory_failures(text, text));
    }
}
