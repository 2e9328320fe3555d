//! What `record` exports to monitoring systems: families of metrics, made from the latest window and the recorder's own
//! counts. Pure. Prometheus's text and OTLP render the same families.
//!
//! Names follow Prometheus's rules: `spindoctor_`, base units (seconds, bytes, ratio) at the end, `_total` for counters.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::{SourceCost, Window};

use spindoctor_record::span::before;

/// A family of metrics: one name, and a point for each set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its whole name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Its unit as UCUM has it, for OTLP: `s`, `By`, `1`.
    pub unit: &'static str,
    /// What its numbers are.
    pub kind: Kind,
    /// Since when they count.
    pub since: Since,
    /// Its points.
    pub points: Vec<Point>,
}

/// What the numbers of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by upper bounds.
    Histogram,
}

/// Since when a counter counts. A reader that takes its first value as growth since then must not get a time after
/// which it did not grow so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Since the recorder began.
    Recorder,
    /// Since then: a restart makes it later.
    Instant(Timestamp),
    /// Since an unknown time.
    Unknown,
}

/// One number, or one histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Names and values, in order.
    pub labels: Vec<(&'static str, String)>,
    /// What it says.
    pub value: Value,
}

/// What a point says.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A histogram.
    Histogram(Histogram),
}

/// Upper bounds of the probe's histogram, seconds: from an idle server's 0.2 ms to the deadline.
pub const PROBE_BOUNDS_S: [f64; 12] =
    [0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// How often a duration was at most each bound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// By bound of [`PROBE_BOUNDS_S`], not cumulative; the last is beyond all of them.
    pub counts: [u64; PROBE_BOUNDS_S.len() + 1],
    /// All of them together, seconds.
    pub sum_s: f64,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&mut self, took_s: f64) {
        let place = PROBE_BOUNDS_S.iter().position(|bound| took_s <= *bound).unwrap_or(PROBE_BOUNDS_S.len());
        self.counts[place] += 1;
        self.sum_s += took_s;
    }

    /// All that were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What a recorder knows of its server and of itself.
#[derive(Debug, Clone, Default)]
pub struct Recorder {
    /// True where the server answered last.
    pub is_up: bool,
    /// The probe's answers.
    pub probe: Histogram,
    /// Events by kind and first cause; empty where none was found.
    pub events: BTreeMap<(String, String), u64>,
    /// Time of events by first cause, seconds: every cause of the catalogue from the beginning on, as nobody can know
    /// how much a counter grew that was not there before; empty where none was found.
    pub stalled_s: BTreeMap<String, f64>,
    /// What each source cost so far.
    pub costs: Vec<SourceCost>,
    /// By reading, a field of the sample: whether there was an answer when it was asked for last.
    pub answers: BTreeMap<&'static str, bool>,
    /// CPU time of the recorder itself, seconds.
    pub own_cpu_s: f64,
    /// Memory of the recorder itself; none where it could not be read.
    pub own_resident_bytes: Option<u64>,
    /// Size of the recording; none where it could not be read.
    pub recording_bytes: Option<u64>,
    /// Gaps since the recorder began.
    pub gaps: u64,
    /// Requests that the collector took, and that were lost; none without `--otlp`.
    pub pushed: Option<(u64, u64)>,
    /// What became of the recording in files; none without `--parquet`.
    pub files: Option<Files>,
}

/// What became of the recording in Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Files {
    /// Files that were written.
    pub written: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often the folder could not be written.
    pub failures: u64,
    /// Up to when the recording is in files, seconds since 1970; none where this recorder has written none yet.
    pub until_s: Option<f64>,
}

/// A number of `SHOW GLOBAL STATUS` that is exported, by its name there.
struct Status {
    variable: &'static str,
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    kind: Kind,
}

const fn counter(
    variable: &'static str,
    name: &'static str,
    help: &'static str,
    unit: &'static str,
) -> Status {
    Status { variable, name, help, unit, kind: Kind::Counter }
}

const fn gauge(variable: &'static str, name: &'static str, help: &'static str, unit: &'static str) -> Status {
    Status { variable, name, help, unit, kind: Kind::Gauge }
}

