//! The process list: who is at work first, the longest first.

use spindoctor_model::Window;
use spindoctor_model::mysql::ServerThread;

use super::listing::{Align, By, Column, Listed, Listing};
use super::waiting::{RUNNING, Waiting, is_at_work};
use super::{Mood, Target, missing_told};
use crate::report::number;
use crate::top::State;

/// Who works for longer than this is worth a look, seconds: MySQL's default of `long_query_time`.
pub(super) const LONG_S: f64 = 10.0;

struct Item<'a> {
    thread: &'a ServerThread,
    waits_for: &'static str,
    statement: String,
    time_s: f64,
}

/// Its columns, the numbers that count most first.
fn columns<'a>() -> Vec<Column<Item<'a>>> {
    vec![
        Column {
            title: "id",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |item| id(item.thread).map_or_else(String::new, |id| id.to_string()),
            by: By::Number(|item| -(id(item.thread).unwrap_or(u64::MAX) as f64)),
        },
        Column {
            title: "user",
            width: 10,
            align: Align::Left,
            from: 0,
            text: |item| match item.thread.user.as_str() {
                "" => item.thread.name.rsplit('/').next().unwrap_or_default().to_owned(),
                user => user.to_owned(),
            },
            by: By::Text(|item| &item.thread.user),
        },
        Column {
            title: "host",
            width: 18,
            align: Align::Left,
            from: 110,
            text: |item| item.thread.host.clone(),
            by: By::Text(|item| &item.thread.host),
        },
        Column {
            title: "schema",
            width: 14,
            align: Align::Left,
            from: 100,
            text: |item| item.thread.schema.clone(),
            by: By::Text(|item| &item.thread.schema),
        },
        Column {
            title: "command",
            width: 8,
            align: Align::Left,
            from: 120,
            text: |item| item.thread.command.clone(),
            by: By::Text(|item| &item.thread.command),
        },
        Column {
            title: "time",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |item| time(item.time_s),
            by: By::Number(|item| item.time_s),
        },
        Column {
            title: "waits for",
            width: 16,
            align: Align::Left,
            from: 0,
            text: |item| item.waits_for.to_owned(),
            by: By::Text(|item| item.waits_for),
        },
        Column {
            title: "state",
            width: 32,
            align: Align::Left,
            from: 140,
            text: |item| item.thread.state.clone(),
            by: By::Text(|item| &item.thread.state),
        },
        Column {
            title: "statement",
            width: 0,
            align: Align::Left,
            from: 0,
            text: |item| item.statement.clone(),
            by: By::Text(|item| &item.statement),
        },
    ]
}

/// The list of a window's newest sample.
pub(super) fn listing(state: &State, window: &Window) -> Listing {
    let threads = match window.need(|s| &s.server.threads) {
        Ok(threads) => threads.as_slice(),
        Err(why) => {
            let empty = format!("the process list could not be read: {}", missing_told(&why));
            return listed(String::from("threads"), Vec::new(), empty).shown(&columns(), state.list());
        }
    };
    let at_work = threads.iter().filter(|thread| is_at_work(thread)).count();
    let connections = threads.iter().filter(|thread| thread.is_connection).count();
    let waiting = Waiting::of(window);
    let mut items: Vec<Item<'_>> = threads
        .iter()
        .filter(|thread| state.with_idle || is_at_work(thread))
        .map(|thread| Item {
            thread,
            waits_for: waiting.word(thread),
            statement: statement(thread),
            time_s: thread.time_s,
        })
        .collect();
    items.sort_by(|a, b| {
        let rank = |item: &Item<'_>| (!is_at_work(item.thread), !item.thread.is_connection);
        rank(a).cmp(&rank(b)).then(b.time_s.total_cmp(&a.time_s)).then(id(a.thread).cmp(&id(b.thread)))
    });
    let title = format!(
        "threads  {} at work of {}{}",
        number::plain(at_work as f64),
        number::counted(connections as u64, "connection", "connections"),
        if state.with_idle { "" } else { ", i shows the rest" },
    );
    let empty = match connections {
        0 => "nobody is connected".to_owned(),
        _ => "no connection is at work; i shows those that rest".to_owned(),
    };
    listed(title, items, empty).shown(&columns(), state.list())
}

fn listed(title: String, items: Vec<Item<'_>>, empty: String) -> Listed<Item<'_>> {
    Listed {
        title,
        items,
        empty,
        mood: |item| match item.waits_for {
            "" => Mood::Quiet,
            RUNNING | "commit" | "client" | "opening tables" | "closing tables" if item.time_s < LONG_S => {
                Mood::Plain
            }
            _ => Mood::Warn,
        },
        target: |item| id(item.thread).map(Target::Thread),
    }
}

/// What a person calls it by: the number that KILL takes, else the server's own.
pub(super) fn id(thread: &ServerThread) -> Option<u64> {
    thread.connection_id.or(thread.internal_id)
}

/// Its statement, else what the server says that it does.
fn statement(thread: &ServerThread) -> String {
    let text = thread.statement.as_deref().unwrap_or(&thread.state);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How long it has been at it; the process list of MySQL counts whole seconds.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => String::from("< 1 s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", (s / 60.0).floor()),
        s if s < 172_800.0 => format!("{:.0} h", (s / 3_600.0).floor()),
        s => format!("{:.0} days", (s / 86_400.0).floor()),
    }
}
