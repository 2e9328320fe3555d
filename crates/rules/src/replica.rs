//! How well a replica keeps up: the shape of its lag over a window, what its appliers do, and when it will have caught
//! up.
//!
//! In: a window. Out: a [`KeepingUp`] for each channel, and a few words for what an applier does by its state: MySQL's
//! and MariaDB's, of row events and of statements. Pure.

mod stop;
mod words;

use spindoctor_model::mysql::{ReplicaChannel, ServerThread};
use spindoctor_model::window::Series;
use spindoctor_model::{ServerVersion, Unavailable, Window};

pub(crate) use stop::stop_applier;
pub(crate) use words::Words;

/// A replica that is never further behind than this keeps up: `Seconds_Behind_Source` counts whole seconds, and says 1 of
/// an event that was written before the last tick (Domas Mituzas, On database write workload profiling: "always at 0-1s").
const KEEPS_UP_S: f64 = 1.0;

/// A disk that is busy for more of the time is near its end: chosen, not derived.
pub const BUSY_DISK: f64 = 0.9;

/// Something waited for a disk for more of the time, as `top` has it for any pressure: chosen, not derived.
const IO_PRESSURE: f64 = 0.25;

/// Pages that are read from files each second, from which on reads can take the I/O from an applier: as many as a disk
/// that turns reads.
const PAGES_READ_PER_S: f64 = 100.0;

/// Rates over less than this say nothing of a lag that is counted in whole seconds.
const SHORTEST_S: f64 = 3.0;

/// Which statement shows replication on this server: the one that `collect` asks.
pub fn asked(version: Option<ServerVersion>) -> &'static str {
    match version {
        Some(version) if version.is_mariadb() => "SHOW ALL SLAVES STATUS",
        Some(version) if !version.mysql_at_least(8, 0, 22) => "SHOW SLAVE STATUS",
        _ => "SHOW REPLICA STATUS",
    }
}

/// How a replica keeps up. The first four are those of the seed's essay on write workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Never more than a second behind.
    Healthy,
    /// Up to date most of the time, with jumps: single slow statements.
    Spiky,
    /// Behind, while reads of clients take the I/O.
    BehindForReads,
    /// Behind by itself: the applier is the limit.
    BehindByItself,
    /// Behind; it is not known whether reads take the I/O.
    Behind,
    /// The applier does not run.
    Stopped,
    /// The server does not say how far it is behind.
    Unknown,
}

impl Shape {
    /// `lagging because reads take the I/O`
    pub fn text(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Spiky => "spiky",
            Self::BehindForReads => "lagging because reads take the I/O",
            Self::BehindByItself => "lagging by itself",
            Self::Behind => "lagging",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }

    /// True where it is behind all the time.
    pub fn lags(self) -> bool {
        matches!(self, Self::BehindForReads | Self::BehindByItself | Self::Behind)
    }
}

/// One channel over a window.
#[derive(Debug, Clone, PartialEq)]
pub struct KeepingUp {
    /// The channel as it was last.
    pub channel: ReplicaChannel,
    /// How it keeps up.
    pub shape: Shape,
    /// Seconds behind, over time.
    pub behind: Series,
    /// By how many seconds the lag grows each second; negative where it catches up.
    pub growth: Option<f64>,
    /// Bytes of the source's binary log that are received each second.
    pub received_per_s: Option<f64>,
    /// Bytes of it that are applied each second.
    pub applied_per_s: Option<f64>,
    /// Bytes that are received and not applied; None where they lie in several files.
    pub backlog_bytes: Option<f64>,
    /// When it will have caught up, seconds from the end of the window; None where it does not catch up, or need not.
    pub caught_up_in_s: Option<f64>,
}

/// Every channel of a window.
///
/// # Errors
/// Why the replica's status could not be read.
pub fn keeping_up(window: &Window) -> Result<Vec<KeepingUp>, Unavailable> {
    let last = window.need(|s| &s.server.replication)?;
    Ok(last.iter().map(|channel| channel_over_time(window, channel)).collect())
}

