//! Throw-away servers with a known problem and its label, and experiments that measure a cure.
//!
//! [`up`], [`down`] and [`list`] manage servers for people; [`Server::start`] starts one for a program or test, which
//! is removed when it is dropped. No command that examines production servers uses this crate.

pub mod capture;
mod cgroup;
mod command;
mod cpu_choice;
mod draw;
mod error;
pub mod experiment;
mod galera;
mod home;
pub mod injection;
mod install;
mod installation;
pub mod kept;
pub mod load;
mod machine;
pub mod matrix;
mod options;
pub mod pileup;
mod process;
mod record;
mod replica;
mod replication_group;
pub mod scenario;
pub mod score;
mod server;
pub mod storm;
pub mod stub;
mod template;

pub use capture::CAPTURES;
pub use cgroup::Limits;
pub use command::Progress;
pub use cpu_choice::CpuChoice;
pub use draw::{Draw, Protocol, Strength};
pub use error::{Error, Result};
pub use experiment::EXPERIMENTS;
pub use galera::GaleraNode;
pub use home::Home;
pub use injection::INJECTIONS;
pub use install::{KNOWN, Known, place};
pub use installation::{Installation, Which};
pub use machine::machine;
pub use pileup::PILEUPS;
pub use scenario::SCENARIOS;
pub use server::{Data, Listed, Server, ServerSpec, down, list, up};
