//! The host sources against real servers whose limits, state and load the lab knows.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use spindoctor_collect::host::{self, HostSource, Target};
use spindoctor_lab::{Home, Limits, Server, ServerSpec, Which};
use spindoctor_model::HostSample;
use spindoctor_model::host::SrvCpuUsage;

/// Longer than any of this takes on a machine that is not on its knees.
const PATIENCE: Duration = Duration::from_secs(60);

async fn start(which: Which, limits: Limits) -> Server {
    let spec = ServerSpec { which, limits, ..ServerSpec::default() };
    Server::start(&Home::open().unwrap(), &spec, &|line| println!("{line}")).await.unwrap()
}

/// What the server believes, once it has counted: it has not in its first seconds.
async fn believed(server: &Server) -> SrvCpuUsage {
    let start = Instant::now();
    loop {
        let reading = read(server, &[host::srv_cpu_usage::SOURCE]).srv_cpu_usage;
        if let Some(usage) = reading.value() {
            return *usage;
        }
        let because = &reading.unavailable().unwrap().because;
        assert!(because.contains("has not counted") && start.elapsed() < PATIENCE, "{because}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads one source, or all of them.
fn read(server: &Server, sources: &[HostSource]) -> HostSample {
    let mut sample = HostSample::default();
    for source in sources {
        (source.read)(&Target::live(server.pid()), &mut sample, &Default::default);
    }
    sample
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root may make cgroups and read another user's memory");
    }
    root
}

#[tokio::test(flavor = "current_thread")]
async fn mysql_counts_its_cpus_and_its_load_in_its_memory() {
    if !is_root() {
        return;
    }
    let server = start(Which::Mysql, Limits::default()).await;
    let cpus = read(&server, &[host::effective_cpus::SOURCE]).effective_cpus.value().unwrap().affinity;
    assert_eq!(Some(believed(&server).await.n_cpu), cpus);

    // The server refreshes it about once a second: keep a CPU busy, or what others leave of it, until it shows.
    let mut connection = server.connect().await.unwrap();
    let start = Instant::now();
    let seen = loop {
        connection.query_drop("SELECT BENCHMARK(2000000, SHA2('spin', 512))").await.unwrap();
        let usage = believed(&server).await;
        if usage.utime_abs > 5.0 || start.elapsed() > PATIENCE {
            break usage;
        }
    };
    assert!(seen.utime_abs > 5.0, "{seen:?}");
    // By its definition: percent of one CPU, and the same of all that it counts.
    assert!((seen.utime_abs / f64::from(seen.n_cpu) - seen.utime_pct).abs() < 1e-6, "{seen:?}");
    connection.disconnect().await.unwrap();
    server.stop().unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn every_source_answers_about_a_mysql_with_half_a_cpu() {
    if !is_root() {
        return;
    }
    let limits = Limits { quota_cpus: Some(0.5), freezer: true, ..Limits::default() };
    let server = start(Which::Mysql, limits).await;
    let sample = read(&server, host::SOURCES);

    let effective = sample.effective_cpus.value().unwrap();
    assert_eq!((effective.cpus, effective.quota.as_ref().map(|quota| quota.cpus)), (0.5, Some(0.5)));
    let throttling = sample.throttling.value().unwrap();
    assert_eq!(throttling.cgroup, effective.quota.as_ref().unwrap().cgroup);
    assert!(throttling.periods > 0, "{throttling:?}");
    // It does not see the quota: the reason for the whole of quota-blind-spin.
    assert_eq!(Some(believed(&server).await.n_cpu), effective.affinity);

    let process = sample.process.value().unwrap();
    assert_eq!(process.name, "mysqld");
    assert!(process.resident_bytes > 50 << 20 && process.user_us > 0 && process.written_bytes.is_some());
    let threads = sample.threads.value().unwrap();
    assert!(threads.len() >= 20, "only {} threads", threads.len());
    // MySQL names its threads from 8.0.27.
    assert!(threads.iter().any(|thread| thread.name.starts_with("ib_log_")), "{threads:?}");
    assert!(sample.pause.value().unwrap().ns > 0.0);
    assert!(sample.numa.value().unwrap().iter().all(|node| node.server_bytes.is_some()));
    assert!(sample.cpu.value().is_some() && sample.cpu_times.value().is_some());
    assert!(sample.disks.value().is_some() && sample.memory.value().is_some());
    assert!(sample.disk_users.value().is_some_and(|users| users.unread == 0), "{:?}", sample.disk_users);
    // Its data are in memory.
    let data = sample.data_directory.value().unwrap();
    assert!(data.folders.iter().all(|one| one.disk.is_none() && one.unknown.is_some()), "{data:?}");
    let logs = sample.page_cache.value().unwrap();
    assert!(logs.binlog.files > 0 && logs.redo.files > 0 && logs.redo.bytes > 1 << 20, "{logs:?}");
    assert!(sample.tcp_queues.value().is_some_and(|queues| !queues.is_cut), "{:?}", sample.tcp_queues);
    let queues = sample.listen_queues.value().unwrap();
    assert!(queues.sockets.iter().any(|socket| socket.port == server.port()), "{queues:?}");

    server.freeze(true).unwrap();
    assert!(read(&server, &[host::process::SOURCE]).process.value().unwrap().frozen);
    server.freeze(false).unwrap();
    assert!(!read(&server, &[host::process::SOURCE]).process.value().unwrap().frozen);

    server.pause(true);
    let state = || read(&server, &[host::process::SOURCE]).process.value().unwrap().state.clone();
    let start = Instant::now();
    while state() != "T" && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(state(), "T");
    server.pause(false);
    server.stop().unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn mariadb_keeps_no_such_count_and_says_so() {
    if !is_root() {
        return;
    }
    let server = start(Which::Mariadb, Limits::default()).await;
    let sample = read(&server, host::SOURCES);
    let unavailable = sample.srv_cpu_usage.unavailable().unwrap();
    assert!(unavailable.because.contains("MariaDB"), "{unavailable:?}");
    assert_eq!(sample.process.value().unwrap().name, "mariadbd");
    let logs = sample.page_cache.value().unwrap();
    assert!(logs.redo.files > 0 && logs.redo.bytes > 1 << 20, "{logs:?}");
    server.stop().unwrap();
}

/// A group of version 2 for one process; it goes when this is dropped.
struct Unified(std::path::PathBuf);

impl Unified {
    /// None where no hierarchy of version 2 is mounted.
    fn with(pid: u32) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let place = fields.next()?;
            (fields.next()? == "cgroup2").then(|| std::path::PathBuf::from(place))
        });
        let Some(root) = root else {
            println!("skipped: no cgroup2 is mounted");
            return None;
        };
        let group = Self(root.join(format!("spindoctor-host-{}", std::process::id())));
        std::fs::create_dir(&group.0).unwrap();
        group.write("cgroup.procs", &pid.to_string());
        Some(group)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }

    fn name(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_string_lossy())
    }

    fn freeze(&self, frozen: bool) {
        let flag = if frozen { "1" } else { "0" };
        self.write("cgroup.freeze", flag);
        let start = Instant::now();
        while !self.read("cgroup.events").contains(&format!("frozen {flag}")) {
            assert!(start.elapsed() < PATIENCE, "the group is not frozen: {}", self.read("cgroup.events"));
            std::thread::yield_now();
        }
    }
}

