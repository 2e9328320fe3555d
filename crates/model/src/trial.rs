//! A trial: one measured comparison of two settings of a live server. Serialised, it is the public schema
//! `spindoctor.trial/1`: fields may be added, none is renamed or removed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::diagnosis::DiagnosedServer;
use crate::fairness::Fairness;
use crate::finding::Remedy;

/// Name and version of the serialised form.
pub const TRIAL_SCHEMA: &str = "spindoctor.trial/1";

/// A change of settings that somebody could make, with what speaks for it and against it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Proposal {
    /// What it is about, one word for one kind of cure: `commit-spin`, `latch-spin`, `undo-tablespaces`, `redo-capacity`.
    pub family: String,
    /// The variables that change together; none where the remedy is no variable.
    pub changes: Vec<Change>,
    /// Statement, why, risk, undo, and whether it needs a restart.
    pub remedy: Remedy,
    /// What it costs: disk, memory, a brief stall; empty where nothing to speak of.
    pub cost: String,
    /// The cause whose finding proposes it; none where settings and hardware alone do.
    pub cause: Option<String>,
    /// The finding's score, 0 to 1, where a finding gives one.
    pub score: Option<f64>,
    /// Why it cannot be tried on a live server; none where it can.
    pub not_tried: Option<String>,
}

/// One variable that changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// Its name, as `SHOW GLOBAL VARIABLES` has it.
    pub variable: String,
    /// Its value before, as the server prints it.
    pub from: String,
    /// Its value after, as the server prints it.
    pub to: String,
}

/// What a trial says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// One quantity is shown better, and each of the others is shown to be no worse than its margin.
    #[serde(rename = "helps")]
    Helps,
    /// A quantity is shown worse by more than its margin, whatever the others gain.
    #[serde(rename = "hurts")]
    Hurts,
    /// Each quantity is shown to have changed by less than its margin.
    #[serde(rename = "no significant effect")]
    NoSignificantEffect,
    /// The trial ended before the intervals were narrow enough for one of the others; `missing` says of what.
    #[serde(rename = "inconclusive")]
    Inconclusive,
}

/// A quantity with the new setting, as a ratio to the quantity with the old one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The estimate.
    pub ratio: f64,
    /// Where the interval begins; none while it is infinite.
    pub low: Option<f64>,
    /// Where the interval ends; none while it is infinite.
    pub high: Option<f64>,
}

/// The three quantities that are compared. None where it could not be measured.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Statements a second. More is better.
    pub throughput: Option<Effect>,
    /// 95th percentile of a statement's time. Less is better.
    pub p95: Option<Effect>,
    /// CPU time of the server's process for each statement. Less is better.
    pub cpu_per_query: Option<Effect>,
}

/// What is shown of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum QuantityVerdict {
    /// Better, by more than the least effect worth having.
    #[serde(rename = "better")]
    Better,
    /// Changed by less than its margin, in either direction.
    #[serde(rename = "same")]
    Same,
    /// Not worse than its margin; by how much it is better, if at all, is open.
    #[serde(rename = "no worse")]
    NoWorse,
    /// Worse, by more than its margin.
    #[serde(rename = "worse")]
    Worse,
    /// It may be worse than its margin, and may be not.
    #[default]
    #[serde(rename = "not enough evidence")]
    Open,
    /// This server or this connection does not give it: nothing is known of it.
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// One of the three quantities with all that decides over it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Judged {
    /// `throughput`, `p95` or `cpu_per_query`, as in [`Effects`].
    pub quantity: String,
    /// What is shown.
    pub shown: QuantityVerdict,
    /// With the new setting against the old one; none where it was not measured.
    pub effect: Option<Effect>,
    /// How much worse it may get, as a part: 0.1 is 10 %.
    pub margin: f64,
    /// Quads that count for it.
    pub quads: u32,
}

