//! How often the logs are synced to storage and how long one sync takes, from what is at hand.
//!
//! In order of trust: performance_schema's file summary and waits (on by default in MySQL 5.7 and later), the
//! metric `log_flush_avg_time` (off by default), the queue of sessions in commit where CPU is to be had,
//! the disks' own counters. The disks come last because what makes a sync slow often stands before
//! them: a cgroup's I/O limit, a file system's journal, a network volume.

use spindoctor_model::Window;
use spindoctor_model::host::{CpuTimes, DiskStat};
use spindoctor_model::mysql::{FileSummary, WaitSummary};
use spindoctor_model::page_cache::FileKind;

use crate::disk_users::known_disks;
use crate::run_queue::ran_and_queued;

/// Syncs of the redo log over a window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RedoSync {
    /// Syncs of the redo log a second.
    pub(crate) per_s: f64,
    /// Mean time of one, microseconds.
    pub(crate) mean_us: f64,
    /// Share of the window in which a log (redo or binary) was being written or synced.
    pub(crate) busy_ratio: f64,
    /// Where the time of a sync was read.
    pub(crate) source: String,
    /// Where it was read how long the logs are busy.
    pub(crate) busy_source: &'static str,
    /// True where these are syncs of the binary log, and those of the redo log, if there are any, take next to nothing.
    pub(crate) is_of_binlog: bool,
}

/// The redo log, as performance_schema names its files' events.
const REDO: &str = "wait/io/file/innodb/innodb_log_file";

/// The binary log.
const BINLOG: &str = "wait/io/file/sql/binlog";

/// Writes and syncs of the logs together.
const WAITS: &str = "events_waits_summary_global_by_event_name";

/// From this share of the redo log's syncs on, a disk's writes can be them. Group commit and file
/// systems that merge writes leave fewer I/Os than syncs, never next to none.
const DISK_SEES_SYNCS: f64 = 0.3;

/// Where the redo log's syncs take less of the time than this part of what the binary log's take, commits wait for the binary log
/// alone. Chosen: a tenth is not what anybody would mend first.
const BINLOG_ALONE: f64 = 0.1;

/// Syncs of the redo log for each of the binary log, from which on commits wait for both. A group of commits syncs each once; chosen
/// with room for groups that found their redo log synced.
const AS_OFTEN: f64 = 0.5;

/// Share of the host's CPU time that must be idle before a queue of commits is one for storage.
const CPUS_IDLE: f64 = 0.5;

/// Threads that queue for a CPU, for each session in commit, up to which the commits wait for storage.
const QUEUED_FOR_CPU: f64 = 0.25;

/// Syncs of the redo log as the server times them or the disks show them; None where nothing shows their time or there
/// were none.
pub(crate) fn redo_sync(window: &Window) -> Option<RedoSync> {
    let per_s = syncs_per_s(window)?;
    timed_by_server(window, per_s).or_else(|| by_disks(window, per_s))
}

/// Sessions in commit over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CommitQueue {
    /// Their mean number.
    pub(crate) mean: f64,
    /// Share of the samples in which there was one.
    pub(crate) samples_ratio: f64,
}

/// The same where it is known how many sessions are in commit.
pub(crate) fn redo_sync_behind(window: &Window, queue: CommitQueue) -> Option<RedoSync> {
    if let Some(sync) = binlog_alone(window) {
        return Some(sync);
    }
    let per_s = syncs_per_s(window)?;
    timed_by_server(window, per_s).or_else(|| match cpu_is_to_be_had(window, queue)? {
        true => Some(by_queue(per_s, queue)),
        false => by_disks(window, per_s),
    })
}

/// Syncs of the redo log a second; None where they are not counted, or none ended.
pub(crate) fn syncs_per_s(window: &Window) -> Option<f64> {
    // MariaDB 10.8 and later count all of InnoDB's syncs in one.
    window
        .status_per_s("Innodb_os_log_fsyncs")
        .or_else(|| window.status_per_s("Innodb_data_fsyncs"))
        .filter(|&per_s| per_s > 0.0)
}

/// Syncs of a log between two readings.
struct LogSyncs {
    count: f64,
    ns: f64,
    /// Between the readings.
    seconds: f64,
}

impl LogSyncs {
    /// None where they were not read twice.
    fn from_window(window: &Window, event: &str) -> Option<Self> {
        let files = window.change(|s| &s.server.log_files)?;
        let syncs = |files: &[FileSummary]| {
            files.iter().find(|file| file.event == event).map(|file| (file.sync_count, file.sync_ns))
        };
        let ((count, ns), (count_before, ns_before)) = (syncs(files.last)?, syncs(files.first)?);
        let count = count.checked_sub(count_before)? as f64;
        Some(Self { count, ns: ns.checked_sub(ns_before)? as f64, seconds: files.seconds })
    }
}