fn channel_over_time(window: &Window, last: &ReplicaChannel) -> KeepingUp {
    let seen: Vec<(f64, &ReplicaChannel)> = window
        .all(|s| &s.server.replication)
        .into_iter()
        .filter_map(|(at_s, channels)| {
            Some((at_s, channels.iter().find(|channel| channel.name == last.name)?))
        })
        .collect();
    let behind: Series = seen.iter().filter_map(|(at_s, channel)| Some((*at_s, channel.behind_s?))).collect();
    let growth = slope(&behind);
    let received_per_s = grown(&seen, |channel| (&channel.received_file, channel.received_position));
    let applied_per_s = grown(&seen, |channel| (&channel.applied_file, channel.applied_position));
    let backlog_bytes = backlog(last);
    let late: Series = seen.iter().filter_map(|(at_s, channel)| Some((*at_s, channel.late_s()?))).collect();
    let shape = shape(window, last, &late);
    KeepingUp {
        channel: last.clone(),
        caught_up_in_s: caught_up_in_s(shape, last, growth, (received_per_s, applied_per_s, backlog_bytes)),
        shape,
        behind,
        growth,
        received_per_s,
        applied_per_s,
        backlog_bytes,
    }
}

/// By how far it is behind beyond what it is to be on purpose.
fn shape(window: &Window, last: &ReplicaChannel, late: &[(f64, f64)]) -> Shape {
    if last.applier_running.eq_ignore_ascii_case("no") {
        return Shape::Stopped;
    }
    if late.is_empty() {
        return Shape::Unknown;
    }
    let up_to_date = late.iter().filter(|(_, seconds)| *seconds <= KEEPS_UP_S).count();
    if up_to_date == late.len() {
        return Shape::Healthy;
    }
    if 2 * up_to_date >= late.len() {
        return Shape::Spiky;
    }
    match io_is_taken(window) {
        Some(true) => Shape::BehindForReads,
        Some(false) => Shape::BehindByItself,
        None => Shape::Behind,
    }
}

/// True where the disk is the limit and clients read from it; None where either is not known.
fn io_is_taken(window: &Window) -> Option<bool> {
    let reads_per_s = window.status_per_s("Innodb_buffer_pool_reads")?;
    if reads_per_s < PAGES_READ_PER_S || window.status_per_s("Com_select")? < 1.0 {
        return Some(false);
    }
    let busiest = window.change(|s| &s.host.disks).map(|change| {
        let busy = change.last.iter().filter_map(|last| {
            let first = change.first.iter().find(|first| first.name == last.name)?;
            Some(last.busy_us.checked_sub(first.busy_us)? as f64 / 1e6 / change.seconds)
        });
        busy.fold(0.0, f64::max)
    });
    let pressed = window.change(|s| &s.host.pressure).and_then(|change| {
        let (first, last) = (change.first.io_some_us?, change.last.io_some_us?);
        Some(last.checked_sub(first)? as f64 / 1e6 / change.seconds)
    });
    if busiest.is_none() && pressed.is_none() {
        return None;
    }
    Some(busiest.unwrap_or(0.0) >= BUSY_DISK || pressed.unwrap_or(0.0) >= IO_PRESSURE)
}

