//! The kernel's files, as Prometheus, Percona Toolkit, gopsutil, ghw and VictoriaMetrics test with them.

use std::path::Path;

use spindoctor_collect::host::{
    HostSource, Target, cgroup, cpu_model, cpu_times, disks, effective_cpus, memory, numa, pressure, process,
    threads, throttling,
};
use spindoctor_collect::source::Answer;
use spindoctor_model::HostSample;
use spindoctor_model::host::DiskStat;

use super::{fixtures, read};

fn sample(source: HostSource, target: &Target) -> HostSample {
    let mut sample = HostSample::default();
    (source.read)(target, &mut sample, &Answer::default);
    sample
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const SCOPE: &str =
    "/system.slice/docker-fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210.scope";
const DOCKER: &str = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";

#[test]
fn the_containers_of_victoriametrics_are_read() {
    let Some(fixture) = fixtures("procfs/victoriametrics-cgroup") else { return };
    let text = |name: &str| read(&fixture.join(name));
    let root = tempfile::tempdir().unwrap();
    let target = Target::under(7, root.path().join("proc"), root.path().join("sys"));
    put(root.path(), "sys/devices/system/cpu/online", "0-6\n");
    put(root.path(), "proc/7/status", "Cpus_allowed_list:\t0-127\n");
    put(root.path(), "proc/7/cgroup", &text("self/cgroupv2"));
    put(root.path(), "proc/self/mountinfo", V2);
    put(root.path(), "sys/fs/cgroup/cpu.max", &text("cgroup/cpu.max"));
    let effective = sample(effective_cpus::SOURCE, &target).effective_cpus;
    assert_eq!(effective.value().unwrap().quota.as_ref().unwrap().cpus, 2.0);
    let found = cgroup::find(&target, "cpu").unwrap().unwrap();
    assert_eq!((found.name.as_str(), found.levels.len()), ("/", 1));

    let quota = |folder: &str| {
        effective_cpus::parse_cfs_quota(
            &text(&format!("{folder}/cpu.cfs_quota_us")),
            &text(&format!("{folder}/cpu.cfs_period_us")),
        )
    };
    assert_eq!(quota("cgroup"), Some((10, 500_000)));
    assert_eq!(quota("docker/74c9abf42b88b9a35b1b56061b08303e56fd1707fe5c5b4df93324dedb36b5db"), None);
}

#[test]
fn the_containers_of_gopsutil_are_read() {
    let Some(cgroups) = fixtures("procfs/gopsutil/cgroup") else { return };
    for (version, line) in [(1, "9:memory:"), (2, "0::")] {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path().join("proc");
        let target = Target::under(7, &proc, cgroups.join(format!("cgroup{version}/sys")));
        put(root.path(), "proc/meminfo", "MemTotal: 16777216 kB\n");
        put(root.path(), "proc/vmstat", "pswpin 0\npswpout 0\n");
        let memory = |group: &str| {
            put(root.path(), "proc/7/cgroup", &format!("{line}{group}\n"));
            let sample = sample(memory::SOURCE, &target);
            let memory = sample.memory.value().unwrap();
            (memory.cgroup_limit_bytes, memory.cgroup_used_bytes)
        };
        assert_eq!(memory(SCOPE), (Some(268_435_456), Some(123_456_789)));
        assert_eq!(memory(DOCKER), (None, Some(26_591_232)));
    }
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "proc/7/cgroup", &format!("0::{SCOPE}\n"));
    let target = Target::under(7, root.path().join("proc"), cgroups.join("cgroup2/sys"));
    let sample = sample(throttling::SOURCE, &target);
    let found = sample.throttling.value().unwrap();
    assert_eq!((found.cgroup.as_str(), found.periods, found.throttled_periods), (SCOPE, 10, 2));
    assert_eq!((found.throttled_us, found.usage_us), (12_345, Some(2_500_000)));

    let private = cgroups.join("own/cgroup1-private");
    put(root.path(), "proc/7/cgroup", &read(&private.join("proc/self/cgroup")));
    let target = Target::under(7, root.path().join("proc"), private.join("sys"));
    let found = cgroup::find(&target, "memory").unwrap().unwrap();
    assert_eq!(found.levels.len(), 1);
    assert!(found.levels[0].folder.join("memory.limit_in_bytes").is_file());
}

