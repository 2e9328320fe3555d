//! Events: a head that is easy to query, findings and stacks as rows, and the whole of each part as a blob.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{Diagnosis, Event, EventHead, Probe, Profile, RecordedGraph, Stall, StallKind};

use crate::codec::{self, Undecodable};
use crate::time::{from_ms, to_ms};

/// Stacks that are rows of the table `stacks`, of each phase, the most frequent first; the blob has them all.
const LISTED_STACKS: usize = 200;

/// Writes an event. Parts that are absent or empty stay as they were written before.
pub(crate) fn write(db: &Connection, event: &Event) -> rusqlite::Result<()> {
    let id = event.head.id.cast_signed();
    write_head(db, &event.head)?;
    // Its number is not given again when it is gone.
    db.execute(
        "INSERT INTO meta (name, value) VALUES ('last_event', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1
         WHERE CAST(value AS INTEGER) < ?1",
        [id],
    )?;
    if let Some(diagnosis) = &event.diagnosis {
        write_findings(db, id, diagnosis)?;
        replace_blob(db, id, "diagnosis", diagnosis)?;
    }
    for (phase, profile) in [("before", &event.before), ("during", &event.during)] {
        if let Some(profile) = profile {
            write_stacks(db, id, phase, profile)?;
            replace_blob(db, id, phase, profile)?;
        }
    }
    if !event.probes.is_empty() {
        replace_blob(db, id, "probes", &event.probes)?;
    }
    if !event.graphs.is_empty() {
        db.execute("DELETE FROM blobs WHERE event = ?1 AND kind = 'graph'", [id])?;
        for recorded in &event.graphs {
            insert_blob(db, id, "graph", Some(to_ms(recorded.at)), &recorded.graph)?;
        }
    }
    Ok(())
}

fn write_head(db: &Connection, head: &EventHead) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO events (id, segment, began_ms, ended_ms, kind, because, began_s, seen_s, cause, headline)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (id) DO UPDATE SET segment = excluded.segment, began_ms = excluded.began_ms,
             ended_ms = excluded.ended_ms, kind = excluded.kind, because = excluded.because,
             began_s = excluded.began_s, seen_s = excluded.seen_s, cause = excluded.cause, headline = excluded.headline",
        params![
            head.id.cast_signed(),
            head.segment.cast_signed(),
            to_ms(head.began),
            head.ended.map(to_ms),
            name_of(&head.stall.kind),
            head.stall.because,
            head.stall.began_s,
            head.stall.seen_s,
            head.cause,
            head.headline,
        ],
    )?;
    Ok(())
}

fn write_findings(db: &Connection, event: i64, diagnosis: &Diagnosis) -> rusqlite::Result<()> {
    db.execute("DELETE FROM findings WHERE event = ?1", [event])?;
    let mut insert = db.prepare_cached(
        "INSERT INTO findings (event, rank, cause, severity, score, headline, remedy) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (rank, finding) in (1_i64..).zip(&diagnosis.findings) {
        insert.execute(params![
            event,
            rank,
            finding.cause,
            name_of(&finding.severity),
            finding.score,
            finding.headline,
            finding.remedies.first().map(|remedy| remedy.statement.as_str()),
        ])?;
    }
    Ok(())
}

fn write_stacks(db: &Connection, event: i64, phase: &str, profile: &Profile) -> rusqlite::Result<()> {
    db.execute("DELETE FROM stacks WHERE event = ?1 AND phase = ?2", params![event, phase])?;
    let mut counts: HashMap<(ThreadState, u32), i64> = HashMap::new();
    for seen in &profile.observations {
        *counts.entry((seen.state, seen.stack)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|((state, stack), count)| (std::cmp::Reverse(*count), *stack, *state));
    let mut insert = db.prepare_cached(
        "INSERT INTO stacks (event, phase, count, state, stack) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for ((state, stack), count) in counts.into_iter().take(LISTED_STACKS) {
        insert.execute(params![event, phase, count, name_of(&state), folded(profile, stack)])?;
    }
    Ok(())
}

/// `main;do_command;...`: names from the outermost to the innermost, as flame graph tools read them.
fn folded(profile: &Profile, stack: u32) -> String {
    let frames = profile.stacks.get(stack as usize).map_or(&[][..], |stack| &stack.frames);
    let names = frames.iter().rev().map(|frame| {
        let name = profile.frames.get(*frame as usize).map_or("[unknown]", |frame| frame.name.as_str());
        name.replace([';', '\n'], ",")
    });
    names.collect::<Vec<_>>().join(";")
}

/// The name that a plain enum has in JSON.
fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn replace_blob(db: &Connection, event: i64, kind: &str, value: &impl Serialize) -> rusqlite::Result<()> {
    db.execute("DELETE FROM blobs WHERE event = ?1 AND kind = ?2", params![event, kind])?;
    insert_blob(db, event, kind, None, value)
}

fn insert_blob(
    db: &Connection,
    event: i64,
    kind: &str,
    at_ms: Option<i64>,
    value: &impl Serialize,
) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO blobs (event, kind, at_ms, data) VALUES (?1, ?2, ?3, ?4)",
        params![event, kind, at_ms, codec::pack(value).map_err(crate::writer::unwritable)?],
    )?;
    Ok(())
}

