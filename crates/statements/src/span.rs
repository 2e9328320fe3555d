//! What statements did in a span of time, counted in parts that are about equal.
//!
//! In: looks at the running statements, and readings of the server's summary by digest, in the order of time. Out: a [`Span`].
//! A span of unknown length is cut into between [`MOST_PARTS`] and half of that many parts: whenever there are more, neighbours
//! are merged. So memory and file are bounded, whatever the length.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use spindoctor_model::mysql::StatementDigest;
use spindoctor_sql::{comparable, is_about_the_server, server_digest};

use crate::growth::{Counts, grown};

/// Parts of a span at most.
pub const MOST_PARTS: usize = 48;
/// Kinds of statements that are counted separately; what comes after them is [`OTHERS`].
const MOST_STATEMENTS: usize = 4_000;
/// Where there is no room for another kind.
const OTHERS: &str = "(others)";
/// Characters of a statement by which it is known: thread lists and summaries cut long ones at different places.
const KNOWN_BY: usize = 600;
/// Words for waits of one statement that are counted separately.
const MOST_WAITS: usize = 40;

/// One look's worth, or that of several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Looks {
    /// How many looks.
    pub looks: u64,
    /// By statement, in how many of them it ran, each session counted.
    pub seen: BTreeMap<u32, u64>,
}

/// What the server counted between two readings, or several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Seconds between them.
    pub seconds: f64,
    /// By statement.
    pub by: BTreeMap<u32, Counts>,
}

/// A span of time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Span {
    /// `MySQL 9.7.4 on db17`, or the file's name.
    pub name: String,
    /// When it began; none where nothing says.
    pub start: Option<Timestamp>,
    /// How long it is.
    pub seconds: f64,
    /// Statements without literals, by number.
    pub statements: Vec<String>,
    /// Looks at what runs, in parts.
    pub looks: Vec<Looks>,
    /// What the server counted, in parts; empty where it does not.
    pub counted: Vec<Counted>,
    /// True where the server's list of statements was longer than what is read of it: what is not in it may have run.
    pub is_cut: bool,
    /// By statement, what its sessions waited for, in how many sightings.
    pub waits: BTreeMap<u32, BTreeMap<String, u64>>,
}

impl Span {
    /// The number of a statement, if it ran.
    pub fn place(&self, key: &str) -> Option<u32> {
        let at = self.statements.iter().position(|statement| key_of(statement) == key)?;
        u32::try_from(at).ok()
    }

    /// All looks.
    pub fn looks(&self) -> u64 {
        self.looks.iter().map(|part| part.looks).sum()
    }

    /// A saved span is of our own making only where each number in it names a statement.
    pub fn is_whole(&self) -> bool {
        let names = |place: &u32| usize::try_from(*place).is_ok_and(|at| at < self.statements.len());
        self.looks.iter().all(|part| part.seen.keys().all(names))
            && self.counted.iter().all(|part| part.by.keys().all(names))
            && self.waits.keys().all(names)
    }
}

/// What two texts of one statement have in common: of a thread list, and of the server's summary.
pub(crate) fn key_of(statement: &str) -> String {
    let mut key = comparable(server_digest(statement));
    if let Some((at, _)) = key.char_indices().nth(KNOWN_BY) {
        key.truncate(at);
    }
    key
}

/// A span that is being counted.
#[derive(Debug, Default)]
pub struct Tally {
    span: Span,
    places: HashMap<String, u32>,
    /// The place of a text as it came, so that a text that comes again is not taken apart again.
    known: HashMap<String, u32>,
    looks_each: u64,
    counted_each: usize,
    /// Readings in the last part.
    in_last: usize,
    reading: Option<(f64, Vec<StatementDigest>)>,
}

impl Tally {
    /// Nothing counted yet.
    pub fn new(name: &str) -> Self {
        let span = Span { name: name.to_owned(), ..Span::default() };
        Self { span, looks_each: 1, counted_each: 1, ..Self::default() }
    }

