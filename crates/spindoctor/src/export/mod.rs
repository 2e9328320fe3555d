//! `spindoctor export`: tables of a recording as files. The tables and their formats are the crate `spindoctor-export`.

mod args;
mod run;

pub use args::{Export, table_names};
pub use run::run;
