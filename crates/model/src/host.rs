//! What the kernel says about the server's process and its host, raw.
//!
//! Cumulative counters stay cumulative; the kernel's ticks become microseconds in the parser.

use serde::{Deserialize, Serialize};

use crate::page_cache::{FileKind, PageCache};
use crate::readings::readings;

/// How rarely the counters of the host and of the server's process are read at most where sampling has no end, seconds: their
/// pace in `crates/collect/src/host`. Readings further apart have a gap between them.
pub const COUNTERS_READ_WITHIN_S: u32 = 8;

readings! {
    /// Everything one sample holds about the host. A field is `NotAsked` where its source was not due.
    pub struct HostSample, kept as "host.", exported as "host_" {
        /// What the kernel grants the server: online CPUs, cpuset, affinity, quota.
        effective_cpus: EffectiveCpus => [numbers, lasts],
        /// `cpu.stat` along the cgroup path.
        throttling: Throttling => [numbers],
        /// Pressure stall information of the host.
        pressure: Pressure => [numbers],
        /// Pressure stall information of the server's cgroup (v2 only).
        cgroup_pressure: Pressure => [numbers],
        /// PAUSE measured in place.
        pause: PauseLatency => [numbers, constant],
        /// CPU model.
        cpu: CpuModel => [constant],
        /// CPU times of the whole host.
        cpu_times: CpuTimes => [numbers],
        /// The server's process.
        process: ProcessStat => [numbers],
        /// The server's threads.
        threads: Vec<ThreadStat> => [],
        /// The other programs of the host that used its CPUs most since the reading before.
        other_programs: OtherPrograms => [],
        /// The other programs of the host that read and wrote most since the reading before.
        disk_users: DiskUsers => [],
        /// NUMA nodes and the server's memory on each.
        numa: Vec<NumaNode> => [numbers, constant],
        /// Pages that were taken on each NUMA node.
        numa_counters: Vec<NumaCounters> => [numbers],
        /// Block devices.
        disks: Vec<DiskStat> => [numbers],
        /// Memory and swap of the host, and the memory limit of the cgroup.
        memory: MemoryStat => [numbers, lasts],
        /// The server's own live `srv_cpu_usage`, read from its memory.
        srv_cpu_usage: SrvCpuUsage => [numbers, lasts],
        /// The file system of the server's data directory.
        data_directory: DataDirectory => [numbers, lasts],
        /// What the page cache holds of the server's logs.
        page_cache: PageCache => [numbers, lasts],
        /// Sockets that listen where the server does, and who waits before them.
        listen_queues: ListenQueues => [numbers],
        /// What lies in the queues of connections that are made, bounded.
        tcp_queues: TcpQueues => [],
        /// How many files the server's process has open, and how many it may have.
        open_files: OpenFiles => [numbers, lasts],
    }
}

/// CPUs that the kernel grants the server.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectiveCpus {
    /// min(online, cpuset, affinity, quota).
    pub cpus: f64,
    /// CPUs online on the host.
    pub online: u32,
    /// CPUs of the effective cpuset, online ones only, where the cgroup has one.
    pub cpuset: Option<u32>,
    /// CPUs in the affinity mask of the main thread, online ones only.
    pub affinity: Option<u32>,
    /// The tightest quota along the cgroup path, where there is one.
    pub quota: Option<Quota>,
    /// The server's cgroup as `/proc/PID/cgroup` names it (its cpu controller).
    pub cgroup: String,
    /// 1 or 2: the hierarchy that the cpu controller is in; 0 where there is none.
    pub cgroup_version: u8,
}

impl EffectiveCpus {
    /// CPUs on which its threads may run, whatever a quota grants.
    pub fn allowed(&self) -> u32 {
        [Some(self.online), self.cpuset, self.affinity].into_iter().flatten().min().unwrap_or(1).max(1)
    }
}

/// A CFS bandwidth limit.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// quota / period, CPUs.
    pub cpus: f64,
    /// Microseconds of CPU granted each period.
    pub quota_us: u64,
    /// Length of the period, microseconds.
    pub period_us: u64,
    /// The cgroup that sets it (may be an ancestor of the server's).
    pub cgroup: String,
}

