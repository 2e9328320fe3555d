//! A plan: what could be changed on a server, and what was checked and needs no change. Serialised, it is the public
//! schema `spindoctor.plan/1`: fields may be added, none is renamed or removed.

use serde::{Deserialize, Serialize};

use crate::diagnosis::{Cost, DiagnosedHost, DiagnosedServer, DiagnosedWindow};
use crate::interruption::Interruption;
use crate::trial::Proposal;

/// Name and version of the serialised form.
pub const PLAN_SCHEMA: &str = "spindoctor.plan/1";

/// What could be changed on one server, from one window. Nothing of it was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`PLAN_SCHEMA`].
    pub schema: String,
    /// The server.
    pub server: DiagnosedServer,
    /// Its host; fields are null where the host could not be read.
    pub host: DiagnosedHost,
    /// The window that it was made from.
    pub window: DiagnosedWindow,
    /// The time from which the window shows nothing more of the server, because it ended, hung or restarted.
    pub interrupted: Option<Interruption>,
    /// What watching cost.
    pub cost: Cost,
    /// What could be changed, the most promising first.
    pub proposals: Vec<Proposal>,
    /// What was looked at and left, in the order of the families.
    pub left: Vec<Left>,
    /// Findings that no setting on the list cures, the costliest first.
    pub elsewhere: Vec<Elsewhere>,
}

/// A kind of cure that is not proposed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Left {
    /// Its name: `commit-spin`.
    pub family: String,
    /// True where it was looked at and nothing is called for; false where it could not be looked at.
    pub examined: bool,
    /// Why it is not proposed, with this server's numbers.
    pub because: String,
    /// What would let it be looked at; empty where it was, or where nothing would.
    pub unlock: String,
}

/// A finding that asks for something other than a setting.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Elsewhere {
    /// Its cause: `row-lock-pileup`.
    pub cause: String,
    /// The finding's score, 0 to 1.
    pub score: f64,
    /// What was found, in a sentence.
    pub headline: String,
}
