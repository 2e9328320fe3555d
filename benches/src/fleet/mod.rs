//! How fast a thousand servers and more are asked.

pub(crate) mod query;
mod reading;
