//! `spindoctor connections`: what accepting connections costs.

mod args;
mod dot;
mod formats;
mod json;
mod run;
mod text;
mod view;

pub use args::Connections;
pub use run::run;
