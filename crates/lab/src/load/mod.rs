//! Load on a server: sysbench's clients, and single sessions that hold locks.

pub(crate) mod sessions;
pub(crate) mod sysbench;

pub use sysbench::{Load, LoadReport, LoadSpec, Tables, Workload, run_for};