/// Bytes a second by which a position in the source's files grew; over the intervals in which the file stayed the same.
fn grown<'a>(
    seen: &[(f64, &'a ReplicaChannel)],
    position: impl Fn(&'a ReplicaChannel) -> (&'a String, Option<u64>),
) -> Option<f64> {
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for pair in seen.windows(2) {
        let ((first_s, first), (last_s, last)) = (pair[0], pair[1]);
        let ((first_file, first), (last_file, last)) = (position(first), position(last));
        if first_file == last_file
            && let Some(grew) = last?.checked_sub(first?)
        {
            bytes += grew as f64;
            seconds += last_s - first_s;
        }
    }
    (seconds >= SHORTEST_S).then(|| bytes / seconds)
}

fn backlog(channel: &ReplicaChannel) -> Option<f64> {
    let is_one_file = channel.received_file == channel.applied_file && !channel.applied_file.is_empty();
    let bytes = channel.received_position?.checked_sub(channel.applied_position?)?;
    is_one_file.then_some(bytes as f64)
}

/// From the bytes where they are known, as they do not jump as seconds do; else from the seconds. With a delay some of the bytes
/// wait on purpose.
fn caught_up_in_s(
    shape: Shape,
    last: &ReplicaChannel,
    growth: Option<f64>,
    (received, applied, backlog): (Option<f64>, Option<f64>, Option<f64>),
) -> Option<f64> {
    if !shape.lags() {
        return None;
    }
    let is_delayed = last.sql_delay_s.is_some_and(|delay_s| delay_s > 0.0);
    if let (false, Some(received), Some(applied), Some(backlog)) = (is_delayed, received, applied, backlog) {
        return (applied > received).then(|| backlog / (applied - received));
    }
    let growth = growth.filter(|growth| *growth < 0.0)?;
    Some(last.late_s()? / -growth)
}

/// The slope of the line through the points (least squares), where they reach far enough.
fn slope(series: &[(f64, f64)]) -> Option<f64> {
    let (first, last) = (series.first()?, series.last()?);
    if last.0 - first.0 < SHORTEST_S {
        return None;
    }
    let count = series.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| series.iter().map(value).sum::<f64>() / count;
    let (mean_at, mean_value) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = series.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    let together: f64 = series.iter().map(|(at, value)| (at - mean_at) * (value - mean_value)).sum();
    (spread > 0.0).then(|| together / spread)
}

/// True for a thread that applies; false for clients, for the thread that receives, and for all others.
pub fn is_applier(thread: &ServerThread) -> bool {
    // performance_schema names them (sql/rpl_replica.cc), MariaDB's process list has a command of their own.
    let name = thread.name.as_str();
    if ["replica_sql", "replica_worker", "slave_sql", "slave_worker"].iter().any(|part| name.ends_with(part))
    {
        return true;
    }
    if matches!(thread.command.as_str(), "Slave_SQL" | "Slave_worker") {
        return true;
    }
    let state = thread.state.to_ascii_lowercase();
    thread.user == "system user"
        && name.is_empty()
        && matches!(thread.command.as_str(), "Connect" | "Query")
        && !["to send event", "connecting to", "reconnect", "queueing", "registering", "requesting binlog"]
            .iter()
            .any(|receiving| state.contains(receiving))
}

/// States of an applier that has nothing to apply, or leaves it to others.
const RESTS: &[&str] = &[
    "has read all relay log",
    "waiting for an event from coordinator",
    "waiting for work from sql thread",
    // The coordinator, until a worker has committed what the next transaction rests on.
    "dependent transaction",
    "waiting for replica workers to process",
    "waiting for slave workers to process",
    "waiting for replica worker to release",
    "waiting for slave worker to release",
    "waiting for room in worker thread event queue",
    "workers to free pending events",
    "replica worker queue",
    "slave worker queue",
    "waiting until source_delay",
    "waiting until master_delay",
    "waiting for next event in relay log",
    "waiting for the next event in relay log",
];

/// True for an applier that has nothing to apply, or has handed it to its workers.
pub fn rests(thread: &ServerThread) -> bool {
    let state = thread.state.to_ascii_lowercase();
    (state.is_empty() && thread.statement.is_none()) || RESTS.iter().any(|rest| state.contains(rest))
}

/// Which kind of event an applier works on, by its state and statement.
pub fn event_type(thread: &ServerThread) -> &'static str {
    let state = thread.state.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| state.contains(word));
    // MySQL: `Applying batch of row changes (update)`; before 8.0 and in MariaDB `Update_rows_log_event::find_row(-1)`.
    if has(&["row changes (write)", "write_rows"]) {
        return "row insert";
    }
    if has(&["row changes (update)", "update_rows"]) {
        return "row update";
    }
    if has(&["row changes (delete)", "delete_rows"]) {
        return "row delete";
    }
    if has(&["commit"]) {
        return "commit";
    }
    match thread.statement.as_deref().map(str::trim_start) {
        Some(text) if text.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("commit")) => "commit",
        Some(text) if !text.is_empty() => "statement",
        _ => "not reported",
    }
}

