//! Which parts of a recording are deleted, and when.
//!
//! 1. Samples older than the age go, a chunk (a minute) at a time, and with them what else is older: events, the
//!    overview's points, gaps, costs, segments of which nothing is left, statements that nothing names any more, and of the
//!    settings all but the last value.
//! 2. Where the file is larger than its bound, samples go, the oldest first, whatever their age, and the costs from before
//!    them. Events stay: they are what the recording is kept for.
//! 3. Where it is still larger and no chunk is left, events go, the oldest first.
//!
//! Each run does a bounded amount of work: a recording that is far beyond its bounds gets within them in hours, no
//! sample is delayed, and a clock that is set years ahead for a moment does not delete the recording. Freed pages are
//! used again; where the file itself is larger than its bound they are given back to the file system, a few at a time.

use rusqlite::{Connection, OptionalExtension as _, params};

/// Chunks that one run deletes at most: half an hour of samples, a few milliseconds of work.
const CHUNKS_AT_ONCE: i64 = 30;
/// Small rows: one run deletes so much time at most, as with the chunks.
const SMALL_AT_ONCE_MS: i64 = CHUNKS_AT_ONCE * crate::writer::CHUNK_MS;
/// Events that one run deletes at most.
const EVENTS_AT_ONCE: usize = 3;
/// Pages that one run gives back to the file system at most: 1 MiB.
const PAGES_AT_ONCE: i64 = 256;
/// A statement is written down as seen once an hour: it may be in samples an hour later than that.
const SEEN_STEP_MS: i64 = crate::statements::SEEN_STEP_MS;

/// The bounds of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) age_ms: i64,
    pub(crate) bytes: i64,
}

/// Deletes what is beyond the bounds, as much as one run may.
pub(crate) fn retain(db: &Connection, now_ms: i64, bounds: Bounds) -> rusqlite::Result<()> {
    let horizon_ms = now_ms.saturating_sub(bounds.age_ms);
    let old = db.execute(
        "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE to_ms < ?1 ORDER BY from_ms LIMIT ?2)",
        [horizon_ms, CHUNKS_AT_ONCE],
    )?;
    let mut are_samples_gone = old > 0;
    let mut excess_bytes = used_bytes(db)?.saturating_sub(bounds.bytes);
    if excess_bytes > 0 {
        are_samples_gone |= remove_oldest_chunks(db, excess_bytes)? > 0;
        db.execute(
            "DELETE FROM costs WHERE minute_ms < (SELECT min(from_ms) FROM chunks) - ?1",
            [crate::writer::CHUNK_MS],
        )?;
        for _ in 0..EVENTS_AT_ONCE {
            excess_bytes = used_bytes(db)?.saturating_sub(bounds.bytes);
            if excess_bytes <= 0 || oldest_chunk(db)?.is_some() || !remove_oldest_event(db)? {
                break;
            }
        }
    }
    remove_older(db, horizon_ms)?;
    if are_samples_gone {
        remove_unnamed_statements(db)?;
    }
    let file_bytes = pragma(db, "page_count")?.saturating_mul(pragma(db, "page_size")?);
    if file_bytes > bounds.bytes {
        give_back(db)?;
    }
    Ok(())
}

/// Bytes of the pages that hold something.
pub(crate) fn used_bytes(db: &Connection) -> rusqlite::Result<i64> {
    let pages = pragma(db, "page_count")? - pragma(db, "freelist_count")?;
    Ok(pages.saturating_mul(pragma(db, "page_size")?))
}

fn pragma(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

/// Deletes the oldest chunks until so many bytes are free, or as many chunks as one run may.
fn remove_oldest_chunks(db: &Connection, excess_bytes: i64) -> rusqlite::Result<usize> {
    let mut removed = 0;
    let mut left_bytes = excess_bytes;
    for _ in 0..CHUNKS_AT_ONCE {
        let Some((id, bytes)) = oldest_chunk(db)? else { break };
        db.execute("DELETE FROM chunks WHERE id = ?1", [id])?;
        removed += 1;
        left_bytes = left_bytes.saturating_sub(bytes);
        if left_bytes <= 0 {
            break;
        }
    }
    Ok(removed)
}

/// The oldest chunk and its size.
fn oldest_chunk(db: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    db.prepare_cached("SELECT id, length(data) FROM chunks ORDER BY from_ms LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Deletes the oldest event; false where there is none.
fn remove_oldest_event(db: &Connection) -> rusqlite::Result<bool> {
    let oldest =
        db.query_row("SELECT id FROM events ORDER BY began_ms LIMIT 1", [], |row| row.get(0)).optional()?;
    let Some(id) = oldest else { return Ok(false) };
    crate::events::remove(db, id)?;
    Ok(true)
}

/// Deletes small rows that are older than the age.
fn remove_older(db: &Connection, horizon_ms: i64) -> rusqlite::Result<()> {
    let old: Vec<i64> = db
        .prepare_cached(
            "SELECT id FROM events WHERE coalesce(ended_ms, began_ms) < ?1 ORDER BY began_ms LIMIT ?2",
        )?
        .query_map(params![horizon_ms, EVENTS_AT_ONCE as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for id in old {
        crate::events::remove(db, id)?;
    }
    for (table, column) in [("minutes", "at_ms"), ("gaps", "to_ms"), ("costs", "minute_ms")] {
        db.execute(
            &format!(
                "DELETE FROM {table} WHERE {column} < min(?1, (SELECT min({column}) FROM {table}) + ?2)"
            ),
            [horizon_ms, SMALL_AT_ONCE_MS],
        )?;
    }
    // What is the oldest that is kept; the last segment is going on.
    let oldest_ms = oldest_sample_ms(db)?.map_or(horizon_ms, |oldest_ms| oldest_ms.min(horizon_ms));
    db.execute(
        "DELETE FROM segments WHERE began_ms < ?1 AND id < (SELECT max(id) FROM segments)
             AND id NOT IN (SELECT segment FROM events) AND id NOT IN (SELECT segment FROM chunks)
             AND id NOT IN (SELECT segment FROM samples)",
        [horizon_ms],
    )?;
    for table in ["settings", "facts"] {
        db.execute(
            &format!(
                "DELETE FROM {table} WHERE at_ms < ?1
                     AND at_ms < (SELECT max(at_ms) FROM {table} later WHERE later.name = {table}.name AND at_ms <= ?1)"
            ),
            [oldest_ms],
        )?;
    }
    Ok(())
}

/// The first sample that is kept; none where there is none.
fn oldest_sample_ms(db: &Connection) -> rusqlite::Result<Option<i64>> {
    db.query_row(
        "SELECT min(at_ms) FROM (SELECT min(from_ms) AS at_ms FROM chunks UNION ALL SELECT min(at_ms) FROM samples)",
        [],
        |row| row.get(0),
    )
}

/// Deletes the statements that were last seen before the oldest sample.
fn remove_unnamed_statements(db: &Connection) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM statements WHERE seen_ms + ?1 < (SELECT min(from_ms) FROM chunks)",
        [SEEN_STEP_MS],
    )?;
    Ok(())
}

/// Gives free pages at the end of the file back to the file system.
fn give_back(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})"))?;
    let mut rows = statement.query([])?;
    // It frees a page with each step.
    while rows.next()?.is_some() {}
    Ok(())
}
