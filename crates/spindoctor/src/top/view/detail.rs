//! All details of one row, for which the list has no room.

use spindoctor_model::Window;

use super::queries;
use super::threads::{named, statement_of, target, time};
use super::waiting::Waiting;
use crate::top::view as top_view;
use crate::top::view::{Mood, MoodText, Target};
use spindoctor_page::number;

/// A title and the lines below it; None where the row is not there any more.
pub fn detail(target: &Target, window: &Window, over_s: f64) -> Option<(String, Vec<(String, MoodText)>)> {
    match target {
        Target::Thread(_) | Target::Background(_) => thread(target, window),
        Target::Query(schema, digest) => query(schema, digest, window, over_s),
        Target::Event(_) => None,
    }
}

fn thread(of: &Target, window: &Window) -> Option<(String, Vec<(String, MoodText)>)> {
    let threads = window.latest(|s| &s.server.threads)?;
    let thread = threads.iter().find(|thread| target(thread).as_ref() == Some(of))?;
    let transaction = window.latest(|s| &s.server.transactions).into_iter().flatten().find(|transaction| {
        transaction.connection_id.is_some() && transaction.connection_id == thread.connection_id
    });
    let mut lines = Vec::new();
    let mut line = |label: &str, text: String| {
        if !text.is_empty() {
            lines.push((label.to_owned(), MoodText::new(text, Mood::Plain)));
        }
    };
    line(
        "user",
        match thread.host.as_str() {
            "" => thread.user.clone(),
            host => format!("{}@{host}", thread.user),
        },
    );
    line("schema", thread.schema.clone());
    line("command", format!("{}, {}", thread.command, time(thread.time_s)));
    line("state", thread.state.clone());
    line("waits for", Waiting::from_window(window).word(thread).to_owned());
    line("OS thread", thread.thread_os_id.map_or_else(String::new, |tid| tid.to_string()));
    if let Some(transaction) = transaction {
        let words = format!(
            "{}, open for {}; {} changed, {} locked",
            transaction.state,
            number::duration(transaction.age_s),
            number::counted(transaction.rows_modified, "row", "rows"),
            number::plain(transaction.rows_locked as f64)
        );
        line("transaction", words);
    }
    line("statement", statement_of(thread));
    let title = match thread.connection_id {
        Some(id) => format!("connection {id}"),
        None => format!("thread {}, {}", named(thread), thread.name),
    };
    Some((title, lines))
}

fn query(
    schema: &str,
    digest: &str,
    window: &Window,
    over_s: f64,
) -> Option<(String, Vec<(String, MoodText)>)> {
    let queries = queries::from_window(window, over_s).ok()?;
    let query = queries.all.iter().find(|q| q.digest.schema == schema && q.digest.digest == digest)?;
    let lines = [
        ("schema", schema.to_owned()),
        ("share", format!("{} of all statements' time", number::percent(query.share))),
        ("load", format!("{:.2} threads in it on average", query.load)),
        (
            "runs",
            format!("{} /s, {} each", queries::rate(query.per_s), number::quantity(query.mean_ms, "ms")),
        ),
        (
            "rows each",
            format!(
                "{} examined, {} sent, {} changed",
                number::plain((query.examined * 10.0).round() / 10.0),
                number::plain((query.sent * 10.0).round() / 10.0),
                number::plain((query.affected * 10.0).round() / 10.0)
            ),
        ),
        ("in locks", format!("{} of its time", number::percent(query.lock_share))),
        ("without index", format!("{} scans or joins /s", queries::rate(query.scans_per_s))),
        ("on disk", format!("{} temporary tables /s", queries::rate(query.disk_tables_per_s))),
        ("digest", digest.to_owned()),
        ("statement", query.digest.text.clone()),
    ];
    let lines = lines.into_iter().filter(|(_, text)| !text.is_empty());
    let title = format!("statement, over {}", top_view::seconds(queries.seconds));
    Some((title, lines.map(|(label, text)| (label.to_owned(), MoodText::new(text, Mood::Plain))).collect()))
}
