//! `numa-imbalance`: most of the server's memory lies on one node, and that node is full while others have memory free, or the
//! server's threads run on the others.

use std::collections::BTreeMap;

use spindoctor_model::host::{NumaCounters, NumaNode};
use spindoctor_model::number::{bytes, counted, percent, whole};
use spindoctor_model::{Evidence, Finding, Remedy, TimeClass, Unavailable, Window};

use super::swapping::{self, pressure};
use crate::draft::Draft;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "numa-imbalance",
    title: "the server's memory lies on one node, which is full or far from its threads",
    what: "A host with several memory nodes gives a page from the node of the CPU that touches it first. The buffer pool is filled \
           by few threads, so most of it may lie on one node. When that node is full the kernel takes pages back there, by writing \
           them to swap, though the host has memory free on the others. Where it is not full, threads on the other nodes still read \
           the pool through the link between the nodes.",
    why_it_hurts: "The server is swapped while the host looks as if it had memory to spare. Threads stand in page faults, with \
                   latches held. All of the pool's memory is read through one node's channels, and from the other nodes' CPUs each \
                   read takes longer.",
    evidence: "Of a server of 1 GiB or more one node holds one and a half times its even share or more: by the control group's \
               memory.numa_stat, /proc/PID/numa_maps, or a sample of the server's pages (move_pages), whichever costs the server \
               least; of a server of any size in a quarter of a second. It is full: less than 5 % of that node is free, and 10 % or more \
               of the others (/sys/devices/system/node). And it hurts: a megabyte of the server is in swap (VmSwap), and it reads ten pages a \
               second back or some task waits for memory for 2 % of the time (memory.pressure). The estimate is that share of the \
               time. Or it is far: the server's threads use a CPU or more, and half of that or more on other nodes, by the CPU that each \
               thread ran on last (/proc/PID/task/*/stat); that alone is a note, of a twentieth of the time at most. Pages that were taken on \
               other nodes than the thread's (numastat) stand beside it.",
    looks_alike: "A host or a control group that is short of memory on the whole is swapping or memory-pressure. A node that is full of \
                  page cache only gives it up at once, and nobody waits. A server that scales worse on four nodes than on two may \
                  have its memory spread well and contend for one latch: see the latches, and what tune says of undo tablespaces.",
    remedies: "Start the server with its memory spread over the nodes: innodb_numa_interleave = ON (MySQL 5.7.9, MariaDB 10.1.25 and \
               later, builds with libnuma) or numactl --interleave=all before it. A server that fits on one node is faster bound to it: \
               numactl --cpunodebind=N --membind=N, or taskset for its threads until the next restart. Until then migratepages moves \
               memory that is there. vm.zone_reclaim_mode must be 0.",
    safety: "The settings need a restart. migratepages moves pages while the server runs, and statements that touch them wait for \
             moments; each page moved is copied once. A server that is bound has the CPUs of one node only.",
    references: &[
        "Jeremy Cole, The MySQL swap insanity problem and the effects of the NUMA architecture (2010)",
        "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html#sysvar_innodb_numa_interleave",
        "Ailamaki, DeWitt, Hill and Wood, DBMSs on a modern processor: where does time go? (VLDB 1999)",
        "numa(7), numactl(8), migratepages(8), move_pages(2), Linux: Documentation/admin-guide/numastat.rst",
    ],
    costs: Costs::Waits(&[]),
    explains_time: &[
        TimeClass::PageFault,
        TimeClass::Kernel,
        TimeClass::Latch,
        TimeClass::Mutex,
        TimeClass::Other,
        TimeClass::Cpu,
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

/// CPUs that the server must use before it matters where they are. Chosen: less is no load.
const BUSY_CPUS: f64 = 1.0;

/// Share of the server's CPU time on other nodes than its memory's, from which on it is far from most of its threads.
const FAR: f64 = 0.5;

/// Share of the time that goes into a memory that is far, where all threads are. An upper bound that is not measured: a database
/// waits for memory in half of its cycles (Ailamaki and others, 1999), in a fifth of these for memory that no cache holds, and a
/// page on another node takes half as long again (the distances of node*/distance are 10 and 15 to 32).
const FAR_COSTS: f64 = 0.5 * 0.2 * 0.5;

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let nodes = window.need(|s| &s.host.numa)?;
    let Some(node) = crowded_node(nodes)? else {
        return Ok(None);
    };
    if is_full_beside_room(node, nodes)
        && let Some(finding) = swapped(window, nodes, node)?
    {
        return Ok(Some(finding));
    }
    Ok(far(window, nodes, node))
}

