//! `spindoctor indexes`: what the optimizer's index dives cost, and what would spare them.

mod args;
mod estimates;
#[cfg(test)]
mod examples;
mod run;
mod statement;
mod text;
mod trial;
mod view;

pub use args::Indexes;
pub use run::run;
pub use statement::Select;
