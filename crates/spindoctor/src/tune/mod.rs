//! `spindoctor tune`: better settings by trials, put back or kept.

mod apply;
mod args;
mod by_waits;
#[cfg(test)]
mod examples;
pub mod guardian;
pub mod html;
mod plan;
mod progress;
mod recover;
mod run;
pub mod text;
mod undo;
pub mod view;
mod watch;

pub use args::Guardian;
pub use args::Tune;
pub use guardian::guard;
pub use progress::ProgressLine;
pub use run::run;
