//! Settings of a live server, changed only by trials and put back whatever happens.
//!
//! In: a server, and changes that somebody proposes ([`spindoctor_model::Proposal`]). Out: a
//! [`Trial`](spindoctor_model::Trial) with its interval and verdict. What is computed ([`statistics`], [`variables`]) does no
//! I/O; what is written to a server, [`apply`] writes, and nothing else.

pub mod apply;
pub mod bench;
pub mod governor;
pub mod guard;
pub mod guardian;
mod heartbeat;
pub mod interrupt;
pub mod journal;
pub mod lease;
pub mod log;
pub mod measure;
pub mod statistics;
pub mod sweep;
pub mod trial;
pub mod tuning;
pub mod variables;
