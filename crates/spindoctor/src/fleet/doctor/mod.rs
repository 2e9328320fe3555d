//! `spindoctor fleet doctor`: which servers are in trouble, and what it costs them.

#[cfg(test)]
mod examples;
mod gathering;
mod json;
mod report;
pub mod run;
mod text;
mod view;
