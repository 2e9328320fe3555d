//! Load on a server: sysbench's clients, clients of the lab's own at a steady pace, and single sessions that hold locks; a
//! neighbour that loads the machine, programs that load its disk, and a disk that hangs in turns.

pub(crate) mod background;
pub(crate) mod clients;
pub(crate) mod disk_writers;
pub(crate) mod held_storage;
pub(crate) mod neighbour;
mod report;
pub(crate) mod sessions;
mod stopwatch;
pub(crate) mod swap;
pub(crate) mod sysbench;

pub use background::Beside;
pub use report::LoadReport;
pub use sysbench::{Load, LoadSpec, Login, Mark, OLTP, Tables, Workload, fill, measure, run_for};
