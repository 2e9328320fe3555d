//! The first and the last sample of each segment.

use jiff::Timestamp;
use rusqlite::Connection;

use crate::time::from_ms;
use crate::writer::CHUNK_MS;

/// The samples that a recording has of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The segment.
    pub segment: u64,
    /// Its first sample that is kept.
    pub first: Timestamp,
    /// Its last sample so far.
    pub last: Timestamp,
}

/// The stretches of a segment and of those after it, in their order. A segment without a sample has none.
///
/// An index holds all of it: a week of chunks is read in some milliseconds. A chunk that claims to be longer than chunks are
/// is damaged, and ends where it begins as far as anybody knows.
pub(crate) fn read(db: &Connection, since_segment: i64) -> rusqlite::Result<Vec<Stretch>> {
    db.prepare_cached(
        "SELECT segment, min(first), max(last) FROM (
             SELECT segment, from_ms AS first,
                    CASE WHEN to_ms - from_ms BETWEEN 0 AND ?2 THEN to_ms ELSE from_ms END AS last
             FROM chunks WHERE segment >= ?1
             UNION ALL SELECT segment, at_ms, at_ms FROM samples WHERE segment >= ?1)
         GROUP BY segment ORDER BY segment",
    )?
    .query_map([since_segment, CHUNK_MS], |row| {
        Ok(Stretch {
            segment: row.get::<_, i64>(0)?.cast_unsigned(),
            first: from_ms(row.get(1)?),
            last: from_ms(row.get(2)?),
        })
    })?
    .collect()
}
