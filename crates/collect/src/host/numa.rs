//! `/sys/devices/system/node`: the host's memory nodes; the server's memory on each, by whichever of three ways costs the server least:
//! `memory.numa_stat` of its control group, `/proc/PID/numa_maps`, or a sample of its pages.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use spindoctor_model::Unavailable;
use spindoctor_model::host::NumaNode;

use super::cpu_list::parse_cpu_list;
use super::process::{kilobytes, named_values};
use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file, page_nodes};
use crate::pace::Pace;
use crate::source::Cadence;

/// Memory nodes.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/numa_maps",
    help: "memory nodes of the host, and how the server's memory lies on them",
    cost: "two small files a node; with several nodes one file of the server's own control group, or some milliseconds for a \
           sample of its pages, or a walk of its page tables for a quarter of a second at most",
    needs: "root or the server's user, where there are several nodes",
    cadence: Cadence::Once,
    pace: Pace::once(),
    read: |target, sample, now| sample.numa = reading(collect(target), now),
};

/// The most resident memory of a server whose `numa_maps` is read before anything else: it is the whole truth.
///
/// The kernel walks the page tables of one mapping after the other with the server's address space locked for readers, so that the
/// server's own mmap and munmap wait. Measured on an EPYC of 2024 under KVM: 10 to 19 ms a GiB of 4 KiB pages, 0.1 ms a GiB of huge
/// pages, which do not count as resident.
const SMALL_BYTES: u64 = 1 << 30;

/// The most of one mapping that is walked where nothing else is left: about what a person does not notice.
const MOST_WALKED_BYTES: u64 = 8 << 30;

/// And for so long all mappings together.
const WALKED_WITHIN: Duration = Duration::from_millis(250);

fn collect(target: &Target) -> Result<Vec<NumaNode>, Unavailable> {
    let mut nodes = Vec::new();
    for (id, folder) in each_node(target)? {
        let file = |name| kernel_file::read(&folder.join(name));
        let (total_bytes, free_bytes) =
            parse_node_memory(&file("meminfo")?).ok_or_else(|| kernel_file::unknown_form(&folder))?;
        let cpus = parse_cpu_list(&file("cpulist")?).unwrap_or_default().into_iter().collect();
        nodes.push(NumaNode { id, cpus, total_bytes, free_bytes, server_bytes: None });
    }
    let held = kernel_file::read(&target.process("status")).map(|text| parse_held(&text));
    match (nodes.as_mut_slice(), held) {
        // One node holds it all, and nobody need walk anything.
        ([only], Ok(held)) => only.server_bytes = Some(held.resident_bytes),
        ([_], Err(_)) | ([], _) => {}
        (several, held) => {
            if let Some(bytes) = held.ok().and_then(|held| by_node(target, held)) {
                for node in several {
                    node.server_bytes = Some(bytes.get(&node.id).copied().unwrap_or(0));
                }
            }
        }
    }
    Ok(nodes)
}

/// The memory nodes with their folders, by number.
///
/// # Errors
/// There are none: the kernel was built without NUMA.
pub(super) fn each_node(target: &Target) -> Result<Vec<(u32, PathBuf)>, Unavailable> {
    let folder = target.sys.join("devices/system/node");
    let entries = std::fs::read_dir(&folder).map_err(|error| kernel_file::because(&folder, &error))?;
    let number = |path: PathBuf| {
        let id = path.file_name()?.to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((id, path))
    };
    let mut nodes: Vec<(u32, PathBuf)> = entries.flatten().filter_map(|entry| number(entry.path())).collect();
    nodes.sort_unstable();
    if nodes.is_empty() {
        return Err(Unavailable::because("this kernel was built without NUMA"));
    }
    Ok(nodes)
}

/// What `status` says of a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldMemory {
    /// `VmRSS`, without huge pages of the pool.
    pub resident_bytes: u64,
    /// What no file backs of it: `RssAnon` and `RssShmem`; all of it before Linux 4.5.
    pub own_bytes: u64,
    /// `HugetlbPages`.
    pub huge_bytes: u64,
}

/// Reads `/proc/PID/status`.
pub fn parse_held(text: &str) -> HeldMemory {
    let find = |wanted| kilobytes(named_values(text).find(|(name, _)| *name == wanted)?.1);
    let resident_bytes = find("VmRSS").unwrap_or(0);
    let own = find("RssAnon").map(|anonymous| anonymous.saturating_add(find("RssShmem").unwrap_or(0)));
    HeldMemory {
        resident_bytes,
        own_bytes: own.unwrap_or(resident_bytes),
        huge_bytes: find("HugetlbPages").unwrap_or(0),
    }
}

