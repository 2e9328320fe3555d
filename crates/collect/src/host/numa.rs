//! `/sys/devices/system/node`: the host's memory nodes; `/proc/PID/numa_maps`, or `memory.numa_stat` of the server's control group:
//! the server's memory on each.

use std::collections::BTreeMap;

use spindoctor_model::Unavailable;
use spindoctor_model::host::NumaNode;

use super::cpu_list::parse_cpu_list;
use super::process::{kilobytes, named_values, parse_status};
use super::source::{HostSource, Target, reading};
use super::{cgroup, kernel_file};
use crate::pace::Pace;
use crate::source::Cadence;

/// Memory nodes.
pub const SOURCE: HostSource = HostSource {
    name: "/proc/PID/numa_maps",
    help: "memory nodes of the host, and how the server's memory lies on them",
    cost: "two small files a node; with several nodes a walk of the server's page tables, 10 to 20 ms a GiB, \
           not begun above 8 GiB: there the server's own control group has it, without a walk",
    needs: "root or the server's user, where there are several nodes",
    cadence: Cadence::Once,
    pace: Pace::once(),
    read: |target, sample, now| sample.numa = reading(collect(target), now),
};

/// The most resident memory of a server whose `numa_maps` is read.
///
/// The kernel walks the page tables with the server's address space locked for readers, so that the
/// server's own mmap and munmap wait. Measured on an EPYC of 2024 under KVM: 10 to 19 ms a GiB of
/// 4 KiB pages, 0.1 ms a GiB of huge pages. 8 GiB cost about what a person does not notice.
const MOST_RESIDENT_BYTES: u64 = 8 << 30;

fn collect(target: &Target) -> Result<Vec<NumaNode>, Unavailable> {
    let folder = target.sys.join("devices/system/node");
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) => return Err(kernel_file::because(&folder, &error)),
    };
    let mut nodes = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok()) else {
            continue;
        };
        let file = |name| kernel_file::read(&entry.path().join(name));
        let (total_bytes, free_bytes) =
            parse_node_memory(&file("meminfo")?).ok_or_else(|| kernel_file::unknown_form(&entry.path()))?;
        let cpus = parse_cpu_list(&file("cpulist")?).unwrap_or_default().into_iter().collect();
        nodes.push(NumaNode { id, cpus, total_bytes, free_bytes, server_bytes: None });
    }
    nodes.sort_by_key(|node| node.id);

    let resident =
        kernel_file::read(&target.process("status")).map(|text| parse_status(&text).resident_bytes);
    match (nodes.as_mut_slice(), resident) {
        // One node holds it all, and nobody need walk anything.
        ([only], Ok(resident)) => only.server_bytes = Some(resident),
        ([], _) => return Err(Unavailable::because("this kernel was built without NUMA")),
        (several, resident) => {
            let walked = resident
                .is_ok_and(|resident| resident <= MOST_RESIDENT_BYTES)
                .then(|| kernel_file::read(&target.process("numa_maps")).ok())
                .flatten()
                .map(|text| parse_numa_maps(&text));
            if let Some(bytes) = walked.or_else(|| by_group(target)) {
                for node in several {
                    node.server_bytes = Some(bytes.get(&node.id).copied().unwrap_or(0));
                }
            }
        }
    }
    Ok(nodes)
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
        let root = two_nodes((MOST_RESIDENT_BYTES >> 10) + 1);
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
    }
}
