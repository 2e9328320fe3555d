//! A recording: what the black box keeps of a server over days, and the events in it.
//!
//! A recording is made of segments. Within a segment one clock runs and one server process counts, so two samples of
//! a segment make a [`Window`](crate::Window); between segments nothing is computed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::diagnosis::Diagnosis;
use crate::server::ServerIdentity;
use crate::stack::Profile;
use crate::wait_graph::WaitGraph;
use crate::window::Sample;

/// A stretch of a recording without a restart of the recorder or of the server, and without a jump of the clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Segment {
    /// Its number in the recording, from 1.
    pub id: u64,
    /// What the times of its samples and readings count from.
    pub began: Timestamp,
    /// The server, as it was when the segment began.
    pub server: ServerIdentity,
    /// The version of spindoctor that wrote it.
    pub written_by: String,
}

/// One sample of a recording.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedSample {
    /// When it was begun, by the wall clock.
    pub at: Timestamp,
    /// Its segment.
    pub segment: u64,
    /// What was read; its times count from [`Segment::began`].
    pub sample: Sample,
}

/// Time of which there are no samples, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// The last sample before it.
    pub from: Timestamp,
    /// The first sample after it; none where it goes on.
    pub to: Option<Timestamp>,
    /// What happened, in one clause: `the server was restarted`, `the disk is full`.
    pub because: String,
}

/// A global variable of the server when it was first read, and each time that it had changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedSetting {
    /// The first sample that read it so.
    pub at: Timestamp,
    /// Its name in lower case.
    pub name: String,
    /// Its value from then on; none where the server had it no more.
    pub value: Option<String>,
}

/// What was asked ten times a second, and how long the answer took.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probe {
    /// Seconds from the start of the segment to the question.
    pub at_s: f64,
    /// From question to answer, milliseconds; or how long it had been waited for when it was given up.
    pub took_ms: f64,
    /// False where there was no answer.
    pub answered: bool,
    /// Why there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<ProbeFailure>,
    /// `Threads_running`, spindoctor's own sessions left out.
    pub threads_running: Option<u64>,
    /// `Threads_connected`.
    pub threads_connected: Option<u64>,
    /// Statements so far: `Queries` of a MySQL from 8.0.30 on, `Questions` of other servers.
    pub questions: Option<u64>,
    /// `Handler_commit` so far: calls to storage engines, several for each transaction.
    pub commits: Option<u64>,
    /// Bytes of redo between the last checkpoint and now.
    pub checkpoint_age_bytes: Option<u64>,
}

impl Probe {
    /// True where no new connection could be had: the server is full, gone, or lets nobody in.
    pub fn was_refused(&self) -> bool {
        use ProbeFailure::{NotConnected, Refused, TooManyConnections};
        matches!(self.failure, Some(Refused | TooManyConnections | NotConnected))
    }
}

/// Why a probe had no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFailure {
    /// The server was silent until the deadline: over a connection that stands, or to one that was tried.
    #[default]
    NoAnswer,
    /// The server closed the connection that stood: it went down, or somebody killed the connection.
    Closed,
    /// Nothing listens: a new connection was refused by the system.
    Refused,
    /// Error 1040, or the account's own limit: the server has no connection left for this one.
    TooManyConnections,
    /// Anything else that kept a new connection from being made: a login that was refused, the network.
    NotConnected,
    /// The server answered with an error.
    Error,
}

/// What kind of stall was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// Statements ended far more slowly than before, while threads ran.
    #[default]
    ThroughputCollapsed,
    /// Commits stopped, while threads ran.
    CommitsStopped,
    /// The probe's own question took far longer than it does.
    ProbeSlow,
    /// The server did not answer in time.
    NoAnswer,
    /// Far more threads ran than usually at this hour, by the server's own count, or wanted a CPU.
    ThreadsRunning,
    /// The redo log is nearly full.
    CheckpointAge,
    /// New connections fail.
    ConnectionsFail,
    /// Most sessions at work waited for locks, far more than usually.
    LockWaits,
    /// What the user asked for with `--when`.
    Asked,
    /// More threads were in a function at once than the user watches for (`--when-inside`).
    InsideFunction,
    /// A thread was in a function for longer than the user watches for (`--when-slower`).
    SlowFunction,
    /// A statement ran that the user watches for (`--when 'statement ~ /.../'`).
    StatementRan,
    /// Nothing listens where the server did.
    ServerGone,
    /// The server was restarted, or another answers in its place.
    Restarted,
    /// Transactions waited for each other in a ring, and one was rolled back.
    Deadlock,
    /// A statement reads far more rows each time than it did.
    PlanChanged,
}

