//! What statements did in a span of time, and how two such spans differ. Pure: no I/O, no clock.
//!
//! ```text
//! looks at what runs, readings of the summary by digest -> Tally -> Span \
//!                                                                  Span  -> changes -> Changes
//! ```
//!
//! [`span`] counts in parts of equal length, [`estimate`] turns parts into a ratio with an interval, [`changes()`] compares.

pub mod changes;
pub mod estimate;
pub mod growth;
pub mod span;

pub use changes::{Change, Changes, Moved, Verdict, changes};
pub use estimate::Factor;
pub use growth::{Counts, Grown, grown};
pub use span::{Span, Tally};
