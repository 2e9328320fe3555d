//! A finding: a cause seen on this server, with what it rests on and what to do.

use serde::{Deserialize, Serialize};

/// How much a finding matters now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; costs nothing to speak of now.
    Note,
    /// Costs the server time now.
    Warning,
    /// Costs the server much of its throughput, or stops it.
    Critical,
}

/// A cause seen on this server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name in the catalogue: `quota-blind-spin`.
    pub cause: String,
    /// How much it matters.
    pub severity: Severity,
    /// Share of the session time that would be gone without the cause, 0 to 1; where no account of session time could be made, and
    /// for what clients wait for before a session is at work, the rule's own estimate. Scores of findings that no other finding
    /// explains add up to 1 at most where there is an account. Nothing compared it yet with what a cure gains.
    pub score: f64,
    /// One sentence with this server's numbers in it.
    pub headline: String,
    /// What it rests on.
    pub evidence: Vec<Evidence>,
    /// The mechanism, with this server's numbers, in a sentence or two.
    pub why: String,
    /// What to do, the best first.
    pub remedies: Vec<Remedy>,
    /// The thread that blocks others, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<Root>,
    /// Causes whose findings this one explains: they rank below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explains: Vec<String>,
    /// True where it costs what no session time holds (statements that fail at once), though its cause costs session time elsewhere.
    #[serde(skip)]
    pub is_elsewhere: bool,
    /// Where the rule comes from.
    pub references: Vec<String>,
}

impl Finding {
    /// The share that is lost by it, 0 to 1; None of a note, whose score is its place in the order and no estimate.
    pub fn estimated_loss(&self) -> Option<f64> {
        (self.severity > Severity::Note && self.score > 0.0).then_some(self.score)
    }
}

/// One reading that a finding rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was read: `effective CPUs`.
    pub reading: String,
    /// What it said.
    pub value: Value,
    /// `CPUs`, `ratio`, `1/s`, `ms`, `s`, `bytes`, or empty for text and counts.
    pub unit: String,
    /// Where it was read: `cpu.max`, `srv_cpu_usage`, `SHOW GLOBAL STATUS`.
    pub source: String,
    /// What a healthy server shows: `< 0.02`; empty where it cannot be said in general.
    pub expected: String,
    /// The reading over the window, for a chart: seconds, value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(f64, f64)>,
}

impl Evidence {
    /// A reading with its unit and source.
    pub fn new(reading: &str, value: impl Into<Value>, unit: &str, source: &str) -> Self {
        Self {
            reading: reading.into(),
            value: value.into(),
            unit: unit.into(),
            source: source.into(),
            expected: String::new(),
            series: Vec::new(),
        }
    }

    /// Adds what a healthy server shows.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    /// Adds the reading over the window.
    #[must_use]
    pub fn series(mut self, series: Vec<(f64, f64)>) -> Self {
        self.series = series;
        self
    }
}

/// A number or a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in the evidence's unit.
    Number(f64),
    /// Text as the server or kernel gave it.
    Text(String),
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(f64::from(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A change that a person or the tuner can make.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Remedy {
    /// What to run or do: `SET GLOBAL innodb_log_spin_cpu_pct_hwm = 8`, `KILL 12`, or a sentence.
    pub statement: String,
    /// Why it helps.
    pub why: String,
    /// True where it needs no restart.
    pub dynamic: bool,
    /// What could go wrong.
    pub risk: String,
    /// How to take it back; empty where it cannot be.
    pub undo: String,
}

/// The thread that is not waiting and blocks the most.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Root {
    /// The kernel's thread id.
    pub thread_os_id: Option<u64>,
    /// The id that `KILL` takes.
    pub connection_id: Option<u64>,
    /// Its user.
    pub user: String,
    /// Its statement now, or `idle in transaction`.
    pub statement: String,
    /// Its call stack, innermost first, where it was taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stack: Vec<String>,
}
