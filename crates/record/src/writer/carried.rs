//! What a copy has from its source, beside the samples and events that it is given as any writer is.

use rusqlite::params;
use spindoctor_model::Segment;

use super::{Writer, Written, write_segment};
use crate::error::Error;
use crate::rare::{Known, Rare};
use crate::time::from_ms;

impl Writer {
    /// Writes a segment under the number that it has.
    pub(crate) fn carry_segment(&mut self, segment: &Segment) -> Result<Written, Error> {
        self.write(segment.began, |db, state| {
            state.next_segment = state.next_segment.max(segment.id.saturating_add(1));
            write_segment(db, segment)
        })
    }

    /// Writes what was known before the first sample, into a file that has none yet.
    pub(crate) fn carry_known(&mut self, known: &Known) -> Result<Written, Error> {
        self.write(from_ms(known.at_ms), |db, state| {
            for (table, rows) in [("settings", &known.settings), ("facts", &known.facts)] {
                let mut insert =
                    db.prepare(&format!("INSERT INTO {table} (name, at_ms, value) VALUES (?1, ?2, ?3)"))?;
                for (name, at_ms, value) in rows {
                    insert.execute(params![name, at_ms, value])?;
                }
            }
            state.rare = Rare::load(db)?;
            Ok(())
        })
    }
}