/// Bandwidth control's counters, of the cgroup that sets the tightest quota.
///
/// Where no cgroup on the path sets a quota they are the server's own cgroup's, and zero where it
/// keeps none: without a quota nothing is throttled.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Throttling {
    /// The cgroup they are of.
    pub cgroup: String,
    /// `nr_periods`.
    pub periods: u64,
    /// `nr_throttled`.
    pub throttled_periods: u64,
    /// `throttled_usec` (v2) or `throttled_time` (v1, nanoseconds, converted): summed over CPUs.
    pub throttled_us: u64,
    /// CPU used by the cgroup so far, microseconds, where the kernel says it.
    pub usage_us: Option<u64>,
}

/// Pressure stall information: microseconds stalled so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// `some` of cpu.
    pub cpu_some_us: Option<u64>,
    /// `some` of io.
    pub io_some_us: Option<u64>,
    /// `full` of io.
    pub io_full_us: Option<u64>,
    /// `some` of memory.
    pub memory_some_us: Option<u64>,
    /// `full` of memory.
    pub memory_full_us: Option<u64>,
    /// The cgroup they are of; None for the whole host.
    pub cgroup: Option<String>,
}

/// How long one PAUSE (x86-64) or ISB (aarch64) takes here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PauseLatency {
    /// Instruction measured: `pause`, `isb`.
    pub instruction: String,
    /// Median over the CPUs measured, nanoseconds.
    pub ns: f64,
    /// The same in core cycles, where the core's frequency could be measured.
    pub core_cycles: Option<f64>,
    /// The same in TSC ticks, where there is a TSC.
    pub tsc_ticks: Option<f64>,
    /// CPUs that were measured, with nanoseconds on each.
    pub per_cpu_ns: Vec<(u32, f64)>,
    /// What the measurement cost, milliseconds.
    pub cost_ms: f64,
}

/// CPU model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuModel {
    /// `model name` of /proc/cpuinfo, or the implementer and part on aarch64.
    pub name: String,
    /// Microarchitecture where it is known: `Skylake`, `Zen 4`, `Neoverse N1`.
    pub microarchitecture: Option<String>,
    /// `GenuineIntel`, `AuthenticAMD`, ...
    pub vendor: String,
    /// Family and model numbers.
    pub family_model: Option<(u32, u32)>,
    /// True where a hypervisor is seen.
    pub virtualised: bool,
}

/// CPU times of the whole host since boot, microseconds, and counters of /proc/stat.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuTimes {
    /// user and nice (guest included).
    pub user_us: u64,
    /// system, irq and softirq.
    pub system_us: u64,
    /// idle.
    pub idle_us: u64,
    /// iowait.
    pub iowait_us: u64,
    /// Time that the hypervisor gave to others.
    pub steal_us: u64,
    /// Threads runnable now.
    pub runnable: u64,
    /// Threads blocked on I/O now.
    pub blocked: u64,
    /// Context switches since boot.
    pub context_switches: u64,
    /// Of these times, those of the CPUs that the server may run on; None where these are all of them, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<AllowedCpus>,
}

/// Times of the CPUs that the server may run on, since boot. One sum is compared with another one only where both are of the same
/// CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedCpus {
    /// Which they are, of those online, as the kernel writes a list: `0-3,8`. By the mask of the main thread, which a cpuset and
    /// an affinity both narrow.
    pub cpus: String,
    /// How many they are.
    pub count: u32,
    /// User, system and steal, microseconds.
    pub busy_us: u64,
    /// Of this, what the hypervisor gave to others, microseconds.
    pub steal_us: u64,
}

impl CpuTimes {
    /// Time in which the CPUs were busy, steal counted in, microseconds.
    pub fn busy_us(&self) -> u64 {
        self.user_us.saturating_add(self.system_us).saturating_add(self.steal_us)
    }

