//! The diagnosis of a fleet: for people, and for machines.

use spindoctor_fleet::failure::Failures;

use super::view::FleetDiagnosis;

/// What is shown.
pub struct Report<'a> {
    /// The diagnosis.
    pub diagnosis: &'a FleetDiagnosis,
    /// The names of all servers.
    pub names: &'a [String],
    /// Those that did not answer.
    pub failures: &'a Failures,
    /// Those that were never asked.
    pub not_asked: &'a [usize],
    /// From the first look at a server to the second, seconds.
    pub interval_s: f64,
    /// How long it took, seconds.
    pub took_s: f64,
}
