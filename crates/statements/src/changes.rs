//! How two spans differ, statement by statement.
//!
//! In: two [`Span`]s. Out: [`Changes`]: the whole first, then each statement with what became of it, ordered by what the change
//! costs: the sessions that are at work in it at once, after against before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::estimate::{Estimate, Factor, ratio};
use crate::growth::Counts;
use crate::span::{Span, key_of};

/// A time, or a number of calls, has changed where the interval lies beyond this factor. Below it a machine's own moods show: on two
/// shared CPUs the time of the same statement moves by a quarter from minute to minute.
pub const TIMES: f64 = 1.5;
/// The same for rows: no machine's mood changes them, only a plan, the data, or the values that are asked for.
pub const ROWS: f64 = 1.25;
/// A statement below this share of all statements' time, before and after, is not compared: its change is nobody's trouble.
const LEAST_SHARE: f64 = 0.01;
/// What is asked of all comparisons together: one in twenty pairs of like spans may show a change.
const ALPHA: f64 = 0.05;
/// A statement that was never seen is new or gone only where so many sightings would have been expected: with eight expected,
/// none happens once in three thousand times (Poisson).
const EXPECTED: f64 = 8.0;
/// Where the part of the executions that scan moved by so much, in so many executions on each side, chance is out of the question
/// (at one half of both, once in some thousand times) without any interval.
const FLIPPED: f64 = 0.5;
const FLIPPED_IN: f64 = 20.0;
/// A part of the executions or the sightings that moved less than this is not mentioned.
const MOVED: f64 = 0.2;

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It did not run before.
    New,
    /// It does not run any more.
    Gone,
    /// Its time, its calls or its rows changed, beyond the margin and beyond chance.
    Changed,
    /// It did not change by more than the margin.
    Alike,
    /// There is not enough evidence for either.
    NotKnown,
}

impl Verdict {
    /// Its word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::Alike => "alike",
            Self::NotKnown => "not known",
        }
    }
}

/// A part of something, before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moved {
    /// Before, 0 to 1.
    pub before: f64,
    /// After, 0 to 1.
    pub after: f64,
}

impl Moved {
    /// True where it moved far enough to be mentioned.
    pub fn is_far(&self) -> bool {
        (self.after - self.before).abs() >= MOVED
    }
}

/// A statement before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Without literals.
    pub statement: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Sessions at work in it: by the looks, or by the server's counts where no look is there.
    pub at_once: Factor,
    /// Executions a second; none where the server does not count them.
    pub calls_per_s: Option<Factor>,
    /// Time of one execution, milliseconds.
    pub each_ms: Option<Factor>,
    /// Rows read by one execution.
    pub rows_each: Option<Factor>,
    /// Rows read for each returned or changed.
    pub rows_for_each: Option<Factor>,
    /// Executions that scan a table whole or join without an index.
    pub scans: Option<Moved>,
    /// Executions that put a temporary table on disk.
    pub disk_tables: Option<Moved>,
    /// Its time in locks.
    pub locks: Option<Moved>,
    /// The wait that moved most, with its part of the sightings.
    pub wait: Option<(String, Moved)>,
}

impl Change {
    /// Sessions more than before; negative where there are fewer.
    pub fn costs(&self) -> f64 {
        self.at_once.after - self.at_once.before
    }

    /// True where it reads more or fewer rows than it did, beyond chance or scans where it did not: its plan, most likely.
    pub fn is_of_rows(&self) -> bool {
        let rows = self.rows_each.is_some_and(|rows| rows.is_beyond(ROWS));
        rows || (self.verdict == Verdict::Changed && self.scans.is_some_and(|scans| scans.is_far()))
    }
}

/// Two spans, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// Sessions at work at once.
    pub at_once: Factor,
    /// Statements a second, where the server counts them.
    pub calls_per_s: Option<Factor>,
    /// Time of one statement, milliseconds, where the server counts it.
    pub each_ms: Option<Factor>,
    /// The statements, what costs most first; what became new, gone or changed stands before the others.
    pub statements: Vec<Change>,
    /// Statements that are too small to matter, and the share of the time that they take together before and after.
    pub small: (usize, Moved),
}

impl Changes {
    /// Those that are new, gone or changed.
    pub fn significant(&self) -> impl Iterator<Item = &Change> {
        self.statements.iter().filter(|one| !matches!(one.verdict, Verdict::Alike | Verdict::NotKnown))
    }
}

/// One side of a statement.
#[derive(Clone, Copy)]
struct Side<'a> {
    span: &'a Span,
    place: Option<u32>,
}

