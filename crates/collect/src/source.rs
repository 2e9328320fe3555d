//! The common part of the sources of the server and of the host: how often they are read, and when an answer came.

use spindoctor_model::Reading;

/// How often a source is asked within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// In every sample: cheap, and what comes and goes is seen.
    EverySample,
    /// In the first and the last sample: expensive, or a counter whose growth is all that matters.
    Ends,
    /// In the first sample only: it does not change.
    Once,
}

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
    pub fn reading<T>(self, value: T) -> Reading<T> {
        Reading::Available { at_s: self.at_s, took_ms: self.took_ms, value }
    }
}