/// The finding of a full node, where the server is swapped for it.
fn swapped(window: &Window, nodes: &[NumaNode], node: &NumaNode) -> Result<Option<Finding>, Unavailable> {
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
    let (held, all) = (held(node), nodes.iter().map(held).sum::<u64>());
    let free_elsewhere: u64 =
        nodes.iter().filter(|other| other.id != node.id).map(|other| other.free_bytes).sum();
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
        .evidence(share_of_memory(nodes, node))
        .evidence(
            Evidence::new("free on that node", node.free_bytes as f64, "bytes", "/sys/devices/system/node")
                .expected(format!("> {}", bytes(FULL * node.total_bytes as f64))),
        )
        .evidence(Evidence::new("free on the other nodes", free_elsewhere as f64, "bytes", "/sys/devices/system/node"))
        .evidence(Evidence::new("the server's memory in swap", process.last.swapped_bytes as f64, "bytes", "/proc/PID/status VmSwap").expected("0"))
        .evidence(Evidence::new("time in which some task waited for memory", stalled, "ratio", "memory.pressure").expected(format!("< {STALLED}")))
        .evidence_if(interleave(window))
        .evidence_if(strangers(window))
        .remedy_if(migration(window, nodes, node))
        .remedy(spreading(window))
        .explains(&[swapping::CAUSE.name])
        .finding(),
    ))
}

/// The finding of memory that is far from the threads that use it.
fn far(window: &Window, nodes: &[NumaNode], node: &NumaNode) -> Option<Finding> {
    let by_node = cpus_by_node(window, nodes)?;
    let all_cpus: f64 = by_node.values().sum();
    let away = by_node.iter().filter(|(id, _)| **id != node.id).map(|(_, cpus)| cpus).sum::<f64>() / all_cpus;
    if all_cpus < BUSY_CPUS || away < FAR {
        return None;
    }
    let (held, all) = (held(node), nodes.iter().map(held).sum::<u64>());
    let listed: Vec<String> = by_node.iter().map(|(id, cpus)| format!("{cpus:.1} on node {id}")).collect();
    let draft = Draft::new(
        &CAUSE,
        FAR_COSTS * away,
        format!(
            "Node {} holds {} of the server's {} of memory, and {} of its CPU time is on other nodes",
            node.id,
            bytes(held as f64),
            bytes(all as f64),
            percent(away)
        ),
    );
    let draft = draft
        .why(format!(
            "Its threads use {} CPUs: {}. What they read of the buffer pool comes through one node's memory and the link between the \
             nodes.",
            whole(all_cpus),
            listed.join(", ")
        ))
        .evidence(share_of_memory(nodes, node))
        .evidence(
            Evidence::new("CPU time on other nodes", away, "ratio", "/proc/PID/task/*/stat").expected(format!("< {FAR}")),
        )
        .evidence_if(interleave(window))
        .evidence_if(strangers(window));
    // On its own node it is fastest, where that is large enough for all of it.
    let fits = all_cpus <= node.cpus.len() as f64 && all.saturating_sub(held) <= node.free_bytes;
    let pid = window.server.pid.unwrap_or_default();
    let list = |cpus: &mut dyn Iterator<Item = &u32>| cpus.map(u32::to_string).collect::<Vec<_>>().join(",");
    let own = list(&mut node.cpus.iter());
    let everywhere = list(&mut nodes.iter().flat_map(|node| &node.cpus));
    let draft = draft.remedy_if(fits.then(|| Remedy {
        statement: format!("taskset -a -c -p {own} {pid}"),
        why: format!(
            "All of its threads then run where its memory is: node {} has {}, and it uses {}. To keep it so: numactl \
             --cpunodebind={} --membind={} before the server, or CPUAffinity, NUMAPolicy=bind and NUMAMask in its systemd unit.",
            node.id,
            counted(node.cpus.len() as u64, "CPU", "CPUs"),
            whole(all_cpus),
            node.id,
            node.id
        ),
        dynamic: true,
        risk: "It has the CPUs of one node only: a load that needs more waits for a CPU.".into(),
        undo: format!("taskset -a -c -p {everywhere} {pid}"),
    }));
    Some(draft.remedy(spreading(window)).finding())
}

/// CPUs that the server's threads used on each node, by the CPU that each ran on last; none where that was not read.
fn cpus_by_node(window: &Window, nodes: &[NumaNode]) -> Option<BTreeMap<u32, f64>> {
    let change = window.change(|s| &s.host.threads)?;
    let node_of: BTreeMap<u32, u32> =
        nodes.iter().flat_map(|node| node.cpus.iter().map(|cpu| (*cpu, node.id))).collect();
    let before: BTreeMap<u32, u64> =
        change.first.iter().map(|thread| (thread.tid, thread.user_us + thread.system_us)).collect();
    let mut used = BTreeMap::new();
    for thread in change.last {
        let Some(node) = thread.last_cpu.and_then(|cpu| node_of.get(&cpu)) else { continue };
        // A thread that began meanwhile has used all that it used in the window.
        let first = before.get(&thread.tid).copied().unwrap_or(0);
        let us = (thread.user_us + thread.system_us).saturating_sub(first);
        *used.entry(*node).or_insert(0.0) += us as f64 / 1e6 / change.seconds;
    }
    (used.values().sum::<f64>() > 0.0).then_some(used)
}

