//! Files of /proc and /sys: each parser on each text, for a file may hold anything where a container's
//! runtime puts its own in the kernel's place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindoctor_collect::host::{
    cgroup, cpu_list, cpu_model, cpu_times, disk_users, disks, effective_cpus, listen_queues, memory, numa, numa_counters, open_files, page_nodes, pressure, process,
    srv_cpu_usage, tcp_queues, threads, throttling,
};
use spindoctor_model::ServerVersion;
use spindoctor_stacks::module::maps;

fuzz_target!(|bytes: &[u8]| {
    let text = &*String::from_utf8_lossy(bytes);
    cgroup::parse_cgroup(text);
    cgroup::parse_mountinfo(text);
    cpu_model::parse_cpuinfo(text);
    cpu_model::parse_midr(text);
    cpu_times::parse_cpu_times(text);
    if let Some(sum) = cpu_times::parse_allowed(text, &cpu_list::CpuSet::from([0, 1])) {
        assert_eq!(cpu_list::parse_cpu_list(&sum.cpus).map(|cpus| cpus.len()), Some(sum.count as usize));
    }
    disk_users::parse_mount_id(text);
    disk_users::parse_mounts(text);
    disks::parse_diskstats(text);
    effective_cpus::parse_stat_cpus(text);
    listen_queues::parse_counter(text, "TcpExt:", "ListenDrops");
    for line in text.lines() {
        listen_queues::parse_listener(line);
        tcp_queues::parse_connection(line, 0);
    }
    memory::parse_bytes(text);
    memory::parse_kept_bytes(text);
    memory::parse_meminfo(text);
    memory::parse_swapped_pages(text);
    memory::parse_memory_events(text);
    memory::parse_memory_failures(text, text);
    numa::parse_held(text);
    numa::parse_node_memory(text);
    numa::parse_numa_maps(text);
    numa::parse_numa_stat(text);
    numa_counters::parse_numastat(0, text);
    open_files::parse_limit(text);
    page_nodes::parse_writable(text);
    pressure::parse_pressure(text);
    process::parse_cgroup_frozen(text);
    process::parse_freezer_state(text);
    process::parse_io(text);
    process::parse_status(text);
    process::parse_task_stat(text);
    srv_cpu_usage::parse_auxv_entry(bytes);
    bytes.first_chunk().map(srv_cpu_usage::decode);
    ServerVersion::parse(text, text);
    threads::parse_schedstat(text);
    throttling::parse_cpu_stat(text);
    throttling::parse_cpuacct_usage(text);

    for map in maps::parse_maps(text) {
        assert!(map.start < map.end, "an empty mapping");
    }
    if let Some(cpus) = cpu_list::parse_cpu_list(text) {
        // Short lists make long sets; the parser bounds them.
        assert!(cpus.len() <= 8_192);
    }
    // The cure for a quota divides by these.
    let (above, below) = text.split_once('\n').unwrap_or((text, ""));
    for quota in [effective_cpus::parse_cpu_max(text), effective_cpus::parse_cfs_quota(above, below)] {
        assert!(quota.is_none_or(|(_, period)| period > 0), "a period of zero");
    }
});
