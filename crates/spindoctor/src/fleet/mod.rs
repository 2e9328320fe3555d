//! `spindoctor fleet`: many servers at once.

mod args;
mod csv;
mod doctor;
mod failures;
mod formats;
mod group;
mod json;
mod parquet;
mod part;
mod query;
mod run;
mod running;
mod servers;
mod tab;
mod table;
#[cfg(test)]
mod testing;
mod top;
mod write;
mod writer;

pub use args::Fleet;
pub use run::run;