#[test]
fn the_host_of_ghw_is_read() {
    let Some(root) = fixtures("procfs/ghw-8581cf3a52") else { return };
    let own = tempfile::tempdir().unwrap();
    put(own.path(), "proc/7/status", "VmRSS:\t4000 kB\n");
    let sampled = sample(cpu_model::SOURCE, &Target::under(7, root.join("proc"), root.join("sys")));
    let cpu = sampled.cpu.value().unwrap();
    assert_eq!(cpu.name, "Intel(R) Xeon(R) CPU L5640 @ 2.27GHz");
    assert_eq!((cpu.microarchitecture.as_deref(), cpu.family_model), (Some("Westmere"), Some((6, 44))));
    assert!(!cpu.virtualised);
    let sampled = sample(numa::SOURCE, &Target::under(7, own.path().join("proc"), root.join("sys")));
    let nodes = sampled.numa.value().unwrap();
    assert_eq!(nodes[1].cpus, (1..24).step_by(2).collect::<Vec<_>>());
    assert_eq!((nodes[0].total_bytes, nodes[0].free_bytes), (32_980_312 * 1024, 29_193_784 * 1024));
    let memory = memory::parse_meminfo(&read(&root.join("proc/meminfo"))).unwrap();
    assert!(memory.available_bytes > 0 && memory.available_bytes < memory.total_bytes);
}

#[test]
fn the_hosts_of_percona_monitoring_plugins_are_read() {
    let Some(folder) = fixtures("procfs/pmp") else { return };
    let times = cpu_times::parse_cpu_times(&read(&folder.join("proc_stat-002.txt"))).unwrap();
    assert_eq!((times.user_us, times.idle_us), ((2_261_920 + 38_824) * 10_000, 396_836_980_000));
    assert_eq!((times.iowait_us, times.steal_us, times.context_switches), (623_680_000, 0, 125_521_467));
    let memory = memory::parse_meminfo(&read(&folder.join("meminfo-001.txt"))).unwrap();
    assert_eq!(memory.total_bytes, 502_412 * 1024);
    assert_eq!(memory.available_bytes, (38_228 + 20_216 + 67_376) * 1024);
    assert_eq!((memory.swap_total_bytes, memory.swap_free_bytes), (1_015_800 * 1024, 738_288 * 1024));
    assert_eq!(memory::parse_swapped_pages(&read(&folder.join("vmstat-001.txt"))), Some((32, 1_274)));
}

#[test]
fn the_processes_of_prometheus_are_read() {
    let Some(root) = fixtures("procfs/prometheus-procfs") else { return };
    let target = |pid| Target::under(pid, root.join("proc"), root.join("sys"));
    let sampled = sample(process::SOURCE, &target(26231));
    let process = sampled.process.value().unwrap();
    assert_eq!((process.name.as_str(), process.state.as_str()), ("vim", "R"));
    assert_eq!((process.user_us, process.system_us, process.major_faults), (16_770_000, 440_000, 26));
    assert_eq!((process.resident_bytes, process.swapped_bytes), (6_716 * 1024, 660 * 1024));
    assert_eq!((process.read_bytes, process.written_bytes), (Some(1024), Some(2048)));

    let stat = |pid| process::parse_task_stat(&read(&target(pid).process("stat"))).unwrap();
    assert_eq!(stat(584).name, "(a b ) ( c d) ");
    assert_eq!((stat(26232).name.as_str(), stat(26232).started_ticks), ("ata_sff", 5));
    assert_eq!(cgroup::parse_mountinfo(&read(&target(26231).process("mountinfo"))), []);

    let ran = threads::parse_schedstat(&read(&target(26231).process("schedstat"))).unwrap();
    assert_eq!((ran.ran_ns, ran.run_queue_ns), (411_605_849, 93_680_043));
    // This tree has no schedstat of threads.
    let sampled = sample(threads::SOURCE, &target(27079));
    assert!(sampled.threads.unavailable().unwrap().because.contains("does not count"));

    let sampled = sample(pressure::SOURCE, &target(26231));
    let pressure = sampled.pressure.value().unwrap();
    assert_eq!(
        (pressure.cpu_some_us, pressure.io_some_us, pressure.io_full_us),
        (Some(15), Some(15), Some(25))
    );
}