/// Bytes of the server on each node.
fn by_node(target: &Target, held: HeldMemory) -> Option<BTreeMap<u32, u64>> {
    let walk = || kernel_file::read_within(&target.process("numa_maps"), WALKED_WITHIN).ok()?;
    if held.resident_bytes <= SMALL_BYTES
        && let Some(text) = walk()
    {
        return Some(parse_numa_maps(&text));
    }
    // A control group does not count huge pages of the pool where it counts other memory.
    if held.huge_bytes == 0
        && let Some(bytes) = by_group(target)
    {
        return Some(bytes);
    }
    let maps = kernel_file::read(&target.process("maps")).ok();
    let writable = maps.map(|text| page_nodes::parse_writable(&text)).unwrap_or_default();
    if target.is_live()
        && let Some(pages) = page_nodes::sample(target.pid, &writable)
    {
        return Some(shared_out(held.own_bytes.saturating_add(held.huge_bytes), &pages));
    }
    let largest = writable.iter().map(|(from, to)| to - from).max().unwrap_or(u64::MAX);
    let is_bounded = largest.min(held.resident_bytes) <= MOST_WALKED_BYTES;
    is_bounded.then(walk).flatten().map(|text| parse_numa_maps(&text))
}

/// So many bytes shared out as a sample of the pages lies.
fn shared_out(bytes: u64, pages: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let all: u64 = pages.values().sum();
    let part = |count: u64| (u128::from(bytes) * u128::from(count) / u128::from(all.max(1))) as u64;
    pages.iter().map(|(node, count)| (*node, part(*count))).collect()
}

/// Bytes of the server on each node as its control group counts them, without a walk: those that are no file's. None where the
/// group has other processes too.
fn by_group(target: &Target) -> Option<BTreeMap<u32, u64>> {
    let group = cgroup::find(target, "memory").ok()??;
    let leaf = &group.levels.first()?.folder;
    let members = kernel_file::read(&leaf.join("cgroup.procs")).ok()?;
    // Other ids are those of another namespace: one process is the server there, too.
    (members.lines().filter(|line| !line.trim().is_empty()).count() == 1).then_some(())?;
    parse_numa_stat(&kernel_file::read(&leaf.join("memory.numa_stat")).ok()?)
}

/// The anonymous memory of a `memory.numa_stat`, bytes of each node.
///
/// ```text
/// anon N0=8589934592 N1=1048576           (v2: bytes)
/// anon=2097408 N0=2097152 N1=256          (v1: pages)
/// ```
pub fn parse_numa_stat(text: &str) -> Option<BTreeMap<u32, u64>> {
    let in_pages = text.lines().find_map(|line| line.strip_prefix("anon="));
    let (line, unit) = match in_pages {
        Some(line) => (line, 4_096),
        None => (text.lines().find_map(|line| line.strip_prefix("anon "))?, 1),
    };
    let of_node = |word: &str| {
        let (node, count) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, count.parse::<u64>().ok()?.checked_mul(unit)?))
    };
    Some(line.split_whitespace().filter_map(of_node).collect())
}

/// Reads total and free bytes of a node's `meminfo`: `Node 0 MemTotal:       32980312 kB`.
pub fn parse_node_memory(text: &str) -> Option<(u64, u64)> {
    let find =
        |wanted| kilobytes(named_values(text).find(|(name, _)| name.rsplit(' ').next() == Some(wanted))?.1);
    Some((find("MemTotal")?, find("MemFree")?))
}

