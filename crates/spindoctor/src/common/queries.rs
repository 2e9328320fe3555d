//! Statements by digest: what they took of all statements' time between two readings.

use spindoctor_model::Window;
use spindoctor_model::mysql::StatementDigest;
use spindoctor_sql::is_about_the_server;
use spindoctor_statements::grown;

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
    /// Whether it asks about the server, as spindoctor itself does: nobody's load.
    pub is_about_the_server: bool,
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
        let grown = grown(change.first, change.last, change.seconds);
        let total_ns: f64 = grown.iter().map(|grown| grown.by.total_ns).sum();
        let per_s = |count: f64| count / change.seconds;
        let mut all: Vec<Query<'a>> = grown
            .into_iter()
            .map(|grown| {
                let by = grown.by;
                let each = |sum: f64| sum / by.executions.max(1.0);
                Query {
                    digest: grown.digest,
                    per_s: per_s(by.executions),
                    mean_ms: each(by.total_ns) / 1e6,
                    share: by.total_ns / total_ns.max(1.0),
                    load: per_s(by.total_ns) / 1e9,
                    examined: each(by.rows_examined),
                    sent: each(by.rows_sent),
                    affected: each(by.rows_affected),
                    lock_share: (by.lock_ns / by.total_ns.max(1.0)).min(1.0),
                    scans_per_s: per_s(by.full_scans),
                    disk_tables_per_s: per_s(by.disk_temporary_tables),
                    is_about_the_server: is_about_the_server(&grown.digest.schema, &grown.digest.text),
                }
            })
            .collect();
        // What asks about the server stands last.
        all.sort_by(|a, b| {
            let by_share = b.share.total_cmp(&a.share).then(b.per_s.total_cmp(&a.per_s));
            a.is_about_the_server.cmp(&b.is_about_the_server).then(by_share)
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
