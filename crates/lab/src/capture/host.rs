//! The files of the kernel that the sources of the host read, as a tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spindoctor_collect::host::{Target, cgroup};
use spindoctor_corpus::{Document, Part};

/// Of the server's process.
const OF_PROCESS: [&str; 7] = ["stat", "status", "io", "schedstat", "cgroup", "limits", "comm"];
/// Of each of its threads.
const OF_THREAD: [&str; 3] = ["stat", "schedstat", "comm"];
/// Of the host, below `/proc` and `/sys`.
const OF_HOST: [&str; 14] = [
    "proc/stat",
    "proc/meminfo",
    "proc/vmstat",
    "proc/diskstats",
    "proc/cpuinfo",
    "proc/loadavg",
    "proc/uptime",
    "proc/pressure/cpu",
    "proc/pressure/io",
    "proc/pressure/memory",
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/possible",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/meminfo",
];
/// Of each control group of the server; the kernel's version 1 and 2 have different ones.
const OF_GROUP: [&str; 16] = [
    "cgroup.procs",
    "cpu.max",
    "cpu.stat",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpuacct.usage",
    "cpuset.cpus.effective",
    "cpuset.cpus",
    "cpu.pressure",
    "io.pressure",
    "memory.pressure",
    "memory.max",
    "memory.current",
    "memory.stat",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
];
/// Between the two readings of what counts.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// The tree at two instants: the second one's files stand below `later/`.
pub(super) async fn read(pid: u32) -> Document {
    let mut parts = tree(pid, "");
    tokio::time::sleep(SECOND_LOOK).await;
    parts.extend(tree(pid, "later/"));
    Document { parts }
}

/// The names of the groups that the process is in and that are not the root: those that the machine has put it into say
/// more about the machine than about the server.
pub(super) fn groups(pid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let names = text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(|name| name.trim_matches('/'));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn tree(pid: u32, below: &str) -> Vec<Part> {
    let mut files: Vec<PathBuf> = OF_HOST.iter().map(|file| Path::new("/").join(file)).collect();
    let process = PathBuf::from(format!("/proc/{pid}"));
    files.extend(OF_PROCESS.iter().map(|file| process.join(file)));
    let mut threads: Vec<_> = fs::read_dir(process.join("task"))
        .map(|tasks| tasks.flatten().map(|task| task.path()).collect())
        .unwrap_or_default();
    threads.sort();
    files.extend(threads.iter().flat_map(|thread: &PathBuf| OF_THREAD.map(|file| thread.join(file))));
    let target = Target::live(pid);
    for controller in ["cpu", "cpuacct", "cpuset", "memory"] {
        // Only the server's own group: what lies above, and the root, belongs to the machine.
        let found = cgroup::find(&target, controller).ok().flatten().filter(|group| group.name != "/");
        let own = found.and_then(|group| group.levels.into_iter().next());
        files.extend(own.iter().flat_map(|level| OF_GROUP.map(|file| level.folder.join(file))));
    }
    let mut parts: Vec<Part> = Vec::new();
    for file in files {
        let name = format!("{below}{}", file.display().to_string().trim_start_matches('/'));
        if parts.iter().any(|part| part.name == name) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(&file) {
            parts.push(Part { name, asked: String::new(), text: text.trim_end_matches('\n').to_owned() });
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let name = format!("{below}proc/self/mountinfo");
    parts.push(Part { name, asked: String::new(), text: kernels_own(&mounts) });
    parts
}

/// Of `/proc/self/mountinfo`, the lines of `/proc`, `/sys` and control groups: the others are the machine's business.
fn kernels_own(mounts: &str) -> String {
    let own = |line: &&str| {
        let kind = line.split_once(" - ").and_then(|(_, rest)| rest.split(' ').next());
        matches!(kind, Some("proc" | "sysfs" | "cgroup" | "cgroup2"))
    };
    mounts.lines().filter(own).collect::<Vec<_>>().join("\n")
}
