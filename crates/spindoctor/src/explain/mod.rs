//! `spindoctor explain`: a cause, its evidence and what to do.

mod args;
mod run;

pub use args::Explain;
pub use run::run;