    /// Counts a look: of each session at work its statement without literals, and what it waits for, empty where that is
    /// nothing.
    pub fn look<'a>(&mut self, running: impl Iterator<Item = (&'a str, &'a str)>) {
        let is_full = self.span.looks.last().is_none_or(|part| part.looks >= self.looks_each);
        if is_full {
            if self.span.looks.len() >= MOST_PARTS {
                self.span.looks = merged(&self.span.looks, |a, b| {
                    a.looks += b.looks;
                    b.seen.iter().for_each(|(place, seen)| *a.seen.entry(*place).or_default() += seen);
                });
                self.looks_each *= 2;
            }
            self.span.looks.push(Looks::default());
        }
        let mut seen: Vec<u32> = Vec::new();
        for (statement, wait) in running {
            let place = self.place(statement);
            seen.push(place);
            let waits = self.span.waits.entry(place).or_default();
            if waits.len() < MOST_WAITS || waits.contains_key(wait) {
                *waits.entry(wait.to_owned()).or_default() += 1;
            }
        }
        let Some(part) = self.span.looks.last_mut() else { return };
        part.looks += 1;
        seen.into_iter().for_each(|place| *part.seen.entry(place).or_default() += 1);
    }

    /// Counts what ran between the reading before and this one. Statements about the server, monitors' and our own, are left
    /// out. `is_cut` where the server has more than the list shows.
    pub fn reading(&mut self, at_s: f64, digests: &[StatementDigest], is_cut: bool) {
        self.span.is_cut |= is_cut;
        let before = self.reading.replace((at_s, digests.to_vec()));
        let Some((first_s, first)) = before.filter(|(first_s, _)| *first_s < at_s) else { return };
        let seconds = at_s - first_s;
        if self.span.counted.is_empty() || self.in_last >= self.counted_each {
            if self.span.counted.len() >= MOST_PARTS {
                self.span.counted = merged(&self.span.counted, |a, b| {
                    a.seconds += b.seconds;
                    b.by.iter().for_each(|(place, by)| *a.by.entry(*place).or_default() += *by);
                });
                self.counted_each *= 2;
            }
            self.span.counted.push(Counted::default());
            self.in_last = 0;
        }
        self.in_last += 1;
        let ran: Vec<(u32, Counts)> = grown(&first, digests, seconds)
            .into_iter()
            .filter(|grown| !is_about_the_server(&grown.digest.schema, &grown.digest.text))
            .map(|grown| (self.place(server_digest(&grown.digest.text)), grown.by))
            .collect();
        let Some(part) = self.span.counted.last_mut() else { return };
        part.seconds += seconds;
        ran.into_iter().for_each(|(place, by)| *part.by.entry(place).or_default() += by);
    }

    /// The server's counters began from zero: the reading before says nothing of the next.
    pub fn restarted(&mut self) {
        self.reading = None;
    }

    fn place(&mut self, statement: &str) -> u32 {
        if let Some(place) = self.known.get(statement) {
            return *place;
        }
        if self.known.len() >= 4 * MOST_STATEMENTS {
            self.known.clear();
        }
        let is_full = self.span.statements.len() >= MOST_STATEMENTS;
        let key = key_of(statement);
        let (key, shown) = match self.places.contains_key(&key) || !is_full {
            true => (key, statement),
            false => (key_of(OTHERS), OTHERS),
        };
        let statements = &mut self.span.statements;
        let place = *self.places.entry(key).or_insert_with(|| {
            statements.push(shown.split_whitespace().collect::<Vec<_>>().join(" "));
            u32::try_from(statements.len() - 1).unwrap_or(u32::MAX)
        });
        self.known.insert(statement.to_owned(), place);
        place
    }

    /// What was counted, over a time that began then and lasted so long.
    pub fn finish(mut self, start: Option<Timestamp>, seconds: f64) -> Span {
        self.span.start = start;
        self.span.seconds = seconds;
        self.span
    }
}

