//! `/sys/devices/system/node/node*/numastat`: on which node memory was taken, and from which node the thread was that took it.

use spindoctor_model::Unavailable;
use spindoctor_model::host::NumaCounters;

use super::kernel_file;
use super::numa::each_node;
use super::source::{HostSource, Target, reading};
use crate::pace::Pace;
use crate::source::Cadence;

/// Allocations by node.
pub const SOURCE: HostSource = HostSource {
    name: "node*/numastat",
    help: "pages that were taken on each memory node, by threads of that node and of others",
    cost: "one small file a node",
    needs: "",
    cadence: Cadence::Ends,
    pace: Pace::host(30, 600),
    read: |target, sample, now| sample.numa_counters = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<Vec<NumaCounters>, Unavailable> {
    let mut nodes = Vec::new();
    for (id, folder) in each_node(target)? {
        let path = folder.join("numastat");
        let text = kernel_file::read(&path)?;
        nodes.push(parse_numastat(id, &text).ok_or_else(|| kernel_file::unknown_form(&path))?);
    }
    Ok(nodes)
}

/// Reads a node's counters (Linux, Documentation/admin-guide/numastat.rst).
///
/// ```text
/// numa_hit 5821741
/// other_node 0
/// ```
pub fn parse_numastat(id: u32, text: &str) -> Option<NumaCounters> {
    let find = |wanted: &str| {
        text.lines()
            .find_map(|line| line.split_once(' ').filter(|(name, _)| *name == wanted)?.1.trim().parse().ok())
    };
    Some(NumaCounters {
        id,
        hits: find("numa_hit")?,
        misses: find("numa_miss")?,
        interleaved: find("interleave_hit")?,
        local: find("local_node")?,
        other: find("other_node")?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, put, target};
    use super::*;

    /// As `cat /sys/devices/system/node/node0/numastat` prints it (Linux 6.1 to 6.18).
    const NODE: &str = "numa_hit 5821741\nnuma_miss 1204\nnuma_foreign 0\ninterleave_hit 5103\nlocal_node 5721002\nother_node 101943\n";

    #[test]
    fn each_nodes_counters_are_read() {
        let root = tempfile::tempdir().unwrap();
        for id in [0, 1] {
            put(root.path(), &format!("sys/devices/system/node/node{id}/numastat"), NODE);
        }
        let nodes = collect(&target(root.path())).unwrap();
        let expected = NumaCounters {
            id: 1,
            hits: 5_821_741,
            misses: 1_204,
            interleaved: 5_103,
            local: 5_721_002,
            other: 101_943,
        };
        assert_eq!((nodes.len(), &nodes[1]), (2, &expected));
        put(root.path(), "sys/devices/system/node/node1/numastat", "numa_hit 1\n");
        assert!(collect(&target(root.path())).unwrap_err().because.contains("not in a form"));
    }

    #[test]
    fn this_host_answers() {
        match collect(&Target::live(std::process::id())) {
            Ok(nodes) => assert!(nodes.iter().all(|node| node.hits > 0), "{nodes:?}"),
            Err(unavailable) => println!("skipped: {}", unavailable.because),
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        never_panics(|text| parse_numastat(0, text));
    }
}
