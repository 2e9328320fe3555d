//! All reads of a server or its host. Nothing here decides anything.
//!
//! `mysql/` has one file per source of the server, `host/` one per source of the kernel, each under
//! MySQL's or Linux's own name. Two ordered lists, [`mysql::SOURCES`] and [`host::SOURCES`], name
//! them all; `watch` asks what is due and puts the answers into a [`spindoctor_model::Window`], `follow` goes on without
//! an end.

pub mod activities;
pub mod asking;
pub mod dives;
pub mod file_facts;
pub mod follow;
pub mod gauges;
pub mod ground;
pub mod host;
pub mod locks;
pub mod memory;
pub mod mysql;
pub mod pace;
pub mod plan_now;
pub mod priority;
mod round;
mod server_host;
pub mod source;
pub mod statements;
pub mod watch;
