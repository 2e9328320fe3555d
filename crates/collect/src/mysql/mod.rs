//! The server's side: how to connect, what to ask, how to read the answers.

pub mod innodb_status;
pub mod rows;
pub mod source;

pub use rows::Rows;
pub use source::{Cadence, Plan, Source};

/// Every source of the server, in the order in which they are asked: what changes fastest first.
pub const SOURCES: &[Source] = &[];
