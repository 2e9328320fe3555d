//! On which memory nodes a server's memory is, by `numastat -p`, and what is free of each, by `numactl --hardware`.
//!
//! ```text
//! Per-node process memory usage (in MBs) for PID 4711 (mysqld)
//!                            Node 0          Node 1           Total
//! Total                    96024.21         2011.22        98035.43
//!
//! node 0 size: 98294 MB
//! node 0 free: 112 MB
//!
//!                            node0           node1
//! numa_hit              8122334455      4122334455
//! numa_miss               11223344      2122334455
//! ```

use std::collections::BTreeMap;

use crate::amounts::amount;
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// A node that has so much of what is in use has most of it. By judgement: evenly spread is half of it and less.
const MOST: f64 = 0.8;
/// A node of which so little is free is full, and one of which so much is free has room. By judgement.
const FULL: f64 = 0.02;
const ROOM: f64 = 0.1;
/// A node that gave so much of what was taken from it to whom another node had none for was taken for full ones. By judgement.
const MISSED: f64 = 0.1;
/// Less is no server that lacks memory, MB. By judgement.
const LEAST_MB: f64 = 1_024.0;

/// True for what either prints, and nothing else.
pub(crate) fn is_of_nodes(line: &str) -> bool {
    line.starts_with("Per-node process memory usage")
        || line.starts_with("available: ") && line.contains(" nodes (")
        || counted(line, "numa_hit").is_some()
        || sized(line).is_some()
}

/// Says whether one node has it all.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    of_process(text, found);
    of_host(text, found);
    of_counters(text, found);
}

/// The number of each node in a row of `numastat`.
fn counted(line: &str, name: &str) -> Option<Vec<f64>> {
    let mut words = line.split_whitespace().take(MOST_WORDS);
    let numbers: Vec<f64> =
        words.next().filter(|first| *first == name).map(|_| words.map_while(amount).collect())?;
    (numbers.len() > 1).then_some(numbers)
}

/// Says which node gave memory for another one that had none.
fn of_counters(text: &str, found: &mut SystemText) {
    let row = |name: &str| text.lines().take(MOST_ROWS).find_map(|line| counted(line, name));
    let (Some(hits), Some(misses)) = (row("numa_hit"), row("numa_miss")) else { return };
    let share = |(hits, misses): (&f64, &f64)| misses / (hits + misses).max(1.0);
    let most = hits.iter().zip(&misses).map(share).enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((node, missed)) = most.filter(|(_, missed)| *missed >= MISSED) {
        let sentence = format!(
            "Of what memory node {node} gave since the host's start {:.0} % were wanted of another node, which was full (numa_miss): such memory \
             is slower, and the full node swaps. innodb_numa_interleave = ON, or numactl --interleave=all, spreads the server's",
            missed * 100.0
        );
        found.add("numastat", None, sentence);
    }
}

fn of_process(text: &str, found: &mut SystemText) {
    let mut lines =
        text.lines().skip_while(|line| !line.starts_with("Per-node process memory usage")).take(MOST_ROWS);
    let Some(program) =
        lines.next().and_then(|line| line.rsplit_once('(')).map(|(_, name)| name.trim_end_matches(')'))
    else {
        return;
    };
    let Some(row) = lines.find_map(|line| line.trim_start().strip_prefix("Total ")) else { return };
    let nodes: Vec<f64> = row.split_whitespace().take(MOST_WORDS).map_while(amount).collect();
    let Some((all, nodes)) = nodes.split_last().filter(|(all, nodes)| nodes.len() > 1 && **all >= LEAST_MB)
    else {
        return;
    };
    if let Some(node) = nodes.iter().position(|mb| *mb >= all * MOST) {
        let sentence = format!(
            "{:.0} % of the memory of {program} is on node {node} of {}: where that node is full the kernel swaps, though others have \
             room. innodb_numa_interleave = ON, or numactl --interleave=all, spreads it at the next start",
            nodes[node] / all * 100.0,
            nodes.len()
        );
        found.add("numastat", None, sentence);
    }
}

