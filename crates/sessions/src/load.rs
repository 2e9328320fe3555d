//! The load of a span: the sessions at work over time as bars, by class, and a table of statements by class.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use spindoctor_model::TimeClass;
use spindoctor_sql::comparable;

use crate::AtWork;

/// Statements that are counted separately; what comes after them is [`OTHERS`].
const MOST_STATEMENTS: usize = 2_000;
/// States of waits without a class that are kept.
const MOST_STATES: usize = 50;
/// The statements that there was no room for.
pub const OTHERS: &str = "(others)";

/// Bars that are folded cover this at first, seconds: lists are read once a second, and more often in a stall.
const SHORTEST_S: f64 = 1.0;
/// A bar may cover so much more, seconds: a list is as long as it is, some milliseconds more or less than its second.
const APART_S: f64 = 0.5;

/// What sessions did in a span.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Load {
    most_bars: usize,
    /// Lists become one bar where it covers no more than this, seconds; 0 while each has a bar of its own.
    bar_s: f64,
    bars: Vec<Bar>,
    statements: Vec<Statement>,
    /// Places of the statements, by text and by what texts have in common.
    by_text: HashMap<String, usize>,
    by_words: HashMap<String, usize>,
    states: BTreeMap<String, f64>,
    seconds: f64,
    lists: u64,
    without_lock_waits: u64,
    sightings: f64,
    sleeping_s: f64,
}

/// Lists that follow each other, as one bar. What nobody knows between them is part of it where it is shorter than the bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Where it begins.
    pub from: Timestamp,
    /// Where it ends.
    pub to: Timestamp,
    segment: u64,
    /// What its lists stand for.
    seconds: f64,
    session_s: BTreeMap<TimeClass, f64>,
    /// CPU time, and the time that it is of.
    cpu_s: (f64, f64),
    cpus_granted: Option<f64>,
}

/// The time of the sessions in one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The statement without its literals; empty where the server shows none.
    pub text: String,
    session_s: BTreeMap<TimeClass, f64>,
}

impl Bar {
    fn from_list(list: &AtWork) -> Self {
        let seconds = SignedDuration::try_from_secs_f64(list.seconds).unwrap_or_default();
        let mut bar = Self {
            from: list.at.checked_sub(seconds).unwrap_or(list.at),
            to: list.at,
            segment: list.segment,
            seconds: list.seconds,
            session_s: BTreeMap::new(),
            cpu_s: list.cpus_used.map_or((0.0, 0.0), |cpus| (cpus * list.seconds, list.seconds)),
            cpus_granted: list.cpus_granted,
        };
        for seen in &list.sightings {
            *bar.session_s.entry(seen.class).or_default() += seen.sessions * list.seconds;
        }
        bar
    }

    /// Sessions in a class, on average.
    pub fn sessions(&self, class: TimeClass) -> f64 {
        mean(self.session_s.get(&class).copied().unwrap_or_default(), self.seconds)
    }

    /// Sessions in all classes, on average.
    pub fn all_sessions(&self) -> f64 {
        mean(self.session_s.values().sum(), self.seconds)
    }

    /// The classes that it has, in no order that means something.
    pub fn classes(&self) -> impl Iterator<Item = TimeClass> {
        self.session_s.keys().copied()
    }

    /// CPUs that the server used, on average; none where that was not read.
    pub fn cpus_used(&self) -> Option<f64> {
        let (cpu_s, of_s) = self.cpu_s;
        (of_s > 0.0).then(|| cpu_s / of_s)
    }

    /// CPUs that the server may use; none where that was not read.
    pub fn cpus_granted(&self) -> Option<f64> {
        self.cpus_granted
    }

    /// True where another of the same segment begins within so many seconds of its end.
    pub fn is_near(&self, next: &Self, seconds: f64) -> bool {
        self.segment == next.segment && next.from.duration_since(self.to).as_secs_f64().abs() <= seconds
    }

    /// From the beginning of the earlier one to the end of the later one, seconds, with what is between them: the clock may have
    /// been set back where another segment begins.
    fn covers_with_s(&self, next: &Self) -> f64 {
        self.to.max(next.to).duration_since(self.from.min(next.from)).as_secs_f64()
    }

    fn add(&mut self, next: &Self) {
        (self.from, self.to) = (self.from.min(next.from), self.to.max(next.to));
        self.segment = next.segment;
        self.seconds += next.seconds;
        for (class, seconds) in &next.session_s {
            *self.session_s.entry(*class).or_default() += seconds;
        }
        self.cpu_s = (self.cpu_s.0 + next.cpu_s.0, self.cpu_s.1 + next.cpu_s.1);
        self.cpus_granted = next.cpus_granted.or(self.cpus_granted);
    }
}

