//! Load on a server: sysbench's clients, and single sessions that hold locks.

pub(crate) mod sessions;
pub(crate) mod sysbench;

pub use sysbench::{Load, LoadReport, LoadSpec, Login, Mark, OLTP, Tables, Workload, fill, measure, run_for};
