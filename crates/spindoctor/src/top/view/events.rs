//! The detected stalls, the newest first.

use jiff::Timestamp;
use spindoctor_model::{EventHead, StallKind};

use super::listing::{Align, By, Column, Direction, Listed, Listing};
use crate::top::moment::Moment;
use crate::top::state::State;
use crate::top::view::{Mood, Target};
use spindoctor_page::number;

/// What is said of a stall that its segment broke off in: nobody knows how long it went on.
pub const END_NOT_SEEN: &str = "end not seen";

/// A stall, and until when it lasted as far as anybody knows; none while it may last.
struct Row {
    event: EventHead,
    until: Option<Timestamp>,
}

/// The title of the column that the list comes sorted by.
const BEGAN: &str = "began (UTC)";

const COLUMNS: &[Column<Row>] = &[
    Column {
        title: "event",
        width: 5,
        align: Align::Right,
        from: 0,
        text: |row| row.event.id.to_string(),
        by: By::Number(|row| row.event.id as f64),
    },
    Column {
        title: BEGAN,
        width: 19,
        align: Align::Left,
        from: 0,
        text: |row| day_and_time(row.event.began),
        by: By::Nothing,
    },
    Column {
        title: "lasted",
        width: 8,
        align: Align::Right,
        from: 0,
        text: lasted,
        by: By::Number(|row| row.until.map_or(f64::INFINITY, |until| between_s(row.event.began, until))),
    },
    Column {
        title: "cause",
        width: 21,
        align: Align::Left,
        from: 0,
        text: |row| cause(row).to_owned(),
        by: By::Text(|row| cause(row)),
    },
    Column {
        title: "kind",
        width: 20,
        align: Align::Left,
        from: 120,
        text: |row| kind(row.event.stall.kind).to_owned(),
        by: By::Text(|row| kind(row.event.stall.kind)),
    },
    Column {
        title: "because",
        width: 0,
        align: Align::Left,
        from: 0,
        text: |row| because(&row.event),
        by: By::Nothing,
    },
];

/// The list.
pub fn listing(state: &State, moment: &Moment) -> Listing {
    let row = |event: &EventHead| Row { event: event.clone(), until: moment.ends.until(event) };
    let items: Vec<Row> = moment.events.iter().rev().map(row).collect();
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
        order: Some((BEGAN, Direction::Descending)),
        empty,
        mood: |row| if row.until.is_none() { Mood::Alarm } else { Mood::Plain },
        target: |row| Some(Target::Event(row.event.id)),
    }
    .shown(COLUMNS, state.list())
}

/// Its cause in the catalogue's word.
fn cause(row: &Row) -> &str {
    match (&row.event.cause, row.event.ended, row.until) {
        (Some(cause), _, _) => cause,
        (None, Some(_), _) => "(none named)",
        (None, None, None) => "(goes on)",
        (None, None, Some(_)) => "(end not seen)",
    }
}

/// How long, in the eight columns that there are.
fn lasted(row: &Row) -> String {
    match (lasted_s(&row.event), row.until) {
        (Some(seconds), _) => duration(seconds),
        (None, None) => "open".to_owned(),
        (None, Some(_)) => "not seen".to_owned(),
    }
}

/// The finding's headline, else why it was opened.
pub fn because(event: &EventHead) -> String {
    if event.headline.is_empty() { event.stall.because.clone() } else { event.headline.clone() }
}

/// How long it lasted, seconds; None where nobody saw its end.
pub fn lasted_s(event: &EventHead) -> Option<f64> {
    Some(between_s(event.began, event.ended?))
}

fn between_s(began: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(began).as_secs_f64()
}

/// `2026-11-22 14:03:20`
pub fn day_and_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Tenths of a second count in a stall.
pub fn duration(seconds: f64) -> String {
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
        StallKind::InsideFunction => "in a function",
        StallKind::SlowFunction => "slow function",
        StallKind::StatementRan => "statement ran",
        StallKind::ServerGone => "server gone",
        StallKind::Restarted => "restarted",
        StallKind::Deadlock => "deadlock",
        StallKind::PlanChanged => "plan changed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::top::examples;
    use crate::top::screen::Screen;
    use spindoctor_record::span;

    #[test]
    fn a_stall_that_nobody_saw_the_end_of_is_no_alarm_and_one_that_goes_on_is() {
        let first = |moment: &Moment| listing(&State::new(Screen::Events), moment).rows[0].clone();
        let mut moment = examples::broken_off();
        let row = first(&moment);
        assert_eq!((row.mood, &row.cells[2..4]), (Mood::Plain, &cells(["not seen", "(end not seen)"])[..]));
        moment.ends = span::Ends::default();
        let row = first(&moment);
        assert_eq!((row.mood, &row.cells[2..4]), (Mood::Alarm, &cells(["open", "(goes on)"])[..]));
        let row = first(&examples::stalled());
        assert_eq!((row.mood, &row.cells[2..4]), (Mood::Plain, &cells(["70 s", "metadata-lock-pileup"])[..]));
    }

    fn cells(texts: [&str; 2]) -> [String; 2] {
        texts.map(str::to_owned)
    }
}
