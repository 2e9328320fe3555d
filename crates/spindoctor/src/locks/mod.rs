//! `spindoctor locks`: who blocks whom.

pub mod args;
mod dot;
#[cfg(test)]
pub mod examples;
mod forest;
pub mod html;
pub mod json;
mod run;
mod svg;
mod text;
pub mod view;
pub mod waits;

pub use args::Locks;
pub use forest::{Forest, Top};
pub use run::run;
pub use run::{of_newest, of_window};