/// Neighbours as one.
fn merged<P: Clone>(parts: &[P], add: impl Fn(&mut P, &P)) -> Vec<P> {
    let one = |pair: &[P]| {
        let mut first = pair[0].clone();
        pair[1..].iter().for_each(|second| add(&mut first, second));
        first
    };
    parts.chunks(2).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str, executions: u64) -> StatementDigest {
        StatementDigest {
            digest: text.into(),
            text: text.into(),
            executions,
            total_ns: executions * 1_000_000,
            rows_examined: executions * 10,
            ..StatementDigest::default()
        }
    }

    #[test]
    fn a_statement_is_the_same_in_the_thread_list_and_in_the_summary() {
        let mut tally = Tally::new("a");
        let list = ["select c from t where id in(...)", "SELECT `c`  FROM `t` WHERE `id` IN (...)"];
        tally.look(list.into_iter().map(|text| (text, "")));
        tally.reading(0.0, &[digest("EXECUTE SELECT `c` FROM `t` WHERE `id` IN (...)", 5)], false);
        tally.reading(30.0, &[digest("EXECUTE SELECT `c` FROM `t` WHERE `id` IN (...)", 65)], false);
        let span = tally.finish(None, 30.0);
        assert_eq!(span.statements, ["select c from t where id in(...)"]);
        assert_eq!(span.looks[0].seen[&0], 2);
        assert_eq!(span.counted[0].by[&0].executions, 60.0);
        assert!(span.is_whole());
    }

    #[test]
    fn a_long_span_has_few_parts_and_loses_nothing() {
        let mut tally = Tally::new("a");
        for second in 0..5_000_u64 {
            let busy = usize::try_from(second % 3).unwrap();
            tally.look(["SELECT a FROM t", "COMMIT"].into_iter().take(busy).map(|text| (text, "commit")));
            if second.is_multiple_of(10) {
                tally.reading(second as f64, &[digest("SELECT a FROM t", 7 * second)], false);
            }
        }
        let span = tally.finish(None, 5_000.0);
        for parts in [span.looks.len(), span.counted.len()] {
            assert!((MOST_PARTS / 2..=MOST_PARTS).contains(&parts), "{parts}");
        }
        assert_eq!(span.looks(), 5_000);
        let all: u64 = span.looks.iter().flat_map(|part| part.seen.values()).sum();
        assert_eq!(all, 4_999);
        let executions: f64 =
            span.counted.iter().flat_map(|part| part.by.values()).map(|by| by.executions).sum();
        assert_eq!(executions, 7.0 * 4_990.0);
        assert_eq!(span.counted.iter().map(|part| part.seconds).sum::<f64>(), 4_990.0);
        assert_eq!(span.waits[&0]["commit"], 3_333);
    }

    #[test]
    fn statements_without_end_are_bounded_and_monitors_are_nobodys_load() {
        let mut tally = Tally::new("a");
        for at in 0..MOST_STATEMENTS + 10 {
            tally.look([(format!("SELECT c{at} FROM t").as_str(), "")].into_iter());
        }
        let monitor = "SELECT `VARIABLE_NAME` FROM `performance_schema` . `global_status`";
        tally.reading(0.0, &[digest(monitor, 5)], false);
        tally.reading(9.0, &[digest(monitor, 50)], true);
        let span = tally.finish(None, 9.0);
        assert_eq!(span.statements.len(), MOST_STATEMENTS + 1);
        assert_eq!(span.statements.last().map(String::as_str), Some(OTHERS));
        assert!(span.counted[0].by.is_empty() && span.is_cut);
    }

    #[test]
    fn counters_that_began_from_zero_are_no_growth() {
        let mut tally = Tally::new("a");
        tally.reading(0.0, &[digest("COMMIT", 500)], false);
        tally.restarted();
        tally.reading(10.0, &[digest("COMMIT", 900)], false);
        assert!(tally.finish(None, 10.0).counted.is_empty());
    }
}