fn disk<'a>(disks: &'a [DiskStat], name: &str) -> &'a DiskStat {
    disks.iter().find(|disk| disk.name == name).unwrap()
}

#[test]
fn disks_of_all_generations_are_read() {
    let Some(folder) = fixtures("procfs/prometheus-procfs/proc") else { return };
    let disks = disks::parse_diskstats(&read(&folder.join("diskstats")));
    assert_eq!(disks.len(), 52);
    let sda = disk(&disks, "sda");
    assert_eq!((sda.reads, sda.read_bytes, sda.read_us), (25_354_637, 1_003_346_126 * 512, 18_492_372_000));
    assert_eq!((sda.writes, sda.written_bytes), (28_444_756, 505_697_032 * 512));
    assert_eq!((sda.write_us, sda.busy_us, sda.flushes), (63_877_960_000, 9_653_880_000, None));
    assert_eq!(disk(&disks, "sdb").flushes, None);
    let sdc = disk(&disks, "sdc");
    assert_eq!((sdc.flushes, sdc.flush_us), (Some(127), Some(182_000)));

    let Some(folder) = fixtures("diskstats") else { return };
    let disks = disks::parse_diskstats(&read(&folder.join("pmp-diskstats-003.txt")));
    let names: Vec<_> =
        disks.iter().map(|disk| disk.name.as_str()).filter(|name| name.starts_with("sd")).collect();
    assert_eq!(names, ["sda", "sdb"]);
}

/// Percona Toolkit's pt-diskstats is the second opinion: its rates over the same samples,
/// printed with one decimal.
#[test]
fn the_rates_are_those_of_pt_diskstats() {
    let Some(folder) = fixtures("diskstats") else { return };
    let fixture = |name: String| read(&folder.join(name));
    for name in ["diskstats-001", "diskstats-005"] {
        let samples = samples(&fixture(format!("pt-{name}.txt")));
        let expected = fixture(format!("expected/all_{name}.txt"));
        let mut compared = 0;
        for line in expected.lines().filter(|line| !line.contains("#ts")) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let at: f64 = cells[0].parse().unwrap();
            let (start, first) = &samples[0];
            let end = samples.iter().position(|(ts, _)| ((ts - start) - at).abs() < 0.06).unwrap();
            let (before_ts, before) = &samples[end - 1];
            let (after_ts, after) = &samples[end];
            assert_eq!(first.len(), after.len());
            let (before, after) = (disk(before, cells[1]), disk(after, cells[1]));
            let seconds = after_ts - before_ts;
            let of = |of: fn(&DiskStat) -> u64| (of(after) - of(before)) as f64;
            // rd_mb_s and wr_mb_s are MiB; rd_cnc is time of reads over time.
            let columns = [
                (2, of(|disk| disk.reads) / seconds),
                (4, of(|disk| disk.read_bytes) / seconds / 1_048_576.0),
                (6, of(|disk| disk.read_us) / seconds / 1e6),
                (8, of(|disk| disk.writes) / seconds),
                (10, of(|disk| disk.written_bytes) / seconds / 1_048_576.0),
                (12, of(|disk| disk.write_us) / seconds / 1e6),
                (15, after.in_flight as f64),
            ];
            for (column, ours) in columns {
                let theirs: f64 = cells[column].parse().unwrap();
                assert!((ours - theirs).abs() <= 0.051, "{name} {line}: column {column}: {ours} here");
                compared += 1;
            }
        }
        assert!(compared > 60, "{name}: only {compared} numbers were compared");
    }
}

/// The collected file of pt-diskstats: samples, each under a line `TS seconds`.
fn samples(text: &str) -> Vec<(f64, Vec<DiskStat>)> {
    text.split("TS ")
        .skip(1)
        .map(|sample| {
            let (ts, disks) = sample.split_once('\n').unwrap();
            (ts.split(' ').next().unwrap().parse().unwrap(), disks::parse_diskstats(disks))
        })
        .collect()
}
