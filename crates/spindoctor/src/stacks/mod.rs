//! `spindoctor stacks`: what every thread does. A profile is taken or loaded, viewed, and written in one of many formats.

mod args;
mod diff;
mod difference;
mod dot;
#[cfg(test)]
pub mod examples;
mod firefox;
mod flame;
mod folded;
pub mod formats;
mod gdb;
mod json;
mod live;
mod pprof;
mod run;
mod server;
mod speedscope;
mod svg;
mod text;
mod tree;
mod trigger;
mod view;
mod watchpoints;

pub use args::Stacks;
pub use run::run;
pub use view::{By, Choice, View, state_word};
