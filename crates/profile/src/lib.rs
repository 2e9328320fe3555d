//! A profile of stacks as people and other programs look at it: what of it is wanted ([`View`]), and each format of that.
//!
//! Pure: profile and choice in, bytes out. The crate `spindoctor-stacks` takes profiles. Nothing here knows a
//! command.

#![allow(unreachable_pub, reason = "what others may use, this file says")]

mod annotated;
mod counted;
mod diff;
mod difference;
mod dot;
#[cfg(any(test, feature = "examples"))]
pub mod examples;
mod firefox;
mod flame;
mod folded;
pub mod formats;
mod gdb;
mod html;
mod json;
mod latches;
mod measures;
mod pprof;
mod speedscope;
mod svg;
mod text;
mod tree;
mod view;

pub use counted::{Counted, Label, LabelKind};
pub use diff::{DIFF_FORMATS, DiffFormat};
pub use latches::{WaitedLatch, latches};
pub use view::{By, Choice, NothingToShow, View, state_word};
