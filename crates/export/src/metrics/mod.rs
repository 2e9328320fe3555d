//! What `record` exports to monitoring systems: families of metrics, made from the latest window and the recorder's own
//! counts. Pure. Prometheus's text and OTLP render the same families.
//!
//! Names follow Prometheus's rules: `spindoctor_`, base units (seconds, bytes, ratio) at the end, `_total` for counters.

mod declared;
#[cfg(test)]
mod watched;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use spindoctor_model::{SourceCost, Window};
use spindoctor_record::span::before;

use declared::{CountsSince, Known, METRICS, Metric};

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
    /// Time of sessions at work by what it went into, seconds: every class from the beginning on, as with causes.
    pub session_s: BTreeMap<String, f64>,
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

/// Everything that is known, as families; what is not known has no family.
pub fn families(window: Option<&Window>, recorder: &Recorder) -> Vec<Family> {
    let known = Known { window, recorder };
    let server_began = window.map_or(Since::Unknown, server_began);
    let family = |metric: &Metric| {
        let since = match metric.counts_since {
            CountsSince::Recorder => Since::Recorder,
            CountsSince::Server => server_began,
            CountsSince::Unknown => Since::Unknown,
        };
        let &Metric { name, help, unit, kind, .. } = metric;
        let points = metric.points(known);
        (!points.is_empty()).then_some(Family { name, help, unit, kind, since, points })
    };
    METRICS.iter().filter_map(family).collect()
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
        recorder.session_s.insert("row-lock".to_owned(), 81.5);
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
