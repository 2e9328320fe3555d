//! Instants as whole milliseconds since 1970: how every column that ends in `_ms` keeps them.
//!
//! SQLite counts, sorts and indexes integers, `datetime(at_ms / 1000, 'unixepoch')` shows them, and a sample a second needs
//! no more than a millisecond. The times of answers within a sample are finer; they are inside the sample.

use jiff::Timestamp;

/// Milliseconds since 1970, rounded down.
pub(crate) fn to_ms(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// The instant; one beyond what a clock can show becomes the nearest that it can.
pub(crate) fn from_ms(at_ms: i64) -> Timestamp {
    Timestamp::from_millisecond(at_ms).unwrap_or(if at_ms < 0 { Timestamp::MIN } else { Timestamp::MAX })
}
