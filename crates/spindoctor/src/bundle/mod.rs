//! `spindoctor bundle`: a part of a recording and what goes with it, in one file for somebody else to look at.
//!
//! ```text
//! recording -> cut, without literals -> report, stacks, variables, status -> archive
//!     |                                                                        ^
//!     +-> statements -> the server, where one is named: plans, definitions ----+
//! ```
//!
//! All texts about the recording are made from the cut, so none of them can say what the cut does not have.
//! [`common::bundle`](crate::common::bundle) is the archive, for those who read it too.

mod args;
mod live;
mod run;
mod statements;
mod texts;

pub use args::Bundle;
pub use run::run;
