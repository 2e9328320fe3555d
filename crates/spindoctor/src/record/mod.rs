//! `spindoctor record`: the black box. Samples each second, and the details of each stall before and during it.

mod args;
mod deadlocks;
mod gathering;
mod happened;
mod history;
mod lately;
mod looker;
mod metrics;
mod notify;
mod plans;
mod question;
mod recorder;
mod run;
mod stacks;
mod turns;
mod watch;

pub use args::Record;
pub use run::run;