impl Side<'_> {
    fn seen(&self) -> u64 {
        let seen = |place| self.span.looks.iter().filter_map(move |part| part.seen.get(&place)).sum();
        self.place.map_or(0, seen)
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        if let Some(place) = self.place {
            self.span.counted.iter().filter_map(|part| part.by.get(&place)).for_each(|by| all += *by);
        }
        all
    }

    /// Sessions at work in it, by the looks.
    fn by_looks(&self) -> Option<Estimate> {
        let seen = |seen: &BTreeMap<u32, u64>| self.place.and_then(|place| seen.get(&place)).copied();
        ratio(self.span.looks.iter().map(|part| (seen(&part.seen).unwrap_or(0) as f64, part.looks as f64)))
    }

    fn counted(&self, of: impl Fn(&Counts) -> f64, by: impl Fn(&Counts, f64) -> f64) -> Option<Estimate> {
        let none = Counts::default();
        ratio(self.span.counted.iter().map(|part| {
            let counts = self.place.and_then(|place| part.by.get(&place)).unwrap_or(&none);
            (of(counts), by(counts, part.seconds))
        }))
    }

    /// The part of its executions, or of its time.
    fn part(&self, of: impl Fn(&Counts) -> f64, by: impl Fn(&Counts) -> f64) -> Option<f64> {
        let counts = self.counts();
        (by(&counts) > 0.0).then(|| (of(&counts) / by(&counts)).min(1.0))
    }
}

/// Compares two spans.
pub fn changes(before: &Span, after: &Span) -> Changes {
    let has_looks = before.looks() > 0 && after.looks() > 0;
    let has_counts = !before.counted.is_empty() && !after.counted.is_empty();
    let mut sides: Vec<(String, Side<'_>, Side<'_>)> = Vec::new();
    let places: HashMap<String, u32> =
        (0..).zip(&after.statements).map(|(at, text)| (key_of(text), at)).collect();
    let mut known = BTreeSet::new();
    for (place, text) in (0..).zip(&before.statements) {
        let there = places.get(&key_of(text)).copied();
        known.extend(there);
        sides.push((
            text.clone(),
            Side { span: before, place: Some(place) },
            Side { span: after, place: there },
        ));
    }
    for (place, text) in (0..).zip(&after.statements).filter(|(place, _)| !known.contains(place)) {
        sides.push((
            text.clone(),
            Side { span: before, place: None },
            Side { span: after, place: Some(place) },
        ));
    }
    let by_looks = |side: &Side<'_>| side.by_looks();
    let by_counts = |side: &Side<'_>| side.counted(|counts| counts.total_ns / 1e9, |_, seconds| seconds);
    let at_once = |side: &Side<'_>| if has_looks { by_looks(side) } else { by_counts(side) };
    let value = |side: &Side<'_>| at_once(side).map_or(0.0, |estimate| estimate.value);
    let all_before: f64 = sides.iter().map(|(_, before, _)| value(before)).sum();
    let all_after: f64 = sides.iter().map(|(_, _, after)| value(after)).sum();
    // The sum of nothing is -0.
    let share = |value: f64, all: f64| if all > 0.0 && value > 0.0 { value / all } else { 0.0 };
    let (large, small): (Vec<_>, Vec<_>) = sides.into_iter().partition(|(_, before, after)| {
        share(value(before), all_before) >= LEAST_SHARE || share(value(after), all_after) >= LEAST_SHARE
    });
    // Four quantities of each.
    let alpha = ALPHA / (4 * large.len().max(1)) as f64;
    let factor = |a: Option<Estimate>, b: Option<Estimate>| Some(Factor::new(a?, b?, alpha));
    let mut statements: Vec<Change> = large
        .iter()
        .filter_map(|(statement, before, after)| {
            let counted = |of: fn(&Counts) -> f64, by: fn(&Counts, f64) -> f64| {
                factor(before.counted(of, by), after.counted(of, by)).filter(|_| has_counts)
            };
            let executions = |counts: &Counts, _| counts.executions;
            let part = |of: fn(&Counts) -> f64, by: fn(&Counts) -> f64| {
                Some(Moved { before: before.part(of, by)?, after: after.part(of, by)? })
                    .filter(|_| has_counts)
            };
            let mut change = Change {
                statement: statement.clone(),
                verdict: Verdict::NotKnown,
                at_once: factor(at_once(before), at_once(after))?,
                calls_per_s: counted(|counts| counts.executions, |_, seconds| seconds),
                each_ms: counted(|counts| counts.total_ns / 1e6, executions),
                rows_each: counted(|counts| counts.rows_examined, executions),
                rows_for_each: counted(
                    |counts| counts.rows_examined,
                    |counts, _| counts.rows_sent + counts.rows_affected,
                ),
                scans: part(|counts| counts.full_scans, |counts| counts.executions),
                disk_tables: part(|counts| counts.disk_temporary_tables, |counts| counts.executions),
                locks: part(|counts| counts.lock_ns, |counts| counts.total_ns),
                wait: moved_wait(before, after),
            };
            change.verdict = verdict(&change, before, after, has_counts);
            Some(change)
        })
        .collect();
    let is_minor = |change: &Change| matches!(change.verdict, Verdict::Alike | Verdict::NotKnown);
    statements
        .sort_by(|a, b| is_minor(a).cmp(&is_minor(b)).then(b.costs().abs().total_cmp(&a.costs().abs())));
    let small_before: f64 = small.iter().map(|(_, before, _)| value(before)).sum();
    let small_after: f64 = small.iter().map(|(_, _, after)| value(after)).sum();
    Changes {
        at_once: whole_at_once(before, after, has_looks),
        calls_per_s: whole(before, after, has_counts, |counts| counts.executions, |_, seconds| seconds),
        each_ms: whole(
            before,
            after,
            has_counts,
            |counts| counts.total_ns / 1e6,
            |counts, _| counts.executions,
        ),
        statements,
        small: (
            small.len(),
            Moved { before: share(small_before, all_before), after: share(small_after, all_after) },
        ),
    }
}

