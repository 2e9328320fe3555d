//! What a profile says in sum: pure, over a [`Profile`].

use spindoctor_model::stack::{Profile, ThreadState};

/// Shares of the CPU samples, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpinShare {
    /// In spin-wait loops of the process.
    pub user: f64,
    /// In the kernel's spin locks.
    pub kernel: f64,
    /// How many CPU samples that rests on.
    pub samples: u64,
}

/// A function that burnt CPU in a spin-wait loop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spinner {
    /// The function with the loop.
    pub function: String,
    /// Its share of all CPU samples, from 0 to 1.
    pub share: f64,
    /// Who called it, the commonest first: each `caller < its caller < ...`, and its share of all CPU samples.
    pub callers: Vec<(String, f64)>,
}

/// The spin share; none where there are no CPU samples.
pub fn spin_share(_profile: &Profile) -> Option<SpinShare> {
    None
}

/// The functions that spin, the costliest first.
pub fn spinners(_profile: &Profile) -> Vec<Spinner> {
    Vec::new()
}

/// The share of each state among all observations, the largest first.
pub fn states(_profile: &Profile) -> Vec<(ThreadState, f64)> {
    Vec::new()
}
