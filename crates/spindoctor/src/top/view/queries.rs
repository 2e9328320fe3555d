//! Statements by digest: what they took of all statements' time since the reading before.

use std::collections::HashMap;

use spindoctor_model::Window;
use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::window::Change;

use super::listing::{Align, By, Column, Listed, Listing};
use crate::top::state::State;
use crate::top::view as top_view;
use crate::top::view::{Mood, Target, no_change};
use spindoctor_page::number;

/// What one kind of statement did between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Query<'a> {
    pub digest: &'a StatementDigest,
    /// Executions a second.
    pub per_s: f64,
    /// Time of one execution, milliseconds.
    pub mean_ms: f64,
    /// Share of all statements' time.
    pub share: f64,
    /// Threads in it on average.
    pub load: f64,
    pub examined: f64,
    pub sent: f64,
    pub affected: f64,
    /// Share of its time in locks.
    pub lock_share: f64,
    pub scans_per_s: f64,
    pub disk_tables_per_s: f64,
}

/// All statements between two readings.
pub struct Queries<'a> {
    /// The costliest first.
    pub all: Vec<Query<'a>>,
    /// Between the two readings.
    pub seconds: f64,
}

impl<'a> Queries<'a> {
    /// What ran of late; why that is not known where it is not.
    pub fn of(window: &'a Window, over_s: f64) -> Result<Self, String> {
        let change = window
            .recent_change(over_s, |s| &s.server.digests)
            .ok_or_else(|| no_change(window, |s| &s.server.digests))?;
        let grown = grown(&change);
        let total_ns: f64 = grown.iter().map(|(_, growth)| growth.total_ns as f64).sum();
        let per_s = |count: u64| count as f64 / change.seconds;
        let mut all: Vec<Query<'a>> = grown
            .into_iter()
            .map(|(digest, growth)| {
                let each = |sum: u64| sum as f64 / growth.executions.max(1) as f64;
                Query {
                    digest,
                    per_s: per_s(growth.executions),
                    mean_ms: each(growth.total_ns) / 1e6,
                    share: growth.total_ns as f64 / total_ns.max(1.0),
                    load: per_s(growth.total_ns) / 1e9,
                    examined: each(growth.rows_examined),
                    sent: each(growth.rows_sent),
                    affected: each(growth.rows_affected),
                    lock_share: (growth.lock_ns as f64 / growth.total_ns.max(1) as f64).min(1.0),
                    scans_per_s: per_s(growth.full_scans + growth.full_joins),
                    disk_tables_per_s: per_s(growth.disk_temporary_tables),
                }
            })
            .collect();
        // What asks about the server, as spindoctor itself does, stands last: it is nobody's load.
        let rank = |query: &Query<'_>| is_about_the_server(query.digest);
        all.sort_by(|a, b| {
            rank(a).cmp(&rank(b)).then(b.share.total_cmp(&a.share)).then(b.per_s.total_cmp(&a.per_s))
        });
        Ok(Self { all, seconds: change.seconds })
    }

    /// Time of a statement on average, milliseconds; None where none ended.
    pub fn mean_ms(&self) -> Option<f64> {
        let per_s: f64 = self.all.iter().map(|query| query.per_s).sum();
        let busy_ms: f64 = self.all.iter().map(|query| query.per_s * query.mean_ms).sum();
        (per_s > 0.0).then(|| busy_ms / per_s)
    }
}

/// True for a statement about the server and not about its data: spindoctor's own, and those of other monitors.
pub fn is_about_the_server(digest: &StatementDigest) -> bool {
    let text = digest.text.to_ascii_lowercase();
    matches!(digest.schema.as_str(), "performance_schema" | "information_schema" | "sys")
        || ["performance_schema", "information_schema", "`sys` ."].iter().any(|name| text.contains(name))
        || text.starts_with("show ")
}

/// Growth of each digest that ran between two readings. One that the first reading does not have grew from zero where
/// it is younger than that, and is left out where it is not: the list of the first reading was cut.
fn grown<'a>(change: &Change<'a, Vec<StatementDigest>>) -> Vec<(&'a StatementDigest, StatementDigest)> {
    let key = |digest: &'a StatementDigest| (digest.schema.as_str(), digest.digest.as_str());
    let before: HashMap<_, &StatementDigest> =
        change.first.iter().map(|digest| (key(digest), digest)).collect();
    let nothing = StatementDigest::default();
    let growth = |last: &'a StatementDigest| {
        let is_new = || last.first_seen_s.is_some_and(|age_s| age_s <= change.seconds);
        let first = match before.get(&key(last)) {
            Some(first) => first,
            None if is_new() => &nothing,
            None => return None,
        };
        let executions = last.executions.checked_sub(first.executions).filter(|&ran| ran > 0)?;
        Some((
            last,
            StatementDigest {
                executions,
                total_ns: last.total_ns.checked_sub(first.total_ns)?,
                lock_ns: last.lock_ns.saturating_sub(first.lock_ns),
                rows_examined: last.rows_examined.saturating_sub(first.rows_examined),
                rows_sent: last.rows_sent.saturating_sub(first.rows_sent),
                rows_affected: last.rows_affected.saturating_sub(first.rows_affected),
                full_joins: last.full_joins.saturating_sub(first.full_joins),
                full_scans: last.full_scans.saturating_sub(first.full_scans),
                disk_temporary_tables: last.disk_temporary_tables.saturating_sub(first.disk_temporary_tables),
                ..StatementDigest::default()
            },
        ))
    };
    change.last.iter().filter_map(growth).collect()
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

/// The list.
pub fn listing(state: &State, window: &Window, over_s: f64) -> Listing {
    let (title, items, empty) = match Queries::of(window, over_s) {
        Ok(queries) => {
            let load: f64 = queries.all.iter().map(|query| query.load).sum();
            let title = format!(
                "queries  over {}: {} kinds, {} threads busy; rows per run",
                top_view::seconds(queries.seconds),
                queries.all.len(),
                number::plain((load * 100.0).round() / 100.0),
            );
            (title, queries.all, "no statement ended in these seconds".to_owned())
        }
        Err(why) => ("queries".to_owned(), Vec::new(), format!("statements are not told: {why}")),
    };
    Listed {
        title,
        items,
        empty,
        mood: |_| Mood::Plain,
        target: |query| Some(Target::Query(query.digest.schema.clone(), query.digest.digest.clone())),
    }
    .shown(&columns(), state.list())
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
