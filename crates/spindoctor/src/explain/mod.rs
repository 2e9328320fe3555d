//! `spindoctor explain`: what a cause is, what it rests on and what to do.

mod args;
mod run;

pub use args::Explain;
pub use run::run;
