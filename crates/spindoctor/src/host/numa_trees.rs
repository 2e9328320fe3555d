//! Hosts of 2, 4 and 8 memory nodes with a server of 60 GiB, from their files to the report and the findings. No machine of ours has
//! several nodes: the files are written by hand after the kernel's documented forms, with values of our own. Linux:
//! Documentation/admin-guide/numastat.rst, Documentation/admin-guide/cgroup-v2.rst (memory.numa_stat), proc(5), numa(7).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use spindoctor_collect::host::{HostSource, SOURCES, Target};
use spindoctor_model::mysql::{ServerThread, WaitSummary};
use spindoctor_model::{Finding, HostSample, Reading, Sample, ServerIdentity, ServerVersion, Window};
use tempfile::TempDir;

use super::text;
use super::view::HostReport;
use spindoctor_page::text::Look;

const GIB: u64 = 1 << 30;
const PID: u32 = 7;
/// The second sample is so many seconds after the first.
const SECONDS: u64 = 10;

/// Where the kernel says the server's memory lies.
#[derive(Clone, Copy)]
enum By {
    /// The control group's `memory.numa_stat`.
    ControlGroup,
    /// `numa_maps`, the pool in chunks of 128 MiB that are mappings of their own.
    Chunks,
    /// `numa_maps`, the pool in huge pages.
    HugePages,
}

/// A host with a server that has so many GiB on each of its nodes.
struct Host {
    held_gib: &'static [u64],
    by: By,
    cpus_per_node: u32,
    /// Memory of a node and what is free on the first one and on the others, GiB.
    node_gib: (u64, u64, u64),
    swapped_gib: u64,
    /// CPUs that the server's threads use on each node.
    busy: &'static [f64],
}

impl Host {
    /// Writes its files as they are so many seconds after the first sample.
    fn write(&self, root: &Path, at_s: u64) {
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let process = |file: &str| format!("proc/{PID}/{file}");
        for (id, _) in self.held_gib.iter().enumerate() {
            let node = |file: &str| format!("sys/devices/system/node/node{id}/{file}");
            let (total, first, others) = self.node_gib;
            let free = if id == 0 { first } else { others };
            let kb = |gib: u64| gib << 20;
            let memory =
                format!("Node {id} MemTotal:  {} kB\nNode {id} MemFree:  {} kB\n", kb(total), kb(free));
            put(&node("meminfo"), &memory);
            let from = id as u32 * self.cpus_per_node;
            put(&node("cpulist"), &format!("{from}-{}\n", from + self.cpus_per_node - 1));
            let taken = 1_000_000 + at_s * 1_000;
            put(
                &node("numastat"),
                &format!(
                    "numa_hit {taken}\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 90\nlocal_node {}\nother_node {}\n",
                    250 * at_s,
                    750 * at_s
                ),
            );
        }
        let all: u64 = self.held_gib.iter().sum();
        let (resident, huge) = match self.by {
            By::HugePages => (1, all),
            By::ControlGroup | By::Chunks => (all, 0),
        };
        put(
            &process("status"),
            &format!(
                "Name:\tmysqld\nVmRSS:\t{} kB\nRssAnon:\t{} kB\nVmSwap:\t{} kB\nHugetlbPages:\t{} kB\n",
                resident << 20,
                resident << 20,
                self.swapped_gib << 20,
                huge << 20
            ),
        );
        let stat = |id: u32, ticks: u64, faults: u64, cpu: u32| {
            format!(
                "{id} (mysqld) S 1 {PID} {PID} 0 -1 4194624 9 0 {faults} 0 {ticks} 0 0 0 20 0 5 0 4712 1503238553 203086 \
                 18446744073709551615 1 1 0 0 0 0 543239 0 17130 0 0 0 -1 {cpu} 0 0 9 0 0 0 0 0 0 0 0 0 0\n"
            )
        };
        put(&process("stat"), &stat(PID, 100, at_s * 200, 0));
        for (node, cpus) in self.busy.iter().enumerate() {
            let tid = 100 + node as u32;
            let ticks = (cpus * at_s as f64 * 100.0) as u64;
            let task = |file: &str| process(&format!("task/{tid}/{file}"));
            put(&task("stat"), &stat(tid, ticks, 0, node as u32 * self.cpus_per_node + 1));
            put(&task("schedstat"), &format!("{} 0 1\n", 1 + ticks * 10_000_000));
        }
        let stalled = at_s * 600_000;
        put(
            "proc/pressure/memory",
            &format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
            ),
        );
        let idle = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        for file in ["cpu", "io"] {
            put(&format!("proc/pressure/{file}"), idle);
        }
        match self.by {
            By::ControlGroup => {
                let nodes: Vec<String> = self
                    .held_gib
                    .iter()
                    .enumerate()
                    .map(|(id, gib)| format!("N{id}={}", gib * GIB))
                    .collect();
                put(&process("cgroup"), "0::/mysql\n");
                put("sys/fs/cgroup/mysql/cgroup.procs", &format!("{PID}\n"));
                put(
                    "sys/fs/cgroup/mysql/memory.numa_stat",
                    &format!("anon {}\nfile N0=7\n", nodes.join(" ")),
                );
            }
            By::Chunks => {
                // Eight chunks a GiB, each on one node.
                let on = self.held_gib.iter().enumerate().flat_map(|(id, gib)| vec![id; *gib as usize * 8]);
                let (mut maps, mut numa_maps) = (String::new(), String::new());
                for (number, id) in on.enumerate() {
                    // A page that must not be touched lies between two of them.
                    let from = 0x7000_0000_0000_u64 + number as u64 * ((128 << 20) + 4_096);
                    maps += &format!("{from:x}-{:x} rw-p 00000000 00:00 0 \n", from + (128 << 20));
                    numa_maps +=
                        &format!("{from:x} default anon=32768 dirty=32768 N{id}=32768 kernelpagesize_kB=4\n");
                }
                put(&process("maps"), &maps);
                put(&process("numa_maps"), &numa_maps);
            }
            By::HugePages => {
                let nodes: Vec<String> = self
                    .held_gib
                    .iter()
                    .enumerate()
                    .map(|(id, gib)| format!("N{id}={}", gib * 512))
                    .collect();
                let line = format!(
                    "7f5e00000000 interleave:0-7 file=/anon_hugepage\\040(deleted) huge anon={} {} kernelpagesize_kB=2048\n",
                    all * 512,
                    nodes.join(" ")
                );
                put(&process("numa_maps"), &line);
            }
        }
    }

    /// A window of ten seconds, and the longest that reading the nodes took.
    fn window(&self) -> (Window, Duration) {
        let root: TempDir = tempfile::tempdir().unwrap();
        let target = Target::under(PID, root.path().join("proc"), root.path().join("sys"));
        let mut longest = Duration::ZERO;
        let mut samples = Vec::new();
        for at_s in [0, SECONDS] {
            self.write(root.path(), at_s);
            let mut host = HostSample::default();
            // Those of these files; the others would say what they say of a host without them.
            let is_wanted = |source: &&HostSource| {
                [
                    "/proc/PID/stat",
                    "/proc/PID/task",
                    "node*/numastat",
                    "/proc/PID/numa_maps",
                    "/proc/pressure",
                ]
                .contains(&source.name)
            };
            for source in SOURCES.iter().filter(is_wanted) {
                let begun = Instant::now();
                source.read_into(&mut host, &target, begun);
                longest = longest.max(begun.elapsed());
            }
            host.shift(at_s as f64);
            samples.push(Sample { at_s: at_s as f64, host, ..Sample::default() });
        }
        let server = ServerIdentity {
            version: ServerVersion::parse("8.0.24", ""),
            pid: Some(PID),
            ..ServerIdentity::default()
        };
        (Window { server, samples, ..Window::default() }, longest)
    }
}

