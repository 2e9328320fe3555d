//! `spindoctor lab`: throw-away servers with a known problem.

mod accuracy;
mod args;
mod run;
mod support;
mod text;

pub use args::{Lab, LabServer};
pub use run::run;
pub use run::{announce, data, which};