impl StallKind {
    /// All of them, as they are declared.
    pub const ALL: [Self; 16] = [
        Self::ThroughputCollapsed,
        Self::CommitsStopped,
        Self::ProbeSlow,
        Self::NoAnswer,
        Self::ThreadsRunning,
        Self::CheckpointAge,
        Self::ConnectionsFail,
        Self::LockWaits,
        Self::Asked,
        Self::InsideFunction,
        Self::SlowFunction,
        Self::StatementRan,
        Self::ServerGone,
        Self::Restarted,
        Self::Deadlock,
        Self::PlanChanged,
    ];

    /// The words for people: `Commits stopped`.
    pub fn title(self) -> &'static str {
        match self {
            Self::ThroughputCollapsed => "Throughput collapsed",
            Self::CommitsStopped => "Commits stopped",
            Self::ProbeSlow => "The server answered slowly",
            Self::NoAnswer => "The server did not answer",
            Self::ThreadsRunning => "Threads piled up",
            Self::CheckpointAge => "The redo log filled up",
            Self::ConnectionsFail => "New connections failed",
            Self::LockWaits => "Sessions waited for locks",
            Self::Asked => "What was watched for happened",
            Self::InsideFunction => "Threads piled up in a function",
            Self::SlowFunction => "A function took long",
            Self::StatementRan => "A statement ran that was watched for",
            Self::ServerGone => "The server was gone",
            Self::Restarted => "The server was restarted",
            Self::Deadlock => "A deadlock happened",
            Self::PlanChanged => "A statement's plan changed",
        }
    }

    /// True for what is seen at the instant at which it begins, by probes in a function of the server.
    pub fn is_of_function(self) -> bool {
        matches!(self, Self::InsideFunction | Self::SlowFunction)
    }

    /// True for what happened at an instant and stops nobody: how long it lasted has no meaning. It stands beside the stalls, and
    /// is part of none.
    pub fn is_of_an_instant(self) -> bool {
        matches!(self, Self::Deadlock | Self::PlanChanged)
    }

    /// True where its own words are all that there is to say: no reading shows more of the cause.
    pub fn is_its_own_cause(self) -> bool {
        self.is_restart() || self == Self::Deadlock
    }

    /// True where the server process itself came or went: no reading of it shows a cause.
    pub fn is_restart(self) -> bool {
        matches!(self, Self::ServerGone | Self::Restarted)
    }
}

/// Why an event was opened.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stall {
    /// What kind.
    pub kind: StallKind,
    /// In words, with the numbers: `no commit for 1.1 s while 39 threads run`.
    pub because: String,
    /// When it began, seconds from the start of the segment: earlier than when it was seen.
    pub began_s: f64,
    /// When it was seen.
    pub seen_s: f64,
}

/// Who blocked whom at one instant of an event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedGraph {
    /// When, by the wall clock.
    pub at: Timestamp,
    /// The graph.
    pub graph: WaitGraph,
}

/// The head of an event: what a list of events shows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventHead {
    /// Its number in the recording, from 1.
    pub id: u64,
    /// Its segment.
    pub segment: u64,
    /// When the stall began, by the wall clock.
    pub began: Timestamp,
    /// When it was over; none while it lasts, or where the recorder ended in it.
    pub ended: Option<Timestamp>,
    /// Why it was opened.
    pub stall: Stall,
    /// The cause that the rules put first; none where they found none.
    pub cause: Option<String>,
    /// The first finding's headline; empty where there is none.
    pub headline: String,
}

/// A stall, and all that was kept of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// When, why, and its first cause.
    pub head: EventHead,
    /// What the rules say of it; none while it lasts.
    pub diagnosis: Option<Diagnosis>,
    /// Stacks from before the stall.
    pub before: Option<Profile>,
    /// Stacks of the stall itself.
    pub during: Option<Profile>,
    /// Wait graphs, in order of time.
    pub graphs: Vec<RecordedGraph>,
    /// The probe's answers from before the stall to its end, in order of time.
    pub probes: Vec<Probe>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind that is added fails to compile here, and belongs into the list.
    #[test]
    fn the_list_of_kinds_has_each_of_them_once_in_the_order_of_their_declaration() {
        for (place, kind) in StallKind::ALL.into_iter().enumerate() {
            let declared = match kind {
                StallKind::ThroughputCollapsed => 0,
                StallKind::CommitsStopped => 1,
                StallKind::ProbeSlow => 2,
                StallKind::NoAnswer => 3,
                StallKind::ThreadsRunning => 4,
                StallKind::CheckpointAge => 5,
                StallKind::ConnectionsFail => 6,
                StallKind::LockWaits => 7,
                StallKind::Asked => 8,
                StallKind::InsideFunction => 9,
                StallKind::SlowFunction => 10,
                StallKind::StatementRan => 11,
                StallKind::ServerGone => 12,
                StallKind::Restarted => 13,
                StallKind::Deadlock => 14,
                StallKind::PlanChanged => 15,
            };
            assert_eq!(declared, place);
        }
    }
}