fn read<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 1.0, value }
}

fn numa_finding(window: &Window) -> Option<Finding> {
    let diagnosis = spindoctor_rules::diagnose(window);
    diagnosis.findings.into_iter().find(|finding| finding.cause == "numa-imbalance")
}

fn held(window: &Window) -> Vec<Option<u64>> {
    let nodes = window.latest(|s| &s.host.numa).expect("nodes").iter();
    nodes.map(|node| node.server_bytes.map(|bytes| bytes >> 30)).collect()
}

/// Reading the nodes holds nobody up, however large the server is: a quarter of a second at most is walked.
const WITHIN: Duration = Duration::from_millis(300);

#[test]
fn on_two_nodes_the_full_one_with_55_of_60_gib_is_named_by_the_control_group() {
    let host = Host {
        held_gib: &[55, 5],
        by: By::ControlGroup,
        cpus_per_node: 16,
        node_gib: (64, 1, 50),
        swapped_gib: 2,
        busy: &[3.0, 3.0],
    };
    let (window, took) = host.window();
    assert_eq!(held(&window), [Some(55), Some(5)]);
    assert!(took < WITHIN, "{took:?}");
    let finding = numa_finding(&window).expect("a finding");
    assert_eq!(
        finding.headline,
        "Node 0 holds 55 GiB of the server's 60 GiB of memory and is full, while other nodes have 50 GiB free"
    );
    assert_eq!(finding.remedies[0].statement, "migratepages 7 0 1");
    let page = text::render(&HostReport::from_window(&window), Look { width: 100, colour: false });
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("16 CPUs, 1 GiB of 64 GiB free, server 55 GiB"), "{page}");
    assert!(page.contains("threads used 3 CPUs on it"), "{page}");
    assert!(page.contains("75 % of 20,000 pages"), "{page}");
}