impl Drop for Unified {
    fn drop(&mut self) {
        let _thawed = std::fs::write(self.0.join("cgroup.freeze"), "0");
        let members = std::fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            // One that has ended meanwhile is in no group.
            let _moved = std::fs::write(self.0.with_file_name("cgroup.procs"), pid);
        }
        let start = Instant::now();
        // The kernel frees a group a little after its last process.
        while std::fs::remove_dir(&self.0).is_err() && start.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }
}

/// Which controllers version 2 has is the machine's choice: each can be in one version only. Freezing and pressure are in all.
#[tokio::test(flavor = "current_thread")]
async fn a_group_of_version_2_is_read_as_far_as_this_machine_has_its_controllers_there() {
    if !is_root() {
        return;
    }
    let server = start(Which::Mysql, Limits::default()).await;
    let Some(group) = Unified::with(server.pid()) else { return };
    let pressure = read(&server, &[host::cgroup_pressure::SOURCE]).cgroup_pressure;
    match group.0.join("cpu.pressure").exists() {
        true => {
            let pressure = pressure.value().unwrap();
            assert_eq!(pressure.cgroup, Some(group.name()));
            assert!(pressure.cpu_some_us.is_some() && pressure.io_some_us.is_some(), "{pressure:?}");
        }
        false => assert!(pressure.unavailable().is_some_and(|why| why.unlock.is_some()), "{pressure:?}"),
    }
    let is_frozen = || read(&server, &[host::process::SOURCE]).process.value().unwrap().frozen;
    assert!(!is_frozen());
    group.freeze(true);
    assert!(is_frozen());
    group.freeze(false);
    assert!(!is_frozen());

    let controllers = std::fs::read_to_string(group.0.with_file_name("cgroup.controllers")).unwrap();
    if controllers.split_whitespace().any(|controller| controller == "cpu") {
        std::fs::write(group.0.with_file_name("cgroup.subtree_control"), "+cpu").unwrap();
        group.write("cpu.max", "50000 100000");
        let sample = read(&server, &[host::effective_cpus::SOURCE, host::throttling::SOURCE]);
        let effective = sample.effective_cpus.value().unwrap();
        assert_eq!((effective.cpus, effective.quota.as_ref().map(|quota| quota.cpus)), (0.5, Some(0.5)));
        assert_eq!(sample.throttling.value().unwrap().cgroup, group.name());
    } else {
        println!(
            "version 2 has only {controllers:?} here: quotas are read from version 1, as in the tests above"
        );
    }
    server.stop().unwrap();
}
