//! One point per minute of what a timeline of days shows: raw readings, so that a week is drawn without decoding
//! chunks.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use spindoctor_model::Sample;

use crate::time::from_ms;

/// Readings of the first sample of a minute, as they were read; counters are cumulative. None where it was not read.
///
/// Rates are between two points of one segment; the code that draws them computes them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OverviewPoint {
    /// When the sample was begun.
    pub at: Timestamp,
    /// Its segment: between two segments nothing is computed.
    pub segment: u64,
    /// `Uptime`, seconds.
    pub uptime_s: Option<u64>,
    /// `Questions`, cumulative.
    pub questions: Option<u64>,
    /// `Handler_commit`, cumulative.
    pub commits: Option<u64>,
    /// `Slow_queries`, cumulative.
    pub slow_queries: Option<u64>,
    /// `Threads_connected`.
    pub threads_connected: Option<u64>,
    /// `Threads_running`.
    pub threads_running: Option<u64>,
    /// The highest `Threads_running` of the minute's samples; of a minute that goes on, so far.
    pub threads_running_max: Option<u64>,
    /// `Innodb_rows_read`, cumulative.
    pub rows_read: Option<u64>,
    /// `Innodb_rows_inserted`, `_updated` and `_deleted`, cumulative.
    pub rows_changed: Option<u64>,
    /// Bytes of redo between the last checkpoint and now.
    pub checkpoint_age_bytes: Option<u64>,
    /// CPU time of the server's process, user and system, microseconds, cumulative.
    pub server_cpu_us: Option<u64>,
    /// CPU time of the host that was used (steal included), microseconds, cumulative.
    pub host_busy_us: Option<u64>,
    /// CPU time of the host that was idle (waiting for disks included), microseconds, cumulative.
    pub host_idle_us: Option<u64>,
    /// Time that a CPU quota stopped the server, microseconds, cumulative.
    pub throttled_us: Option<u64>,
    /// Bytes that the server read from disks, cumulative.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that the server wrote to disks, cumulative.
    pub disk_written_bytes: Option<u64>,
    /// How far behind its source the replica is, the worst channel, seconds.
    pub replica_behind_s: Option<f64>,
}

/// `Threads_running` of a sample.
pub(crate) fn threads_running(sample: &Sample) -> Option<u64> {
    status(sample, "threads_running")
}

fn status(sample: &Sample, name: &str) -> Option<u64> {
    sample.server.status.value()?.number(name).filter(|number| *number >= 0.0).map(|number| number as u64)
}

/// The point that a minute's first sample makes.
pub(crate) fn point(at: Timestamp, segment: u64, sample: &Sample) -> OverviewPoint {
    let host = &sample.host;
    let process = host.process.value();
    let times = host.cpu_times.value();
    let changed = ["innodb_rows_inserted", "innodb_rows_updated", "innodb_rows_deleted"];
    OverviewPoint {
        at,
        segment,
        uptime_s: status(sample, "uptime"),
        questions: status(sample, "questions"),
        commits: status(sample, "handler_commit"),
        slow_queries: status(sample, "slow_queries"),
        threads_connected: status(sample, "threads_connected"),
        threads_running: threads_running(sample),
        threads_running_max: threads_running(sample),
        rows_read: status(sample, "innodb_rows_read"),
        rows_changed: changed.into_iter().map(|name| status(sample, name)).sum(),
        checkpoint_age_bytes: checkpoint_age_bytes(sample),
        server_cpu_us: process.map(|process| process.user_us.saturating_add(process.system_us)),
        host_busy_us: times.map(|t| t.user_us.saturating_add(t.system_us).saturating_add(t.steal_us)),
        host_idle_us: times.map(|t| t.idle_us.saturating_add(t.iowait_us)),
        throttled_us: host.throttling.value().map(|throttling| throttling.throttled_us),
        disk_read_bytes: process.and_then(|process| process.read_bytes),
        disk_written_bytes: process.and_then(|process| process.written_bytes),
        replica_behind_s: sample.server.replication.value().and_then(|channels| {
            channels.iter().filter_map(|channel| channel.behind_s).max_by(f64::total_cmp)
        }),
    }
}

/// From what InnoDB prints, or from MariaDB's status.
fn checkpoint_age_bytes(sample: &Sample) -> Option<u64> {
    let printed = sample.server.innodb_status.value().and_then(|printed| printed.log.checkpoint_age_bytes());
    printed.or_else(|| status(sample, "innodb_checkpoint_age"))
}