#[test]
fn on_four_nodes_memory_far_from_its_threads_is_a_note_and_the_published_wait_table_asks_for_undo_tablespaces()
 {
    let mut host = Host {
        held_gib: &[48, 4, 4, 4],
        by: By::Chunks,
        cpus_per_node: 32,
        node_gib: (128, 60, 100),
        swapped_gib: 0,
        busy: &[4.0, 4.0, 4.0, 4.0],
    };
    let (window, took) = host.window();
    assert_eq!(held(&window), [Some(48), Some(4), Some(4), Some(4)]);
    assert!(took < WITHIN, "{took:?}");
    let finding = numa_finding(&window).expect("a finding");
    assert_eq!(
        finding.headline,
        "Node 0 holds 48 GiB of the server's 60 GiB of memory, and 75 % of its CPU time is on other nodes"
    );
    assert!(finding.remedies[0].statement.starts_with("taskset -a -c -p 0,1,2,"), "{:?}", finding.remedies);
    // Spread well, as the published server's was: what is left is its wait table. 1,024 sessions waited 77 s each for the
    // rollback segments' mutex in a run of some 300 s; here a thirtieth of it.
    host.held_gib = &[15, 15, 15, 15];
    let (mut window, _) = host.window();
    assert_eq!(numa_finding(&window), None);
    let rows: [(&str, f64, u64); 3] = [
        ("wait/synch/mutex/innodb/trx_sys_mutex", 88_168_453.598_8, 19_540_096),
        ("wait/synch/mutex/innodb/undo_space_rseg_mutex", 78_933_376.911_8, 14_811_159),
        ("wait/synch/mutex/innodb/sync_array_mutex", 11_274_812.837_0, 111_143_905),
    ];
    for sample in &mut window.samples {
        let at_s = sample.at_s;
        let part = at_s / 300.0;
        let wait = |&(event, ms, count): &(&str, f64, u64)| WaitSummary {
            event: event.to_owned(),
            count: (count as f64 * part) as u64,
            total_ns: (ms * part * 1e6) as u64,
        };
        sample.server.waits = read(at_s, rows.iter().map(wait).collect());
        let session = |id| ServerThread {
            internal_id: Some(id),
            connection_id: Some(id),
            name: "thread/sql/one_connection".to_owned(),
            is_connection: true,
            command: "Query".to_owned(),
            state: "updating".to_owned(),
            statement: Some("UPDATE sbtest1 SET k = k + 1 WHERE id = 7".to_owned()),
            ..ServerThread::default()
        };
        sample.server.threads = read(at_s, (1..=1_024).map(session).collect());
        let settings = [
            ("innodb_rollback_segments", "128"),
            ("innodb_max_undo_log_size", "1073741824"),
            ("innodb_undo_log_truncate", "ON"),
        ];
        sample.server.variables = read(at_s, settings.into_iter().collect());
        let status = [("Innodb_undo_tablespaces_total", "2"), ("Threads_running", "1024")];
        sample.server.status = read(at_s, status.into_iter().collect());
        let data = spindoctor_model::host::DataDirectory {
            path: "/var/lib/mysql".to_owned(),
            total_bytes: 8_192 * GIB,
            free_bytes: 4_096 * GIB,
            ..Default::default()
        };
        sample.host.data_directory = read(at_s, data);
    }
    let plan = spindoctor_rules::proposals::plan(&window);
    let undo = plan.proposals.iter().find(|proposal| proposal.family == "undo-tablespaces");
    let why = &undo.unwrap_or_else(|| panic!("{:#?}", plan.left)).remedy.why;
    assert!(why.contains("on 4 NUMA nodes") && why.contains("127 have 16,256"), "{why}");
    assert!(why.starts_with("25.7 % of the sessions' time"), "{why}");
}

#[test]
fn on_eight_nodes_huge_pages_that_are_interleaved_are_seen_without_a_long_walk_and_are_well() {
    let host = Host {
        held_gib: &[8, 8, 8, 8, 7, 7, 7, 7],
        by: By::HugePages,
        cpus_per_node: 16,
        node_gib: (32, 1, 20),
        swapped_gib: 0,
        busy: &[2.0; 8],
    };
    let (window, took) = host.window();
    assert_eq!(held(&window).iter().flatten().sum::<u64>(), 60);
    assert!(took < WITHIN, "{took:?}");
    assert_eq!(numa_finding(&window), None);
    let skewed = Host {
        held_gib: &[40, 20, 0, 0, 0, 0, 0, 0],
        busy: &[0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        ..host
    };
    let finding = numa_finding(&skewed.window().0).expect("a finding");
    assert!(
        finding.headline.starts_with("Node 0 holds 40 GiB of the server's 60 GiB"),
        "{}",
        finding.headline
    );
}
