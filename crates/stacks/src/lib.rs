//! Every thread's stack of any native process, without stopping one.
//!
//! The data flows one way: `capture` (registers and copied stack bytes, no meaning) -> `unwind` (addresses) -> `name`
//! (frames) -> `classify` and `spin` (what it means) -> [`spindoctor_model::Profile`]. A profiler ties them together.
//! Beside it, `futex_waits` reads who holds the locks that threads wait for. Nothing here knows MySQL.

pub mod aggregate;
pub mod capture;
pub mod classify;
pub mod disassembly;
pub mod error;
pub mod file;
mod function;
pub mod futex_waits;
pub mod module;
pub mod names;
pub mod process;
pub mod process_memory;
pub mod profiler;
pub mod registers;
pub mod spin;
pub mod target_file;
pub mod thread_time;
pub mod unwind;

pub use error::{Error, Result};
pub use profiler::{Profiler, ProfilerOptions, Ring, RingOptions, RingThread, Taken};
