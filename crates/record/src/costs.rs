//! The cost of reading each source, by the minute.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use spindoctor_model::{Outcome, Sample};

use crate::time::from_ms;

/// What one source cost in one minute.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceCost {
    /// When the minute began.
    pub minute: Timestamp,
    /// The source: a reading of the sample (`server.status`), or what the recorder calls it.
    pub source: String,
    /// How often it was asked.
    pub asked: u64,
    /// From question to answer, summed, milliseconds.
    pub took_ms: f64,
}

/// Costs that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Costs(BTreeMap<String, (u64, f64)>);

impl Costs {
    /// Adds to a source's cost.
    pub(crate) fn add(&mut self, source: &str, asked: u64, took_ms: f64) {
        match self.0.get_mut(source) {
            Some((times, sum_ms)) => {
                *times += asked;
                *sum_ms += took_ms;
            }
            None => {
                self.0.insert(source.to_owned(), (asked, took_ms));
            }
        }
    }

    /// Adds what the readings of a sample took.
    pub(crate) fn add_readings(&mut self, sample: &Sample) {
        for (about, reading) in sample.readings() {
            if let Outcome::Answered { took_ms } = reading.outcome() {
                self.add(about.kept, 1, took_ms);
            }
        }
    }

    /// Writes what was added since the last time to a minute's rows.
    pub(crate) fn write(&mut self, db: &Connection, minute_ms: i64) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached(
            "INSERT INTO costs (minute_ms, source, asked, took_ms) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET asked = asked + excluded.asked, took_ms = took_ms + excluded.took_ms",
        )?;
        for (source, (asked, took_ms)) in std::mem::take(&mut self.0) {
            insert.execute(params![minute_ms, source, i64::try_from(asked).unwrap_or(i64::MAX), took_ms])?;
        }
        Ok(())
    }
}

/// The costs of the minutes that begin in a range, both ends included.
pub(crate) fn read(db: &Connection, since_ms: i64, until_ms: i64) -> rusqlite::Result<Vec<SourceCost>> {
    db.prepare(
        "SELECT minute_ms, source, asked, took_ms FROM costs WHERE minute_ms BETWEEN ?1 AND ?2
         ORDER BY minute_ms, source",
    )?
    .query_map([since_ms, until_ms], |row| {
        Ok(SourceCost {
            minute: from_ms(row.get(0)?),
            source: row.get(1)?,
            asked: row.get::<_, i64>(2)?.try_into().unwrap_or(0),
            took_ms: row.get(3)?,
        })
    })?
    .collect()
}
