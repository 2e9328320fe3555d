//! A profile of stacks as people and other programs look at it: what of it is wanted ([`View`]), and each format of that.
//!
//! Pure: profile and choice in, bytes out. How a profile is taken is the crate `spindoctor-stacks`; who asks for it, no
//! matter here.

#![allow(unreachable_pub, reason = "what others may use, this file says")]

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
mod json;
mod pprof;
mod speedscope;
mod svg;
mod text;
mod tree;
mod view;

pub use diff::{DIFF_FORMATS, DiffFormat};
pub use view::{By, Choice, Counted, Label, LabelKind, NothingToShow, View, state_word};