const HEAD: &str = "id, segment, began_ms, ended_ms, kind, because, began_s, seen_s, cause, headline";

/// The heads of all events, in order of time.
pub(crate) fn heads(db: &Connection) -> rusqlite::Result<Vec<EventHead>> {
    db.prepare(&format!("SELECT {HEAD} FROM events ORDER BY began_ms, id"))?.query_map([], head)?.collect()
}

fn head(row: &Row<'_>) -> rusqlite::Result<EventHead> {
    let kind: String = row.get(4)?;
    Ok(EventHead {
        id: row.get::<_, i64>(0)?.cast_unsigned(),
        segment: row.get::<_, i64>(1)?.cast_unsigned(),
        began: from_ms(row.get(2)?),
        ended: row.get::<_, Option<i64>>(3)?.map(from_ms),
        stall: Stall {
            // A kind that a later version added is shown as what its words say.
            kind: serde_json::from_value(kind.into()).unwrap_or(StallKind::Asked),
            because: row.get(5)?,
            began_s: row.get(6)?,
            seen_s: row.get(7)?,
        },
        cause: row.get(8)?,
        headline: row.get(9)?,
    })
}

/// One event with all its parts; a part whose blob is damaged is handed to `damaged` and left out, as is one that the file
/// cannot give any more.
pub(crate) fn read(
    db: &Connection,
    id: u64,
    mut damaged: impl FnMut(&str, Undecodable),
) -> rusqlite::Result<Option<Event>> {
    let found = db
        .prepare(&format!("SELECT {HEAD} FROM events WHERE id = ?1"))?
        .query_row([id.cast_signed()], head)
        .optional()?;
    let Some(head) = found else { return Ok(None) };
    let mut event = Event { head, ..Event::default() };
    let mut statement = db.prepare("SELECT kind, at_ms, id FROM blobs WHERE event = ?1 ORDER BY id")?;
    let mut rows = statement.query([id.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let at = row.get::<_, Option<i64>>(1)?.map(from_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        // Each by itself, so that a page that is damaged takes no other part along.
        let data = db
            .prepare_cached("SELECT data FROM blobs WHERE id = ?1")?
            .query_row([row.get::<_, i64>(2)?], |row| row.get::<_, Vec<u8>>(0));
        let Ok(data) = data else { continue };
        let put = match kind.as_str() {
            "diagnosis" => part(&data).map(|diagnosis| event.diagnosis = Some(diagnosis)),
            "before" => stacks(&data).map(|profile| event.before = Some(profile)),
            "during" => stacks(&data).map(|profile| event.during = Some(profile)),
            "probes" => part(&data).map(|probes: Vec<Probe>| event.probes = probes),
            "graph" => part(&data).map(|graph| event.graphs.push(RecordedGraph { at, graph })),
            // A kind that a later version added.
            _ => Ok(()),
        };
        if let Err(error) = put {
            damaged(&kind, error);
        }
    }
    Ok(Some(event))
}

/// A profile that its readers may trust.
fn stacks(data: &[u8]) -> Result<Profile, Undecodable> {
    let profile: Profile = part(data)?;
    profile.check().map_err(Undecodable::new)?;
    Ok(profile)
}

fn part<T: DeserializeOwned>(data: &[u8]) -> Result<T, Undecodable> {
    codec::unpack(data)
}

/// Deletes an event and all its parts.
pub(crate) fn remove(db: &Connection, id: i64) -> rusqlite::Result<()> {
    for (table, column) in [("blobs", "event"), ("stacks", "event"), ("findings", "event"), ("events", "id")]
    {
        db.execute(&format!("DELETE FROM {table} WHERE {column} = ?1"), [id])?;
    }
    Ok(())
}
