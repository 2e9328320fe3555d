//! The plain data that flows through spindoctor, and its units.
//!
//! `source -> sample -> window -> rules -> finding -> report`. This crate owns the nouns of that
//! line and nothing else: no I/O, no decision; how a number with its unit looks to people ([`number`]), no other formatting. Times are in the unit
//! that the field's name ends in; sizes in bytes; shares are ratios from 0 to 1 (`_ratio`).

pub mod clock;
pub mod connections;
pub mod diagnosis;
pub mod elements;
pub mod error_log;
pub mod fairness;
pub mod finding;
pub mod host;
pub mod innodb_status;
pub mod interruption;
pub mod latches;
pub mod machine;
pub mod median;
pub mod microarchitecture;
pub mod mysql;
pub mod number;
pub mod page_cache;
pub mod pause_fit;
pub mod plan;
pub mod plan_now;
pub mod printed_deadlock;
pub mod reading;
pub mod readings;
pub mod recording;
pub mod redo_log;
pub mod server;
pub mod session_time;
pub mod stack;
pub mod trial;
pub mod wait_graph;
pub mod window;

pub use diagnosis::{Cost, Diagnosis, NotExamined};
pub use elements::Elements;
pub use error_log::{LoggedTrouble, TroubleKind};
pub use fairness::Fairness;
pub use finding::{Evidence, Finding, Remedy, Root, Severity, Value};
pub use host::HostSample;
pub use innodb_status::InnodbStatus;
pub use interruption::Interruption;
pub use machine::Machine;
pub use median::median;
pub use mysql::ServerSample;
pub use plan::{Elsewhere, Left, Plan};
pub use plan_now::{PlanNow, Suspect};
pub use reading::{Outcome, Reading, SourceCost, Unavailable};
pub use readings::{About, AnyReading, Field};
pub use recording::{
    Event, EventHead, Gap, Probe, ProbeFailure, RecordedGraph, RecordedSample, RecordedSetting, Segment,
    Stall, StallKind,
};
pub use server::{Flavor, NoSession, NoSessionKind, ServerIdentity, ServerVersion};
pub use session_time::{KnownBy, SessionTime, TimeClass, TimeShare};
pub use stack::Profile;
pub use trial::{Block, Change, Effect, Effects, Proposal, Trial, Tuning, Verdict};
pub use wait_graph::WaitGraph;
pub use window::{Sample, Window};