/// SQLite's integers are signed; no counter of a server reaches 2^63.
fn integer(number: Option<u64>) -> Option<i64> {
    number.and_then(|number| i64::try_from(number).ok())
}

/// Writes a minute's point; the number of its row.
pub(crate) fn insert(db: &Connection, at_ms: i64, point: &OverviewPoint) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "INSERT INTO minutes (segment, at_ms, uptime_s, questions, commits, slow_queries, threads_connected,
             threads_running, threads_running_max, rows_read, rows_changed, checkpoint_age_bytes, server_cpu_us,
             host_busy_us, host_idle_us, throttled_us, disk_read_bytes, disk_written_bytes, replica_behind_s)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
    )?
    .execute(params![
        integer(Some(point.segment)),
        at_ms,
        integer(point.uptime_s),
        integer(point.questions),
        integer(point.commits),
        integer(point.slow_queries),
        integer(point.threads_connected),
        integer(point.threads_running),
        integer(point.threads_running_max),
        integer(point.rows_read),
        integer(point.rows_changed),
        integer(point.checkpoint_age_bytes),
        integer(point.server_cpu_us),
        integer(point.host_busy_us),
        integer(point.host_idle_us),
        integer(point.throttled_us),
        integer(point.disk_read_bytes),
        integer(point.disk_written_bytes),
        point.replica_behind_s,
    ])?;
    Ok(db.last_insert_rowid())
}

/// Raises the highest `Threads_running` of a minute.
pub(crate) fn raise_threads_running(db: &Connection, row: i64, threads_running: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE minutes SET threads_running_max = ?1
         WHERE id = ?2 AND (threads_running_max IS NULL OR threads_running_max < ?1)",
    )?
    .execute([integer(Some(threads_running)), Some(row)])?;
    Ok(())
}

/// The points of a range, both ends included, in order of time; of each of `buckets` equal parts of it the first of
/// each segment, and with the highest `threads_running_max` of its part.
pub(crate) fn read(
    db: &Connection,
    since_ms: i64,
    until_ms: i64,
    buckets: usize,
) -> rusqlite::Result<Vec<OverviewPoint>> {
    let buckets = i64::try_from(buckets.max(1)).unwrap_or(i64::MAX);
    let bucket_ms = (until_ms.saturating_sub(since_ms) / buckets).saturating_add(1);
    let mut statement = db.prepare(
        "SELECT segment, at_ms, uptime_s, questions, commits, slow_queries, threads_connected, threads_running,
             threads_running_max, rows_read, rows_changed, checkpoint_age_bytes, server_cpu_us, host_busy_us,
             host_idle_us, throttled_us, disk_read_bytes, disk_written_bytes, replica_behind_s
         FROM minutes WHERE at_ms BETWEEN ?1 AND ?2 ORDER BY at_ms, id",
    )?;
    let mut rows = statement.query([since_ms, until_ms])?;
    let mut points: Vec<OverviewPoint> = Vec::new();
    let mut bucket = None;
    while let Some(row) = rows.next()? {
        let at_ms: i64 = row.get(1)?;
        let point = from_row(row)?;
        let this = (at_ms.saturating_sub(since_ms) / bucket_ms, point.segment);
        match points.last_mut() {
            Some(first) if bucket == Some(this) => {
                first.threads_running_max = first.threads_running_max.max(point.threads_running_max);
            }
            _ => points.push(point),
        }
        bucket = Some(this);
    }
    Ok(points)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<OverviewPoint> {
    let counter = |column| -> rusqlite::Result<Option<u64>> {
        Ok(row.get::<_, Option<i64>>(column)?.and_then(|number| u64::try_from(number).ok()))
    };
    Ok(OverviewPoint {
        at: from_ms(row.get(1)?),
        segment: counter(0)?.unwrap_or(0),
        uptime_s: counter(2)?,
        questions: counter(3)?,
        commits: counter(4)?,
        slow_queries: counter(5)?,
        threads_connected: counter(6)?,
        threads_running: counter(7)?,
        threads_running_max: counter(8)?,
        rows_read: counter(9)?,
        rows_changed: counter(10)?,
        checkpoint_age_bytes: counter(11)?,
        server_cpu_us: counter(12)?,
        host_busy_us: counter(13)?,
        host_idle_us: counter(14)?,
        throttled_us: counter(15)?,
        disk_read_bytes: counter(16)?,
        disk_written_bytes: counter(17)?,
        replica_behind_s: row.get(18)?,
    })
}
