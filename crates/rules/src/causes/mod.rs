//! The catalogue: one file per cause, and the one list that names them all.

mod connections_exhausted;

use crate::Cause;

/// Every cause that there is a rule for, in the catalogue's order.
pub const CAUSES: &[Cause] = &[connections_exhausted::CAUSE];