/// What an applier waits for, by its state; empty where the server shows no wait.
pub fn waits_for(thread: &ServerThread) -> &'static str {
    const WAITS: &[(&str, &str)] = &[
        ("preceding transaction to commit", "commit order"),
        ("prior transaction", "commit order"),
        ("handler commit", "commit"),
        ("metadata lock", "metadata lock"),
        ("global read lock", "global read lock"),
        ("table level lock", "table lock"),
        ("table flush", "table flush"),
        ("backup lock", "backup lock"),
        ("semi-sync", "semi-sync ack"),
        ("commit", "commit"),
    ];
    let state = thread.state.to_ascii_lowercase();
    WAITS.iter().find(|(words, _)| state.contains(words)).map_or("", |(_, wait)| wait)
}

/// The table in a state of MariaDB: ``Update_rows_log_event::find_row(-1) on table `plain` ``.
pub fn table_of_state(state: &str) -> Option<&str> {
    let named = state.split_once(" on table `")?.1;
    named.split_once('`').map(|(table, _)| table).filter(|table| !table.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_names_the_statement_that_was_asked() {
        let of = |version: &str| asked(ServerVersion::parse(version, ""));
        assert_eq!(of("5.7.44-log"), "SHOW SLAVE STATUS");
        assert_eq!(of("8.0.21"), "SHOW SLAVE STATUS");
        assert_eq!(of("8.0.22"), "SHOW REPLICA STATUS");
        assert_eq!(of("10.11.19-MariaDB"), "SHOW ALL SLAVES STATUS");
    }
    use crate::testing::{Build, answer};

    /// A channel that is so far behind each second, and receives and applies so many bytes a second.
    fn lagging(behind: fn(f64) -> f64, received_per_s: f64, applied_per_s: f64) -> Build {
        Build::busy("8.0.36").each(|at_s, server, _| {
            server.replication = answer(
                at_s,
                vec![ReplicaChannel {
                    applier_running: "Yes".into(),
                    receiver_running: "Yes".into(),
                    behind_s: Some(behind(at_s)),
                    received_file: "binlog.000003".into(),
                    received_position: Some((1e6 + received_per_s * at_s) as u64),
                    applied_file: "binlog.000003".into(),
                    applied_position: Some((1e5 + applied_per_s * at_s) as u64),
                    ..ReplicaChannel::default()
                }],
            );
        })
    }

    fn only(build: Build) -> KeepingUp {
        let mut all = keeping_up(&build.window()).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn the_shapes_of_the_essay_are_distinguished() {
        let shape = |behind: fn(f64) -> f64| only(lagging(behind, 1e3, 1e3)).shape;
        assert_eq!(shape(|at| f64::from(at as u32 % 2)), Shape::Healthy);
        assert_eq!(shape(|at| if (4.0..7.0).contains(&at) { 8.0 } else { 0.0 }), Shape::Spiky);
        let silent = lagging(|at| 30.0 + at, 1e3, 1e3)
            .each(|_, server, _| server.status = spindoctor_model::Reading::NotAsked);
        assert_eq!(only(silent).shape, Shape::Behind, "this server shows no page reads");
        let by_itself = lagging(|at| 30.0 + at, 1e3, 1e3).counter("Innodb_buffer_pool_reads", 3.0);
        assert_eq!(only(by_itself).shape, Shape::BehindByItself);
        let reads = lagging(|at| 30.0 + at, 1e3, 1e3).counter("Innodb_buffer_pool_reads", 900.0).each(
            |at_s, _, host| {
                let disk = spindoctor_model::host::DiskStat {
                    name: "sda".into(),
                    busy_us: (at_s * 0.97e6) as u64,
                    ..Default::default()
                };
                host.disks = answer(at_s, vec![disk]);
            },
        );
        assert_eq!(only(reads).shape, Shape::BehindForReads);
        let stopped = lagging(|_| 0.0, 0.0, 0.0).each(|_, server, _| {
            if let spindoctor_model::Reading::Available { value, .. } = &mut server.replication {
                value[0].applier_running = "No".into();
            }
        });
        assert_eq!(only(stopped).shape, Shape::Stopped);
    }

    #[test]
    fn when_it_has_caught_up_follows_from_the_bytes() {
        let seen = only(lagging(|at| 60.0 - at, 1e4, 4e4));
        assert_eq!((seen.received_per_s, seen.applied_per_s), (Some(1e4), Some(4e4)));
        assert_eq!(seen.growth.map(f64::round), Some(-1.0));
        // At the end of ten seconds 600,000 of 900,000 bytes are left, and 30,000 a second are made up for.
        assert_eq!((seen.backlog_bytes, seen.caught_up_in_s), (Some(6e5), Some(20.0)));
        assert_eq!(only(lagging(|at| 60.0 + at, 4e4, 1e4)).caught_up_in_s, None, "it falls further behind");
    }

    #[test]
    fn without_positions_the_seconds_have_to_do() {
        let seen = only(lagging(|at| 60.0 - 2.0 * at, 1e4, 4e4).each(|_, server, _| {
            if let spindoctor_model::Reading::Available { value, .. } = &mut server.replication {
                value[0].received_position = None;
            }
        }));
        assert_eq!((seen.received_per_s, seen.backlog_bytes), (None, None));
        assert_eq!(seen.caught_up_in_s.map(f64::round), Some(20.0));
    }

    fn thread(command: &str, state: &str, statement: Option<&str>) -> ServerThread {
        ServerThread {
            user: "system user".into(),
            command: command.into(),
            state: state.into(),
            statement: statement.map(str::to_owned),
            ..ServerThread::default()
        }
    }

    #[test]
    fn states_of_both_servers_say_what_an_applier_does() {
        for (thread, event, wait) in [
            (thread("Query", "Applying batch of row changes (update)", None), "row update", ""),
            (
                thread("Slave_worker", "Write_rows_log_event::write_row(-1) on table `t`", None),
                "row insert",
                "",
            ),
            (thread("Slave_SQL", "Delete_rows_log_event::find_row(-1)", None), "row delete", ""),
            (thread("Query", "Waiting for preceding transaction to commit", None), "commit", "commit order"),
            (
                thread("Slave_worker", "Waiting for prior transaction to commit", None),
                "commit",
                "commit order",
            ),
            (thread("Query", "waiting for handler commit", None), "commit", "commit"),
            (thread("Slave_SQL", "Updating", Some("UPDATE t SET a = 1")), "statement", ""),
            (thread("Slave_SQL", "Commit", Some("COMMIT")), "commit", "commit"),
            (
                thread("Query", "Waiting for table metadata lock", Some("ALTER TABLE t")),
                "statement",
                "metadata lock",
            ),
            (thread("Query", "System lock", None), "not reported", ""),
        ] {
            assert!(is_applier(&thread) && !rests(&thread), "{thread:?}");
            assert_eq!((event_type(&thread), waits_for(&thread)), (event, wait), "{thread:?}");
        }
        for rest in [
            "Replica has read all relay log; waiting for more updates",
            "Slave has read all relay log; waiting for more updates",
            "Waiting for an event from Coordinator",
            "Waiting for work from SQL thread",
            "Waiting for replica workers to process their queues",
        ] {
            assert!(rests(&thread("Query", rest, None)), "{rest}");
        }
        for receiving in
            ["Waiting for source to send event", "Waiting for master to send event", "Queueing source event"]
        {
            assert!(!is_applier(&thread("Connect", receiving, None)), "{receiving}");
        }
        assert!(!is_applier(&thread("Slave_IO", "Waiting for master to send event", None)));
        assert_eq!(table_of_state("Update_rows_log_event::find_row(-1) on table `plain`"), Some("plain"));
        assert_eq!(table_of_state("Update_rows_log_event::find_row(-1)"), None);
    }
}
