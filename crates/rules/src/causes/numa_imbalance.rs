//! `numa-imbalance`: the node that holds most of the server's memory is full, and other nodes have memory free.

use spindoctor_model::host::NumaNode;
use spindoctor_model::number::{bytes, whole};
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::swapping::{self, pressure};
use crate::draft::Draft;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "numa-imbalance",
    title: "one memory node is full of the server, and others have memory free",
    what: "A host with several memory nodes gives a page from the node of the CPU that touches it first. The buffer pool is filled \
           by few threads, so most of it may lie on one node. When that node is full the kernel takes pages back there, by writing \
           them to swap, though the host has memory free on the others.",
    why_it_hurts: "The server is swapped while the host looks as if it had memory to spare. Threads stand in page faults, with \
                   latches held. All of the pool's memory is read through one node's channels, and from the other nodes' CPUs each \
                   read takes longer.",
    evidence: "/proc/PID/numa_maps or the control group's memory.numa_stat: of a server of 1 GiB or more one node holds one and a half \
               times its even share or more. /sys/devices/system/node: less than 5 % of that node is free, and 10 % or more of the \
               others. And it hurts: a megabyte of the server is in swap (VmSwap), and it reads ten pages a second back or some task \
               waits for memory for 2 % of the time (memory.pressure). The estimate is that share of the time.",
    looks_alike: "A host or a control group that is short of memory on the whole is swapping or memory-pressure. A node that is full of \
                  page cache only gives it up at once, and nobody waits.",
    remedies: "Start the server with its memory spread over the nodes: innodb_numa_interleave = ON (MySQL 5.7.9, MariaDB 10.1.25 and \
               later) or numactl --interleave=all before it. Until the next restart migratepages moves what is there. \
               vm.zone_reclaim_mode must be 0.",
    safety: "Both settings need a restart. migratepages moves pages while the server runs, and statements that touch them wait for \
             moments; each page moved is copied once.",
    references: &[
        "Jeremy Cole, The MySQL swap insanity problem and the effects of the NUMA architecture (2010)",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html#sysvar_innodb_numa_interleave",
        "numa(7), numactl(8), migratepages(8)",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::PageFault,
        TimeClass::Kernel,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::Other,
    ],
    stacks: Stacks::Nothing,
    rule: Rule::Readings(evaluate),
    #[cfg(test)]
    examples: crate::Examples {
        fires: examples::fires,
        near_miss: examples::near_miss,
        missing: examples::missing,
    },
};

/// A smaller server fits on one node, and where it lies matters to nobody. Chosen, not derived.
const SERVER_BYTES: u64 = 1 << 30;

/// Times its even share from which on a node has most of the server. Chosen: three quarters, of two nodes.
const UNEVEN: f64 = 1.5;

/// Part of a node's memory that is free, below which it is full: the kernel begins to take pages back at some hundredths
/// (vm.watermark_scale_factor and min_free_kbytes). Chosen.
const FULL: f64 = 0.05;

/// Part of the other nodes' memory that must be free: what would not fit there either is a host that is too small. Chosen.
const ROOM: f64 = 0.1;

