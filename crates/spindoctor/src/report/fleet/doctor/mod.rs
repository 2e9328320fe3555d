//! The diagnosis of a fleet: for people, and for machines.

pub(crate) mod json;
pub(crate) mod text;

use spindoctor_fleet::failure::Failures;

use crate::fleet_diagnosis::FleetDiagnosis;

/// What is told.
pub(crate) struct Told<'a> {
    /// The diagnosis.
    pub(crate) diagnosis: &'a FleetDiagnosis,
    /// The names of all servers.
    pub(crate) names: &'a [String],
    /// Those that did not answer.
    pub(crate) failures: &'a Failures,
    /// Those that were never asked.
    pub(crate) not_asked: &'a [usize],
    /// From the first look at a server to the second, seconds.
    pub(crate) interval_s: f64,
    /// How long it took, seconds.
    pub(crate) took_s: f64,
}
