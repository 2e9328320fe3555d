//! What one source answered: a value, or why there is none. Never a silent zero.

use serde::{Deserialize, Serialize};

/// The answer of one source at one instant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading<T> {
    /// The source was not due in this sample (a slow source is read at the ends of a window only).
    #[default]
    NotAsked,
    /// The source was asked and could not be read.
    Unavailable(Unavailable),
    /// The source answered.
    Available {
        /// Seconds from the start of the window to the answer.
        at_s: f64,
        /// Milliseconds from question to answer.
        took_ms: f64,
        /// What it said.
        value: T,
    },
}

/// Why a source could not be read, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unavailable {
    /// What happened, in one clause: `no PROCESS privilege`, `no answer in 2.0 s`.
    pub because: String,
    /// The grant, capability, setting or flag that would unlock it, where there is one.
    pub unlock: Option<String>,
}

impl Unavailable {
    /// A reason with nothing the user could do about it.
    pub fn because(because: impl Into<String>) -> Self {
        Self { because: because.into(), unlock: None }
    }

    /// Adds what would unlock the source.
    #[must_use]
    pub fn unlock(mut self, unlock: impl Into<String>) -> Self {
        self.unlock = Some(unlock.into());
        self
    }
}

/// What became of a reading, without its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome<'a> {
    /// The source was not due.
    NotAsked,
    /// The source could not be read.
    Unavailable(&'a Unavailable),
    /// The source answered.
    Answered {
        /// Milliseconds from question to answer.
        took_ms: f64,
    },
}

impl<T> Reading<T> {
    /// What became of the source, without what it said.
    pub fn outcome(&self) -> Outcome<'_> {
        match self {
            Self::NotAsked => Outcome::NotAsked,
            Self::Unavailable(why) => Outcome::Unavailable(why),
            Self::Available { took_ms, .. } => Outcome::Answered { took_ms: *took_ms },
        }
    }

    /// True where nobody asked.
    pub fn is_not_asked(&self) -> bool {
        matches!(self, Self::NotAsked)
    }

    /// The value, where the source answered.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Available { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The value and the time of the answer in seconds from the start of the window.
    pub fn timed(&self) -> Option<(f64, &T)> {
        match self {
            Self::Available { value, at_s, .. } => Some((*at_s, value)),
            _ => None,
        }
    }

    /// Counts the answer's time from an instant that lies `by_s` seconds earlier.
    pub fn shift(&mut self, by_s: f64) {
        if let Self::Available { at_s, .. } = self {
            *at_s += by_s;
        }
    }

    /// Records why there is no value; an answer or an earlier reason that is there already stays.
    pub fn fail(&mut self, why: Unavailable) {
        if matches!(self, Self::NotAsked) {
            *self = Self::Unavailable(why);
        }
    }

    /// Why there is no value, where the source was asked in vain.
    pub fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            Self::Unavailable(unavailable) => Some(unavailable),
            _ => None,
        }
    }
}

/// What one source cost since sampling began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SourceCost {
    /// The source's name; `probe` for the probe.
    pub source: &'static str,
    /// How often it was asked.
    pub asked: u64,
    /// From question to answer, summed over all questions, milliseconds. For a source of the server that is the
    /// server's time and the way there; for one of the host it is this program's own.
    pub took_ms: f64,
    /// Rows that it answered with, summed; 0 for a source of the host.
    pub rows: u64,
    /// Seconds from one question to the next, now; 0 where it is asked once, together with another, or not at
    /// all.
    pub period_s: f64,
}