/// Share of the time in which some task waits for memory, from which on that costs something. Chosen, not derived.
const STALLED: f64 = 0.02;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let nodes = window.need(|s| &s.host.numa)?;
    let Some(node) = full_node(nodes)? else {
        return Ok(None);
    };
    let process = window.need_change(|s| &s.host.process)?;
    let faults_per_s =
        process.last.major_faults.saturating_sub(process.first.major_faults) as f64 / process.seconds;
    let stalled = pressure(window);
    // Where nobody counts it, pages that are read back say that it costs, and not how much.
    let estimate = stalled.unwrap_or(crate::rank::WARNING_FROM);
    let stalled = stalled.unwrap_or(0.0);
    let is_read_back = faults_per_s >= swapping::FAULTS_PER_S || stalled >= STALLED;
    if process.last.swapped_bytes < swapping::SWAPPED_BYTES || !is_read_back {
        return Ok(None);
    }
    let held = node.server_bytes.unwrap_or_default();
    let all: u64 = nodes.iter().filter_map(|node| node.server_bytes).sum();
    let free_elsewhere: u64 =
        nodes.iter().filter(|other| other.id != node.id).map(|other| other.free_bytes).sum();
    let interleave = window.variable("innodb_numa_interleave");
    let pid = window.server.pid.unwrap_or_default();
    let other = nodes.iter().filter(|other| other.id != node.id).max_by_key(|other| other.free_bytes);
    Ok(Some(
        Draft::new(
            &CAUSE,
            estimate,
            format!(
                "Node {} holds {} of the server's {} of memory and is full, while other nodes have {} free",
                node.id,
                bytes(held as f64),
                bytes(all as f64),
                bytes(free_elsewhere as f64)
            ),
        )
        .why(format!(
            "The kernel takes pages back on that node alone: {} of the server are in swap, with {} major page faults a \
             second.",
            bytes(process.last.swapped_bytes as f64),
            whole(faults_per_s)
        ))
        .evidence(
            Evidence::new("the server's memory on that node", held as f64 / all.max(1) as f64, "ratio", "numa_maps or memory.numa_stat")
                .expected(format!("< {:.2}", UNEVEN / nodes.len().max(1) as f64)),
        )
        .evidence(
            Evidence::new("free on that node", node.free_bytes as f64, "bytes", "/sys/devices/system/node")
                .expected(format!("> {}", bytes(FULL * node.total_bytes as f64))),
        )
        .evidence(Evidence::new("free on the other nodes", free_elsewhere as f64, "bytes", "/sys/devices/system/node"))
        .evidence(Evidence::new("the server's memory in swap", process.last.swapped_bytes as f64, "bytes", "/proc/PID/status VmSwap").expected("0"))
        .evidence(Evidence::new("time in which some task waited for memory", stalled, "ratio", "memory.pressure").expected(format!("< {STALLED}")))
        .evidence_if(interleave.map(|value| Evidence::new("innodb_numa_interleave", value.to_owned(), "", "SHOW GLOBAL VARIABLES").expected("ON")))
        .remedy_if(other.map(|other| Remedy {
            statement: format!("migratepages {pid} {} {}", node.id, other.id),
            why: "It moves pages of the server to the node that has most memory free, now.".into(),
            dynamic: true,
            risk: "Statements that touch a page while it is moved wait for a moment. It moves all that the server has on that node, as \
                   far as the other has room."
                .into(),
            undo: format!("migratepages {pid} {} {}", other.id, node.id),
        }))
        .remedy(Remedy {
            statement: "innodb_numa_interleave = ON in the option file, and a restart".into(),
            why: "The buffer pool is then spread over all nodes as it is allocated.".into(),
            dynamic: false,
            risk: "A restart; the pool is cold after it.".into(),
            undo: "innodb_numa_interleave = OFF, and a restart".into(),
        })
        .explains(&[swapping::CAUSE.name])
        .finding(),
    ))
}

