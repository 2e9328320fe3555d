//! `spindoctor workload`: what statements spend their time on.

mod args;
mod captured;
#[cfg(test)]
mod examples;
mod json;
mod live;
mod pace;
mod panel;
mod run;
mod split;
mod statement;
mod stored;
mod tally;
mod text;
mod view;
mod words;

pub use args::Workload;
pub use captured::Captured;
pub use run::run;
