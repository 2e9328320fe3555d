//! How often the logs are synced to storage and how long one sync takes, from what is at hand.
//!
//! In order of trust: performance_schema's file waits (on by default in MySQL 5.7 and later), the
//! metric `log_flush_avg_time` (off by default), the disks' own counters.

use spindoctor_model::Window;
use spindoctor_model::host::DiskStat;
use spindoctor_model::mysql::WaitSummary;

/// Syncs of the redo log over a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RedoSync {
    /// Syncs of the redo log a second.
    pub(crate) per_s: f64,
    /// Mean time of one, microseconds.
    pub(crate) mean_us: f64,
    /// Share of the window in which a log (redo or binary) was being written or synced.
    pub(crate) busy_ratio: f64,
    /// Where the time was read.
    pub(crate) source: &'static str,
}

/// From this share of the redo log's syncs on, a disk's writes can be them. Group commit and file
/// systems that merge writes leave fewer I/Os than syncs, never next to none.
const DISK_SEES_SYNCS: f64 = 0.3;

/// Syncs of the redo log, or None where no source tells their time or there were none.
pub(crate) fn redo_sync(window: &Window) -> Option<RedoSync> {
    let seconds = window.change(|s| &s.server.status)?.seconds;
    // MariaDB 10.8 and later count all of InnoDB's syncs in one.
    let syncs = window
        .status_growth("Innodb_os_log_fsyncs")
        .or_else(|| window.status_growth("Innodb_data_fsyncs"))
        .filter(|&syncs| syncs >= 1.0)?;
    let per_s = syncs / seconds;
    by_file_waits(window, per_s).or_else(|| by_metric(window, per_s)).or_else(|| by_disks(window, per_s))
}

fn by_file_waits(window: &Window, per_s: f64) -> Option<RedoSync> {
    let change = window.change(|s| &s.server.waits)?;
    let grown_ns = |event: &str| {
        let total = |waits: &[WaitSummary]| waits.iter().find(|w| w.event == event).map(|w| w.total_ns);
        total(change.last)?.checked_sub(total(change.first)?).map(|ns| ns as f64)
    };
    let redo_ns = grown_ns("wait/io/file/innodb/innodb_log_file").filter(|&ns| ns > 0.0);
    let binlog_ns = grown_ns("wait/io/file/sql/binlog").filter(|&ns| ns > 0.0);
    // MariaDB does not time its redo log; the binary log is synced once for each group of commits too.
    let (sync_ns, source) = match (redo_ns, binlog_ns) {
        (Some(ns), _) => (ns, "events_waits_summary_global_by_event_name innodb_log_file"),
        (None, Some(ns)) => (ns, "events_waits_summary_global_by_event_name binlog"),
        (None, None) => return None,
    };
    let busy_ns = redo_ns.unwrap_or(0.0) + binlog_ns.unwrap_or(0.0);
    Some(RedoSync {
        per_s,
        mean_us: sync_ns / 1e3 / (per_s * change.seconds),
        busy_ratio: (busy_ns / 1e9 / change.seconds).min(1.0),
        source,
    })
}

fn by_metric(window: &Window, per_s: f64) -> Option<RedoSync> {
    let mean_us = window.metric("log_flush_avg_time").filter(|&mean_us| mean_us > 0.0)?;
    let busy_ratio = (mean_us * per_s / 1e6).min(1.0);
    Some(RedoSync { per_s, mean_us, busy_ratio, source: "INNODB_METRICS log_flush_avg_time" })
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
            Some(RedoSync { per_s, mean_us, busy_ratio, source: "/proc/diskstats" })
        })
        .max_by(|a, b| a.mean_us.total_cmp(&b.mean_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    #[test]
    fn the_binary_log_tells_the_time_where_the_redo_log_is_not_timed() {
        let window = Build::busy("8.0.36")
            .counter("Innodb_os_log_fsyncs", 30.0)
            .file_wait("wait/io/file/innodb/innodb_log_file", 0.0, 0.0)
            .file_wait("wait/io/file/sql/binlog", 60.0, 15_000.0)
            .window();
        let sync = redo_sync(&window).unwrap();
        assert!(sync.source.ends_with("binlog") && (sync.mean_us - 30_000.0).abs() < 3_000.0, "{sync:?}");
    }
}
