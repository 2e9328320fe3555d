//! The resources that the host gives the server, from a window: the last value of gauges, counters as rates.
//!
//! In: a [`Window`]. Out: a [`HostReport`], serialised as `spindoctor.host/1` and shown by `text`. Nothing is judged
//! here; the rules do that, whether a PAUSE is as expected among it.

use jiff::Timestamp;
use serde::Serialize;
use spindoctor_model::host::{
    CpuModel, CpuTimes, DiskStat, EffectiveCpus, MemoryStat, NumaCounters, NumaNode, PauseLatency,
    ProcessStat, SrvCpuUsage, ThreadStat,
};
use spindoctor_model::pause_fit::{LatchSpinFit, PauseFit};
use spindoctor_model::window::Change;
use spindoctor_model::{Cost, Reading, Sample, Window};
use spindoctor_rules::pause_fit;

/// Name and version of the serialised form.
const SCHEMA: &str = "spindoctor.host/1";
/// Threads that are listed, the busiest first.
const THREADS_LISTED: usize = 12;
/// A thread below this share of a CPU is idle for our purposes: the kernel's clock ticks in 10 ms.
const IDLE_THREAD_CPUS: f64 = 0.001;

/// The host as the server has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostReport {
    pub schema: &'static str,
    pub server: Server,
    /// When the window began, and how long it was.
    pub start: Timestamp,
    pub seconds: f64,
    pub effective_cpus: Option<EffectiveCpus>,
    /// CPUs that the server counts, and where it says so.
    pub server_believes_cpus: Option<u32>,
    pub server_believes_source: Option<String>,
    pub srv_cpu_usage: Option<SrvCpuUsage>,
    pub throttled: Option<Throttled>,
    pub server_cpu: Option<ServerCpu>,
    pub host_cpu: Option<HostCpu>,
    pub pause: Option<PauseLatency>,
    pub cpu: Option<CpuModel>,
    /// PAUSE beside what is published on that CPU.
    pub pause_fit: Option<PauseFit>,
    /// How long a full spin on a latch lasts here.
    pub latch_spin: Option<LatchSpinFit>,
    pub pressure: Option<PressureShare>,
    pub numa: Option<Vec<NumaNode>>,
    /// CPUs that the server's threads used on each NUMA node, by the CPU that each ran on last, where there are several.
    pub numa_cpus: Option<Vec<NodeCpus>>,
    /// Pages that were taken during the window by all programs of the host.
    pub numa_pages: Option<NumaPages>,
    /// The busiest threads.
    pub threads: Option<Vec<ThreadRate>>,
    pub memory: Option<MemoryStat>,
    pub disks: Option<Vec<DiskRate>>,
    /// What could not be read, each with what would unlock it.
    pub not_read: Vec<NotRead>,
    pub cost: Cost,
}

/// Whose host it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// `MySQL 9.7.4`; none where there was no session.
    pub version: Option<String>,
    pub hostname: String,
    pub address: String,
    pub pid: Option<u32>,
    /// The process's own name: `mysqld`.
    pub process: Option<String>,
}

/// Bandwidth control during the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throttled {
    pub cgroup: String,
    pub periods: u64,
    pub throttled_periods: u64,
    /// Summed over CPUs.
    pub throttled_ms: f64,
}

/// CPU that the server used, CPUs on average.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerCpu {
    pub user_cpus: f64,
    pub system_cpus: f64,
    pub threads: u64,
    pub resident_bytes: u64,
    pub swapped_bytes: u64,
    pub major_faults_per_s: f64,
}

/// What the server's threads used on one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeCpus {
    pub node: u32,
    pub cpus: f64,
}

/// Pages by the node of the thread that took them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumaPages {
    pub taken: u64,
    /// Part of them that was taken on another node than the thread's.
    pub on_another_node_ratio: f64,
}

/// What all CPUs of the host did, shares of their time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostCpu {
    pub user_ratio: f64,
    pub system_ratio: f64,
    pub iowait_ratio: f64,
    pub steal_ratio: f64,
    pub idle_ratio: f64,
    /// Threads runnable at the end of the window.
    pub runnable: u64,
    pub context_switches_per_s: f64,
}

/// Shares of the window in which something was stalled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PressureShare {
    pub cgroup: Option<String>,
    pub cpu_some_ratio: Option<f64>,
    pub io_some_ratio: Option<f64>,
    pub memory_some_ratio: Option<f64>,
}

