//! Window to findings. Pure: no I/O, no driver, no runtime, no operating system.
//!
//! In: a [`Window`], as the collector filled it or a recording gave it back. Out: its
//! [`Diagnosis`](spindoctor_model::Diagnosis).
//! Each cause has a file of its own under `causes/`, with its documentation on it; [`CAUSES`] names
//! them all, and `explain`, the report's counts and the tests go by that list. How findings rank,
//! and from which score on they are warnings, is in [`rank`] and nowhere else.

pub mod accept_time;
mod applier_scans;
mod below;
mod captured;
pub mod causes;
mod comes_back;
pub mod commit_spin;
mod commits;
pub mod connections;
mod cpus;
pub mod deadlock;
mod diagnose;
mod disk_users;
pub mod dives;
mod draft;
pub mod frame_states;
mod history;
mod killing;
pub mod latch_spin;
mod latch_time;
mod logged;
mod login_wait;
mod managed;
mod open_files;
mod own_answers;
pub mod pause_fit;
mod peers;
mod pending_io;
pub mod phases;
mod polling;
mod pool;
pub mod proposals;
pub mod rank;
mod redo_sync;
pub mod replica;
mod replication_group;
mod row_lock_time;
mod run_queue;
mod seen_most;
mod sessions;
mod since_start;
mod sort_writes;
pub mod spin_fit;
mod spin_samples;
mod stack_evidence;
mod stall;
mod statement_log;
mod tcp_queues;
mod temporary_room;
#[cfg(test)]
mod testing;
mod throttled;
mod time_model;
pub mod wait_graph;

use spindoctor_model::{Finding, SessionTime, TimeClass, Unavailable, Window};

pub use causes::CAUSES;
pub use diagnose::diagnose;
pub use frame_states::FRAME_STATES;
pub use managed::{EVENTS_OF_RDS, ending_for};
pub use spin_samples::Whose;
pub use stack_evidence::Stacks;
pub use time_model::session_time;

use time_model::{InClasses, has_a_state};

/// An entry of the catalogue: its documentation and the rule that looks for it.
#[derive(Debug, Clone, Copy)]
pub struct Cause {
    /// Name in the catalogue: `quota-blind-spin`.
    pub name: &'static str,
    /// The cause in one line.
    pub title: &'static str,
    /// What it is: the mechanism.
    pub what: &'static str,
    /// Why it hurts.
    pub why_it_hurts: &'static str,
    /// The readings it rests on and the thresholds.
    pub evidence: &'static str,
    /// What looks alike and is not it.
    pub looks_alike: &'static str,
    /// What to do.
    pub remedies: &'static str,
    /// How safe that is, and how to undo it.
    pub safety: &'static str,
    /// Where the rule comes from.
    pub references: &'static [&'static str],
    /// What it costs, and so what its score is.
    pub costs: Costs,
    /// Classes of session time that a finding of it explains: what else is in them is no wait without a name.
    pub explains_time: &'static [TimeClass],
    /// Which stacks show it.
    pub stacks: Stacks,
    /// The rule.
    rule: Rule,
    /// Windows for the tests.
    #[cfg(test)]
    examples: Examples,
}

/// What shows the cause in a capture of one moment: what an error log ends with, or what a status counts since the start.
type OfCapture = fn(&Window) -> Option<Finding>;

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// The readings of a window.
    Readings(fn(&Window) -> Outcome),
    /// The account of its session time, and the readings.
    Time(fn(&Window, &SessionTime) -> Outcome),
    /// The readings; where they do not show it, what a capture of one moment says.
    ReadingsOrCapture(fn(&Window) -> Outcome, OfCapture),
    /// The account and the readings; where they do not show it, what a capture of one moment says.
    TimeOrCapture(fn(&Window, &SessionTime) -> Outcome, OfCapture),
}

