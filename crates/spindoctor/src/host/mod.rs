//! `spindoctor host`: the resources that the host gives the server.

mod args;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod numa_trees;
mod run;
pub mod text;
mod view;

pub use args::Host;
pub use run::run;
pub use view::HostReport;