const STATUS: [Status; 24] = [
    counter("questions", "spindoctor_mysql_questions_total", "Statements that clients sent.", "1"),
    counter(
        "slow_queries",
        "spindoctor_mysql_slow_queries_total",
        "Statements slower than long_query_time.",
        "1",
    ),
    counter("connections", "spindoctor_mysql_connections_total", "Attempts to connect.", "1"),
    counter(
        "aborted_connects",
        "spindoctor_mysql_aborted_connects_total",
        "Attempts to connect that failed.",
        "1",
    ),
    counter(
        "threads_created",
        "spindoctor_mysql_threads_created_total",
        "Threads made for connections.",
        "1",
    ),
    counter("bytes_received", "spindoctor_mysql_received_bytes_total", "Bytes from clients.", "By"),
    counter("bytes_sent", "spindoctor_mysql_sent_bytes_total", "Bytes to clients.", "By"),
    counter(
        "handler_commit",
        "spindoctor_mysql_commits_total",
        "Commit calls to storage engines (Handler_commit): several for each transaction.",
        "1",
    ),
    counter("handler_rollback", "spindoctor_mysql_rollbacks_total", "Rollbacks inside the server.", "1"),
    counter("innodb_rows_read", "spindoctor_mysql_rows_read_total", "Rows that InnoDB read.", "1"),
    counter(
        "innodb_rows_inserted",
        "spindoctor_mysql_rows_inserted_total",
        "Rows that InnoDB inserted.",
        "1",
    ),
    counter("innodb_rows_updated", "spindoctor_mysql_rows_updated_total", "Rows that InnoDB updated.", "1"),
    counter("innodb_rows_deleted", "spindoctor_mysql_rows_deleted_total", "Rows that InnoDB deleted.", "1"),
    counter("innodb_row_lock_waits", "spindoctor_mysql_row_lock_waits_total", "Waits for row locks.", "1"),
    counter("innodb_os_log_written", "spindoctor_mysql_redo_written_bytes_total", "Redo written.", "By"),
    counter("innodb_os_log_fsyncs", "spindoctor_mysql_redo_syncs_total", "Syncs of the redo log.", "1"),
    counter(
        "innodb_data_read",
        "spindoctor_mysql_data_read_bytes_total",
        "Bytes that InnoDB read from files.",
        "By",
    ),
    counter(
        "innodb_data_written",
        "spindoctor_mysql_data_written_bytes_total",
        "Bytes that InnoDB wrote.",
        "By",
    ),
    counter(
        "innodb_buffer_pool_reads",
        "spindoctor_mysql_buffer_pool_reads_total",
        "Pages read from disk.",
        "1",
    ),
    counter(
        "innodb_buffer_pool_wait_free",
        "spindoctor_mysql_free_page_waits_total",
        "Waits for a free page.",
        "1",
    ),
    counter("opened_tables", "spindoctor_mysql_opened_tables_total", "Tables opened.", "1"),
    gauge("threads_running", "spindoctor_mysql_threads_running", "Statements that run now.", "1"),
    gauge("threads_connected", "spindoctor_mysql_threads_connected", "Connections now.", "1"),
    gauge("uptime", "spindoctor_mysql_uptime_seconds", "Time since the server started.", "s"),
];

/// Everything that is known, as families; what is not known has no family.
pub fn families(window: Option<&Window>, recorder: &Recorder) -> Vec<Family> {
    let mut families = Families { all: Vec::new(), since: Since::Recorder };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    families.one(
        "spindoctor_build_info",
        "The version that runs.",
        "1",
        Kind::Gauge,
        vec![("version", version)],
        Some(1.0),
    );
    let up = Some(f64::from(u8::from(recorder.is_up)));
    families.one(
        "spindoctor_up",
        "1 where the server answered last, else 0.",
        "1",
        Kind::Gauge,
        Vec::new(),
        up,
    );
    if let Some(window) = window {
        families.since = server_began(window);
        server(&mut families, window);
        // These count since the server's process, its cgroup or the system began.
        families.since = Since::Unknown;
        host(&mut families, window);
    }
    families.since = Since::Recorder;
    own(&mut families, recorder);
    families.all
}

/// From what was known when the window's segment began, so that it stays the same until the server restarts: `Uptime`
/// is whole seconds, and a beginning that moves with each answer would look like restarts.
fn server_began(window: &Window) -> Since {
    let is_dated = window.start > Timestamp::UNIX_EPOCH;
    match window.server.uptime_s.filter(|_| is_dated) {
        Some(uptime_s) => Since::Instant(before(window.start, Duration::from_secs(uptime_s))),
        None => Since::Unknown,
    }
}

