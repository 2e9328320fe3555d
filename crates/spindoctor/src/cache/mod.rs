//! `spindoctor cache`: who fills the page cache, and taking the logs out of it.

mod args;
#[cfg(test)]
mod examples;
mod plan;
mod run;
mod settings;
mod text;
mod view;

pub use args::Cache;
pub use run::run;
