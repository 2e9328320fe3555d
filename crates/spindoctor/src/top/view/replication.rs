//! The channels of a replica.

use spindoctor_model::Window;
use spindoctor_model::mysql::ReplicaChannel;
use spindoctor_sql::error_without_values;

use super::listing::{Align, By, Column, Listed, Listing};
use crate::top::state::State;
use crate::top::view::{Mood, missing_text};
use spindoctor_page::number;

/// A replica that far behind is worth a look, seconds: `Seconds_Behind_Source` counts whole ones and flutters.
const BEHIND_S: f64 = 10.0;

/// Its columns.
fn columns<'a>() -> Vec<Column<&'a ReplicaChannel>> {
    vec![
        Column {
            title: "channel",
            width: 12,
            align: Align::Left,
            from: 0,
            text: |channel| match channel.name.as_str() {
                "" => "(default)".to_owned(),
                name => name.to_owned(),
            },
            by: By::Text(|channel| &channel.name),
        },
        Column {
            title: "source",
            width: 20,
            align: Align::Address,
            from: 0,
            text: |channel| format!("{}:{}", channel.source_host, channel.source_port),
            by: By::Text(|channel| &channel.source_host),
        },
        Column {
            title: "behind",
            width: 11,
            align: Align::Right,
            from: 0,
            text: |channel| channel.behind_s.map_or_else(|| "unknown".to_owned(), number::duration),
            by: By::Number(|channel| channel.behind_s.unwrap_or(f64::INFINITY)),
        },
        Column {
            title: "receiver",
            width: 10,
            align: Align::Left,
            from: 0,
            text: |channel| channel.receiver_running.clone(),
            by: By::Text(|channel| &channel.receiver_running),
        },
        Column {
            title: "applier",
            width: 7,
            align: Align::Left,
            from: 0,
            text: |channel| channel.applier_running.clone(),
            by: By::Text(|channel| &channel.applier_running),
        },
        Column {
            title: "error, or what it does",
            width: 0,
            align: Align::Left,
            from: 0,
            text: |channel| does(channel),
            by: By::Nothing,
        },
    ]
}

/// The list.
pub fn listing(state: &State, window: &Window) -> Listing {
    let (items, empty) = match window.need(|s| &s.server.replication) {
        Ok(channels) => (
            channels.iter().collect(),
            "this server is not a replica: it has no replication channel".to_owned(),
        ),
        Err(why) => (Vec::new(), format!("no replication: {}", missing_text(&why))),
    };
    let items: Vec<&ReplicaChannel> = items;
    let title = format!("replication  {}", number::counted(items.len() as u64, "channel", "channels"));
    Listed { title, items, order: None, empty, mood: |channel| mood(channel), target: |_| None }
        .shown(&columns(), state.list())
}

/// How a channel is.
pub fn mood(channel: &ReplicaChannel) -> Mood {
    let runs = |thread: &str| thread.eq_ignore_ascii_case("yes");
    match channel.late_s() {
        _ if !runs(&channel.receiver_running) || !runs(&channel.applier_running) => Mood::Alarm,
        Some(late_s) if late_s < BEHIND_S => Mood::Plain,
        _ => Mood::Warn,
    }
}

/// The error of a channel, or what its applier does.
pub fn does(channel: &ReplicaChannel) -> String {
    if let Some((number, error)) = channel.error() {
        let error = error_without_values(error);
        return number.map_or_else(|| error.clone(), |number| format!("{number}: {error}"));
    }
    let mut states = [&channel.applier_state, &channel.receiver_state].into_iter();
    states.find(|text| !text.is_empty()).cloned().unwrap_or_default()
}