    /// Share of the CPUs' time since an earlier reading in which they were busy, 0 to 1, steal counted in; None where no time passed.
    pub fn busy_share_since(&self, earlier: &Self) -> Option<f64> {
        let idle_us = |times: &Self| times.idle_us.saturating_add(times.iowait_us);
        let busy = self.busy_us().saturating_sub(earlier.busy_us()) as f64;
        let all = busy + idle_us(self).saturating_sub(idle_us(earlier)) as f64;
        (all > 0.0).then(|| busy / all)
    }
}

/// The server's process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStat {
    /// `comm`.
    pub name: String,
    /// State letter of the main thread: `S`, `R`, `D`, `T` (stopped), `t` (traced), `Z`.
    pub state: String,
    /// User CPU so far, microseconds.
    pub user_us: u64,
    /// System CPU so far, microseconds.
    pub system_us: u64,
    /// Threads.
    pub threads: u64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Memory in swap, bytes.
    pub swapped_bytes: u64,
    /// Major page faults so far.
    pub major_faults: u64,
    /// Process that traces it, where one does.
    pub tracer_pid: Option<u32>,
    /// True where a cgroup freezer holds it.
    pub frozen: bool,
    /// Bytes read from storage so far; None without the right to read it.
    pub read_bytes: Option<u64>,
    /// Bytes written to storage so far.
    pub written_bytes: Option<u64>,
}

impl ProcessStat {
    /// True where it ended and only its entry in the process table is left.
    pub fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "Z" | "X")
    }
}

/// One thread of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ThreadStat {
    /// Kernel thread id.
    pub tid: u32,
    /// `comm`: `connection`, `ib_log_flush`.
    pub name: String,
    /// State letter.
    pub state: String,
    /// User CPU so far, microseconds.
    pub user_us: u64,
    /// System CPU so far, microseconds.
    pub system_us: u64,
    /// Time it ran, nanoseconds (`schedstat`).
    pub ran_ns: u64,
    /// Time it was runnable and waited for a CPU, nanoseconds (`schedstat`).
    pub run_queue_ns: u64,
    /// The CPU that it ran on last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_cpu: Option<u32>,
}

/// Programs of the host beside the server, and what they used of its CPUs from the reading before to this one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherPrograms {
    /// Seconds since the reading before; 0 in the first one, which has no programs.
    pub over_s: f64,
    /// The busiest first, a few. What began and ended between two readings is in none.
    pub programs: Vec<OtherProgram>,
}

/// Processes of one name in one control group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherProgram {
    /// `comm`: `gzip`.
    pub name: String,
    /// The control group, as `/proc/PID/cgroup` names it; empty where it is the root.
    pub cgroup: String,
    /// The process of these that used most.
    pub pid: u32,
    /// How many there are.
    pub processes: u64,
    /// CPUs that they used on average.
    pub cpus: f64,
    /// True where one of them holds a connection to the server; None where that cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_client: Option<bool>,
}

/// Programs of the host beside the server, and what they read and wrote from the reading before to this one. Threads of the kernel
/// are left out: they write for others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUsers {
    /// Seconds since the reading before; 0 in the first one, which has no programs.
    pub over_s: f64,
    /// Those that read and wrote most first, a few.
    pub programs: Vec<DiskUser>,
    /// Processes whose I/O was not read, for want of the right or of time.
    pub unread: u64,
}

/// Processes of one name in one control group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskUser {
    /// `comm`: `rsync`.
    pub name: String,
    /// The control group, as `/proc/PID/cgroup` names it; empty where it is the root.
    pub cgroup: String,
    /// The process of these that read and wrote most.
    pub pid: u32,
    /// How many there are.
    pub processes: u64,
    /// Bytes that they had read from storage a second.
    pub read_bytes_per_s: f64,
    /// Bytes that they wrote a second: to storage, or to the page cache, from where they come to storage later.
    pub written_bytes_per_s: f64,
    /// The disks below the files that the process has open, as `/proc/diskstats` names them; None where that cannot be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<String>>,
}

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaNode {
    /// Number of the node.
    pub id: u32,
    /// CPUs on it.
    pub cpus: Vec<u32>,
    /// Memory on it.
    pub total_bytes: u64,
    /// Memory free on it.
    pub free_bytes: u64,
    /// The server's memory on it; None where it cannot be read, or reading it would cost the server too much.
    pub server_bytes: Option<u64>,
}