fn held(node: &NumaNode) -> u64 {
    node.server_bytes.unwrap_or_default()
}

fn share_of_memory(nodes: &[NumaNode], node: &NumaNode) -> Evidence {
    let all: u64 = nodes.iter().map(held).sum();
    let with_memory = nodes.iter().filter(|node| node.total_bytes > 0).count();
    let share = held(node) as f64 / all.max(1) as f64;
    Evidence::new(
        "the server's memory on that node",
        share,
        "ratio",
        "memory.numa_stat, numa_maps or a sample of pages",
    )
    .expected(format!("< {:.2}", UNEVEN / with_memory.max(1) as f64))
}

fn interleave(window: &Window) -> Option<Evidence> {
    let value = window.variable("innodb_numa_interleave")?.to_owned();
    Some(Evidence::new("innodb_numa_interleave", value, "", "SHOW GLOBAL VARIABLES").expected("ON"))
}

/// Part of the pages taken in the window, by all programs of the host, that were not taken on the node of the thread.
fn strangers(window: &Window) -> Option<Evidence> {
    let change = window.change(|s| &s.host.numa_counters)?;
    let sum = |nodes: &[NumaCounters], count: fn(&NumaCounters) -> u64| nodes.iter().map(count).sum::<u64>();
    let grown = |count| sum(change.last, count).saturating_sub(sum(change.first, count)) as f64;
    let (local, other) = (grown(|node| node.local), grown(|node| node.other));
    (local + other > 0.0).then(|| {
        Evidence::new(
            "pages taken on another node than the thread's",
            other / (local + other),
            "ratio",
            "node*/numastat",
        )
    })
}

/// What moves the server's memory to the node that has most room, now.
fn migration(window: &Window, nodes: &[NumaNode], node: &NumaNode) -> Option<Remedy> {
    let pid = window.server.pid.unwrap_or_default();
    let other = nodes.iter().filter(|other| other.id != node.id).max_by_key(|other| other.free_bytes)?;
    Some(Remedy {
        statement: format!("migratepages {pid} {} {}", node.id, other.id),
        why: "It moves pages of the server to the node that has most memory free, now.".into(),
        dynamic: true,
        risk: "Statements that touch a page while it is moved wait for a moment. It moves all that the server has on that node, as \
               far as the other has room."
            .into(),
        undo: format!("migratepages {pid} {} {}", other.id, node.id),
    })
}

/// What spreads the buffer pool over the nodes from the next start on: the server's own setting, where this build has it.
fn spreading(window: &Window) -> Remedy {
    let risk = "A restart; the pool is cold after it.".into();
    match window.variable("innodb_numa_interleave") {
        Some("OFF" | "0") => Remedy {
            statement: "innodb_numa_interleave = ON in the option file, and a restart".into(),
            why: "The buffer pool is then spread over all nodes as it is allocated.".into(),
            dynamic: false,
            risk,
            undo: "innodb_numa_interleave = OFF, and a restart".into(),
        },
        _ => Remedy {
            statement: "numactl --interleave=all before the server (NUMAPolicy=interleave and NUMAMask=all in its systemd unit), and a restart".into(),
            why: "All that it allocates is then spread over the nodes. This server has no setting of its own that does it, or has it on \
                  already."
                .into(),
            dynamic: false,
            risk,
            undo: "Take it out again, and a restart".into(),
        },
    }
}

/// The node that has most of the server, where that is far more than its share.
fn crowded_node(nodes: &[NumaNode]) -> Result<Option<&NumaNode>, Unavailable> {
    // A node without memory has CPUs only.
    let with_memory: Vec<&NumaNode> = nodes.iter().filter(|node| node.total_bytes > 0).collect();
    if with_memory.len() < 2 {
        return Ok(None);
    }
    if with_memory.iter().any(|node| node.server_bytes.is_none()) {
        return Err(Unavailable::because("where the server's memory lies could not be read")
            .unlock("run spindoctor as root or as the server's user"));
    }
    let all: u64 = with_memory.iter().copied().map(held).sum();
    let even = all as f64 / with_memory.len() as f64;
    let Some(most) = with_memory.iter().copied().max_by_key(|node| held(node)) else { return Ok(None) };
    let is_uneven = all >= SERVER_BYTES && held(most) as f64 >= UNEVEN * even;
    Ok(is_uneven.then_some(most))
}

