//! `spindoctor predict`: what other settings would do, also on hardware that is not at hand, by a model that is fitted to
//! measurements.

mod args;
mod measured;
mod recorded;
mod run;
mod svg;
mod text;
mod view;

pub use args::Predict;
pub use run::run;
