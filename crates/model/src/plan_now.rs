//! The plan of one statement as it is now, and what the optimizer chose it from: asked after a window about the statement that a rule
//! names. None of it holds a value of the statement's.

use serde::{Deserialize, Serialize};

use crate::reading::{Reading, Unavailable};

/// The statement that a rule wants to know more about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Suspect {
    /// The database that it runs in; empty where it has none.
    pub schema: String,
    /// The server's digest of it.
    pub digest: String,
    /// Its text without literals.
    pub text: String,
    /// The first table that it names, where one is found.
    pub table: Option<TableName>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TableName {
    /// Its database; empty where that is not known.
    pub schema: String,
    /// Its name.
    pub name: String,
}

/// What is asked about a [`Suspect`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanNow {
    /// The database that the statement runs in.
    pub schema: String,
    /// The server's digest of it.
    pub digest: String,
    /// The table that is looked at: the one of which the plan reads most rows, else the first.
    pub table: TableName,
    /// EXPLAIN, a line for each table.
    pub explained: Reading<Vec<PlanLine>>,
    /// The indexes of the table.
    pub indexes: Reading<Vec<Index>>,
    /// What the optimizer knows of the table.
    pub statistics: Reading<TableStatistics>,
}

/// A line of EXPLAIN.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanLine {
    /// The table as the statement calls it.
    pub table: String,
    /// How it is read: `const`, `ref`, `range`, `index`, `ALL`.
    pub access: String,
    /// The indexes that could be used.
    pub possible_keys: Vec<String>,
    /// The index that is used.
    pub key: Option<String>,
    /// Rows that are expected to be read for each row of the lines before.
    pub rows: Option<f64>,
    /// Percent of them that are expected to pass the conditions.
    pub filtered: Option<f64>,
    /// What else is done, without the values that some servers add.
    pub extra: String,
}

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its columns in order; an expression is `(expression)`.
    pub columns: Vec<String>,
    /// True where no two rows have the same values.
    pub is_unique: bool,
    /// True where one of its columns may be NULL.
    pub is_nullable: bool,
    /// True for a B-tree: others are not dived into.
    pub is_btree: bool,
    /// True where the optimizer may not use it (INVISIBLE in MySQL 8.0, IGNORED in MariaDB 10.6).
    pub is_hidden: bool,
    /// How many different values the statistics say it has, all columns together.
    pub cardinality: Option<u64>,
    /// Times that a row was read through it since the server started, where the server counts.
    pub reads: Option<u64>,
}

/// InnoDB's persistent statistics of a table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TableStatistics {
    /// The rows that it has by them.
    pub rows: Option<u64>,
    /// Seconds from when they were last computed, or written by hand, to the answer.
    pub age_s: f64,
}

impl Suspect {
    /// Nothing is known of it yet.
    pub fn unknown(&self) -> PlanNow {
        PlanNow {
            schema: self.schema.clone(),
            digest: self.digest.clone(),
            table: self.table.clone().unwrap_or_default(),
            ..PlanNow::default()
        }
    }
}

impl PlanNow {
    /// Why each part that was asked for could not be read, with what the part is.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &Unavailable)> {
        [
            ("EXPLAIN of the statement", self.explained.unavailable()),
            ("the indexes of its table", self.indexes.unavailable()),
            ("the statistics of its table", self.statistics.unavailable()),
        ]
        .into_iter()
        .filter_map(|(part, why)| Some((part, why?)))
    }

    /// Says of what has no answer why not; an answer or an earlier reason that is there already stays.
    pub fn fail(&mut self, why: &Unavailable) {
        self.explained.fail(why.clone());
        self.indexes.fail(why.clone());
        self.statistics.fail(why.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_answered_says_why_and_the_rest_stays() {
        let mut plan = Suspect { schema: "shop".into(), ..Suspect::default() }.unknown();
        plan.explained = Reading::Available { at_s: 10.0, took_ms: 1.0, value: Vec::new() };
        plan.indexes.fail(Unavailable::because("no privilege"));
        plan.fail(&Unavailable::because("no answer"));
        let failures: Vec<_> = plan.failures().map(|(part, why)| (part, why.because.as_str())).collect();
        assert_eq!(
            failures,
            [("the indexes of its table", "no privilege"), ("the statistics of its table", "no answer")]
        );
    }
}