/// One thread during the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadRate {
    pub tid: u32,
    pub name: String,
    pub state: String,
    pub user_cpus: f64,
    pub system_cpus: f64,
    /// Share of the window in which it was runnable and had no CPU.
    pub run_queue_ratio: f64,
}

/// One device that did something during the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiskRate {
    pub name: String,
    pub reads_per_s: f64,
    pub read_bytes_per_s: f64,
    pub read_ms: Option<f64>,
    pub writes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub write_ms: Option<f64>,
    pub flushes_per_s: Option<f64>,
    pub flush_ms: Option<f64>,
    pub busy_ratio: f64,
}

/// A reading that is not there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotRead {
    pub reading: &'static str,
    pub because: String,
    pub unlock: String,
}

impl HostReport {
    /// The report of a whole window.
    pub fn from_window(window: &Window) -> Self {
        Self { seconds: window.seconds(), ..Self::of_last(window, f64::INFINITY) }
    }

    /// The report of a window's last seconds: of each source at least so many, as far as the window goes.
    pub fn of_last(window: &Window, at_least_s: f64) -> Self {
        let believes = window.server_counts_cpus();
        let (pause, cpu) = (window.latest(|s| &s.host.pause), window.latest(|s| &s.host.cpu));
        Self {
            schema: SCHEMA,
            server: Server {
                version: window.server.version.map(|version| version.to_string()),
                hostname: window.server.hostname.clone(),
                address: window.server.address.clone(),
                pid: window.server.pid,
                process: window.latest(|s| &s.host.process).map(|process| process.name.clone()),
            },
            start: window.start,
            seconds: window
                .recent_change(at_least_s, |s| &s.host.process)
                .map_or(window.seconds(), |change| change.seconds),
            effective_cpus: window.latest(|s| &s.host.effective_cpus).cloned(),
            server_believes_cpus: believes.as_ref().map(|(cpus, _)| *cpus),
            server_believes_source: believes.map(|(_, source)| source.to_string()),
            srv_cpu_usage: window.latest(|s| &s.host.srv_cpu_usage).copied(),
            throttled: window.recent_change(at_least_s, |s| &s.host.throttling).map(|change| Throttled {
                cgroup: change.last.cgroup.clone(),
                periods: grown(change.first.periods, change.last.periods),
                throttled_periods: grown(change.first.throttled_periods, change.last.throttled_periods),
                throttled_ms: grown(change.first.throttled_us, change.last.throttled_us) as f64 / 1e3,
            }),
            server_cpu: window
                .recent_change(at_least_s, |s| &s.host.process)
                .map(|change| server_cpu(&change)),
            host_cpu: window
                .recent_change(at_least_s, |s| &s.host.cpu_times)
                .and_then(|change| host_cpu(&change)),
            pause: pause.cloned(),
            cpu: cpu.cloned(),
            pause_fit: cpu.zip(pause).map(|(cpu, pause)| pause_fit::compare(cpu, pause)),
            latch_spin: pause_fit::latch_spin(window).ok(),
            pressure: pressure(window, at_least_s),
            numa: window.latest(|s| &s.host.numa).cloned(),
            numa_cpus: numa_cpus(window, at_least_s),
            numa_pages: numa_pages(window, at_least_s),
            threads: window.recent_change(at_least_s, |s| &s.host.threads).map(|change| threads(&change)),
            memory: window.latest(|s| &s.host.memory).cloned(),
            disks: window.recent_change(at_least_s, |s| &s.host.disks).map(|change| disks(&change)),
            not_read: not_read(window),
            cost: window.cost,
        }
    }
}

/// Growth of a counter; a counter that went back has not grown.
fn grown(first: u64, last: u64) -> u64 {
    last.saturating_sub(first)
}

fn server_cpu(change: &Change<'_, ProcessStat>) -> ServerCpu {
    let cpus = |first, last| grown(first, last) as f64 / 1e6 / change.seconds;
    ServerCpu {
        user_cpus: cpus(change.first.user_us, change.last.user_us),
        system_cpus: cpus(change.first.system_us, change.last.system_us),
        threads: change.last.threads,
        resident_bytes: change.last.resident_bytes,
        swapped_bytes: change.last.swapped_bytes,
        major_faults_per_s: grown(change.first.major_faults, change.last.major_faults) as f64
            / change.seconds,
    }
}

