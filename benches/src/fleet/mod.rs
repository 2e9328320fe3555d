//! How fast a thousand servers and more are asked, and judged.

pub(crate) mod doctor;
mod driver;
pub(crate) mod query;
pub(crate) mod reading;
mod resident;
pub(crate) mod tls;
