//! `spindoctor lab`: throw-away servers that suffer a known cause.

mod args;
mod run;
mod text;

pub use args::{Lab, LabServer};
pub use run::run;
pub use run::{data, tell, which};
