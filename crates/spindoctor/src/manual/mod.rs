//! `spindoctor package-files`: what a package has beside the program, made from the one list of commands.

mod args;
mod run;

pub use args::PackageFiles;
pub use run::run;
