//! The host's side: what the kernel says about the server's process and the machine.

pub mod source;

pub use source::{HostSource, Target};

/// Every source of the host, in the order in which they are read.
pub const SOURCES: &[HostSource] = &[];