/// Sums `numa_maps` into bytes by node (numa(7)).
///
/// ```text
/// 7f5e000000 default anon=33536 dirty=33536 N0=20000 N1=13536 kernelpagesize_kB=4
/// ```
pub fn parse_numa_maps(text: &str) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let words = || line.split_ascii_whitespace();
        let page_kb = words()
            .find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok())
            // Linux before 3.9 does not say it.
            .unwrap_or(if words().any(|word| word == "huge") { 2_048 } else { 4 });
        for word in words() {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) else {
                continue;
            };
            let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) else { continue };
            let on_node: &mut u64 = bytes.entry(node).or_default();
            *on_node = on_node.saturating_add(pages.saturating_mul(page_kb).saturating_mul(1_024));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, put, target, tree};
    use super::*;

    /// Two nodes, and a server that has so much memory resident.
    fn two_nodes(resident_kb: u64) -> tempfile::TempDir {
        let root = tree("written/host-numa-two-nodes");
        put(root.path(), "proc/7/status", &format!("VmRSS:\t{resident_kb} kB\n"));
        root
    }

    #[test]
    fn the_servers_memory_is_summed_by_node() {
        let root = two_nodes(4_000);
        let nodes = collect(&target(root.path())).unwrap();
        assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(nodes[1].cpus, [4, 5, 6, 7, 12, 13, 14, 15]);
        assert_eq!((nodes[0].total_bytes, nodes[0].free_bytes), (32_968_000 * 1024, 1_100_200 * 1024));
        assert_eq!(nodes[0].server_bytes, Some(10 * 4096));
        assert_eq!(nodes[1].server_bytes, Some(2 * 4096 + (4 << 20)));
    }

    #[test]
    fn a_large_server_is_not_made_to_wait_and_its_control_group_shows() {
        let root = two_nodes((MOST_WALKED_BYTES >> 10) + 1);
        let bytes = || -> Vec<Option<u64>> {
            let nodes = collect(&target(root.path())).unwrap();
            nodes.into_iter().map(|node| node.server_bytes).collect()
        };
        assert_eq!(bytes(), [None, None]);
        put(root.path(), "proc/7/cgroup", "0::/db\n");
        put(root.path(), "sys/fs/cgroup/db/cgroup.procs", "7\n");
        put(
            root.path(),
            "sys/fs/cgroup/db/memory.numa_stat",
            "anon N0=9663676416 N1=1048576\nfile N0=5 N1=6\n",
        );
        assert_eq!(bytes(), [Some(9 << 30), Some(1 << 20)]);
        put(root.path(), "sys/fs/cgroup/db/cgroup.procs", "7\n8\n");
        assert_eq!(bytes(), [None, None], "whose they are is not known");
    }

    #[test]
    fn a_large_server_is_walked_where_no_mapping_of_it_takes_long() {
        let root = two_nodes((MOST_WALKED_BYTES >> 10) + 1);
        let chunk = "7f0000000000-7f0008000000 rw-p 00000000 00:00 0 \n";
        put(root.path(), "proc/7/maps", chunk);
        let known = || collect(&target(root.path())).unwrap().iter().all(|node| node.server_bytes.is_some());
        assert!(known(), "a chunk of the buffer pool is 128 MiB");
        put(
            root.path(),
            "proc/7/maps",
            &format!("{chunk}7f1000000000-7f1300000000 rw-p 00000000 00:00 0 \n"),
        );
        assert!(!known(), "a pool of 12 GiB in one mapping");
    }

    #[test]
    fn huge_pages_of_the_pool_are_in_no_control_groups_count() {
        let root = tree("written/host-numa-two-nodes");
        let status = format!("VmRSS:\t{} kB\nHugetlbPages:\t{} kB\n", 2 << 20, 60 << 20);
        put(root.path(), "proc/7/status", &status);
        put(root.path(), "proc/7/cgroup", "0::/db\n");
        put(root.path(), "sys/fs/cgroup/db/cgroup.procs", "7\n");
        put(root.path(), "sys/fs/cgroup/db/memory.numa_stat", "anon N0=2147483648 N1=0\n");
        let maps = "7f5e00000000 default file=/anon_hugepage\\040(deleted) huge anon=30720 N0=15360 N1=15360 kernelpagesize_kB=2048\n";
        put(root.path(), "proc/7/numa_maps", maps);
        let nodes = collect(&target(root.path())).unwrap();
        assert!(nodes.iter().all(|node| node.server_bytes == Some(30 << 30)), "{nodes:?}");
    }

    #[test]
    fn a_sample_of_pages_shares_out_what_is_resident() {
        let pages = BTreeMap::from([(0, 6_144), (1, 2_048)]);
        let bytes = shared_out(60 << 30, &pages);
        assert_eq!(bytes, BTreeMap::from([(0, 45 << 30), (1, 15 << 30)]));
        let held = parse_held("VmRSS:\t900 kB\nRssAnon:\t800 kB\nRssFile:\t90 kB\nRssShmem:\t10 kB\n");
        assert_eq!(held, HeldMemory { resident_bytes: 900 << 10, own_bytes: 810 << 10, huge_bytes: 0 });
        assert_eq!(parse_held("VmRSS:\t900 kB\n").own_bytes, 900 << 10);
    }

    #[test]
    fn both_versions_of_numa_stat_are_read() {
        let of = |text: &str| parse_numa_stat(text).map(|bytes| bytes.into_iter().collect::<Vec<_>>());
        assert_eq!(of("anon N0=8589934592 N1=4096\nfile N0=1\n"), Some(vec![(0, 8_589_934_592), (1, 4_096)]));
        let v1 = "total=9 N0=9 N1=0\nfile=2 N0=2 N1=0\nanon=7 N0=6 N1=1\nhierarchical_anon=70 N0=60 N1=10\n";
        assert_eq!(of(v1), Some(vec![(0, 24_576), (1, 4_096)]));
        assert_eq!(of("file N0=1\n"), None);
    }

    #[test]
    fn without_the_right_to_numa_maps_the_nodes_are_still_known() {
        let root = two_nodes(4_000);
        std::fs::remove_file(root.path().join("proc/7/numa_maps")).unwrap();
        let nodes = collect(&target(root.path())).unwrap();
        assert_eq!(nodes.len(), 2);
        assert!(nodes.iter().all(|node| node.server_bytes.is_none()));
    }

    #[test]
    fn this_host_answers() {
        match collect(&Target::live(std::process::id())) {
            Ok(nodes) => {
                // The same count by another way: numactl's text of one node, and this host's.
                assert!(nodes.iter().all(|node| node.total_bytes >= node.free_bytes));
                assert!(nodes.iter().filter_map(|node| node.server_bytes).sum::<u64>() > 0);
            }
            Err(unavailable) => println!("skipped: {}", unavailable.because),
        }
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_node_memory);
        never_panics(parse_numa_stat);
        never_panics(parse_numa_maps);
        never_panics(parse_held);
    }
}
