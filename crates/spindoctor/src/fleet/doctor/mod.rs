//! `spindoctor fleet doctor`: which servers are in trouble, and what it costs them.

mod cpus;
#[cfg(test)]
mod examples;
mod gathering;
mod json;
mod report;
pub mod run;
mod text;
mod view;
