//! The chunks of a recording: each second becomes a row, and the rows of a minute are folded into one chunk.

use rusqlite::{Connection, OptionalExtension as _, params};
use spindoctor_model::{Gap, Reading, Sample, Segment};

use super::{unwritable, write_gap};
use crate::codec::{self, Encoder, Layout, Second};
use crate::costs::Costs;
use crate::overview;
use crate::rare::Rare;
use crate::statements::Statements;
use crate::time::from_ms;

/// A chunk holds the samples of one minute of the clock.
pub(crate) const CHUNK_MS: i64 = 60_000;

/// State that belongs to the file's content: where a write fails, it is read again.
#[derive(Debug)]
pub(super) struct State {
    pub(super) rare: Rare,
    statements: Statements,
    pub(super) costs: Costs,
    pub(super) chunk: Option<OpenChunk>,
    /// The latest point of the overview.
    pointed: Option<Pointed>,
    next_chunk: i64,
    pub(super) next_segment: u64,
    pub(super) next_event: u64,
    /// A minute has ended, and what is too old by this time is to be taken away.
    pub(super) retain_at_ms: Option<i64>,
    /// A segment that is not in the file yet: it is written with the first thing that is in it.
    pub(super) segment: Option<Segment>,
}

/// The minute of a point of the overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pointed {
    row: i64,
    segment: u64,
    minute: i64,
}

/// What is added to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A sample of the grid of seconds.
    Sample,
    /// What was seen between two of them, and may be written later: it has no status, and is no minute's point.
    Look,
}

/// A sample that is added.
#[derive(Debug)]
pub(super) struct Added {
    pub(super) at_ms: i64,
    pub(super) segment: u64,
    pub(super) sample: Sample,
    pub(super) kind: Kind,
    /// True where statements keep their literals.
    pub(super) with_literals: bool,
}

/// The chunk that samples are added to.
#[derive(Debug)]
pub(super) struct OpenChunk {
    id: i64,
    segment: u64,
    minute: i64,
    first_ms: i64,
    last_ms: i64,
    encoder: Encoder,
}

impl State {
    pub(super) fn load(db: &Connection) -> rusqlite::Result<Self> {
        let next = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(Self {
            rare: Rare::load(db)?,
            statements: Statements::default(),
            costs: Costs::default(),
            chunk: None,
            pointed: Pointed::load(db)?,
            retain_at_ms: None,
            next_chunk: next(
                "SELECT 1 + max(coalesce((SELECT max(id) FROM chunks), 0),
                                             coalesce((SELECT max(chunk) FROM samples), 0))",
            )?,
            next_segment: next("SELECT 1 + coalesce(max(id), 0) FROM segments")?.cast_unsigned(),
            // Numbers of events that are gone are not given again: files that were made of them have them.
            next_event: next(
                "SELECT 1 + max(coalesce((SELECT max(id) FROM events), 0),
                                coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'last_event'), 0))",
            )?
            .cast_unsigned(),
            segment: None,
        })
    }

    /// After a transaction that was rolled back: what was thought to be in the file may not be.
    pub(super) fn forget(&mut self, db: &Connection) {
        self.chunk = None;
        self.pointed = Pointed::load(db).unwrap_or_default();
        self.statements = Statements::default();
        if let Ok(rare) = Rare::load(db) {
            self.rare = rare;
        }
    }

    /// Adds a sample to its minute's chunk.
    pub(super) fn add(&mut self, db: &Connection, added: Added) -> rusqlite::Result<()> {
        let Added { at_ms, segment, mut sample, kind, with_literals } = added;
        let minute = at_ms.div_euclid(CHUNK_MS);
        let is_open = self
            .chunk
            .as_ref()
            .is_some_and(|open| open.segment == segment && open.minute == minute && open.last_ms <= at_ms);
        if !is_open {
            self.begin_chunk(db, at_ms, segment)?;
        }
        if kind == Kind::Sample {
            self.point(db, at_ms, segment, &sample)?;
        }
        if let Reading::Available { value, .. } = &mut sample.server.threads {
            // Servers list the busy first; in an order that stays, each is beside what it was a second before.
            value.sort_by_key(|thread| (thread.internal_id, thread.connection_id));
        }
        self.costs.add_readings(&sample);
        self.rare.put_away(db, at_ms, &mut sample)?;
        self.statements.put_away(db, at_ms, &mut sample, with_literals)?;
        let Some(open) = &mut self.chunk else { return Ok(()) };
        let row = open
            .encoder
            .push(&Second { after_ms: at_ms - open.first_ms, sample: &sample })
            .map_err(unwritable)?;
        open.last_ms = at_ms;
        db.prepare_cached(
            "INSERT INTO samples (chunk, segment, at_ms, literals, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![open.id, segment.cast_signed(), at_ms, with_literals, row])?;
        Ok(())
    }

    /// The first sample of a minute is its point; the others raise the most of its running threads. One that comes when its
    /// minute is over is no point and raises nothing.
    fn point(&mut self, db: &Connection, at_ms: i64, segment: u64, sample: &Sample) -> rusqlite::Result<()> {
        let minute = at_ms.div_euclid(CHUNK_MS);
        match self.pointed {
            Some(pointed) if pointed.segment == segment && pointed.minute == minute => {
                if let Some(threads_running) = overview::threads_running(sample) {
                    overview::raise_threads_running(db, pointed.row, threads_running)?;
                }
            }
            Some(pointed) if pointed.segment == segment && pointed.minute > minute => {}
            _ => {
                let row = overview::insert(db, at_ms, &overview::point(from_ms(at_ms), segment, sample))?;
                self.pointed = Some(Pointed { row, segment, minute });
                self.retain_at_ms = Some(at_ms);
            }
        }
        Ok(())
    }

    /// Folds the open chunk, where there is one.
    pub(super) fn end_chunk(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let Some(open) = self.chunk.take() else { return Ok(()) };
        fold(db, open.id, Layout::ManyWithExpected)?;
        self.costs.write(db, open.minute * CHUNK_MS)
    }

    /// Folds the open chunk and begins the next one.
    fn begin_chunk(&mut self, db: &Connection, at_ms: i64, segment: u64) -> rusqlite::Result<()> {
        if self.chunk.is_some() {
            self.end_chunk(db)?;
        } else {
            // After a write that failed, its chunk's rows are still there.
            fold_all(db, Layout::ManyWithExpected)?;
        }
        let minute = at_ms.div_euclid(CHUNK_MS);
        let id = self.next_chunk;
        self.next_chunk += 1;
        self.chunk = Some(OpenChunk {
            id,
            segment,
            minute,
            first_ms: at_ms,
            last_ms: at_ms,
            encoder: Encoder::default(),
        });
        Ok(())
    }
}

