//! The cost of the recorder, the stalls that it catches, and how fast a recording opens.

mod ground;
mod looker;
mod process;

pub(crate) mod connections;
pub(crate) mod cost;
pub(crate) mod replay;
pub(crate) mod stalls;
pub(crate) mod steady;
pub(crate) mod throughput;
