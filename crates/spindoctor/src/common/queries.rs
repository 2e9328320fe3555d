//! Statements by digest: what they took of all statements' time between two readings.

use std::collections::HashMap;

use spindoctor_model::Window;
use spindoctor_model::mysql::StatementDigest;
use spindoctor_model::window::Change;
use spindoctor_sql::is_about_the_server;

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
    /// What ran of late; none where the summary was not read twice.
    pub fn from_window(window: &'a Window, over_s: f64) -> Option<Self> {
        let change = window.recent_change(over_s, |s| &s.server.digests)?;
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
        let rank = |query: &Query<'_>| is_about_the_server(&query.digest.schema, &query.digest.text);
        all.sort_by(|a, b| {
            rank(a).cmp(&rank(b)).then(b.share.total_cmp(&a.share)).then(b.per_s.total_cmp(&a.per_s))
        });
        Some(Self { all, seconds: change.seconds })
    }

    /// Time of a statement on average, milliseconds; None where none ended.
    pub fn mean_ms(&self) -> Option<f64> {
        let per_s: f64 = self.all.iter().map(|query| query.per_s).sum();
        let busy_ms: f64 = self.all.iter().map(|query| query.per_s * query.mean_ms).sum();
        (per_s > 0.0).then(|| busy_ms / per_s)
    }
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
