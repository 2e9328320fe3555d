//! The process list: sessions at work first, the longest first.

use spindoctor_model::Window;
use spindoctor_model::mysql::ServerThread;
use spindoctor_sql::digest;

use super::listing::{Align, By, Column, Direction, Listed, Listing};
use super::waiting::{RUNNING, Waiting, is_at_work};
use crate::top::state::State;
use crate::top::view::{Mood, Target, missing_text};
use spindoctor_page::number;

/// Who works for longer than this is worth a look, seconds: MySQL's default of `long_query_time`.
pub const LONG_S: f64 = 10.0;

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
            text: |item| named(item.thread),
            by: By::Least(|item| id(item.thread).unwrap_or(u64::MAX) as f64),
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
pub fn listing(state: &State, window: &Window) -> Listing {
    let threads = match window.need(|s| &s.server.threads) {
        Ok(threads) => threads.as_slice(),
        Err(why) => {
            let empty = format!("the process list could not be read: {}", missing_text(&why));
            return listed(String::from("threads"), Vec::new(), empty).shown(&columns(), state.list());
        }
    };
    let at_work = threads.iter().filter(|thread| is_at_work(thread)).count();
    let connections = threads.iter().filter(|thread| thread.is_connection).count();
    let waiting = Waiting::from_window(window);
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
        order: Some(("time", Direction::Descending)),
        empty,
        mood: |item| match item.waits_for {
            "" => Mood::Quiet,
            RUNNING | "commit" | "client" | "opening tables" | "closing tables" if item.time_s < LONG_S => {
                Mood::Plain
            }
            _ => Mood::Warn,
        },
        target: |item| target(item.thread),
    }
}

/// The number that KILL takes, else the server's own.
fn id(thread: &ServerThread) -> Option<u64> {
    thread.connection_id.or(thread.internal_id)
}

/// What a person calls it by: `12`, the number that KILL takes; `t12`, the server's own of a thread that serves nobody.
pub fn named(thread: &ServerThread) -> String {
    match (thread.connection_id, thread.internal_id) {
        (Some(id), _) => id.to_string(),
        (None, Some(id)) => format!("t{id}"),
        (None, None) => String::new(),
    }
}

/// What its row stands for; None where it has no number.
pub fn target(thread: &ServerThread) -> Option<Target> {
    thread.connection_id.map(Target::Thread).or_else(|| thread.internal_id.map(Target::Background))
}

/// Its statement without literals, else what the server says that it does.
fn statement(thread: &ServerThread) -> String {
    match &thread.statement {
        None if thread.command == "Execute" => statement_of(thread),
        None => thread.state.split_whitespace().collect::<Vec<_>>().join(" "),
        Some(text) => digest(text),
    }
}

/// Its statement, or the last one, without literals; empty where it has none.
pub fn statement_of(thread: &ServerThread) -> String {
    match thread.statement.as_deref().or(thread.last_statement.as_deref()) {
        // performance_schema.threads shows none of prepared statements before MySQL 9.
        None if thread.command == "Execute" => {
            "(a prepared statement; this server does not show its text here)".to_owned()
        }
        text => text.map(digest).unwrap_or_default(),
    }
}

/// How long it has been at it; the process list of MySQL counts whole seconds.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => String::from("< 1 s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", (s / 60.0).floor()),
        s if s < 172_800.0 => format!("{:.0} h", (s / 3_600.0).floor()),
        s => format!("{:.0} days", (s / 86_400.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_thread_and_a_connection_with_one_number_are_two() {
        let background = ServerThread {
            internal_id: Some(10),
            name: "thread/innodb/log".into(),
            ..ServerThread::default()
        };
        let connection = ServerThread {
            internal_id: Some(52),
            connection_id: Some(10),
            is_connection: true,
            ..ServerThread::default()
        };
        assert_eq!(target(&background), Some(Target::Background(10)));
        assert_eq!(target(&connection), Some(Target::Thread(10)));
        assert_eq!((named(&background).as_str(), named(&connection).as_str()), ("t10", "10"));
        let threads = spindoctor_model::Reading::Available {
            at_s: 0.0,
            took_ms: 1.0,
            value: vec![background, connection],
        };
        let mut sample = spindoctor_model::Sample::default();
        sample.server.threads = threads;
        let window = Window { samples: vec![sample], ..Window::default() };
        let title = |of: Target| crate::top::view::detail::detail(&of, &window, 1.0).map(|(title, _)| title);
        assert_eq!(title(Target::Thread(10)).as_deref(), Some("connection 10"));
        assert_eq!(title(Target::Background(10)).as_deref(), Some("thread t10, thread/innodb/log"));
    }

    #[test]
    fn a_statement_has_no_literals_and_a_prepared_one_without_text_is_called_so() {
        let of = |command: &str, statement: Option<&str>| {
            statement_of(&ServerThread {
                command: command.into(),
                statement: statement.map(str::to_owned),
                ..ServerThread::default()
            })
        };
        assert_eq!(
            of("Query", Some("SELECT /* it's */ a FROM t WHERE b = 'alice'")),
            "SELECT a FROM t WHERE b = ?"
        );
        assert!(of("Execute", None).contains("prepared statement"));
        assert_eq!(of("Sleep", None), "");
    }
}
