//! What a server spends its time on: shares of statements' time, the read-workload panel, what the time inside statements
//! goes into, and for a replica how it keeps up.
//!
//! ```text
//! live server, recording, captured file -> Seen -> Tally -> Counted \
//!                         status, replica -> Window -> panel, replica -> Workload -> report
//!                                    stacks -> Profile -> Split     /
//! ```
//!
//! Everything here is pure; `command/workload` reads.

pub(crate) mod captured;
pub(crate) mod pace;
pub(crate) mod panel;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod split;
pub(crate) mod statement;
pub(crate) mod tally;

use jiff::Timestamp;
use spindoctor_model::{Finding, Window};
use spindoctor_rules::Outcome;
use spindoctor_rules::replica::{KeepingUp, keeping_up};

use panel::Line;
use split::Split;
pub(crate) use tally::{By, Counted, Group, Seen, Slow, Tally, What};

/// Causes that the readings of a workload can show.
const CAUSES: [&str; 2] = ["rows-read-waste", "replica-lag"];

/// A workload, finished.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    /// `MySQL 9.7.4 on db17`, or the file's name.
    pub(crate) subject: String,
    /// When the first look was; none where the file does not say.
    pub(crate) start: Option<Timestamp>,
    /// True where it is of the appliers.
    pub(crate) of_replica: bool,
    /// The pattern that statements were to match.
    pub(crate) grep: Option<String>,
    /// True where statements are shown as they were sent.
    pub(crate) literals: bool,
    /// What was counted.
    pub(crate) counted: Counted,
    /// The panel, or why there is none.
    pub(crate) panel: Result<Vec<Line>, String>,
    /// What the time inside statements went into, or why that is not known.
    pub(crate) split: Result<Split, String>,
    /// The channels of a replica, or why they are not known; empty where the server is none.
    pub(crate) replica: Result<Vec<KeepingUp>, String>,
    /// What the rules say of it.
    pub(crate) findings: Vec<Finding>,
    /// What looking cost; none of a file.
    pub(crate) cost: Option<Cost>,
    /// What a reader must know.
    pub(crate) notes: Vec<String>,
}

/// What looking cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Cost {
    /// Statements that the server was asked.
    pub(crate) server_queries: u64,
    /// Until they were answered, summed, milliseconds.
    pub(crate) answered_ms: f64,
    /// CPU time that the server used for it, milliseconds, where that can be read.
    pub(crate) server_cpu_ms: Option<f64>,
    /// Our own CPU time, milliseconds.
    pub(crate) own_cpu_ms: f64,
    /// Both as a share of what all CPUs had; none where the server's is not known.
    pub(crate) cpu_share: Option<f64>,
    /// Threads that were stopped.
    pub(crate) threads_stopped: u64,
}

impl Workload {
    /// Nothing counted and nothing read yet.
    pub(crate) fn new(subject: impl Into<String>, of_replica: bool) -> Self {
        let unread = || "it was not read".to_owned();
        Self {
            subject: subject.into(),
            start: None,
            of_replica,
            grep: None,
            literals: false,
            counted: Counted::default(),
            panel: Err(unread()),
            split: Err(unread()),
            replica: Err(unread()),
            findings: Vec::new(),
            cost: None,
            notes: Vec::new(),
        }
    }

    /// With what a window says of the replica, and of the causes that a workload can show.
    pub(crate) fn judge(&mut self, window: &Window) {
        self.replica = keeping_up(window).map_err(|why| why.because);
        let fired = CAUSES.iter().filter_map(|name| match (spindoctor_rules::find(name)?.evaluate)(window) {
            Outcome::Fired(finding) => Some(finding),
            Outcome::Clear | Outcome::NotEnoughEvidence(_) => None,
        });
        self.findings = spindoctor_rules::rank::rank(fired.collect());
    }
}

/// The share of a group: of all that was seen.
pub(crate) fn share(counted: &Counted, seen: u64) -> f64 {
    seen as f64 / counted.seen.max(1) as f64
}
