//! How many CPUs the server may use.

use spindoctor_model::Window;

/// Those that its quota and its affinity leave it; one where they are not known.
pub(crate) fn effective(window: &Window) -> f64 {
    window.latest(|s| &s.host.effective_cpus).map_or(1.0, |effective| effective.cpus.max(0.01))
}