impl Pointed {
    /// Of the latest point in a recording.
    fn load(db: &Connection) -> rusqlite::Result<Option<Self>> {
        db.query_row("SELECT id, segment, at_ms FROM minutes ORDER BY id DESC LIMIT 1", [], |row| {
            let (segment, at_ms): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(Self {
                row: row.get(0)?,
                segment: segment.cast_unsigned(),
                minute: at_ms.div_euclid(CHUNK_MS),
            })
        })
        .optional()
    }
}

/// Turns all rows into chunks.
pub(super) fn fold_all(db: &Connection, layout: Layout) -> rusqlite::Result<()> {
    let chunks: Vec<i64> = db
        .prepare("SELECT DISTINCT chunk FROM samples ORDER BY chunk")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    chunks.into_iter().try_for_each(|chunk| fold(db, chunk, layout))
}

/// Turns the rows of a chunk into one.
fn fold(db: &Connection, chunk: i64, layout: Layout) -> rusqlite::Result<()> {
    let (mut rows, mut times) = (Vec::new(), Vec::new());
    let mut head = (0_i64, false);
    let mut statement =
        db.prepare_cached("SELECT at_ms, segment, literals, data FROM samples WHERE chunk = ?1 ORDER BY id")?;
    let mut found = statement.query([chunk])?;
    while let Some(row) = found.next()? {
        times.push(row.get::<_, i64>(0)?);
        head = (row.get(1)?, row.get(2)?);
        rows.push(row.get::<_, Vec<u8>>(3)?);
    }
    if let (Some(&first), Some(&last)) = (times.first(), times.last()) {
        match codec::fold(layout, &rows) {
            Ok(data) => {
                db.prepare_cached(
                    "INSERT INTO chunks (id, segment, from_ms, to_ms, samples, literals, data)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .execute(params![
                    chunk,
                    head.0,
                    first,
                    last,
                    times.len() as i64,
                    head.1,
                    data
                ])?;
            }
            // They were damaged on the disk: nobody can read them.
            Err(error) => {
                let because = format!("the recording was damaged here: {error}");
                write_gap(db, &Gap { from: from_ms(first), to: Some(from_ms(last)), because })?;
            }
        }
    }
    db.prepare_cached("DELETE FROM samples WHERE chunk = ?1")?.execute([chunk])?;
    Ok(())
}
