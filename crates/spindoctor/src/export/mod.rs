//! `spindoctor export`: tables of a recording as files. The tables and their formats are the crate `spindoctor-export`.

mod args;
mod run;

pub use args::Export;
pub use run::run;