/// What the noise of a trial's first quads says of the time that it needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// The quantity that needs the most time, as in [`Judged`].
    pub quantity: String,
    /// Its margin, as a part.
    pub margin: f64,
    /// Quads until a change of that size can be distinguished from none, in total.
    pub quads: u32,
    /// The time that these take, seconds.
    pub seconds: f64,
    /// The time that the trial may take, seconds.
    pub seconds_allowed: f64,
    /// What that time is good for: a change of this size, as a part; none where not even one interval fits.
    pub reached: Option<f64>,
}

/// One stretch of time with one of the two settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Block {
    /// Which quad it belongs to, from 0.
    pub quad: u32,
    /// True with the new setting, false with the old one.
    pub is_new: bool,
    /// When its measured part began, seconds from the start of the trial.
    pub at_s: f64,
    /// How long it was measured, seconds.
    pub seconds: f64,
    /// Statements a second.
    pub throughput_per_s: f64,
    /// 95th percentile of a statement's time, milliseconds.
    pub p95_ms: Option<f64>,
    /// CPU time of the server's process for each statement, microseconds.
    pub cpu_us_per_query: Option<f64>,
    /// Statements that ended in an error, a second.
    pub errors_per_s: Option<f64>,
    /// How long the host's CPUs took for a loop that is always the same, nanoseconds; none where the server is elsewhere.
    pub loop_ns: Option<f64>,
    /// How often a second the mutex of a rollback segment was taken, as performance_schema counts it; none where no undo
    /// tablespaces are tried, or its instrument is off.
    pub segment_waits_per_s: Option<f64>,
    /// How long that took, all sessions together, milliseconds a second.
    pub segment_wait_ms_per_s: Option<f64>,
    /// How evenly connections were served: the transactions of each that committed any, as performance_schema counts them; none where
    /// it does not.
    pub fairness: Option<Fairness>,
    /// Why its quad was left out of the comparison; none where it counts.
    pub left_out: Option<String>,
}

/// One comparison, from its first block to its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// [`TRIAL_SCHEMA`].
    pub schema: String,
    /// The server.
    pub server: DiagnosedServer,
    /// When it began.
    pub start: Timestamp,
    /// How long it took, seconds.
    pub seconds: f64,
    /// The variable; several are joined by commas. See `changes`.
    pub variable: String,
    /// Its value before.
    pub from: String,
    /// Its value after.
    pub to: String,
    /// The variables that changed together.
    pub changes: Vec<Change>,
    /// What it says.
    pub verdict: Verdict,
    /// Why it says so, with its numbers, in a sentence.
    pub why: String,
    /// With the new setting against the old one.
    pub effect: Effects,
    /// The three quantities, each with its margin and what is shown of it.
    #[serde(default)]
    pub judged: Vec<Judged>,
    /// Of what there is not enough evidence: quantities as in `judged`; empty where the verdict needs no more.
    #[serde(default)]
    pub missing: Vec<String>,
    /// True where one quantity got better and another worse: the verdict is *hurts*, for nothing decides between them.
    #[serde(default)]
    pub trade_off: bool,
    /// What the noise says of the time that is needed; none where the trial ended before that could be said.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Quads that count.
    pub quads: u32,
    /// True where the server has the new setting now.
    pub kept: bool,
    /// What went on beside it: drift of the load, quads left out, a restart, a guard rail.
    pub notes: Vec<String>,
    /// Every block, in order.
    pub blocks: Vec<Block>,
}

/// What `tune --apply` did: the trial that decided, and those of the search before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The trial that decided, with fresh quads; its fields stand at the top level of the JSON.
    #[serde(flatten)]
    pub decided: Trial,
    /// What was proposed.
    #[serde(default)]
    pub proposals: Vec<Proposal>,
    /// Trials of the search, in order; they chose what was tried last, and decide nothing.
    #[serde(default)]
    pub searched: Vec<Trial>,
    /// What became of the settings: kept, persisted, or put back, in a sentence each.
    #[serde(default)]
    pub settings: Vec<String>,
}