/// Syncs of the binary log, where the redo log's take next to nothing: these are quicker, few where commits do not ask for them, or none
/// where each write of that log is synchronous (O_DSYNC).
fn binlog_alone(window: &Window) -> Option<RedoSync> {
    let redo = LogSyncs::from_window(window, REDO)?;
    let LogSyncs { count, ns, seconds } = LogSyncs::from_window(window, BINLOG)
        .filter(|binlog| binlog.count > 0.0 && redo.ns < BINLOG_ALONE * binlog.ns)?;
    Some(RedoSync {
        per_s: count / seconds,
        mean_us: ns / 1e3 / count,
        busy_ratio: (ns / 1e9 / seconds).min(1.0),
        source: "file_summary_by_event_name binlog".into(),
        busy_source: "file_summary_by_event_name",
        is_of_binlog: true,
    })
}

/// True where the redo log is known to lie on another disk than the binary log, and its syncs say how quick that disk is: commits ask
/// for them, about as often as for those of the binary log.
pub(crate) fn redo_has_another_disk(window: &Window) -> bool {
    let (redo, binlog) = (known_disks(window, &[FileKind::Redo]), known_disks(window, &[FileKind::Binlog]));
    let (Some(redo), Some(binlog)) = (redo, binlog) else { return false };
    let are_others = redo.iter().all(|(disk, _)| binlog.iter().all(|(other, _)| other != disk));
    let syncs = |event| LogSyncs::from_window(window, event).map(|syncs| syncs.count);
    let is_synced = match (syncs(REDO), syncs(BINLOG)) {
        (Some(of_redo), Some(of_binlog)) => of_redo >= AS_OFTEN * of_binlog,
        _ => false,
    };
    are_others && is_synced && window.variable_number("innodb_flush_log_at_trx_commit") == Some(1.0)
}

fn timed_by_server(window: &Window, per_s: f64) -> Option<RedoSync> {
    by_file_waits(window, per_s).or_else(|| by_metric(window, per_s))
}

fn by_file_waits(window: &Window, per_s: f64) -> Option<RedoSync> {
    let waits = window.change(|s| &s.server.waits)?;
    let waited_ns = |event: &str| {
        let total = |waits: &[WaitSummary]| waits.iter().find(|w| w.event == event).map(|w| w.total_ns);
        total(waits.last)?.checked_sub(total(waits.first)?).map(|ns| ns as f64).filter(|&ns| ns > 0.0)
    };
    // Syncs alone, with the seconds between: the two sources are not asked at the same instant.
    let synced_ns = |event: &str| {
        let files = window.change(|s| &s.server.log_files)?;
        let total = |files: &[FileSummary]| files.iter().find(|f| f.event == event).map(|f| f.sync_ns);
        let ns = total(files.last)?.checked_sub(total(files.first)?)? as f64;
        Some(ns / files.seconds)
    };
    let (redo_ns, binlog_ns) = (waited_ns(REDO), waited_ns(BINLOG));
    // MariaDB does not time its redo log; the binary log is synced once for each group of commits too.
    let (event, log_ns) = match (redo_ns, binlog_ns) {
        (Some(ns), _) => (REDO, ns),
        (None, Some(ns)) => (BINLOG, ns),
        (None, None) => return None,
    };
    let (ns_per_s, table) = match synced_ns(event) {
        Some(ns_per_s) => (ns_per_s, "file_summary_by_event_name"),
        None => (log_ns / waits.seconds, WAITS),
    };
    let busy_ns = redo_ns.unwrap_or(0.0) + binlog_ns.unwrap_or(0.0);
    let log = event.rsplit('/').next().unwrap_or(event);
    Some(RedoSync {
        per_s,
        mean_us: ns_per_s / 1e3 / per_s,
        busy_ratio: (busy_ns / 1e9 / waits.seconds).min(1.0),
        source: format!("{table} {log}"),
        busy_source: WAITS,
        is_of_binlog: false,
    })
}

fn by_metric(window: &Window, per_s: f64) -> Option<RedoSync> {
    let mean_us = window.metric("log_flush_avg_time").filter(|&mean_us| mean_us > 0.0)?;
    let busy_ratio = (mean_us * per_s / 1e6).min(1.0);
    let source = "INNODB_METRICS log_flush_avg_time";
    Some(RedoSync {
        per_s,
        mean_us,
        busy_ratio,
        source: source.into(),
        busy_source: source,
        is_of_binlog: false,
    })
}

