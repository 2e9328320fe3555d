//! `spindoctor stacks`: what every thread does. A profile is taken or loaded; how it is looked at and written is the crate
//! `spindoctor-profile`.

mod args;
mod latches;
mod live;
mod run;
mod server;
mod trigger;
mod watchpoints;

pub use args::Stacks;
pub use run::run;
