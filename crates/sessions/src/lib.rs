//! What sessions did over time: how many were at work, in which class of session time, in which statement. Pure.
//!
//! ```text
//! recorded sample -> Reader -> AtWork (one list of sessions) -> Load (a span: bars over time, and a table)
//! ```
//!
//! It stands on the lists of the server's threads, which endless sampling reads once a second: each session that is at work in
//! a list is one sighting, and its class is the one that [`spindoctor_rules::session_time`] gives it. So each second of a
//! recording, and of the live view, is judged alike, in a stall and in the calm before it.
//!
//! What a list cannot say stays unsaid. A session in [`TimeClass::Running`](spindoctor_model::TimeClass::Running) is on a CPU,
//! ready for one, or in a wait for which the server has no word (a latch, a page that is read): the kernel's clocks of the
//! threads, and stacks, which distinguish these, are not read once a second. The CPUs that the server used stand beside it, by
//! the kernel's count: sessions that run above them did not run. A statement that is over within a second is seen as often as
//! its share of the time, and in one list perhaps not at all.

mod at_work;
mod load;

pub use at_work::{AtWork, LONGEST_S, Reader, Sightings};
pub use load::{Bar, Load, OTHERS, Statement};