fn verdict(change: &Change, before: &Side<'_>, after: &Side<'_>, has_counts: bool) -> Verdict {
    let (seen_before, seen_after) = (before.seen() as f64, after.seen() as f64);
    let (looks_before, looks_after) = (before.span.looks() as f64, after.span.looks() as f64);
    let ran = |side: &Side<'_>| side.counts().executions > 0.0;
    // What a cut list does not show may have run.
    let never = |side: &Side<'_>| !(ran(side) || has_counts && side.span.is_cut);
    let expected = |seen: f64, there: f64, here: f64| if there > 0.0 { seen / there * here } else { 0.0 };
    let is_new = seen_before == 0.0
        && never(before)
        && (has_counts && ran(after) || expected(seen_after, looks_after, looks_before) >= EXPECTED);
    let is_gone = seen_after == 0.0
        && never(after)
        && (has_counts && ran(before) || expected(seen_before, looks_before, looks_after) >= EXPECTED);
    if is_new {
        return Verdict::New;
    }
    if is_gone {
        return Verdict::Gone;
    }
    let beyond = |factor: Option<Factor>, times: f64| factor.is_some_and(|factor| factor.is_beyond(times));
    let executions = before.counts().executions.min(after.counts().executions);
    let is_flipped = change.scans.is_some_and(|scans| (scans.after - scans.before).abs() >= FLIPPED);
    if is_flipped && executions >= FLIPPED_IN
        || change.at_once.is_beyond(TIMES)
        || beyond(change.calls_per_s, TIMES)
        || beyond(change.each_ms, TIMES)
        || beyond(change.rows_each, ROWS)
    {
        return Verdict::Changed;
    }
    let within = |factor: Option<Factor>, times: f64| factor.is_none_or(|factor| factor.is_within(times));
    let has_no_rows = change.rows_each.is_none_or(|rows| rows.before == 0.0 && rows.after == 0.0);
    let is_alike = change.at_once.is_within(TIMES)
        && within(change.calls_per_s, TIMES)
        && within(change.each_ms, TIMES)
        && (has_no_rows || within(change.rows_each, ROWS));
    if is_alike { Verdict::Alike } else { Verdict::NotKnown }
}

/// The wait whose part of a statement's sightings moved most, where it moved far enough.
fn moved_wait(before: &Side<'_>, after: &Side<'_>) -> Option<(String, Moved)> {
    let none = BTreeMap::new();
    let waits =
        |side: &Side<'_>| side.place.and_then(|place| side.span.waits.get(&place)).unwrap_or(&none).clone();
    let (a, b) = (waits(before), waits(after));
    let part = |waits: &BTreeMap<String, u64>, name: &str, seen: u64| {
        waits.get(name).copied().unwrap_or(0) as f64 / seen.max(1) as f64
    };
    let (seen_before, seen_after) = (before.seen(), after.seen());
    if (seen_before.min(seen_after) as f64) < EXPECTED {
        return None;
    }
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).filter(|name| !name.is_empty()).collect();
    names
        .into_iter()
        .map(|name| {
            let moved = Moved { before: part(&a, name, seen_before), after: part(&b, name, seen_after) };
            (name.clone(), moved)
        })
        .filter(|(_, moved)| moved.is_far())
        .max_by(|(_, a), (_, b)| (a.after - a.before).abs().total_cmp(&(b.after - b.before).abs()))
}

