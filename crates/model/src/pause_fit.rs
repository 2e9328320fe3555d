//! What the rules say of a CPU's PAUSE, and of the latch spin that follows from it.

use serde::Serialize;

/// What a measured PAUSE is beside the published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As published for this CPU.
    AsExpected,
    /// Shorter: another CPU than the one that is shown.
    Shorter,
    /// Longer: another CPU, or something takes the time of this one.
    Longer,
    /// Nothing can be expected, or nothing was measured.
    Unknown,
}

/// Published and measured, side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PauseFit {
    /// The microarchitecture that is believed; none where it is not known or a hypervisor hides it.
    pub microarchitecture: Option<&'static str>,
    /// The published numbers, core cycles: from, to.
    pub expected_cycles: Option<(f64, f64)>,
    /// Who published them.
    pub source: Option<&'static str>,
    /// As measured here, core cycles.
    pub measured_cycles: Option<f64>,
    /// Whether they agree.
    pub verdict: Verdict,
    /// Why that is not known; empty where it is.
    pub because: String,
}

/// How long a full spin on a latch lasts with a server's settings on its CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatchSpinFit {
    /// On average, microseconds.
    pub mean_us: f64,
    /// What the defaults gave on the CPUs they were chosen for, microseconds.
    pub meant_us: f64,
    /// The settings in words: `30 rounds, delay 6, multiplier 50`.
    pub settings: String,
    /// True within half and twice of what was meant, the bounds of the causes that judge it.
    pub fits: bool,
    /// What would last as long as meant: variables with their values, where it does not fit.
    pub would_fit: Vec<(&'static str, f64)>,
}
