//! `spindoctor cache`: which files fill the page cache, and the eviction of logs.

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