/// What a cause costs. A finding's score is its share of the session time; this says how a rule's own estimate becomes one.
#[derive(Debug, Clone, Copy)]
pub enum Costs {
    /// The waits in these classes, whole: they are gone when it is cured. Of the other classes that it explains it costs as much
    /// as the rule estimates, and no more than the sessions were seen to wait.
    Waits(&'static [TimeClass]),
    /// CPU: the rule estimates which part of the server's CPU time is wasted. That part is gone from the time on a CPU, from the
    /// wait for one, and from the classes that it explains.
    Cpu,
    /// Time that the account does not hold: of clients that no session is at work for (a login that nobody accepts), of a server
    /// that answers nobody, of transactions that are done a second time. The rule's own estimate is the score.
    Elsewhere,
}

/// Windows for the tests of a rule. That a healthy busy server gets no finding is tested for all rules at once.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
struct Examples {
    /// A server that suffers badly: the rule fires, and its finding comes first.
    fires: fn() -> Window,
    /// Nearly the same server, which does not suffer: the rule says `Clear`.
    near_miss: fn() -> Window,
    /// A reading that the rule needs is missing: it says `NotEnoughEvidence`.
    missing: fn() -> Window,
}

impl Cause {
    /// Looks for it in a window; `time` is the window's [`session_time`].
    pub fn evaluate(&self, window: &Window, time: Option<&SessionTime>) -> Outcome {
        let is_list_alone = || {
            window.is_given()
                && window.missing(|sample| &sample.server.status).is_some()
                && window.missing(|sample| &sample.host.threads).is_some()
        };
        let by_time = |rule: fn(&Window, &SessionTime) -> Outcome| match time {
            Some(time) => match rule(window, time) {
                // Of a list alone: those of which it says that they run may be in a wait that has no word in it.
                Outcome::Clear if self.hides_in_lists() && InClasses::are_vague(time) && is_list_alone() => {
                    Outcome::NotEnoughEvidence(Unavailable::because(
                        "the process list has no word for this wait: sessions in it seem to run",
                    ))
                }
                outcome => outcome,
            },
            None => match window.need(|sample| &sample.server.threads) {
                Err(missing) => Outcome::NotEnoughEvidence(missing),
                Ok(_) => Outcome::Clear,
            },
        };
        let (outcome, of_capture) = match self.rule {
            Rule::Readings(rule) => (rule(window), None),
            Rule::Time(rule) => (by_time(rule), None),
            Rule::ReadingsOrCapture(rule, of_capture) => (rule(window), Some(of_capture)),
            Rule::TimeOrCapture(rule, of_capture) => (by_time(rule), Some(of_capture)),
        };
        match outcome {
            Outcome::Fired(finding) => Outcome::Fired(finding),
            other => of_capture.and_then(|of_capture| of_capture(window)).map_or(other, Outcome::Fired),
        }
    }

    /// True where no state of the process list says of a session that it waits for this.
    fn hides_in_lists(&self) -> bool {
        matches!(self.costs, Costs::Waits(classes) if !classes.is_empty() && !classes.iter().any(|class| has_a_state(*class)))
    }

    /// The documentation under its fixed headings, in order: who reads it during an outage needs the remedy before the evidence.
    /// References are not among them.
    pub fn documentation(&self) -> [(&'static str, &'static str); 6] {
        [
            ("What it is", self.what),
            ("What to do", self.remedies),
            ("How safe that is", self.safety),
            ("Why it hurts", self.why_it_hurts),
            ("Evidence", self.evidence),
            ("What looks alike and is not it", self.looks_alike),
        ]
    }
}

/// What a finding costs, and which classes of session time it explains: as its cause says, unless it is itself of what no session time
/// holds. None of a cause that there is not.
fn costs_of(finding: &Finding) -> Option<(Costs, &'static [TimeClass])> {
    let cause = find(&finding.cause)?;
    Some(match finding.is_elsewhere {
        true => (Costs::Elsewhere, &[]),
        false => (cause.costs, cause.explains_time),
    })
}

/// What a rule says of a window.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a handful live at a time, each for a moment")]
pub enum Outcome {
    /// The cause is there.
    Fired(Finding),
    /// It was looked for and is not there.
    Clear,
    /// It could not be looked for.
    NotEnoughEvidence(Unavailable),
}

/// Rules are written as functions that leave early with `?` where a reading is missing.
impl From<Result<Option<Finding>, Unavailable>> for Outcome {
    fn from(examined: Result<Option<Finding>, Unavailable>) -> Self {
        match examined {
            Ok(Some(finding)) => Self::Fired(finding),
            Ok(None) => Self::Clear,
            Err(missing) => Self::NotEnoughEvidence(missing),
        }
    }
}

/// The cause of that name; letter case does not matter.
pub fn find(name: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.name.eq_ignore_ascii_case(name))
}
