//! The stalls that were seen, the newest first.

use jiff::Timestamp;
use spindoctor_model::{EventHead, StallKind};

use super::listing::{Align, By, Column, Listed, Listing};
use super::{Mood, Target};
use crate::report::number;
use crate::top::{Moment, State};

const COLUMNS: &[Column<EventHead>] = &[
    Column {
        title: "event",
        width: 5,
        align: Align::Right,
        from: 0,
        text: |event| event.id.to_string(),
        by: By::Number(|event| event.id as f64),
    },
    Column {
        title: "began (UTC)",
        width: 19,
        align: Align::Left,
        from: 0,
        text: |event| day_and_time(event.began),
        by: By::Nothing,
    },
    Column {
        title: "lasted",
        width: 8,
        align: Align::Right,
        from: 0,
        text: |event| lasted_s(event).map_or_else(|| "open".to_owned(), duration),
        by: By::Number(|event| lasted_s(event).unwrap_or(f64::INFINITY)),
    },
    Column {
        title: "cause",
        width: 21,
        align: Align::Left,
        from: 0,
        text: |event| cause(event).to_owned(),
        by: By::Text(|event| cause(event)),
    },
    Column {
        title: "kind",
        width: 20,
        align: Align::Left,
        from: 120,
        text: |event| kind(event.stall.kind).to_owned(),
        by: By::Text(|event| kind(event.stall.kind)),
    },
    Column { title: "because", width: 0, align: Align::Left, from: 0, text: because, by: By::Nothing },
];

/// The list.
pub(super) fn listing(state: &State, moment: &Moment) -> Listing {
    let items: Vec<EventHead> = moment.events.iter().rev().cloned().collect();
    let title =
        format!("events  {}, Enter goes there", number::counted(items.len() as u64, "stall", "stalls"));
    let empty = if moment.is_live {
        "no stall was seen since this view began".to_owned()
    } else {
        "no stall was seen in this recording".to_owned()
    };
    Listed {
        title,
        items,
        empty,
        mood: |event| if event.ended.is_none() { Mood::Alarm } else { Mood::Plain },
        target: |event| Some(Target::Event(event.id)),
    }
    .shown(COLUMNS, state.list())
}

/// Its cause in the catalogue's word.
pub(super) fn cause(event: &EventHead) -> &str {
    match (&event.cause, event.ended) {
        (Some(cause), _) => cause,
        (None, None) => "(goes on)",
        (None, Some(_)) => "(none named)",
    }
}

/// The finding's headline, else why it was opened.
pub(super) fn because(event: &EventHead) -> String {
    if event.headline.is_empty() { event.stall.because.clone() } else { event.headline.clone() }
}

/// How long it lasted, seconds; None while it does.
pub(super) fn lasted_s(event: &EventHead) -> Option<f64> {
    (event.ended? - event.began).total(jiff::Unit::Second).ok()
}

/// `2026-11-22 14:03:20`
pub(super) fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Tenths of a second count in a stall.
pub(super) fn duration(seconds: f64) -> String {
    number::duration((seconds * 10.0).round() / 10.0)
}

fn kind(kind: StallKind) -> &'static str {
    match kind {
        StallKind::ThroughputCollapsed => "throughput collapsed",
        StallKind::CommitsStopped => "commits stopped",
        StallKind::ProbeSlow => "probe slow",
        StallKind::NoAnswer => "no answer",
        StallKind::ThreadsRunning => "threads running",
        StallKind::CheckpointAge => "redo log nearly full",
        StallKind::ConnectionsFail => "connections fail",
        StallKind::LockWaits => "lock waits",
        StallKind::Asked => "asked for",
    }
}