fn host_cpu(change: &Change<'_, CpuTimes>) -> Option<HostCpu> {
    let (first, last) = (change.first, change.last);
    let user = grown(first.user_us, last.user_us);
    let system = grown(first.system_us, last.system_us);
    let idle = grown(first.idle_us, last.idle_us);
    let iowait = grown(first.iowait_us, last.iowait_us);
    let steal = grown(first.steal_us, last.steal_us);
    let all = user + system + idle + iowait + steal;
    let share = |part: u64| part as f64 / all as f64;
    (all > 0).then(|| HostCpu {
        user_ratio: share(user),
        system_ratio: share(system),
        iowait_ratio: share(iowait),
        steal_ratio: share(steal),
        idle_ratio: share(idle),
        runnable: last.runnable,
        context_switches_per_s: grown(first.context_switches, last.context_switches) as f64 / change.seconds,
    })
}

fn pressure(window: &Window, at_least_s: f64) -> Option<PressureShare> {
    let change = window.recent_change(at_least_s, |s| &s.host.pressure)?;
    let share = |first: Option<u64>, last: Option<u64>| {
        Some((grown(first?, last?) as f64 / 1e6 / change.seconds).min(1.0))
    };
    let (first, last) = (change.first, change.last);
    Some(PressureShare {
        cgroup: last.cgroup.clone(),
        cpu_some_ratio: share(first.cpu_some_us, last.cpu_some_us),
        io_some_ratio: share(first.io_some_us, last.io_some_us),
        memory_some_ratio: share(first.memory_some_us, last.memory_some_us),
    })
}

fn threads(change: &Change<'_, Vec<ThreadStat>>) -> Vec<ThreadRate> {
    let before = |tid| change.first.iter().find(|thread| thread.tid == tid);
    let mut rates: Vec<ThreadRate> = change
        .last
        .iter()
        .filter_map(|last| {
            let first = before(last.tid)?;
            let per_s = |first, last, unit: f64| grown(first, last) as f64 / unit / change.seconds;
            Some(ThreadRate {
                tid: last.tid,
                name: last.name.clone(),
                state: last.state.clone(),
                user_cpus: per_s(first.user_us, last.user_us, 1e6),
                system_cpus: per_s(first.system_us, last.system_us, 1e6),
                run_queue_ratio: per_s(first.run_queue_ns, last.run_queue_ns, 1e9).min(1.0),
            })
        })
        .filter(|thread| thread.cpus() >= IDLE_THREAD_CPUS)
        .collect();
    rates.sort_by(|a, b| b.cpus().total_cmp(&a.cpus()));
    rates.truncate(THREADS_LISTED);
    rates
}

/// By node, all of them; none on a host of one node.
fn numa_cpus(window: &Window, at_least_s: f64) -> Option<Vec<NodeCpus>> {
    let nodes = window.latest(|s| &s.host.numa).filter(|nodes| nodes.len() > 1)?;
    let change = window.recent_change(at_least_s, |s| &s.host.threads)?;
    let used_us = |thread: &ThreadStat| thread.user_us + thread.system_us;
    let mut by_node: Vec<NodeCpus> = nodes.iter().map(|node| NodeCpus { node: node.id, cpus: 0.0 }).collect();
    for last in change.last {
        let at = last.last_cpu.and_then(|cpu| nodes.iter().position(|node| node.cpus.contains(&cpu)));
        let first = change.first.iter().find(|thread| thread.tid == last.tid);
        if let (Some(at), Some(first)) = (at, first) {
            by_node[at].cpus += grown(used_us(first), used_us(last)) as f64 / 1e6 / change.seconds;
        }
    }
    change.last.iter().any(|thread| thread.last_cpu.is_some()).then_some(by_node)
}

fn numa_pages(window: &Window, at_least_s: f64) -> Option<NumaPages> {
    let change = window.recent_change(at_least_s, |s| &s.host.numa_counters)?;
    let sum = |nodes: &[NumaCounters], count: fn(&NumaCounters) -> u64| nodes.iter().map(count).sum::<u64>();
    let (first, last) = (change.first, change.last);
    let other = grown(sum(first, |node| node.other), sum(last, |node| node.other));
    let taken = other + grown(sum(first, |node| node.local), sum(last, |node| node.local));
    (last.len() > 1 && taken > 0)
        .then(|| NumaPages { taken, on_another_node_ratio: other as f64 / taken as f64 })
}

impl ThreadRate {
    /// CPUs used, user and system.
    pub fn cpus(&self) -> f64 {
        self.user_cpus + self.system_cpus
    }
}

