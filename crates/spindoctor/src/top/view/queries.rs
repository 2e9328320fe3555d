//! The list of statements by digest.

use spindoctor_model::Window;
use spindoctor_model::mysql::StatementDigest;

use super::listing::{Align, By, Column, Direction, Listed, Listing};
use crate::common::queries::{Queries, Query};
use crate::top::state::State;
use crate::top::view as top_view;
use crate::top::view::{Mood, Target, no_change};
use spindoctor_page::number;

/// What ran of late; why that is not known where it is not.
pub fn from_window(window: &Window, over_s: f64) -> Result<Queries<'_>, String> {
    Queries::from_window(window, over_s).ok_or_else(|| no_change(window, |s| &s.server.digests))
}

/// Its columns, the numbers that count most first.
fn columns<'a>() -> Vec<Column<Query<'a>>> {
    vec![
        Column {
            title: "time",
            width: 7,
            align: Align::Right,
            from: 0,
            text: |query| number::percent(query.share),
            by: By::Number(|query| query.share),
        },
        Column {
            title: "load",
            width: 6,
            align: Align::Right,
            from: 100,
            text: |query| format!("{:.2}", query.load),
            by: By::Number(|query| query.load),
        },
        Column {
            title: "/s",
            width: 7,
            align: Align::Right,
            from: 0,
            text: |query| rate(query.per_s),
            by: By::Number(|query| query.per_s),
        },
        Column {
            title: "mean",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |query| number::quantity(query.mean_ms, "ms"),
            by: By::Number(|query| query.mean_ms),
        },
        Column {
            title: "examined",
            width: 8,
            align: Align::Right,
            from: 0,
            text: |query| each(query.examined),
            by: By::Number(|query| query.examined),
        },
        Column {
            title: "sent",
            width: 6,
            align: Align::Right,
            from: 0,
            text: |query| each(query.sent),
            by: By::Number(|query| query.sent),
        },
        Column {
            title: "changed",
            width: 7,
            align: Align::Right,
            from: 110,
            text: |query| each(query.affected),
            by: By::Number(|query| query.affected),
        },
        Column {
            title: "in locks",
            width: 8,
            align: Align::Right,
            from: 120,
            text: |query| number::percent(query.lock_share),
            by: By::Number(|query| query.lock_share),
        },
        Column {
            title: "scans /s",
            width: 8,
            align: Align::Right,
            from: 130,
            text: |query| rate(query.scans_per_s),
            by: By::Number(|query| query.scans_per_s),
        },
        Column {
            title: "tmp disk /s",
            width: 11,
            align: Align::Right,
            from: 150,
            text: |query| rate(query.disk_tables_per_s),
            by: By::Number(|query| query.disk_tables_per_s),
        },
        Column {
            title: "schema",
            width: 14,
            align: Align::Left,
            from: 140,
            text: |query| query.digest.schema.clone(),
            by: By::Text(|query| &query.digest.schema),
        },
        Column {
            title: "statement",
            width: 0,
            align: Align::Left,
            from: 0,
            text: |query| text(query.digest),
            by: By::Nothing,
        },
    ]
}

/// What is listed where no statement ended.
pub const NONE_ENDED: &str = "no statement ended in these seconds";
/// And where all that ended asks about the server.
pub const NONE_OF_CLIENTS: &str =
    "no client's statement ended in these seconds; on screen 3, i shows the others";

/// The list. What asks about the server, as spindoctor itself does, is in it where what rests is shown, too.
pub fn listing(state: &State, window: &Window, over_s: f64) -> Listing {
    let (title, items, empty) = match from_window(window, over_s) {
        Ok(queries) => {
            let all = queries.all.len();
            let is_shown = |query: &Query<'_>| state.with_idle || !query.is_about_the_server;
            let shown: Vec<Query<'_>> = queries.all.into_iter().filter(is_shown).collect();
            let load: f64 = shown.iter().map(|query| query.load).sum();
            let left_out = match all - shown.len() {
                0 => String::new(),
                count => format!(", i shows {count} about the server"),
            };
            let title = format!(
                "queries  over {}: {}, {} busy; rows per run{left_out}",
                top_view::seconds(queries.seconds),
                number::counted(shown.len() as u64, "kind", "kinds"),
                threads_text((load * 100.0).round() / 100.0),
            );
            let empty = if all == 0 { NONE_ENDED } else { NONE_OF_CLIENTS };
            (title, shown, empty.to_owned())
        }
        Err(why) => ("queries".to_owned(), Vec::new(), format!("no statements: {why}")),
    };
    Listed {
        title,
        items,
        order: Some(("time", Direction::Descending)),
        empty,
        mood: |_| Mood::Plain,
        target: |query| Some(Target::Query(query.digest.schema.clone(), query.digest.digest.clone())),
    }
    .shown(&columns(), state.list())
}

/// `1 thread`, `4.14 threads`
fn threads_text(threads: f64) -> String {
    let shown = number::plain(threads);
    format!("{shown} {}", if shown == "1" { "thread" } else { "threads" })
}

/// The statement on one line.
pub fn text(digest: &StatementDigest) -> String {
    match digest.text.as_str() {
        "" => "(all others: the summary is full)".to_owned(),
        text => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// How often a second: whole where it is often.
pub fn rate(per_s: f64) -> String {
    match per_s {
        0.0 => "0".to_owned(),
        s if s < 9.95 => format!("{s:.1}"),
        s => number::plain(s.round()),
    }
}

/// Rows of one execution.
fn each(rows: f64) -> String {
    match rows {
        r if r >= 1e7 => format!("{:.0}M", r / 1e6),
        r if r >= 1e5 => format!("{:.0}k", r / 1e3),
        r if r >= 9.95 => number::plain(r.round()),
        r => number::plain((r * 10.0).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::*;

    use crate::top::examples;
    use crate::top::screen::Screen;

    /// The busy server, asked for its status again and again: more often than any client asks for something.
    fn asked() -> Window {
        let mut window = examples::busy().window.expect("a window");
        for (at, sample) in window.samples.iter_mut().enumerate() {
            if let Reading::Available { value, .. } = &mut sample.server.digests {
                value.push(StatementDigest {
                    digest: "p1".to_owned(),
                    text: "SHOW GLOBAL STATUS".to_owned(),
                    first_seen_s: Some(9_000.0),
                    executions: 1_000_000 * (at as u64 + 1),
                    total_ns: 1_000_000_000_000 * (at as u64 + 1),
                    ..StatementDigest::default()
                });
            }
        }
        window
    }

    #[test]
    fn one_busy_thread_is_not_several() {
        assert_eq!(threads_text(1.0), "1 thread");
        assert_eq!(threads_text(4.14), "4.14 threads");
    }

    #[test]
    fn what_asks_about_the_server_is_shown_where_it_is_asked_for_and_never_among_the_first() {
        let window = asked();
        let listed = |with_idle| {
            let mut state = State::new(Screen::Queries);
            state.with_idle = with_idle;
            listing(&state, &window, 10.0)
        };
        let is_asked = |listing: &Listing| -> Vec<bool> {
            listing.rows.iter().map(|row| row.cells.iter().any(|cell| cell == "SHOW GLOBAL STATUS")).collect()
        };
        let (own, all) = (listed(false), listed(true));
        assert!(!own.rows.is_empty() && !is_asked(&own).contains(&true), "{own:?}");
        assert!(own.title.contains(", i shows 1 about the server"), "{}", own.title);
        assert_eq!(is_asked(&all).last(), Some(&true));
        assert_eq!((all.rows.len(), all.title.contains("about the server")), (own.rows.len() + 1, false));
    }
}