/// The node that has most of the server and is full, where others have room.
fn full_node(nodes: &[NumaNode]) -> Result<Option<&NumaNode>, Unavailable> {
    // A node without memory has CPUs only.
    let with_memory: Vec<&NumaNode> = nodes.iter().filter(|node| node.total_bytes > 0).collect();
    if with_memory.len() < 2 {
        return Ok(None);
    }
    if with_memory.iter().any(|node| node.server_bytes.is_none()) {
        return Err(Unavailable::because("where the server's memory lies could not be read")
            .unlock("run spindoctor as root or as the server's user; above 8 GiB in a control group of the server's own"));
    }
    let held = |node: &NumaNode| node.server_bytes.unwrap_or_default();
    let all: u64 = with_memory.iter().map(|node| held(node)).sum();
    let even = all as f64 / with_memory.len() as f64;
    let Some(most) = with_memory.iter().copied().max_by_key(|node| held(node)) else { return Ok(None) };
    let others = || with_memory.iter().filter(|node| node.id != most.id);
    let (free, total) =
        others().fold((0, 0), |(free, total), node| (free + node.free_bytes, total + node.total_bytes));
    let is_full = (most.free_bytes as f64) < FULL * most.total_bytes as f64;
    let is_uneven = all >= SERVER_BYTES && held(most) as f64 >= UNEVEN * even;
    Ok((is_uneven && is_full && free as f64 >= ROOM * total as f64).then_some(most))
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::host::Pressure;
    use spindoctor_model::stack::ThreadState::{DiskRead, Lock};

    use super::*;
    use crate::testing::{Build, answer};

    const FAULTS: &[&str] = &["rec_get_offsets", "row_search_mvcc", "dispatch_command", "do_command"];
    const LOCK: &[&str] = &["lock_wait", "row_search_mvcc", "dispatch_command", "do_command"];

    /// Two nodes of 64 GiB: so many GiB free on the first, so many of the server's 60 on it.
    fn nodes(free: u64, held: Option<u64>) -> Vec<NumaNode> {
        let node = |id, free: u64, held: Option<u64>| NumaNode {
            id,
            cpus: vec![2 * id, 2 * id + 1],
            total_bytes: 64 << 30,
            free_bytes: free << 30,
            server_bytes: held.map(|held| held << 30),
        };
        vec![node(0, free, held), node(1, 40, held.map(|held| 60 - held))]
    }

    fn at(nodes: &[NumaNode], swapped_bytes: u64) -> Window {
        let build = Build::busy("8.0.36").variable("innodb_numa_interleave", "OFF");
        let build = build.only_snapshots(&[(12, DiskRead, FAULTS), (3, Lock, LOCK)]);
        build
            .each(|at_s, _, host| {
                host.numa = answer(at_s, nodes.to_vec());
                if let Reading::Available { value: process, .. } = &mut host.process {
                    process.swapped_bytes = swapped_bytes;
                    process.major_faults = (at_s * 200.0) as u64;
                }
                let stalled = Pressure { memory_some_us: Some((at_s * 6e5) as u64), ..Pressure::default() };
                host.pressure = answer(at_s, stalled);
            })
            .window()
    }

    pub(crate) fn fires() -> Window {
        at(&nodes(1, Some(55)), 2 << 30)
    }

    /// As uneven, and the node has room.
    pub(crate) fn near_miss() -> Window {
        at(&nodes(8, Some(55)), 2 << 30)
    }

    /// Where the server's memory lies may not be read.
    pub(crate) fn missing() -> Window {
        at(&nodes(1, None), 2 << 30)
    }

    #[test]
    fn it_stands_before_the_swapping_that_it_makes() {
        let diagnosis = crate::diagnose(&fires());
        let causes: Vec<&str> = diagnosis.findings.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes[..2], [CAUSE.name, "swapping"]);
        let finding = &diagnosis.findings[0];
        assert_eq!(
            finding.headline,
            "Node 0 holds 55 GiB of the server's 60 GiB of memory and is full, while other nodes have 40 GiB free"
        );
        assert_eq!(finding.remedies[0].statement, "migratepages 4310 0 1");
    }

    #[test]
    fn a_full_node_where_nobody_waits_and_an_even_server_are_clear() {
        for window in [at(&nodes(1, Some(55)), 0), at(&nodes(1, Some(40)), 2 << 30)] {
            assert_eq!(evaluate(&window), Outcome::Clear);
        }
        let mut full = nodes(1, Some(55));
        full[1].free_bytes = 1 << 30;
        assert_eq!(evaluate(&at(&full, 2 << 30)), Outcome::Clear, "a host that is too small");
        assert_eq!(evaluate(&at(&nodes(1, Some(55))[..1], 2 << 30)), Outcome::Clear, "one node");
    }
}