struct Families {
    all: Vec<Family>,
    /// Of those that are added now.
    since: Since,
}

impl Families {
    /// Adds a point to its family; nothing where there is no number, or none that counts.
    fn one(
        &mut self,
        name: &'static str,
        help: &'static str,
        unit: &'static str,
        kind: Kind,
        labels: Vec<(&'static str, String)>,
        number: Option<f64>,
    ) {
        if let Some(number) = number.filter(|number| number.is_finite()) {
            self.add(name, help, unit, kind, Point { labels, value: Value::Number(number) });
        }
    }

    fn add(&mut self, name: &'static str, help: &'static str, unit: &'static str, kind: Kind, point: Point) {
        match self.all.iter_mut().find(|family| family.name == name) {
            Some(family) => family.points.push(point),
            None => {
                self.all.push(Family { name, help, unit, kind, since: self.since, points: vec![point] });
            }
        }
    }
}

fn server(families: &mut Families, window: &Window) {
    let identity = &window.server;
    let labels = vec![
        ("hostname", identity.hostname.clone()),
        ("address", identity.address.clone()),
        ("version", identity.version_text.clone()),
    ];
    families.one(
        "spindoctor_server_info",
        "The server that is recorded.",
        "1",
        Kind::Gauge,
        labels,
        Some(1.0),
    );
    for status in &STATUS {
        families.one(
            status.name,
            status.help,
            status.unit,
            status.kind,
            Vec::new(),
            window.status(status.variable),
        );
    }
    let Some(values) = window.latest(|sample| &sample.server.status) else { return };
    for (name, _) in values.iter() {
        // Of a hundred and fifty commands those count that were ever sent.
        if let (Some(command), Some(count)) =
            (name.strip_prefix("com_"), values.number(name).filter(|count| *count > 0.0))
        {
            let labels = vec![("command", command.to_owned())];
            families.one(
                "spindoctor_mysql_commands_total",
                "Statements by command.",
                "1",
                Kind::Counter,
                labels,
                Some(count),
            );
        }
    }
}

fn host(families: &mut Families, window: &Window) {
    use Kind::{Counter, Gauge};
    let cpus = window.latest(|sample| &sample.host.effective_cpus);
    families.one(
        "spindoctor_effective_cpus",
        "CPUs that the kernel grants the server.",
        "1",
        Gauge,
        Vec::new(),
        cpus.map(|cpus| cpus.cpus),
    );
    families.one(
        "spindoctor_online_cpus",
        "CPUs online on the host.",
        "1",
        Gauge,
        Vec::new(),
        cpus.map(|cpus| cpus.online.into()),
    );
    let counted = window.server_counts_cpus().map(|(cpus, _)| f64::from(cpus));
    families.one(
        "spindoctor_server_counted_cpus",
        "CPUs that the server itself counts.",
        "1",
        Gauge,
        Vec::new(),
        counted,
    );
    if let Some(throttling) = window.latest(|sample| &sample.host.throttling) {
        families.one(
            "spindoctor_throttled_seconds_total",
            "Time for which the quota stopped the server, summed over CPUs.",
            "s",
            Counter,
            Vec::new(),
            Some(throttling.throttled_us as f64 / 1e6),
        );
        families.one(
            "spindoctor_periods_total",
            "Periods of the quota.",
            "1",
            Counter,
            Vec::new(),
            Some(throttling.periods as f64),
        );
        families.one(
            "spindoctor_throttled_periods_total",
            "Periods in which the quota stopped the server.",
            "1",
            Counter,
            Vec::new(),
            Some(throttling.throttled_periods as f64),
        );
    }
    if let Some(process) = window.latest(|sample| &sample.host.process) {
        for (mode, us) in [("user", process.user_us), ("system", process.system_us)] {
            families.one(
                "spindoctor_server_cpu_seconds_total",
                "CPU time of the server's process.",
                "s",
                Counter,
                vec![("mode", mode.to_owned())],
                Some(us as f64 / 1e6),
            );
        }
        families.one(
            "spindoctor_server_resident_bytes",
            "Resident memory of the server.",
            "By",
            Gauge,
            Vec::new(),
            Some(process.resident_bytes as f64),
        );
        families.one(
            "spindoctor_server_swapped_bytes",
            "Memory of the server in swap.",
            "By",
            Gauge,
            Vec::new(),
            Some(process.swapped_bytes as f64),
        );
    }
    if let Some(pressure) = window.latest(|sample| &sample.host.pressure) {
        let stalled = [
            ("cpu", "some", pressure.cpu_some_us),
            ("io", "some", pressure.io_some_us),
            ("io", "full", pressure.io_full_us),
            ("memory", "some", pressure.memory_some_us),
            ("memory", "full", pressure.memory_full_us),
        ];
        for (resource, share, us) in stalled {
            let labels = vec![("resource", resource.to_owned()), ("share", share.to_owned())];
            families.one(
                "spindoctor_host_pressure_seconds_total",
                "Time for which tasks of the host waited for a resource.",
                "s",
                Counter,
                labels,
                us.map(|us| us as f64 / 1e6),
            );
        }
    }
}

fn own(families: &mut Families, recorder: &Recorder) {
    use Kind::{Counter, Gauge};
    let probe = Point { labels: Vec::new(), value: Value::Histogram(recorder.probe.clone()) };
    families.add(
        "spindoctor_probe_seconds",
        "From the probe's question to its answer.",
        "s",
        Kind::Histogram,
        probe,
    );
    for ((kind, cause), count) in &recorder.events {
        let labels = vec![("kind", kind.clone()), ("cause", cause.clone())];
        families.one(
            "spindoctor_events_total",
            "Stalls that were seen, by kind and first cause.",
            "1",
            Counter,
            labels,
            Some(*count as f64),
        );
    }
    for (cause, seconds) in &recorder.stalled_s {
        families.one(
            "spindoctor_stalled_seconds_total",
            "Time of stalls that were seen, by first cause.",
            "s",
            Counter,
            vec![("cause", cause.clone())],
            Some(*seconds),
        );
    }
    for cost in recorder.costs.iter().filter(|cost| cost.asked > 0) {
        let label = || vec![("source", cost.source.to_owned())];
        families.one(
            "spindoctor_source_queries_total",
            "How often a source was asked.",
            "1",
            Counter,
            label(),
            Some(cost.asked as f64),
        );
        families.one(
            "spindoctor_source_seconds_total",
            "From question to answer, summed: an upper bound of what a source cost the server.",
            "s",
            Counter,
            label(),
            Some(cost.took_ms / 1e3),
        );
        families.one(
            "spindoctor_source_period_seconds",
            "From one query to the next, now: expensive sources are polled less often.",
            "s",
            Gauge,
            label(),
            Some(cost.period_s).filter(|period_s| *period_s > 0.0),
        );
    }
    for (reading, answered) in &recorder.answers {
        families.one(
            "spindoctor_reading_up",
            "1 where a reading had an answer when it was asked for last, else 0.",
            "1",
            Gauge,
            vec![("reading", (*reading).to_owned())],
            Some(f64::from(u8::from(*answered))),
        );
    }
    for (result, count) in recorder.pushed.iter().flat_map(|(sent, lost)| [("sent", sent), ("lost", lost)]) {
        families.one(
            "spindoctor_otlp_requests_total",
            "Requests to the OpenTelemetry collector, by what became of them.",
            "1",
            Counter,
            vec![("result", result.to_owned())],
            Some(*count as f64),
        );
    }
    if let Some(text) = recorder.files {
        files(families, text);
    }
    families.one(
        "spindoctor_own_cpu_seconds_total",
        "CPU time of the recorder itself.",
        "s",
        Counter,
        Vec::new(),
        Some(recorder.own_cpu_s),
    );
    families.one(
        "spindoctor_own_resident_bytes",
        "Resident memory of the recorder itself.",
        "By",
        Gauge,
        Vec::new(),
        recorder.own_resident_bytes.map(|bytes| bytes as f64),
    );
    families.one(
        "spindoctor_recording_bytes",
        "Size of the recording.",
        "By",
        Gauge,
        Vec::new(),
        recorder.recording_bytes.map(|bytes| bytes as f64),
    );
    families.one(
        "spindoctor_gaps_total",
        "Times without samples.",
        "1",
        Counter,
        Vec::new(),
        Some(recorder.gaps as f64),
    );
}

fn files(families: &mut Families, files: Files) {
    use Kind::{Counter, Gauge};
    families.one(
        "spindoctor_parquet_files_total",
        "Parquet files that were written.",
        "1",
        Counter,
        Vec::new(),
        Some(files.written as f64),
    );
    families.one(
        "spindoctor_parquet_written_bytes_total",
        "Bytes of the Parquet files that were written.",
        "By",
        Counter,
        Vec::new(),
        Some(files.bytes as f64),
    );
    families.one(
        "spindoctor_parquet_failures_total",
        "How often the folder for Parquet files could not be written.",
        "1",
        Counter,
        Vec::new(),
        Some(files.failures as f64),
    );
    families.one(
        "spindoctor_parquet_until_timestamp_seconds",
        "Up to when the recording is in Parquet files, seconds since 1970.",
        "s",
        Gauge,
        Vec::new(),
        files.until_s,
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use crate::examples;

    /// Everything at once, with labels chosen to hurt.
    pub fn all() -> Vec<Family> {
        let mut window = examples::window();
        window.server.hostname = "db\"17\\\n".to_owned();
        families(Some(&window), &recorder())
    }

    pub fn recorder() -> Recorder {
        let mut recorder = Recorder { is_up: true, own_cpu_s: 1.5, ..Recorder::default() };
        for took_s in [0.000_1, 0.000_3, 0.000_3, 0.03, 7.0] {
            recorder.probe.observe(took_s);
        }
        recorder.events.insert(("commits_stopped".to_owned(), "metadata-lock-pileup".to_owned()), 2);
        let source = "SHOW GLOBAL STATUS";
        let cost = SourceCost { source, asked: 60, took_ms: 90.0, period_s: 1.0, ..SourceCost::default() };
        recorder.costs = vec![cost, SourceCost { source: "pause", ..SourceCost::default() }];
        recorder.answers.insert("status", true);
        recorder.pushed = Some((7, 1));
        recorder.stalled_s.insert("metadata-lock-pileup".to_owned(), 4.5);
        recorder.files =
            Some(Files { written: 12, bytes: 81_920, failures: 1, until_s: Some(1_782_898_200.0) });
        recorder
    }

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        for family in all() {
            let name = family.name;
            assert!(
                name.starts_with("spindoctor_") && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            assert_eq!(base.ends_with("_seconds"), family.unit == "s", "{name}");
            assert_eq!(base.ends_with("_bytes"), family.unit == "By", "{name}");
            assert!(family.help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn every_family_stands_once_and_no_two_points_have_the_same_labels() {
        let families = all();
        for (at, family) in families.iter().enumerate() {
            assert!(families[at + 1..].iter().all(|other| other.name != family.name), "{}", family.name);
            for (at, point) in family.points.iter().enumerate() {
                assert!(
                    family.points[at + 1..].iter().all(|other| other.labels != point.labels),
                    "{}",
                    family.name
                );
            }
        }
    }

    #[test]
    fn a_counter_of_the_server_counts_since_the_server_began() {
        let since = |window: &Window, name: &str| {
            let families = families(Some(window), &recorder());
            families.iter().find(|family| family.name == name).unwrap().since
        };
        let mut window = examples::window();
        let questions = "spindoctor_mysql_questions_total";
        // It was up for 812 s when the segment began.
        window.start = examples::at(-120.0);
        assert_eq!(since(&window, questions), Since::Instant(examples::at(-932.0)));
        assert_eq!(since(&window, "spindoctor_server_cpu_seconds_total"), Since::Unknown);
        assert_eq!(since(&window, "spindoctor_events_total"), Since::Recorder);
        assert_eq!(since(&window, "spindoctor_probe_seconds"), Since::Recorder);
        // It was restarted.
        (window.start, window.server.uptime_s) = (examples::at(40.0), Some(3));
        assert_eq!(since(&window, questions), Since::Instant(examples::at(37.0)));
        window.server.uptime_s = None;
        assert_eq!(since(&window, questions), Since::Unknown);
        (window.start, window.server.uptime_s) = (Timestamp::default(), Some(3));
        assert_eq!(since(&window, questions), Since::Unknown, "nobody said when the segment began");
    }

    #[test]
    fn what_nobody_read_is_left_out_and_not_zero() {
        let families = families(None, &Recorder::default());
        assert!(families.iter().all(|family| !family.name.starts_with("spindoctor_mysql")));
        assert!(families.iter().any(|family| family.name == "spindoctor_up"));
    }
}