/// Pages that were taken on one NUMA node by all programs of the host, since boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaCounters {
    /// Number of the node.
    pub id: u32,
    /// `numa_hit`: on this node, as wanted.
    pub hits: u64,
    /// `numa_miss`: on this node, though another one was wanted.
    pub misses: u64,
    /// `interleave_hit`: on this node, as an interleaving policy wanted.
    pub interleaved: u64,
    /// `local_node`: by a thread that ran on this node.
    pub local: u64,
    /// `other_node`: by a thread that ran on another one.
    pub other: u64,
}

/// Counters of one block device.
///
/// The kernel keeps the times as 32-bit milliseconds on older versions: they go back to zero after
/// 49.7 days of I/O time. A counter that went down is a wrap, not negative work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskStat {
    /// `sda`, `nvme0n1`.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time of all reads, microseconds.
    pub read_us: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time of all writes, microseconds.
    pub write_us: u64,
    /// I/Os under way now.
    pub in_flight: u64,
    /// Time with at least one I/O under way, microseconds.
    pub busy_us: u64,
    /// Flushes completed (Linux 5.5 and later).
    pub flushes: Option<u64>,
    /// Time of all flushes, microseconds.
    pub flush_us: Option<u64>,
}

/// Memory of the host and limit of the cgroup, bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStat {
    /// Physical memory.
    pub total_bytes: u64,
    /// `MemAvailable`; free, buffers and cache before Linux 3.14.
    pub available_bytes: u64,
    /// Page cache.
    pub cached_bytes: u64,
    /// What was written to the page cache and is not on storage yet: `Dirty` and `Writeback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwritten_bytes: Option<u64>,
    /// Swap space.
    pub swap_total_bytes: u64,
    /// Swap space free.
    pub swap_free_bytes: u64,
    /// Pages swapped in so far.
    pub swap_in_pages: u64,
    /// Pages swapped out so far.
    pub swap_out_pages: u64,
    /// The tightest memory limit along the cgroup path, where there is one below `total_bytes`.
    pub cgroup_limit_bytes: Option<u64>,
    /// Memory used by the cgroup that sets the limit, or by the server's own where none does.
    pub cgroup_used_bytes: Option<u64>,
    /// The tightest `memory.high` along the cgroup path, where there is one below `total_bytes` (v2): above it the kernel makes
    /// the group's threads take pages back, and wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_high_bytes: Option<u64>,
    /// How often the group came to its limit or to `memory.high` so far: `memory.events`, v1 `memory.failcnt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_limit_hits: Option<u64>,
    /// Processes of the group that the kernel ended so far for want of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_oom_kills: Option<u64>,
    /// What the group that sets the limit has of memory that only swap could take back: anonymous and shared (`memory.stat`: `anon`
    /// and `shmem`, v1 `total_rss` and `total_shmem`). None where more than 512 MiB are left to the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_kept_bytes: Option<u64>,
    /// Bytes that the server's control groups still let it write to swap, where one of them bounds that: `memory.swap.max` (v1
    /// `memory.memsw.limit_in_bytes`) less what is used, the least along the path. Asked where `cgroup_kept_bytes` is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_swap_left_bytes: Option<u64>,
    /// True while the group's threads wait because it has no memory left and nothing is ended for it (v1 `under_oom`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_under_oom: bool,
}

impl MemoryStat {
    /// What the server's control groups let them use: the tighter one of limit and `memory.high`.
    pub fn cgroup_bound_bytes(&self) -> Option<u64> {
        self.cgroup_limit_bytes.into_iter().chain(self.cgroup_high_bytes).min()
    }

    /// What may still be written to swap: what is free there, as far as the server's control groups let it use that.
    pub fn swap_left_bytes(&self) -> u64 {
        self.cgroup_swap_left_bytes.map_or(self.swap_free_bytes, |left| left.min(self.swap_free_bytes))
    }
}

