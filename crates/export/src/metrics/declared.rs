//! The metrics, each declared once: name, help, unit, kind, since when it counts, and how it is read.

use std::borrow::Cow;

use spindoctor_model::{SourceCost, StallKind, Window};

use super::{Kind, Point, Recorder, Value};
use crate::rows::word;
use Kind::{Counter, Gauge};

/// What is known when the metrics are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) window: Option<&'a Window>,
    pub(super) recorder: &'a Recorder,
}

/// A family as it is declared.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) unit: &'static str,
    pub(super) kind: Kind,
    pub(super) counts_since: CountsSince,
    read: Read,
}

/// What a metric's beginning is tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountsSince {
    /// The recorder's beginning.
    Recorder,
    /// The server's start.
    Server,
    /// The beginning of the server's process, of its cgroup or of the system, which nobody knows here.
    Unknown,
}

/// How a metric is read.
enum Read {
    /// A number of `SHOW GLOBAL STATUS`.
    Status(&'static str),
    /// One number without labels, where it is known.
    Number(fn(Known<'_>) -> Option<f64>),
    /// Any points; those without a number that counts are left out.
    Points(fn(Known<'_>) -> Vec<Point>),
}

impl Metric {
    /// What is known of it now; nothing where there is no number, or none that counts.
    pub(super) fn points(&self, known: Known<'_>) -> Vec<Point> {
        let mut points = match self.read {
            Read::Status(variable) => point(known.window.and_then(|window| window.status(variable))),
            Read::Number(read) => point(read(known)),
            Read::Points(read) => read(known),
        };
        points.retain(|point| !matches!(point.value, Value::Number(number) if !number.is_finite()));
        points
    }

    const fn of_recorder(
        name: &'static str,
        help: &'static str,
        unit: &'static str,
        kind: Kind,
        read: Read,
    ) -> Self {
        Self { name, help, unit, kind, counts_since: CountsSince::Recorder, read }
    }

    const fn of_host(
        name: &'static str,
        help: &'static str,
        unit: &'static str,
        kind: Kind,
        read: Read,
    ) -> Self {
        Self { name, help, unit, kind, counts_since: CountsSince::Unknown, read }
    }
}

const fn server_counter(
    variable: &'static str,
    name: &'static str,
    help: &'static str,
    unit: &'static str,
) -> Metric {
    let read = Read::Status(variable);
    Metric { name, help, unit, kind: Counter, counts_since: CountsSince::Server, read }
}

const fn server_gauge(
    variable: &'static str,
    name: &'static str,
    help: &'static str,
    unit: &'static str,
) -> Metric {
    Metric { kind: Gauge, ..server_counter(variable, name, help, unit) }
}

/// All of them, in the order of the exports.
pub(super) const METRICS: &[Metric] = &[
    Metric::of_recorder(
        "spindoctor_build_info",
        "The version that runs.",
        "1",
        Gauge,
        Read::Points(|_| vec![labelled([("version", env!("CARGO_PKG_VERSION").into())], 1.0)]),
    ),
    Metric::of_recorder(
        "spindoctor_up",
        "1 where the server answered last, else 0.",
        "1",
        Gauge,
        Read::Number(|known| Some(f64::from(u8::from(known.recorder.is_up)))),
    ),
    Metric {
        name: "spindoctor_server_info",
        help: "The server that is recorded.",
        unit: "1",
        kind: Gauge,
        counts_since: CountsSince::Server,
        read: Read::Points(|known| known.window.map(server_info).into_iter().collect()),
    },
    server_counter("questions", "spindoctor_mysql_questions_total", "Statements that clients sent.", "1"),
    server_counter(
        "slow_queries",
        "spindoctor_mysql_slow_queries_total",
        "Statements slower than long_query_time.",
        "1",
    ),
    server_counter("connections", "spindoctor_mysql_connections_total", "Attempts to connect.", "1"),
    server_counter(
        "aborted_connects",
        "spindoctor_mysql_aborted_connects_total",
        "Attempts to connect that failed.",
        "1",
    ),
    server_counter(
        "threads_created",
        "spindoctor_mysql_threads_created_total",
        "Threads made for connections.",
        "1",
    ),
    server_counter("bytes_received", "spindoctor_mysql_received_bytes_total", "Bytes from clients.", "By"),
    server_counter("bytes_sent", "spindoctor_mysql_sent_bytes_total", "Bytes to clients.", "By"),
    server_counter(
        "handler_commit",
        "spindoctor_mysql_commits_total",
        "Commit calls to storage engines (Handler_commit): several for each transaction.",
        "1",
    ),
    server_counter(
        "handler_rollback",
        "spindoctor_mysql_rollbacks_total",
        "Rollbacks inside the server.",
        "1",
    ),
    server_counter("innodb_rows_read", "spindoctor_mysql_rows_read_total", "Rows that InnoDB read.", "1"),
    server_counter(
        "innodb_rows_inserted",
        "spindoctor_mysql_rows_inserted_total",
        "Rows that InnoDB inserted.",
        "1",
    ),
    server_counter(
        "innodb_rows_updated",
        "spindoctor_mysql_rows_updated_total",
        "Rows that InnoDB updated.",
        "1",
    ),
    server_counter(
        "innodb_rows_deleted",
        "spindoctor_mysql_rows_deleted_total",
        "Rows that InnoDB deleted.",
        "1",
    ),
    server_counter(
        "innodb_row_lock_waits",
        "spindoctor_mysql_row_lock_waits_total",
        "Waits for row locks.",
        "1",
    ),
    server_counter(
        "innodb_os_log_written",
        "spindoctor_mysql_redo_written_bytes_total",
        "Redo written.",
        "By",
    ),
    server_counter(
        "innodb_os_log_fsyncs",
        "spindoctor_mysql_redo_syncs_total",
        "Syncs of the redo log.",
        "1",
    ),
    server_counter(
        "innodb_data_read",
        "spindoctor_mysql_data_read_bytes_total",
        "Bytes that InnoDB read from files.",
        "By",
    ),
    server_counter(
        "innodb_data_written",
        "spindoctor_mysql_data_written_bytes_total",
        "Bytes that InnoDB wrote.",
        "By",
    ),
    server_counter(
        "innodb_buffer_pool_reads",
        "spindoctor_mysql_buffer_pool_reads_total",
        "Pages read from disk.",
        "1",
    ),
    server_counter(
        "innodb_buffer_pool_wait_free",
        "spindoctor_mysql_free_page_waits_total",
        "Waits for a free page.",
        "1",
    ),
    server_counter("opened_tables", "spindoctor_mysql_opened_tables_total", "Tables opened.", "1"),
    server_gauge("threads_running", "spindoctor_mysql_threads_running", "Statements that run now.", "1"),
    server_gauge("threads_connected", "spindoctor_mysql_threads_connected", "Connections now.", "1"),
    server_gauge("uptime", "spindoctor_mysql_uptime_seconds", "Time since the server started.", "s"),
    Metric {
        name: "spindoctor_mysql_commands_total",
        help: "Statements by command.",
        unit: "1",
        kind: Counter,
        counts_since: CountsSince::Server,
        read: Read::Points(|known| known.window.map(commands).unwrap_or_default()),
    },
    Metric::of_host(
        "spindoctor_effective_cpus",
        "CPUs that the kernel grants the server.",
        "1",
        Gauge,
        Read::Number(|known| Some(known.window?.latest(|sample| &sample.host.effective_cpus)?.cpus)),
    ),
    Metric::of_host(
        "spindoctor_online_cpus",
        "CPUs online on the host.",
        "1",
        Gauge,
        Read::Number(|known| Some(known.window?.latest(|sample| &sample.host.effective_cpus)?.online.into())),
    ),
    Metric::of_host(
        "spindoctor_server_counted_cpus",
        "CPUs that the server itself counts.",
        "1",
        Gauge,
        Read::Number(|known| Some(known.window?.server_counts_cpus()?.0.into())),
    ),
    Metric::of_host(
        "spindoctor_throttled_seconds_total",
        "Time for which the quota stopped the server, summed over CPUs.",
        "s",
        Counter,
        Read::Number(|known| {
            Some(known.window?.latest(|sample| &sample.host.throttling)?.throttled_us as f64 / 1e6)
        }),
    ),
    Metric::of_host(
        "spindoctor_periods_total",
        "Periods of the quota.",
        "1",
        Counter,
        Read::Number(|known| Some(known.window?.latest(|sample| &sample.host.throttling)?.periods as f64)),
    ),
    Metric::of_host(
        "spindoctor_throttled_periods_total",
        "Periods in which the quota stopped the server.",
        "1",
        Counter,
        Read::Number(|known| {
            Some(known.window?.latest(|sample| &sample.host.throttling)?.throttled_periods as f64)
        }),
    ),
    Metric::of_host(
        "spindoctor_server_cpu_seconds_total",
        "CPU time of the server's process.",
        "s",
        Counter,
        Read::Points(|known| known.window.map(server_cpu).unwrap_or_default()),
    ),
    Metric::of_host(
        "spindoctor_server_resident_bytes",
        "Resident memory of the server.",
        "By",
        Gauge,
        Read::Number(|known| {
            Some(known.window?.latest(|sample| &sample.host.process)?.resident_bytes as f64)
        }),
    ),
    Metric::of_host(
        "spindoctor_server_swapped_bytes",
        "Memory of the server in swap.",
        "By",
        Gauge,
        Read::Number(|known| Some(known.window?.latest(|sample| &sample.host.process)?.swapped_bytes as f64)),
    ),
    Metric::of_host(
        "spindoctor_host_pressure_seconds_total",
        "Time for which tasks of the host waited for a resource.",
        "s",
        Counter,
        Read::Points(|known| known.window.map(pressure).unwrap_or_default()),
    ),
    Metric::of_recorder(
        "spindoctor_probe_seconds",
        "From the probe's question to its answer.",
        "s",
        Kind::Histogram,
        Read::Points(probe),
    ),
    Metric::of_recorder(
        "spindoctor_events_total",
        "Stalls that were seen, by kind and first cause.",
        "1",
        Counter,
        Read::Points(events),
    ),
    Metric::of_recorder(
        "spindoctor_stalls_total",
        "Stalls that were seen, by kind.",
        "1",
        Counter,
        Read::Points(stalls),
    ),
    Metric::of_recorder(
        "spindoctor_stalled_seconds_total",
        "Time of stalls that were seen, by first cause.",
        "s",
        Counter,
        Read::Points(stalled),
    ),
    Metric::of_recorder(
        "spindoctor_session_seconds_total",
        "Time of sessions at work, by what it went into: its rate is how many sessions are in that, on average.",
        "s",
        Counter,
        Read::Points(session_time),
    ),
    Metric::of_recorder(
        "spindoctor_source_queries_total",
        "How often a source was asked.",
        "1",
        Counter,
        Read::Points(|known| by_source(known, |cost| cost.asked as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_source_seconds_total",
        "From question to answer, summed: an upper bound of what a source cost the server.",
        "s",
        Counter,
        Read::Points(|known| by_source(known, |cost| cost.took_ms / 1e3)),
    ),
    Metric::of_recorder(
        "spindoctor_source_period_seconds",
        "From one query to the next, now: expensive sources are polled less often.",
        "s",
        Gauge,
        Read::Points(|known| {
            by_source(known, |cost| if cost.period_s > 0.0 { cost.period_s } else { f64::NAN })
        }),
    ),
    Metric::of_recorder(
        "spindoctor_reading_up",
        "1 where a reading had an answer when it was asked for last, else 0.",
        "1",
        Gauge,
        Read::Points(readings),
    ),
    Metric::of_recorder(
        "spindoctor_otlp_requests_total",
        "Requests to the OpenTelemetry collector, by what became of them.",
        "1",
        Counter,
        Read::Points(pushed),
    ),
    Metric::of_recorder(
        "spindoctor_parquet_files_total",
        "Parquet files that were written.",
        "1",
        Counter,
        Read::Number(|known| Some(known.recorder.files?.written as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_parquet_written_bytes_total",
        "Bytes of the Parquet files that were written.",
        "By",
        Counter,
        Read::Number(|known| Some(known.recorder.files?.bytes as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_parquet_failures_total",
        "How often the folder for Parquet files could not be written.",
        "1",
        Counter,
        Read::Number(|known| Some(known.recorder.files?.failures as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_parquet_until_timestamp_seconds",
        "Up to when the recording is in Parquet files, seconds since 1970.",
        "s",
        Gauge,
        Read::Number(|known| known.recorder.files?.until_s),
    ),
    Metric::of_recorder(
        "spindoctor_own_cpu_seconds_total",
        "CPU time of the recorder itself.",
        "s",
        Counter,
        Read::Number(|known| Some(known.recorder.own_cpu_s)),
    ),
    Metric::of_recorder(
        "spindoctor_own_resident_bytes",
        "Resident memory of the recorder itself.",
        "By",
        Gauge,
        Read::Number(|known| Some(known.recorder.own_resident_bytes? as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_recording_bytes",
        "Size of the recording.",
        "By",
        Gauge,
        Read::Number(|known| Some(known.recorder.recording_bytes? as f64)),
    ),
    Metric::of_recorder(
        "spindoctor_gaps_total",
        "Times without samples.",
        "1",
        Counter,
        Read::Number(|known| Some(known.recorder.gaps as f64)),
    ),
];

/// One number without labels, where there is one.
fn point(number: Option<f64>) -> Vec<Point> {
    number.map(|number| labelled([], number)).into_iter().collect()
}

fn labelled<const N: usize>(labels: [(&'static str, Cow<'_, str>); N], number: f64) -> Point {
    let labels = labels.into_iter().map(|(name, value)| (name, value.into_owned())).collect();
    Point { labels, value: Value::Number(number) }
}

fn server_info(window: &Window) -> Point {
    let server = &window.server;
    let labels = [
        ("hostname", server.hostname.as_str().into()),
        ("address", server.address.as_str().into()),
        ("version", server.version_text.as_str().into()),
    ];
    labelled(labels, 1.0)
}

/// Of a hundred and fifty commands those count that were ever sent.
fn commands(window: &Window) -> Vec<Point> {
    let Some(values) = window.latest(|sample| &sample.server.status) else { return Vec::new() };
    let sent = values.iter().filter_map(|(name, _)| {
        let command = name.strip_prefix("com_")?;
        let count = values.number(name).filter(|count| *count > 0.0)?;
        Some(labelled([("command", command.into())], count))
    });
    sent.collect()
}

fn server_cpu(window: &Window) -> Vec<Point> {
    let Some(process) = window.latest(|sample| &sample.host.process) else { return Vec::new() };
    let modes = [("user", process.user_us), ("system", process.system_us)];
    modes.map(|(mode, us)| labelled([("mode", mode.into())], us as f64 / 1e6)).into()
}

fn pressure(window: &Window) -> Vec<Point> {
    let Some(pressure) = window.latest(|sample| &sample.host.pressure) else { return Vec::new() };
    let stalled = [
        ("cpu", "some", pressure.cpu_some_us),
        ("io", "some", pressure.io_some_us),
        ("io", "full", pressure.io_full_us),
        ("memory", "some", pressure.memory_some_us),
        ("memory", "full", pressure.memory_full_us),
    ];
    let points = stalled.into_iter().filter_map(|(resource, share, us)| {
        Some(labelled([("resource", resource.into()), ("share", share.into())], us? as f64 / 1e6))
    });
    points.collect()
}

fn probe(known: Known<'_>) -> Vec<Point> {
    vec![Point { labels: Vec::new(), value: Value::Histogram(known.recorder.probe.clone()) }]
}

fn events(known: Known<'_>) -> Vec<Point> {
    let events = known.recorder.events.iter();
    let point = |((kind, cause), count): (&(String, String), &u64)| {
        labelled([("kind", kind.into()), ("cause", cause.into())], *count as f64)
    };
    events.map(point).collect()
}

/// Every kind from the beginning on: nobody can know how much a counter grew that was not there before.
fn stalls(known: Known<'_>) -> Vec<Point> {
    let events = &known.recorder.events;
    let point = |kind: StallKind| {
        let name = word(&kind);
        let of_kind = events.iter().filter(|((kind, _), _)| *kind == name);
        let count: u64 = of_kind.map(|(_, count)| count).sum();
        labelled([("kind", name.into())], count as f64)
    };
    StallKind::ALL.into_iter().map(point).collect()
}

fn stalled(known: Known<'_>) -> Vec<Point> {
    let stalled = known.recorder.stalled_s.iter();
    stalled.map(|(cause, seconds)| labelled([("cause", cause.into())], *seconds)).collect()
}

fn session_time(known: Known<'_>) -> Vec<Point> {
    let classes = known.recorder.session_s.iter();
    classes.map(|(class, seconds)| labelled([("class", class.into())], *seconds)).collect()
}

/// A point for each source that was asked.
fn by_source(known: Known<'_>, number: fn(&SourceCost) -> f64) -> Vec<Point> {
    let asked = known.recorder.costs.iter().filter(|cost| cost.asked > 0);
    asked.map(|cost| labelled([("source", cost.source.into())], number(cost))).collect()
}

fn readings(known: Known<'_>) -> Vec<Point> {
    let answers = known.recorder.answers.iter();
    let point = |(reading, answered): (&&'static str, &bool)| {
        labelled([("reading", (*reading).into())], f64::from(u8::from(*answered)))
    };
    answers.map(point).collect()
}

fn pushed(known: Known<'_>) -> Vec<Point> {
    let Some((sent, lost)) = known.recorder.pushed else { return Vec::new() };
    [("sent", sent), ("lost", lost)]
        .map(|(result, count)| labelled([("result", result.into())], count as f64))
        .into()
}
