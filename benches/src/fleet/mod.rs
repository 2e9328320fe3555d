//! How fast a thousand servers and more are asked, and judged.

pub(crate) mod doctor;
pub(crate) mod query;
mod reading;
mod resident;