/// The file system that the server's data directory lies on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DataDirectory {
    /// The directory, as the server's own file system names it.
    pub path: String,
    /// Size of the file system, bytes.
    pub total_bytes: u64,
    /// What the server may still write, bytes: without what is kept for root.
    pub free_bytes: u64,
    /// Free bytes on the file system of `innodb_undo_directory`, where that is another folder and could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_free_bytes: Option<u64>,
    /// Free bytes on the file system of the binary log, where that is another folder and could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_free_bytes: Option<u64>,
    /// Free bytes on the file system of `tmpdir`, its first folder, where it could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporary_free_bytes: Option<u64>,
    /// Size of that file system, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temporary_total_bytes: Option<u64>,
    /// On which disk each of the server's folders lies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<FolderDisk>,
}

/// A folder of the server's, and the disk below it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FolderDisk {
    /// What the server keeps there.
    pub holds: FileKind,
    /// The folder, as the server names it.
    pub path: String,
    /// The whole disk below its file system, as `/proc/diskstats` names it: `sda`; None where it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Why it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// What waits before the listening sockets of the server's network namespace (`/proc/PID/net`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenQueues {
    /// TCP sockets that listen, of any process.
    pub sockets: Vec<ListenQueue>,
    /// Connections that were dropped because such a queue was full (`ListenOverflows`), since the start.
    pub overflows: Option<u64>,
    /// SYNs that a listening socket dropped for whatever reason, full queues among them (`ListenDrops`).
    pub drops: Option<u64>,
    /// SYNs that were dropped because too many others were half open (`TCPReqQFullDrop`).
    pub syn_queue_drops: Option<u64>,
}

/// The queue of one listening socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ListenQueue {
    /// Its port.
    pub port: u16,
    /// Connections that are made and that nobody has accepted yet.
    pub waiting: u64,
}

/// Connections over TCP, of the account that the server's process runs as, with bytes that wait in one of their queues
/// (`/proc/PID/net/tcp`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpQueues {
    /// Connections that may be stuck ([`TcpQueue::may_be_stuck`]).
    pub connections: Vec<TcpQueue>,
    /// True where there are more than were read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// The queues of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpQueue {
    /// The port at the server's end.
    pub port: u16,
    /// The other end: `10.0.0.7:51234`.
    pub peer: String,
    /// The socket's inode: while it is open no other has the same.
    pub inode: u64,
    /// Bytes that are sent, or to be sent, and that the other end has not acknowledged.
    pub unsent_bytes: u64,
    /// Bytes that came and that the process has not read.
    pub unread_bytes: u64,
    /// How often the kernel has sent the first of these again without an answer, or asked for room at the other end.
    pub tries: u32,
}

impl TcpQueue {
    /// True where a request waits to be read, or bytes were sent again. What was sent once and is not acknowledged yet is on its way: a
    /// server that does well has such connections at any time.
    pub fn may_be_stuck(&self) -> bool {
        self.unread_bytes > 0 || self.unsent_bytes > 0 && self.tries > 0
    }
}

/// Files that the server's process has open: tables, logs, temporary files and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OpenFiles {
    /// Descriptors that it has.
    pub open: u64,
    /// How many it may have (`RLIMIT_NOFILE`, the soft limit); None where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Of those that are open, the sockets, which are connections all but a few; counted where few are left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<u64>,
}

impl OpenFiles {
    /// So many are gone with the next few connections: each takes one, and its first statement one or two for its table. Chosen.
    const FEW: u64 = 10;

    /// True where the next connections or tables find none.
    pub fn few_are_left(&self) -> bool {
        self.limit.is_some_and(|limit| limit.saturating_sub(self.open) <= Self::FEW)
    }
}

/// `srv_cpu_usage` (MySQL 8.0+): what the server itself believes, refreshed about once a second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SrvCpuUsage {
    /// CPUs that the server counts.
    pub n_cpu: u32,
    /// User CPU, percent of one CPU.
    pub utime_abs: f64,
    /// System CPU, percent of one CPU.
    pub stime_abs: f64,
    /// User CPU, percent of `n_cpu` CPUs: what the commit spin compares with its high-water mark.
    pub utime_pct: f64,
    /// System CPU, percent of `n_cpu` CPUs.
    pub stime_pct: f64,
}
