//! Which statements a part of a recording has, the costliest first.

use std::collections::HashMap;

use spindoctor_model::RecordedSample;
use spindoctor_sql::{comparable, digest, is_about_the_server};

/// Statements that are remembered while a recording is read.
const REMEMBERED: usize = 5_000;

/// A statement of a recording.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Statement {
    /// Its text without literals, as the recording has it.
    pub shape: String,
    /// The database that it ran in; empty where that is not known.
    pub schema: String,
    /// A text of it with its literals, where the recording has one.
    pub full: Option<String>,
    /// Sessions that were seen at it.
    pub seen: u64,
    /// Its time by the server's own count, seconds.
    pub counted_s: f64,
}

/// The statements as they are gathered.
#[derive(Debug, Default)]
pub struct Statements {
    by_key: HashMap<(String, String), Statement>,
    /// By schema and digest: its first count of nanoseconds.
    first_ns: HashMap<(String, String), u64>,
    has_literals: bool,
}

/// By what two texts of a statement are one.
pub fn key(schema: &str, shape: &str) -> (String, String) {
    (schema.to_lowercase(), comparable(shape))
}

impl Statements {
    /// None yet, of a recording that has literals or does not.
    pub fn new(has_literals: bool) -> Self {
        Self { has_literals, ..Self::default() }
    }

    /// Adds what a sample has.
    pub fn add(&mut self, recorded: &RecordedSample) {
        let server = &recorded.sample.server;
        for thread in server.threads.value().into_iter().flatten().filter(|thread| thread.is_at_work()) {
            let Some(text) = &thread.statement else { continue };
            let shape = thread.digest_text.clone().unwrap_or_else(|| digest(text));
            let has_literals = self.has_literals;
            let Some(statement) = self.entry(&thread.schema, &shape) else { continue };
            statement.seen += 1;
            if has_literals && statement.full.is_none() {
                statement.full = Some(text.clone());
            }
        }
        for counted in server.digests.value().into_iter().flatten() {
            if self.entry(&counted.schema, &counted.text).is_none() {
                continue;
            }
            let key = key(&counted.schema, &counted.text);
            let first = *self.first_ns.entry(key.clone()).or_insert(counted.total_ns);
            if let Some(statement) = self.by_key.get_mut(&key) {
                statement.counted_s = counted.total_ns.saturating_sub(first) as f64 / 1e9;
            }
        }
    }

    fn entry(&mut self, schema: &str, shape: &str) -> Option<&mut Statement> {
        let key = key(schema, shape);
        let is_known = self.by_key.contains_key(&key);
        if !is_known
            && (self.by_key.len() >= REMEMBERED || key.1.is_empty() || is_about_the_server(schema, shape))
        {
            return None;
        }
        let new = || Statement { shape: shape.to_owned(), schema: schema.to_owned(), ..Statement::default() };
        Some(self.by_key.entry(key).or_insert_with(new))
    }

    /// Those that cost most, as many as that: by the server's count of their time, and by how often they were seen.
    pub fn costliest(self, most: usize) -> Vec<Statement> {
        let mut all: Vec<Statement> = self.by_key.into_values().collect();
        // A list a second: a session that is seen was at it for about one.
        let cost_s = |one: &Statement| one.counted_s.max(one.seen as f64);
        all.sort_by(|one, other| {
            cost_s(other).total_cmp(&cost_s(one)).then_with(|| one.shape.cmp(&other.shape))
        });
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use spindoctor_model::mysql::{ServerThread, StatementDigest};
    use spindoctor_model::{Reading, Sample};

    use super::*;

    #[test]
    fn a_statement_is_one_however_it_is_written_and_the_costliest_is_first() {
        let available = |value| Reading::Available { at_s: 0.0, took_ms: 1.0, value };
        let thread = |statement: &str| ServerThread {
            is_connection: true,
            command: "Query".into(),
            schema: "shop".into(),
            statement: Some(statement.into()),
            ..ServerThread::default()
        };
        let counted = |text: &str, total_ns| StatementDigest {
            schema: "shop".into(),
            text: text.into(),
            total_ns,
            ..StatementDigest::default()
        };
        let sample = |total_ns| {
            let mut sample = Sample::default();
            sample.server.threads = available(vec![
                thread("SELECT a FROM t WHERE b = 'x'"),
                thread("select a from t where b = 'y'"),
                thread("SHOW STATUS"),
            ]);
            sample.server.digests = Reading::Available {
                at_s: 0.0,
                took_ms: 1.0,
                value: vec![
                    counted("SELECT `a` FROM `t` WHERE `b` = ?", 5),
                    counted("DELETE FROM `t`", total_ns),
                    counted("SELECT * FROM `performance_schema` . `threads`", total_ns),
                ],
            };
            RecordedSample { at: Timestamp::UNIX_EPOCH, segment: 1, sample }
        };
        let mut statements = Statements::new(true);
        statements.add(&sample(0));
        statements.add(&sample(9_000_000_000));
        let found = statements.costliest(10);
        let shown: Vec<_> = found.iter().map(|one| (one.shape.as_str(), one.seen)).collect();
        assert_eq!(shown, [("DELETE FROM `t`", 0), ("SELECT a FROM t WHERE b = ?", 4)]);
        assert_eq!(found[1].full.as_deref(), Some("SELECT a FROM t WHERE b = 'x'"));
        assert!((found[0].counted_s - 9.0).abs() < 1e-9);
    }
}
