//! What a source of the server is: a name, a statement per version, and a pure parser.

use spindoctor_model::{ServerSample, ServerVersion, Unavailable};

use super::rows::Rows;

/// How often a source is asked within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// In every sample: cheap, and what comes and goes is seen.
    EverySample,
    /// In the first and the last sample: dear, or a counter whose growth is all that matters.
    Ends,
    /// In the first sample only: it does not change.
    Once,
}

/// What to ask a server of a given version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// This statement.
    Ask(&'static str),
    /// The server cannot tell.
    Cannot(Unavailable),
}

/// One place of the server that is read.
///
/// The collector asks and times the statement, hands the rows to `parse`, and stores the outcome:
/// a source file does no I/O.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// MySQL's own name: `SHOW GLOBAL STATUS`, `performance_schema.data_lock_waits`.
    pub name: &'static str,
    /// What it is read for, in one line.
    pub help: &'static str,
    /// What asking costs the server: locks taken, rows read.
    pub cost: &'static str,
    /// The privilege it needs, as the GRANT that gives it; empty where none.
    pub grant: &'static str,
    /// How often it is asked.
    pub cadence: Cadence,
    /// What to ask which version; the variables tell what is switched on (`performance_schema`).
    pub plan: fn(ServerVersion, Variables<'_>) -> Plan,
    /// Puts the answer into the sample.
    pub parse: fn(&Rows, Answer, &mut ServerSample),
    /// Marks the source's field of the sample as unavailable.
    pub fail: fn(Unavailable, &mut ServerSample),
}

/// The server's global variables, where they could be read.
pub type Variables<'a> = Option<&'a spindoctor_model::mysql::NamedValues>;

/// When an answer came and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Answer {
    /// Seconds from the start of the window.
    pub at_s: f64,
    /// Milliseconds from question to answer.
    pub took_ms: f64,
}

impl Answer {
    /// Wraps what was read as an available reading.
    pub fn reading<T>(self, value: T) -> spindoctor_model::Reading<T> {
        spindoctor_model::Reading::Available { at_s: self.at_s, took_ms: self.took_ms, value }
    }
}
