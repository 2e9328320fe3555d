//! The events of a recording, as a list.

use std::path::Path;

use serde::Serialize;
use spindoctor_page::json::to_text;

use crate::common::recorded;

/// The schema's name.
const SCHEMA: &str = "spindoctor.events/1";
/// The newest of them that are listed.
const MOST: usize = 200;

#[derive(Serialize)]
struct Written {
    schema: &'static str,
    from: Option<String>,
    to: Option<String>,
    events: Vec<Event>,
    older_events: usize,
}

#[derive(Serialize)]
struct Event {
    id: u64,
    kind: &'static str,
    because: String,
    began: String,
    ended: Option<String>,
    cause: Option<String>,
    headline: String,
}

/// The newest first.
pub fn list(file: &Path) -> anyhow::Result<String> {
    let recording = recorded::open(file)?;
    let extent = recording.extent()?;
    let heads = recording.events()?;
    let older_events = heads.len().saturating_sub(MOST);
    let events = heads.iter().rev().take(MOST).map(|head| Event {
        id: head.id,
        kind: head.stall.kind.title(),
        because: head.stall.because.clone(),
        began: head.began.to_string(),
        ended: head.ended.map(|ended| ended.to_string()),
        cause: head.cause.clone(),
        headline: head.headline.clone(),
    });
    Ok(to_text(&Written {
        schema: SCHEMA,
        from: extent.map(|(from, _)| from.to_string()),
        to: extent.map(|(_, to)| to.to_string()),
        events: events.collect(),
        older_events,
    })?)
}