/// `node 0 free: 112 MB`: the node, what it says of it, and MB.
fn sized(line: &str) -> Option<(u32, &str, f64)> {
    let (node, rest) = line.trim().strip_prefix("node ")?.split_once(' ')?;
    let (what, mb) = rest.split_once(": ")?;
    let mb = amount(mb.trim().strip_suffix(" MB")?)?;
    ["size", "free"].contains(&what).then_some((node.parse().ok()?, what, mb))
}

fn of_host(text: &str, found: &mut SystemText) {
    // Of each node its size and what is free.
    let mut nodes: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (node, what, mb) in text.lines().take(MOST_ROWS).filter_map(sized) {
        let (size, free) = nodes.entry(node).or_default();
        *(if what == "size" { size } else { free }) = mb;
    }
    let full = nodes.iter().find(|(_, (size, free))| *size > 0.0 && *free <= size * FULL);
    let room = nodes.iter().find(|(_, (size, free))| *size > 0.0 && *free >= size * ROOM);
    if let (Some((full, (_, free))), Some((other, (_, room)))) = (full, room) {
        let sentence = format!(
            "Memory node {full} is full ({free:.0} MB free), and node {other} has {room:.0} MB free: what is bound to the full one is swapped, \
             or read from files again"
        );
        found.add("numactl", None, sentence);
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn a_node_that_has_it_all_is_named() {
        let numastat = |one: &str, other: &str, all: &str| {
            format!(
                "Per-node process memory usage (in MBs) for PID 4711 (mysqld)\n                           Node 0          Node 1           Total\n\
                 \x20                 --------------- --------------- ---------------\nHeap                        12.11            0.21           12.32\n\
                 ----------------  --------------- --------------- ---------------\nTotal                    {one}         {other}        {all}\n"
            )
        };
        let says = "95 % of the memory of mysqld is on node 0 of 2: where that node is full the kernel swaps, though others have room. \
                    innodb_numa_interleave = ON, or numactl --interleave=all, spreads it at the next start";
        let text = numastat("95000.00", "5000.00", "100000.00");
        assert_eq!(system::read(&text).says, [says]);
        assert!(
            recognise("x", &format!("$ numastat -p mysqld\n{text}")).iter().any(|part| part.says == [says])
        );
        assert_eq!(system::read(&numastat("55000.00", "45000.00", "100000.00")).says, Vec::<String>::new());
        let host = |free: u32| {
            format!(
                "available: 2 nodes (0-1)\nnode 0 cpus: 0 2\nnode 0 size: 98294 MB\nnode 0 free: {free} MB\nnode 1 cpus: 1 3\n\
                 node 1 size: 98304 MB\nnode 1 free: 91822 MB\nnode distances:\nnode   0   1\n  0:  10  21\n"
            )
        };
        assert_eq!(
            system::read(&host(112)).says,
            [
                "Memory node 0 is full (112 MB free), and node 1 has 91822 MB free: what is bound to the full one is swapped, or read from files \
                 again"
            ]
        );
        assert_eq!(system::read(&host(41_112)).says, Vec::<String>::new());
        assert!(recognise("x", &host(112)).iter().any(|part| part.says.len() == 1));
    }

    #[test]
    fn a_node_that_gives_for_another_one_is_named() {
        let counters = |missed: u64| {
            format!(
                "                           node0           node1\nnuma_hit              8122334455      4000000000\n\
                 numa_miss               11223344      {missed}\nnuma_foreign          2122334455        11223344\n"
            )
        };
        let says = |text: &str| -> Vec<String> {
            recognise("x", text).into_iter().flat_map(|part| part.says).collect()
        };
        let said = says(&counters(2_000_000_000));
        assert!(
            said.len() == 1 && said[0].starts_with("Of what memory node 1 gave since the host's start 33 %"),
            "{said:?}"
        );
        assert_eq!(says(&counters(2_000)), Vec::<String>::new());
    }
}