fn disks(change: &Change<'_, Vec<DiskStat>>) -> Vec<DiskRate> {
    let before = |name: &str| change.first.iter().find(|disk| disk.name == name);
    change
        .last
        .iter()
        .filter_map(|last| {
            let first = before(&last.name)?;
            let per_s = |first, last| grown(first, last) as f64 / change.seconds;
            let mean_ms = |first_us, last_us, count: u64| {
                (count > 0).then(|| grown(first_us, last_us) as f64 / 1e3 / count as f64)
            };
            let reads = grown(first.reads, last.reads);
            let writes = grown(first.writes, last.writes);
            let flushes = first.flushes.zip(last.flushes).map(|(first, last)| grown(first, last));
            (reads + writes + flushes.unwrap_or(0) > 0).then(|| DiskRate {
                name: last.name.clone(),
                reads_per_s: reads as f64 / change.seconds,
                read_bytes_per_s: per_s(first.read_bytes, last.read_bytes),
                read_ms: mean_ms(first.read_us, last.read_us, reads),
                writes_per_s: writes as f64 / change.seconds,
                written_bytes_per_s: per_s(first.written_bytes, last.written_bytes),
                write_ms: mean_ms(first.write_us, last.write_us, writes),
                flushes_per_s: flushes.map(|count| count as f64 / change.seconds),
                flush_ms: flushes.and_then(|count| mean_ms(first.flush_us?, last.flush_us?, count)),
                busy_ratio: (per_s(first.busy_us, last.busy_us) / 1e6).min(1.0),
            })
        })
        .collect()
}

/// Readings without a value, each with its reason.
fn not_read(window: &Window) -> Vec<NotRead> {
    fn missing<T>(
        window: &Window,
        reading: &'static str,
        pick: impl Fn(&Sample) -> &Reading<T>,
    ) -> Option<NotRead> {
        let reason = window.missing(pick)?;
        Some(NotRead { reading, because: reason.because, unlock: reason.unlock.unwrap_or_default() })
    }
    if let Some(no_pid) = &window.server.no_pid {
        let unlock = no_pid.unlock.clone().unwrap_or_default();
        return vec![NotRead { reading: "the server's host", because: no_pid.because.clone(), unlock }];
    }
    [
        missing(window, "effective CPUs", |s| &s.host.effective_cpus),
        missing(window, "throttling", |s| &s.host.throttling),
        missing(window, "pressure", |s| &s.host.pressure),
        missing(window, "PAUSE latency", |s| &s.host.pause),
        missing(window, "CPU model", |s| &s.host.cpu),
        missing(window, "CPU times", |s| &s.host.cpu_times),
        missing(window, "process", |s| &s.host.process),
        missing(window, "threads", |s| &s.host.threads),
        missing(window, "NUMA", |s| &s.host.numa),
        missing(window, "memory", |s| &s.host.memory),
        missing(window, "disks", |s| &s.host.disks),
        match window.server_counts_cpus() {
            None => missing(window, "CPUs that the server counts", |s| &s.host.srv_cpu_usage),
            Some(_) => None,
        },
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::host::examples;

    #[test]
    fn counters_become_rates_over_the_window() {
        let report = HostReport::from_window(&examples::throttled_window());
        let throttled = report.throttled.unwrap();
        assert_eq!((throttled.periods, throttled.throttled_periods), (20, 8));
        assert!((throttled.throttled_ms - 820.0).abs() < 1e-6);
        assert!((report.server_cpu.unwrap().user_cpus - 0.8).abs() < 1e-9);
        let host = report.host_cpu.unwrap();
        assert!((host.idle_ratio - 0.7).abs() < 1e-9);
        assert!((host.context_switches_per_s - 21_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_busiest_thread_is_first_and_idle_ones_are_left_out() {
        let threads = HostReport::from_window(&examples::throttled_window()).threads.unwrap();
        let names: Vec<_> = threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["connection", "ib_log_writer"]);
    }

    #[test]
    fn a_disk_that_did_nothing_is_left_out_and_a_mean_needs_something_to_divide() {
        let disks = HostReport::from_window(&examples::throttled_window()).disks.unwrap();
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].read_ms, None);
        assert!((disks[0].write_ms.unwrap() - 0.2).abs() < 1e-9);
        assert!((disks[0].flush_ms.unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_read_is_said_with_its_reason() {
        let report = HostReport::from_window(&examples::throttled_window());
        assert_eq!(report.not_read.len(), 1);
        assert_eq!(report.not_read[0].reading, "pressure");
        assert_eq!(report.not_read[0].unlock, "boot the kernel with psi=1");
    }
}
