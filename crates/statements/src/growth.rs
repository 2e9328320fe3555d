//! What each kind of statement did between two readings of the server's summary.

use std::collections::HashMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use spindoctor_model::mysql::StatementDigest;

/// Sums over executions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Executions that ended.
    pub executions: f64,
    /// Their time, nanoseconds.
    pub total_ns: f64,
    /// Of that the time in locks, nanoseconds.
    pub lock_ns: f64,
    /// Rows read.
    pub rows_examined: f64,
    /// Rows returned.
    pub rows_sent: f64,
    /// Rows changed.
    pub rows_affected: f64,
    /// Executions that scanned the first table whole, and those that joined without an index.
    pub full_scans: f64,
    /// Temporary tables that went to disk.
    pub disk_temporary_tables: f64,
    /// Executions that ended with an error; 0 where nobody counts them.
    pub errors: f64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.executions += more.executions;
        self.total_ns += more.total_ns;
        self.lock_ns += more.lock_ns;
        self.rows_examined += more.rows_examined;
        self.rows_sent += more.rows_sent;
        self.rows_affected += more.rows_affected;
        self.full_scans += more.full_scans;
        self.disk_temporary_tables += more.disk_temporary_tables;
        self.errors += more.errors;
    }
}

/// One kind of statement, and what it did between two readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grown<'a> {
    /// Its row of the later reading.
    pub digest: &'a StatementDigest,
    /// What it did.
    pub by: Counts,
}

/// The server gives the age of a digest in whole seconds.
const AGE_ERROR_S: f64 = 1.0;

/// Growth of each digest that ran between two readings, in the order of the later one. A digest that the first reading does not
/// have grew from zero where it is younger than that, and is left out where it is not: the list of the first reading was cut.
/// One whose counters fell was counted from zero meanwhile, and is left out too.
pub fn grown<'a>(first: &[StatementDigest], last: &'a [StatementDigest], seconds: f64) -> Vec<Grown<'a>> {
    let before: HashMap<(&str, &str), &StatementDigest> =
        first.iter().map(|digest| ((digest.schema.as_str(), digest.digest.as_str()), digest)).collect();
    let nothing = StatementDigest::default();
    let growth = |last: &'a StatementDigest| {
        let is_new = last.first_seen_s.is_some_and(|age_s| age_s <= seconds + AGE_ERROR_S);
        let known = before.get(&(last.schema.as_str(), last.digest.as_str())).copied();
        let first = known.or(is_new.then_some(&nothing))?;
        let grew = |last: u64, first: u64| last.checked_sub(first).map(|grew| grew as f64);
        let by = Counts {
            executions: grew(last.executions, first.executions).filter(|&ran| ran > 0.0)?,
            total_ns: grew(last.total_ns, first.total_ns)?,
            lock_ns: grew(last.lock_ns, first.lock_ns)?,
            rows_examined: grew(last.rows_examined, first.rows_examined)?,
            rows_sent: grew(last.rows_sent, first.rows_sent)?,
            rows_affected: grew(last.rows_affected, first.rows_affected)?,
            full_scans: grew(last.full_scans, first.full_scans)? + grew(last.full_joins, first.full_joins)?,
            disk_temporary_tables: grew(last.disk_temporary_tables, first.disk_temporary_tables)?,
            errors: match (last.errors, first.errors) {
                (Some(last), Some(first)) => grew(last, first)?,
                (Some(last), None) if known.is_none() => last as f64,
                _ => 0.0,
            },
        };
        Some(Grown { digest: last, by })
    };
    last.iter().filter_map(growth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(name: &str, executions: u64, first_seen_s: Option<f64>) -> StatementDigest {
        StatementDigest {
            digest: name.into(),
            executions,
            total_ns: executions * 1_000,
            full_scans: executions,
            full_joins: executions,
            first_seen_s,
            ..StatementDigest::default()
        }
    }

    #[test]
    fn a_digest_that_the_first_list_lacks_counts_only_where_it_is_young() {
        let first = [digest("old", 10, Some(900.0)), digest("reset", 50, None), digest("idle", 5, None)];
        let last = [
            digest("old", 14, Some(930.0)),
            digest("young", 3, Some(31.0)),
            digest("cut", 3_000, Some(900.0)),
            digest("without age", 3, None),
            digest("reset", 4, None),
            digest("idle", 5, None),
        ];
        let grown: Vec<(&str, f64, f64)> = grown(&first, &last, 30.0)
            .iter()
            .map(|grown| (grown.digest.digest.as_str(), grown.by.executions, grown.by.full_scans))
            .collect();
        assert_eq!(grown, [("old", 4.0, 8.0), ("young", 3.0, 6.0)]);
    }
}
