//! `spindoctor sweep`: a grid of settings and client counts, measured.

mod args;
mod cells;
mod chart;
mod comparison;
mod csv;
#[cfg(test)]
mod examples;
mod html;
mod limits;
mod png;
mod run;
mod server;
mod svg;
mod text;
mod view;

pub use args::Sweep;
pub use run::run;