/// True where a node is full and the others have room.
fn is_full_beside_room(node: &NumaNode, nodes: &[NumaNode]) -> bool {
    let others = nodes.iter().filter(|other| other.id != node.id);
    let (free, total) =
        others.fold((0, 0), |(free, total), node| (free + node.free_bytes, total + node.total_bytes));
    (node.free_bytes as f64) < FULL * node.total_bytes as f64 && free as f64 >= ROOM * total as f64
}

#[cfg(test)]
pub(crate) mod examples {
    use spindoctor_model::Reading;
    use spindoctor_model::host::{Pressure, ThreadStat};
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

    /// Node 0 holds 55 of 60 GiB, and so many of three CPUs' time is on it; it has so much free.
    fn running(on_first: f64, free: u64) -> Window {
        let build = Build::busy("8.0.36").variable("innodb_numa_interleave", "OFF");
        build
            .each(|at_s, _, host| {
                host.numa = answer(at_s, nodes(free, Some(55)));
                let thread = |tid, cpus: f64, last_cpu| ThreadStat {
                    tid,
                    user_us: (cpus * at_s * 1e6) as u64,
                    ran_ns: 1,
                    last_cpu: Some(last_cpu),
                    ..ThreadStat::default()
                };
                let threads = vec![thread(1, 3.0 * on_first, 1), thread(2, 3.0 * (1.0 - on_first), 2)];
                host.threads = answer(at_s, threads);
                let counters = |id, local: f64, other: f64| NumaCounters {
                    id,
                    local: (local * at_s) as u64,
                    other: (other * at_s) as u64,
                    ..NumaCounters::default()
                };
                host.numa_counters = answer(at_s, vec![counters(0, 300.0, 600.0), counters(1, 100.0, 0.0)]);
            })
            .window()
    }

    #[test]
    fn memory_that_is_far_from_most_threads_is_a_note_with_what_brings_them_together() {
        let Outcome::Fired(finding) = evaluate(&running(0.25, 8)) else {
            panic!("75 % of the time is on the other node")
        };
        assert_eq!(
            finding.headline,
            "Node 0 holds 55 GiB of the server's 60 GiB of memory, and 75 % of its CPU time is on other nodes"
        );
        assert_eq!(finding.severity, spindoctor_model::Severity::Note);
        let reading = |name: &str| {
            finding.evidence.iter().find(|evidence| evidence.reading == name).unwrap().value.clone()
        };
        assert_eq!(
            reading("pages taken on another node than the thread's"),
            spindoctor_model::Value::Number(0.6)
        );
        // Node 0 has two CPUs, and the threads use three: it cannot be bound there.
        let statements: Vec<&str> = finding.remedies.iter().map(|remedy| remedy.statement.as_str()).collect();
        assert_eq!(statements, ["innodb_numa_interleave = ON in the option file, and a restart"]);
        assert_eq!(evaluate(&running(0.6, 8)), Outcome::Clear, "most of them are near");
        let mut idle = running(0.25, 8);
        for sample in &mut idle.samples {
            if let Reading::Available { value: threads, .. } = &mut sample.host.threads {
                threads.iter_mut().for_each(|thread| thread.user_us /= 4);
            }
        }
        assert_eq!(evaluate(&idle), Outcome::Clear, "three quarters of a CPU");
    }

    #[test]
    fn a_server_that_fits_on_its_node_may_be_bound_to_it() {
        let mut window = running(0.25, 8);
        for sample in &mut window.samples {
            if let Reading::Available { value: nodes, .. } = &mut sample.host.numa {
                nodes[0].cpus = vec![0, 1, 4, 5];
                nodes[1].cpus = vec![2, 3, 6, 7];
            }
        }
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
        assert_eq!(finding.remedies[0].statement, "taskset -a -c -p 0,1,4,5 4310");
        assert_eq!(finding.remedies[0].undo, "taskset -a -c -p 0,1,4,5,2,3,6,7 4310");
        assert!(
            finding.remedies[0].why.contains("--cpunodebind=0 --membind=0"),
            "{}",
            finding.remedies[0].why
        );
    }

    #[test]
    fn a_build_without_the_setting_is_spread_from_outside() {
        let mut window = fires();
        for sample in &mut window.samples {
            if let Reading::Available { value: variables, .. } = &mut sample.server.variables {
                *variables = variables.iter().filter(|(name, _)| *name != "innodb_numa_interleave").collect();
            }
        }
        let Outcome::Fired(finding) = evaluate(&window) else { panic!("it fires") };
        assert!(
            finding.remedies[1].statement.starts_with("numactl --interleave=all"),
            "{:?}",
            finding.remedies
        );
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