fn whole_at_once(before: &Span, after: &Span, has_looks: bool) -> Factor {
    let nothing = Estimate { value: 0.0, log_error: None, parts: 0 };
    let estimate = |span: &Span| match has_looks {
        true => {
            ratio(span.looks.iter().map(|part| (part.seen.values().sum::<u64>() as f64, part.looks as f64)))
        }
        false => ratio(
            span.counted
                .iter()
                .map(|part| (part.by.values().map(|by| by.total_ns).sum::<f64>() / 1e9, part.seconds)),
        ),
    };
    Factor::new(estimate(before).unwrap_or(nothing), estimate(after).unwrap_or(nothing), ALPHA)
}

fn whole(
    before: &Span,
    after: &Span,
    has_counts: bool,
    of: fn(&Counts) -> f64,
    by: fn(&Counts, f64) -> f64,
) -> Option<Factor> {
    let estimate = |span: &Span| {
        ratio(span.counted.iter().map(|part| {
            let mut all = Counts::default();
            part.by.values().for_each(|counts| all += *counts);
            (of(&all), by(&all, part.seconds))
        }))
    };
    has_counts.then(|| Some(Factor::new(estimate(before)?, estimate(after)?, ALPHA))).flatten()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::StatementDigest;

    use super::*;
    use crate::span::Tally;

    /// What one kind of statement does in a second.
    #[derive(Clone, Copy)]
    struct Load {
        text: &'static str,
        per_s: f64,
        each_ms: f64,
        rows_each: f64,
        scans: bool,
        wait: &'static str,
    }

    const POINT: Load = Load {
        text: "SELECT c FROM t WHERE id = ?",
        per_s: 400.0,
        each_ms: 1.0,
        rows_each: 1.0,
        scans: false,
        wait: "",
    };
    const BY_KEY: Load = Load {
        text: "SELECT c FROM t WHERE k = ?",
        per_s: 50.0,
        each_ms: 4.0,
        rows_each: 10.0,
        scans: false,
        wait: "",
    };
    const UPDATE: Load = Load {
        text: "UPDATE t SET c = ? WHERE id = ?",
        per_s: 100.0,
        each_ms: 5.0,
        rows_each: 1.0,
        scans: false,
        wait: "commit",
    };

    /// A span of minutes: looks once a second, readings every 30, noise of a fifth that lasts.
    fn span(seed: u64, minutes: u64, loads: &[Load], has_summary: bool) -> Span {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut tally = Tally::new("test");
        let mut sums: Vec<StatementDigest> = loads
            .iter()
            .map(|load| StatementDigest {
                digest: load.text.into(),
                text: load.text.into(),
                ..StatementDigest::default()
            })
            .collect();
        let mut mood = 0.0;
        for second in 0..minutes * 60 {
            let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
            mood = 0.8 * mood + 0.6 * normal;
            let slow = (0.15 * mood).exp();
            let mut running = Vec::new();
            for (load, sum) in loads.iter().zip(&mut sums) {
                let ran = load.per_s * (0.9 + 0.2 * rng.f64());
                sum.executions += ran as u64;
                sum.total_ns += (ran * load.each_ms * slow * 1e6) as u64;
                sum.rows_examined += (ran * load.rows_each) as u64;
                sum.rows_sent += ran as u64;
                sum.full_scans += if load.scans { ran as u64 } else { 0 };
                let mut at_once = load.per_s * load.each_ms * slow / 1e3;
                while at_once > 0.0 {
                    if rng.f64() < at_once {
                        running.push((load.text, load.wait));
                    }
                    at_once -= 1.0;
                }
            }
            tally.look(running.into_iter());
            if has_summary && second.is_multiple_of(30) {
                tally.reading(second as f64, &sums, false);
            }
        }
        tally.finish(None, (minutes * 60) as f64)
    }

    #[test]
    fn two_calm_spans_show_no_change() {
        let loads = [POINT, BY_KEY, UPDATE];
        for has_summary in [true, false] {
            let wrong = (0..40).filter(|seed| {
                let changes = changes(
                    &span(2 * seed, 10, &loads, has_summary),
                    &span(2 * seed + 1, 10, &loads, has_summary),
                );
                changes.significant().count() > 0
            });
            assert!(wrong.count() <= 1);
        }
    }

    #[test]
    fn a_plan_that_changed_comes_first_with_its_rows() {
        let slow = Load { each_ms: 60.0, rows_each: 40_000.0, scans: true, ..BY_KEY };
        for seed in 0..20 {
            let changes = changes(
                &span(seed, 10, &[POINT, BY_KEY, UPDATE], true),
                &span(seed + 100, 10, &[POINT, slow, UPDATE], true),
            );
            let first = &changes.statements[0];
            assert_eq!((first.statement.as_str(), first.verdict), (BY_KEY.text, Verdict::Changed));
            assert!(first.is_of_rows() && first.costs() > 2.0, "{first:?}");
            assert_eq!(first.scans, Some(Moved { before: 0.0, after: 1.0 }));
            let (low, high) = first.rows_each.unwrap().interval.unwrap();
            // The sums are cut to whole executions and rows.
            assert!(low > 3_950.0 && high < 4_050.0, "{low} {high}");
            assert_eq!(changes.significant().count(), 1, "{:#?}", changes.statements);
        }
    }

    #[test]
    fn a_scan_that_came_is_a_change_without_any_interval() {
        let short = |load: Load| {
            let mut tally = Tally::new("short");
            for second in [0_u64, 5] {
                let ran = 1_000 + second * 40;
                let digest = StatementDigest {
                    digest: load.text.into(),
                    text: load.text.into(),
                    executions: ran,
                    total_ns: ran * 1_000_000,
                    full_scans: if load.scans { ran } else { 0 },
                    ..StatementDigest::default()
                };
                tally.reading(second as f64, &[digest], false);
            }
            tally.finish(None, 5.0)
        };
        let of = |scans| short(Load { scans, ..BY_KEY });
        let found = changes(&of(false), &of(true));
        assert_eq!(found.statements[0].verdict, Verdict::Changed);
        assert!(found.statements[0].is_of_rows() && found.statements[0].each_ms.unwrap().interval.is_none());
        assert_eq!(changes(&of(false), &of(false)).statements[0].verdict, Verdict::NotKnown);
    }

    #[test]
    fn without_a_summary_the_looks_show_it() {
        let slow = Load { each_ms: 60.0, ..BY_KEY };
        let changes = changes(
            &span(1, 10, &[POINT, BY_KEY, UPDATE], false),
            &span(2, 10, &[POINT, slow, UPDATE], false),
        );
        let first = &changes.statements[0];
        assert_eq!((first.statement.as_str(), first.verdict), (BY_KEY.text, Verdict::Changed));
        assert!(first.rows_each.is_none() && changes.calls_per_s.is_none());
        assert_eq!(changes.significant().count(), 1);
    }

    #[test]
    fn new_and_gone_are_not_called_changed() {
        let report = Load { text: "SELECT SUM(n) FROM sales", per_s: 1.0, each_ms: 900.0, ..POINT };
        let changes = changes(&span(1, 10, &[POINT, UPDATE], true), &span(2, 10, &[POINT, report], true));
        let verdicts: Vec<_> =
            changes.significant().map(|one| (one.statement.as_str(), one.verdict)).collect();
        assert_eq!(verdicts, [(report.text, Verdict::New), (UPDATE.text, Verdict::Gone)]);
    }

    #[test]
    fn a_wait_that_came_is_named_and_calls_that_rose_are_no_slower_statement() {
        let waits = Load { each_ms: 60.0, wait: "row lock", ..UPDATE };
        let more = Load { per_s: 1_400.0, ..POINT };
        let changes = changes(&span(1, 10, &[POINT, UPDATE], true), &span(2, 10, &[more, waits], true));
        let by_text = |text: &str| changes.statements.iter().find(|one| one.statement == text).unwrap();
        let update = by_text(UPDATE.text);
        assert_eq!(update.verdict, Verdict::Changed);
        assert!(update.wait.as_ref().is_some_and(|(_, moved)| moved.is_far()) && !update.is_of_rows());
        let point = by_text(POINT.text);
        assert!(point.calls_per_s.unwrap().is_beyond(TIMES) && !point.each_ms.unwrap().is_beyond(TIMES));
    }

    #[test]
    fn a_few_seconds_are_not_enough_to_say_that_nothing_changed() {
        let short = |seed| {
            let mut tally = Tally::new("short");
            let mut rng = fastrand::Rng::with_seed(seed);
            (0..6).for_each(|_| tally.look((rng.bool()).then_some((POINT.text, "")).into_iter()));
            tally.finish(None, 6.0)
        };
        let changes = changes(&short(1), &short(2));
        assert!(changes.statements.iter().all(|one| one.verdict == Verdict::NotKnown), "{changes:#?}");
    }

    #[test]
    fn nothing_against_nothing_is_no_change() {
        let changes = changes(&Span::default(), &Span::default());
        assert!(changes.statements.is_empty() && changes.at_once.interval.is_none());
    }
}
