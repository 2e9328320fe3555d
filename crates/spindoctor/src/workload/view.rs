//! A server's use of time: shares of statements' time, the read-workload panel, the phases inside statements, and for a
//! replica its lag.
//!
//! ```text
//! live server, recording, captured file -> Sighting -> Tally -> Counted \
//!                         status, replica -> Window -> panel, replica -> Workload -> report
//!                                    stacks -> Profile -> Split     /
//! ```
//!
//! Everything here is pure; `live` and `stored` read.

use jiff::Timestamp;
use spindoctor_model::{Finding, Window};
use spindoctor_rules::replica::{KeepingUp, keeping_up};
use spindoctor_rules::{Cause, Outcome, causes, session_time};

use super::panel::Line;
use super::split::Split;
use super::tally::Counted;
use crate::common::queries::Queries;

/// Causes that the readings of a workload can show.
const CAUSES: [Cause; 2] = [causes::rows_read_waste::CAUSE, causes::replica_lag::CAUSE];

/// A workload, finished.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// `MySQL 9.7.4 on db17`, or the file's name.
    pub subject: String,
    /// When the first look was; none where the file does not say.
    pub start: Option<Timestamp>,
    /// True where it is of the appliers.
    pub of_replica: bool,
    /// The pattern that statements were to match.
    pub grep: Option<String>,
    /// True where statements are shown as they were sent.
    pub literals: bool,
    /// What was counted.
    pub counted: Counted,
    /// Statements by the server's own counts, the costliest first; empty where they were not read.
    pub by_server: Vec<ByServer>,
    /// The panel, or why there is none.
    pub panel: Result<Vec<Line>, String>,
    /// What the time inside statements went into, or why that is not known.
    pub split: Result<Split, String>,
    /// The channels of a replica, or why they are not known; empty where the server is none.
    pub replica: Result<Vec<KeepingUp>, String>,
    /// What the rules say of it.
    pub findings: Vec<Finding>,
    /// What looking cost; none of a file.
    pub cost: Option<Cost>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Sightings of statements below which shares of them say little: a share of thirty is known to 18 points (1.96 standard
/// errors at one half).
pub const FEW_SIGHTINGS: u64 = 30;

/// Statements by the server's own counts that are kept.
const BY_SERVER: usize = 20;

/// A statement as the server's digests count it.
#[derive(Debug, Clone, PartialEq)]
pub struct ByServer {
    /// Without literals.
    pub statement: String,
    /// Its share of the time of all that the digests count, but for statements about the server.
    pub share: f64,
    /// How many ran at once on average.
    pub at_once: f64,
    /// Executions a second.
    pub per_s: f64,
    /// Time of one, milliseconds.
    pub mean_ms: f64,
}

/// What looking cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Statements that the server was asked.
    pub server_queries: u64,
    /// Until they were answered, summed, milliseconds.
    pub answered_ms: f64,
    /// CPU time that the server used for it, milliseconds, where that can be read.
    pub server_cpu_ms: Option<f64>,
    /// Our own CPU time, milliseconds.
    pub own_cpu_ms: f64,
    /// Both as a share of what all CPUs had; none where the server's is not known.
    pub cpu_share: Option<f64>,
    /// Threads that were stopped.
    pub threads_stopped: u64,
}

impl Workload {
    /// Nothing counted and nothing read yet.
    pub fn new(subject: impl Into<String>, of_replica: bool) -> Self {
        let unread = || "it was not read".to_owned();
        Self {
            subject: subject.into(),
            start: None,
            of_replica,
            grep: None,
            literals: false,
            counted: Counted::default(),
            by_server: Vec::new(),
            panel: Err(unread()),
            split: Err(unread()),
            replica: Err(unread()),
            findings: Vec::new(),
            cost: None,
            notes: Vec::new(),
        }
    }

    /// True where so few statements were seen that shares of them say little. Appliers are seen at rest, too.
    pub fn has_few_sightings(&self) -> bool {
        !self.of_replica && self.counted.seen < FEW_SIGHTINGS
    }

    /// With what the server's digests counted in the window, where two readings of them are there.
    pub fn count_by_server(&mut self, window: &Window) {
        let Some(queries) = Queries::from_window(window, f64::INFINITY) else { return };
        let ran = queries
            .all
            .iter()
            .filter(|query| !spindoctor_sql::is_about_the_server(&query.digest.schema, &query.digest.text));
        let all: f64 = ran.clone().map(|query| query.load).sum();
        self.by_server = ran
            .take(BY_SERVER)
            .map(|query| ByServer {
                statement: query.digest.text.clone(),
                share: query.load / all.max(f64::MIN_POSITIVE),
                at_once: query.load,
                per_s: query.per_s,
                mean_ms: query.mean_ms,
            })
            .collect();
    }

    /// With what a window says of the replica, and of the causes that a workload can show.
    pub fn judge(&mut self, window: &Window) {
        self.replica = keeping_up(window).map_err(|why| why.because);
        let time = session_time(window);
        let fired = CAUSES.iter().filter_map(|cause| match cause.evaluate(window, time.as_ref()) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        });
        self.findings = spindoctor_rules::rank::rank(fired.collect());
    }
}

/// The share of a group: of all that was seen.
pub fn share(counted: &Counted, seen: u64) -> f64 {
    seen as f64 / counted.seen.max(1) as f64
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::StatementDigest;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    #[test]
    fn the_servers_own_counts_stand_beside_few_sightings_and_monitors_are_nobodys_load() {
        let digest = |text: &str, executions, total_ns| StatementDigest {
            digest: text.len().to_string(),
            text: text.into(),
            executions,
            total_ns,
            ..StatementDigest::default()
        };
        let sample = |at_s: f64, n: u64| {
            let value = vec![
                digest(
                    "SELECT `VARIABLE_NAME` FROM `performance_schema` . `global_status`",
                    n,
                    n * 9_000_000,
                ),
                digest("SELECT `c` FROM `t`", n * 100, n * 3_000_000),
                digest("UPDATE `t` SET `c` = ?", n * 10, n * 1_000_000),
            ];
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.digests = Reading::Available { at_s, took_ms: 1.0, value };
            sample
        };
        let window = Window { samples: vec![sample(0.0, 10), sample(10.0, 20)], ..Window::default() };
        let queries = Queries::from_window(&window, 10.0).unwrap();
        assert!(queries.all[2].digest.text.contains("performance_schema"), "a monitor stands last");
        let mut workload = Workload::new("", false);
        workload.count_by_server(&window);
        assert_eq!(workload.by_server.len(), 2);
        assert_eq!(workload.by_server[0].statement, "SELECT `c` FROM `t`");
        assert!((workload.by_server[0].share - 0.75).abs() < 1e-9 && workload.by_server[0].per_s == 100.0);
        assert!(workload.has_few_sightings());
        workload.counted.seen = FEW_SIGHTINGS;
        assert!(!workload.has_few_sightings());
    }
}