impl Statement {
    fn session_s(&self) -> f64 {
        self.session_s.values().sum()
    }
}

/// True where two bars that follow each other become one of so many seconds.
fn is_one(bar: &Bar, next: &Bar, bar_s: f64) -> bool {
    bar_s > 0.0 && bar.covers_with_s(next) <= bar_s + APART_S
}

fn mean(session_s: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { session_s / seconds } else { 0.0 }
}

impl Load {
    /// Of nothing yet. There are never more than twice so many bars: where there would be, those that are shorter become one.
    pub fn new(most_bars: usize) -> Self {
        Self { most_bars: most_bars.max(1), ..Self::default() }
    }

    /// The load of some lists, one bar for each.
    pub fn from_lists<'a>(lists: impl IntoIterator<Item = &'a AtWork>) -> Self {
        let mut load = Self::new(usize::MAX / 4);
        lists.into_iter().for_each(|list| load.add(list));
        load
    }

    /// The load of some lists, a bar for each second back from an instant: of lists that are closer to each other their mean.
    pub fn by_second<'a>(lists: impl IntoIterator<Item = &'a AtWork>, until: Timestamp) -> Self {
        let mut load = Self::from_lists(lists);
        let second = |bar: &Bar| until.duration_since(bar.to).as_secs_f64().round();
        for bar in std::mem::take(&mut load.bars) {
            match load.bars.last_mut() {
                Some(last) if second(last) == second(&bar) && last.segment == bar.segment => last.add(&bar),
                _ => load.bars.push(bar),
            }
        }
        load
    }

    /// Counts the next list, in order of time.
    pub fn add(&mut self, list: &AtWork) {
        self.seconds += list.seconds;
        self.lists += 1;
        self.without_lock_waits += u64::from(!list.has_lock_waits);
        self.sightings += list.sessions();
        self.sleeping_s += list.sleeping * list.seconds;
        for seen in &list.sightings {
            let session_s = seen.sessions * list.seconds;
            let place = self.place(&seen.statement);
            *self.statements[place].session_s.entry(seen.class).or_default() += session_s;
            let is_kept = self.states.len() < MOST_STATES || self.states.contains_key(&seen.state);
            if seen.class == TimeClass::Other && is_kept {
                *self.states.entry(seen.state.clone()).or_default() += session_s;
            }
        }
        let bar = Bar::from_list(list);
        match self.bars.last_mut() {
            Some(last) if is_one(last, &bar, self.bar_s) => last.add(&bar),
            _ => self.bars.push(bar),
        }
        if self.bars.len() > self.most_bars.saturating_mul(2) {
            self.fold();
        }
    }

    /// Makes one bar of those that follow each other, each time of twice as long, until a quarter of the room is free: however many
    /// gaps there are, what is added takes next to nothing of this.
    fn fold(&mut self) {
        let most = self.most_bars.saturating_add(self.most_bars / 2);
        while self.bars.len() > most {
            self.bar_s = (self.bar_s * 2.0).max(SHORTEST_S);
            let mut folded: Vec<Bar> = Vec::with_capacity(most);
            for bar in std::mem::take(&mut self.bars) {
                match folded.last_mut() {
                    Some(last) if is_one(last, &bar, self.bar_s) => last.add(&bar),
                    _ => folded.push(bar),
                }
            }
            self.bars = folded;
        }
    }

    /// The place of a statement among those that are counted.
    fn place(&mut self, text: &str) -> usize {
        if let Some(place) = self.by_text.get(text) {
            return *place;
        }
        let is_full = self.statements.len() >= MOST_STATEMENTS;
        let words = comparable(text);
        let known = self.by_words.get(&words).copied();
        let (text, words) =
            if is_full && known.is_none() { (OTHERS, OTHERS.to_owned()) } else { (text, words) };
        let next = self.statements.len();
        let place = *self.by_words.entry(words).or_insert(next);
        if place == next {
            self.statements.push(Statement { text: text.to_owned(), session_s: BTreeMap::new() });
        }
        // As many texts as there may be statements: each is found by its words all the same.
        if self.by_text.len() < MOST_STATEMENTS {
            self.by_text.insert(text.to_owned(), place);
        }
        place
    }

    /// The bars, in order of time.
    pub fn bars(&self) -> &[Bar] {
        &self.bars
    }

    /// The classes with their sessions on average, the most first.
    pub fn classes(&self) -> Vec<(TimeClass, f64)> {
        let mut session_s: BTreeMap<TimeClass, f64> = BTreeMap::new();
        for statement in &self.statements {
            for (class, seconds) in &statement.session_s {
                *session_s.entry(*class).or_default() += seconds;
            }
        }
        let mut classes: Vec<(TimeClass, f64)> =
            session_s.into_iter().map(|(class, session_s)| (class, mean(session_s, self.seconds))).collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        classes
    }

    /// The statements, those with the most time first.
    pub fn statements(&self) -> Vec<&Statement> {
        let mut statements: Vec<&Statement> = self.statements.iter().collect();
        statements.sort_by(|a, b| b.session_s().total_cmp(&a.session_s()).then_with(|| a.text.cmp(&b.text)));
        statements
    }

    /// Sessions in a statement and a class, on average.
    pub fn sessions_in(&self, statement: &Statement, class: TimeClass) -> f64 {
        mean(statement.session_s.get(&class).copied().unwrap_or_default(), self.seconds)
    }

    /// Sessions in a statement, on average.
    pub fn sessions_of(&self, statement: &Statement) -> f64 {
        mean(statement.session_s(), self.seconds)
    }

    /// Sessions at work, on average.
    pub fn sessions(&self) -> f64 {
        mean(self.statements.iter().map(Statement::session_s).sum(), self.seconds)
    }

    /// Sessions in `SLEEP()`, on average.
    pub fn sleeping(&self) -> f64 {
        mean(self.sleeping_s, self.seconds)
    }

    /// What the server called the waits that have no class, the most frequent first.
    pub fn unnamed(&self) -> Vec<&str> {
        let mut states: Vec<(&String, &f64)> =
            self.states.iter().filter(|(state, _)| !state.is_empty()).collect();
        states.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
        states.into_iter().map(|(state, _)| state.as_str()).collect()
    }

    /// CPUs that the server used, on average; none where that was never read.
    pub fn cpus_used(&self) -> Option<f64> {
        let (cpu_s, of_s) =
            self.bars.iter().fold((0.0, 0.0), |(cpu_s, of_s), bar| (cpu_s + bar.cpu_s.0, of_s + bar.cpu_s.1));
        (of_s > 0.0).then(|| cpu_s / of_s)
    }

    /// CPUs that the server may use, as last read.
    pub fn cpus_granted(&self) -> Option<f64> {
        self.bars.iter().rev().find_map(|bar| bar.cpus_granted)
    }

    /// What the lists stand for, seconds.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// How many lists there were.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Lists without one of InnoDB's transactions: who waited for a row lock counts as running in them.
    pub fn without_lock_waits(&self) -> u64 {
        self.without_lock_waits
    }

    /// How many times a session was seen at work.
    pub fn sightings(&self) -> u64 {
        self.sightings.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::KnownBy;

    use super::*;
    use crate::Sightings;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_782_898_200_000 + ms).unwrap()
    }

    fn list(ms: i64, seconds: f64, sightings: &[(TimeClass, &str, f64)]) -> AtWork {
        AtWork {
            at: at(ms),
            segment: 1,
            seconds,
            sightings: sightings
                .iter()
                .map(|&(class, statement, sessions)| Sightings {
                    class,
                    known_by: KnownBy::List,
                    statement: statement.to_owned(),
                    sessions,
                    state: format!("state of {}", class.label()),
                })
                .collect(),
            sleeping: 0.0,
            cpus_used: Some(1.0),
            cpus_granted: Some(2.0),
            has_lock_waits: true,
        }
    }

    use TimeClass::{Other, RowLock, Running};

    #[test]
    fn a_list_counts_as_long_as_it_stands_for() {
        let load = Load::from_lists(&[
            list(1_000, 1.0, &[(Running, "SELECT `c` FROM `t`", 2.0)]),
            list(4_000, 3.0, &[(RowLock, "UPDATE t", 4.0), (Running, "select c from t", 2.0)]),
        ]);
        assert_eq!((load.seconds(), load.lists(), load.sightings()), (4.0, 2, 8));
        assert_eq!(load.classes(), [(RowLock, 3.0), (Running, 2.0)]);
        assert_eq!(load.sessions(), 5.0);
        let rows: Vec<_> = load
            .statements()
            .into_iter()
            .map(|row| (row.text.as_str(), load.sessions_of(row), load.sessions_in(row, Running)))
            .collect();
        assert_eq!(rows, [("UPDATE t", 3.0, 0.0), ("SELECT `c` FROM `t`", 2.0, 2.0)]);
        let bars: Vec<_> = load.bars().iter().map(|bar| (bar.from, bar.to, bar.all_sessions())).collect();
        assert_eq!(bars, [(at(0), at(1_000), 2.0), (at(1_000), at(4_000), 6.0)]);
        assert_eq!((load.cpus_used(), load.cpus_granted()), (Some(1.0), Some(2.0)));
        assert!(load.unnamed().is_empty());
    }

    #[test]
    fn looks_within_a_second_are_one_bar_of_it() {
        let lists = [
            list(1_000, 1.0, &[(Running, "SELECT ?", 1.0)]),
            list(1_600, 0.6, &[(RowLock, "UPDATE t", 10.0)]),
            list(2_010, 0.4, &[(RowLock, "UPDATE t", 20.0)]),
            list(5_000, 1.0, &[(Running, "SELECT ?", 1.0)]),
        ];
        let load = Load::by_second(&lists, at(5_000));
        let bars: Vec<_> = load.bars().iter().map(|bar| (bar.to, bar.all_sessions())).collect();
        assert_eq!(bars, [(at(1_000), 1.0), (at(2_010), 14.0), (at(5_000), 1.0)]);
        assert_eq!(load.lists(), 4);
    }

    #[test]
    fn a_long_span_is_folded_and_keeps_its_mean_and_its_gaps() {
        let mut load = Load::new(100);
        let mut all = 0.0;
        for second in 0..100_000_i64 {
            // An hour is missing, and one peak is in it all.
            if (40_000..43_600).contains(&second) {
                continue;
            }
            let sessions = if second == 77_777 { 90_000.0 } else { 1.0 + (second % 7) as f64 };
            all += sessions;
            load.add(&list(second * 1_000, 1.0, &[(Running, "SELECT ?", sessions)]));
        }
        assert!((75..=200).contains(&load.bars().len()), "{}", load.bars().len());
        let of_bars: f64 = load.bars().iter().map(|bar| bar.all_sessions() * bar.seconds).sum();
        assert!((of_bars - all).abs() < 1e-3 && (load.sessions() - all / 96_400.0).abs() < 1e-9);
        let gaps = load.bars().windows(2).filter(|pair| !pair[0].is_near(&pair[1], APART_S)).count();
        assert_eq!(gaps, 1);
        let highest =
            load.bars().iter().max_by(|a, b| a.all_sessions().total_cmp(&b.all_sessions())).unwrap();
        assert!(highest.from <= at(77_777_000) && at(77_777_000) <= highest.to);
    }

    #[test]
    fn bars_are_bounded_however_many_gaps_there_are_and_wherever_the_clock_was_set_to() {
        let mut load = Load::new(120);
        let (mut ms, mut session_s) = (0, 0.0);
        for count in 0..40_000_i64 {
            // Each list is alone; now and then another segment begins an hour earlier.
            ms += if count % 500 == 0 { -3_600_000 } else { 30_000 };
            let sessions = (count % 5) as f64;
            session_s += sessions;
            load.add(&AtWork {
                segment: 1 + count.unsigned_abs() / 500,
                ..list(ms, 1.0, &[(Running, "SELECT ?", sessions)])
            });
            assert!(load.bars().len() <= 240, "{count}: {}", load.bars().len());
        }
        assert!(load.bars().len() > 60, "{}", load.bars().len());
        let of_bars: f64 = load.bars().iter().map(|bar| bar.all_sessions() * bar.seconds).sum();
        assert!((of_bars - session_s).abs() < 1e-3 && (load.seconds() - 40_000.0).abs() < 1e-6);
        // What comes after all these gaps has bars of its own, and not one because so many lists were folded.
        let quiet_ms = ms;
        for _ in 0..4 * load.bar_s as i64 {
            ms += 10_000;
            load.add(&AtWork { segment: 100, ..list(ms, 10.0, &[(Running, "SELECT ?", 1.0)]) });
        }
        let later = load.bars().iter().filter(|bar| bar.from >= at(quiet_ms)).count();
        assert!((15..=41).contains(&later) && load.bars().len() <= 240, "{later} {}", load.bars().len());
    }

    #[test]
    fn statements_beyond_those_that_are_counted_are_one_row() {
        let mut load = Load::new(10);
        for second in 0..3_000_i64 {
            load.add(&list(second * 1_000, 1.0, &[(Running, &format!("SELECT c FROM t{second}"), 1.0)]));
        }
        let rows = load.statements();
        assert_eq!(rows.len(), MOST_STATEMENTS + 1);
        assert_eq!(rows[0].text, OTHERS);
        assert!((load.sessions_of(rows[0]) - 1_000.0 / 3_000.0).abs() < 1e-9);
        assert!((load.sessions() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn waits_without_a_class_keep_the_words_that_the_server_has_for_them() {
        let load =
            Load::from_lists(&[list(1_000, 1.0, &[(Other, "SELECT ?", 2.0), (Running, "COMMIT", 1.0)])]);
        assert_eq!(load.unnamed(), ["state of other"]);
    }

    #[test]
    fn of_nothing_there_is_nothing_and_nothing_is_divided_by_it() {
        let load = Load::new(10);
        assert_eq!((load.sessions(), load.cpus_used(), load.sleeping()), (0.0, None, 0.0));
        assert!(load.classes().is_empty() && load.bars().is_empty());
    }
}