/// The source of a sync's time that is concluded from the commits.
pub(crate) const FROM_COMMITS: &str = "time in commit, divided by the syncs";

/// Syncs follow one another: while some session is in commit, one is under way, or the CPU that would
/// begin it is not to be had. Where that is ruled out, a sync takes as long as the time in commit
/// divided by the syncs.
fn by_queue(per_s: f64, queue: CommitQueue) -> RedoSync {
    RedoSync {
        per_s,
        mean_us: queue.samples_ratio * 1e6 / per_s,
        busy_ratio: queue.samples_ratio,
        source: FROM_COMMITS.into(),
        busy_source: "thread list",
        is_of_binlog: false,
    }
}

/// True where the sessions in commit do not wait for a CPU: the host has CPU time to spare, or the
/// server's threads hardly queue for it. None where neither can be read.
fn cpu_is_to_be_had(window: &Window, queue: CommitQueue) -> Option<bool> {
    let spare = window.change(|s| &s.host.cpu_times).and_then(|change| {
        let idle_of = |times: &CpuTimes| times.idle_us + times.iowait_us;
        let busy_of = |times: &CpuTimes| times.user_us + times.system_us + times.steal_us;
        let idle = idle_of(change.last).checked_sub(idle_of(change.first))? as f64;
        let busy = busy_of(change.last).checked_sub(busy_of(change.first))? as f64;
        Some(idle > 0.0 && idle >= CPUS_IDLE * (idle + busy))
    });
    let flows = window.change(|s| &s.host.threads).map(|change| {
        let (_, queued_s) = ran_and_queued(&change);
        queued_s / change.seconds <= QUEUED_FOR_CPU * queue.mean
    });
    match (spare, flows) {
        (None, None) => None,
        (spare, flows) => Some(spare == Some(true) || flows == Some(true)),
    }
}

/// Where no disk sees as many I/Os as there were syncs, the log lies in memory or on a network file
/// system, and the disks say nothing about it.
fn by_disks(window: &Window, per_s: f64) -> Option<RedoSync> {
    let change = window.change(|s| &s.host.disks)?;
    let grown = |name: &str, count: fn(&DiskStat) -> Option<u64>| {
        let of = |disks: &[DiskStat]| disks.iter().find(|disk| disk.name == name).and_then(count);
        of(change.last)?.checked_sub(of(change.first)?).map(|grown| grown as f64)
    };
    change
        .last
        .iter()
        .filter_map(|disk| {
            let name = disk.name.as_str();
            let writes = grown(name, |disk| Some(disk.writes))?;
            let flushes = grown(name, |disk| disk.flushes).unwrap_or(0.0);
            if writes.max(flushes) < DISK_SEES_SYNCS * per_s * change.seconds {
                return None;
            }
            // A sync writes the log's blocks, then asks the disk to flush its cache, if it has one.
            let write_us = grown(name, |disk| Some(disk.write_us))? / writes.max(1.0);
            let flush_us = grown(name, |disk| disk.flush_us).unwrap_or(0.0) / flushes.max(1.0);
            let mean_us = write_us + flush_us;
            let busy_ratio = (mean_us * per_s / 1e6).min(1.0);
            let source = "/proc/diskstats";
            Some(RedoSync {
                per_s,
                mean_us,
                busy_ratio,
                source: source.into(),
                busy_source: source,
                is_of_binlog: false,
            })
        })
        .max_by(|a, b| a.mean_us.total_cmp(&b.mean_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn the_binary_log_shows_the_time_where_the_redo_log_is_not_timed() {
        let window = Build::busy("8.0.36")
            .counter("Innodb_os_log_fsyncs", 30.0)
            .file_wait("wait/io/file/innodb/innodb_log_file", 0.0, 0.0)
            .file_wait("wait/io/file/sql/binlog", 60.0, 15_000.0)
            .window();
        let sync = redo_sync(&window).unwrap();
        assert!(sync.source.ends_with("binlog") && (sync.mean_us - 30_000.0).abs() < 3_000.0, "{sync:?}");
    }

    #[test]
    fn writes_that_were_held_up_are_not_taken_for_slow_syncs() {
        let window = Build::busy("8.0.36")
            .counter("Innodb_os_log_fsyncs", 25.0)
            .file_wait(REDO, 500.0, 40.0)
            .log_syncs(REDO, 25.0, 80.0)
            .window();
        let sync = redo_sync(&window).unwrap();
        assert!((sync.mean_us - 80.0).abs() < 8.0, "{sync:?}");
    }
}
