//! A counter that stops growing, or nearly, while threads run: the core of two detectors.
//!
//! Time is lost where the counter grows less than it just did. Lost time adds up over probes that follow one another
//! (a sum of deviations below an allowance, Page's CUSUM), and what loses far more than a dip could is seen at once. A
//! stop of 200 ms loses two intervals however it lies to the probes, a dip of load or machine one: these are told apart
//! when they are over, by the pace right before and right after. What is usual is the median of the last minute, what is
//! noise the scatter around the last second; both are learnt outside stalls only.

use std::collections::VecDeque;

use spindoctor_model::Probe;

use super::Sight;
use super::recent::Recent;

/// What is usual is told from this long.
const USUAL_OVER_S: f64 = 60.0;
/// And from this many probes at least: ten seconds.
const ENOUGH_PROBES: usize = 100;
/// What is usual is computed anew this often.
const USUAL_EVERY_S: f64 = 1.0;
/// The counter's pace just now is told from this many probes: the load of a shared machine drifts within seconds.
const PACE_OVER_PROBES: usize = 10;
/// A pace below this share of the usual is no measure for itself.
const LEAST_PACE_RATIO: f64 = 0.4;
/// Slower counters tell nothing at ten probes a second: five of an interval scatter by half.
pub(super) const LEAST_PER_S: f64 = 50.0;
/// So much must be missing, or chance could have left it out (e^-25).
const LEAST_MISSING: f64 = 25.0;

/// The allowance, as a share of the pace: the scatter of the last minute, between these two.
const LEAST_ALLOWANCE: f64 = 0.1;
const MOST_ALLOWANCE: f64 = 0.3;
/// With an allowance of `a` a dip of one interval between two of half the pace loses `2 - 3a`, a stop of three at least
/// `3 - 4a`. What loses more than the bound between the two is seen at once.
const BOUND_WITHOUT_ALLOWANCE: f64 = 2.2;
const BOUND_PER_ALLOWANCE: f64 = 1.5;
/// A shorter one is told from a dip when it is over: by the pace right before it and right after it, which tells what
/// would have grown meanwhile far better than the last second does. A dip loses an interval, a stop of 200 ms two.
const SHORT_BOUND: f64 = 1.45;
/// Half an interval lost may be the beginning of one.
const UNSURE_INTERVALS: f64 = 0.5;
/// The pace right before and right after is of so many intervals.
const BESIDE_INTERVALS: usize = 2;

/// An interval in which the counter grew by no more than this share is a stop. The deepest of noise stays above.
const STOPPED_RATIO: f64 = 0.25;
/// One that a late answer made longer may hold the time before the stop too.
const STOPPED_RATIO_OF_LONG: f64 = 0.5;
const LONG_INTERVALS: f64 = 1.5;
/// And it must miss most of a usual interval's length.
const LEAST_MISSING_INTERVALS: f64 = 0.75;

/// Threads that run besides spindoctor's own. One or two may be long queries, and nobody waits.
pub(super) const LEAST_RUNNING: f64 = 3.0;
/// Where threads stand still as many run as usually, or more. With fewer, it is the load that went away.
const RUNNING_RATIO: f64 = 0.8;
/// An answer that took half an interval and ten times what it usually takes stood still itself.
const LATE_ANSWER_RATIO: f64 = 10.0;
const LATE_ANSWER_INTERVALS: f64 = 0.5;

/// Beside a stop there is one interval that it takes a part of, and one that noise does: more than these, one after the
/// other, are a slower pace and no stop.
const MOST_SHALLOW: u32 = 2;

/// Time in which nobody asked is not the server's; but a machine that runs nobody for half a second is a stall.
const MOST_EXCUSED_S: f64 = 0.3;

/// It is over when the counter grows at this share of its pace again, or nobody waits any more.
const RECOVERED_RATIO: f64 = 0.5;
/// In so many intervals that follow one another.
const RECOVERED_INTERVALS: u32 = 2;
/// After that long a slower pace is what is usual now; a stop is never.
const NEW_USUAL_AFTER_S: f64 = 600.0;
const NEVER_USUAL_RATIO: f64 = 0.1;

/// Load that comes in bursts stops again and again. Where stops take this share of the time with load, they are a
/// habit; a stall of 300 ms every five seconds takes 6 %.
const HABIT_RATIO: f64 = 0.08;
/// A long stop counts as this long there: one stall is no habit.
const HABIT_COUNTS_S: f64 = 0.3;
/// Fewer stops are no habit.
const HABIT_STOPS: usize = 3;
/// How far back stops are remembered.
const HABIT_OVER_S: f64 = 300.0;
/// With the habit, a stall lasts this many times longer than three quarters of the stops.
const BEYOND_HABIT: f64 = 3.0;

/// A counter's pace, and whether it has collapsed.
#[derive(Debug)]
pub(super) struct Collapse {
    /// That there was none, and many: `no commit`, `commits`.
    names: [&'static str; 2],
    asked: Option<Asked>,
    between_questions: Recent,
    answers: Recent,
    before: Option<Point>,
    excused_s: f64,
    rates: Recent,
    deviations: Recent,
    running: Recent,
    pace: VecDeque<f64>,
    usual: Option<Usual>,
    run: Option<Run>,
    /// A run that is over, and may have been a short stop.
    short: Option<Short>,
    /// How long earlier stops were, with the habitual ones among them.
    stops: Recent,
}

/// The last question.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at_s: f64,
    done_s: f64,
}

/// What was counted at one instant.
#[derive(Debug, Clone, Copy)]
struct Point {
    at_s: f64,
    count: u64,
    running: f64,
}

/// What is usual here.
#[derive(Debug, Clone, Copy)]
struct Usual {
    computed_s: f64,
    per_s: f64,
    allowance: f64,
    /// The scatter where it goes beyond the allowance, as a multiple.
    beyond_allowance: f64,
    running: f64,
    /// Time between two probes.
    every_s: f64,
    answer_s: f64,
    /// Stops last that long here as a habit.
    habit_s: f64,
}

/// Time between two answers.
#[derive(Debug, Clone, Copy)]
struct Interval {
    from_s: f64,
    to_s: f64,
    /// Of it, what the server answers for.
    counted_s: f64,
    grown: f64,
    /// The greater of both ends.
    running: f64,
    /// True where the answer at its end stood still itself.
    late: bool,
}

/// A run that is over, and what grew after it.
#[derive(Debug, Clone)]
struct Short {
    run: Run,
    after: Vec<f64>,
}

/// Intervals that follow one another, each below what is allowed.
#[derive(Debug, Clone)]
struct Run {
    pace_per_s: f64,
    /// The pace right before it.
    before_per_s: f64,
    counted_s: f64,
    running: f64,
    ended_s: f64,
    lost_s: f64,
    missing: f64,
    grown: f64,
    length_s: f64,
    previous: Option<Interval>,
    stop_began_s: Option<f64>,
    /// Intervals since the last that was a stop.
    shallow: u32,
    seen: Option<Sight>,
    seen_s: f64,
    recovered: u32,
}

impl Collapse {
    pub(super) fn of(names: [&'static str; 2]) -> Self {
        Self {
            names,
            asked: None,
            between_questions: Recent::over(USUAL_OVER_S),
            answers: Recent::over(USUAL_OVER_S),
            before: None,
            excused_s: 0.0,
            rates: Recent::over(USUAL_OVER_S),
            deviations: Recent::over(USUAL_OVER_S),
            running: Recent::over(USUAL_OVER_S),
            pace: VecDeque::new(),
            usual: None,
            run: None,
            short: None,
            stops: Recent::over(HABIT_OVER_S),
        }
    }

    /// What this probe says: the collapse while it lasts.
    pub(super) fn look(&mut self, probe: &Probe, count: Option<u64>) -> Option<Sight> {
        let done_s = probe.at_s + probe.took_ms / 1e3;
        self.note_question(probe.at_s, done_s);
        let (true, Some(count), Some(running)) = (probe.answered, count, probe.threads_running) else {
            return self.lasting();
        };
        // The counters are read late in a late answer.
        let now = Point { at_s: done_s, count, running: running as f64 };
        let before = self.before.replace(now);
        let excused_s = std::mem::take(&mut self.excused_s).min(MOST_EXCUSED_S);
        let before = before?;
        if now.count < before.count {
            *self = Self { before: Some(now), ..Self::of(self.names) };
            return None;
        }
        let length_s = now.at_s - before.at_s;
        let late_s = self.usual.map_or(f64::INFINITY, |usual| {
            (LATE_ANSWER_RATIO * usual.answer_s).max(LATE_ANSWER_INTERVALS * usual.every_s)
        });
        let interval = Interval {
            from_s: before.at_s,
            to_s: now.at_s,
            counted_s: (length_s - excused_s).max(length_s / 2.0),
            grown: (now.count - before.count) as f64,
            running: before.running.max(now.running),
            late: probe.took_ms / 1e3 >= late_s,
        };
        if length_s <= 0.0 {
            return self.lasting();
        }
        let sight = self.judge(interval);
        let is_seen = self.run.as_ref().is_some_and(|run| run.seen.is_some());
        if !is_seen {
            self.learn(interval, probe.took_ms / 1e3);
        }
        sight
    }

    /// Time in which the next question was due and nobody asked it.
    fn note_question(&mut self, at_s: f64, done_s: f64) {
        if let (Some(asked), Some(usual)) = (self.asked, self.usual) {
            let due_s = (asked.at_s + usual.every_s).max(asked.done_s);
            self.excused_s += (at_s - due_s).max(0.0);
        }
        if let Some(asked) = self.asked {
            self.between_questions.push(at_s, at_s - asked.at_s);
        }
        self.asked = Some(Asked { at_s, done_s });
    }

    /// True while it may be one and is not known to be, or where the counter is too slow to tell.
    pub(super) fn is_unsure(&self) -> bool {
        let Some(usual) = self.usual.filter(|usual| usual.per_s >= LEAST_PER_S) else { return true };
        let loses = |run: &Run| run.stop_began_s.is_some() || run.lost_s >= UNSURE_INTERVALS * usual.every_s;
        self.short.is_some() || self.run.as_ref().is_some_and(|run| run.seen.is_none() && loses(run))
    }

    fn lasting(&self) -> Option<Sight> {
        self.run.as_ref()?.seen.clone()
    }

    fn judge(&mut self, interval: Interval) -> Option<Sight> {
        let Some(usual) = self.usual.filter(|usual| usual.per_s >= LEAST_PER_S) else {
            (self.run, self.short) = (None, None);
            return None;
        };
        let pace_per_s = match &self.run {
            Some(run) => run.pace_per_s,
            None => self.pace_per_s(usual),
        };
        let ratio = interval.grown / (pace_per_s * interval.counted_s);
        if self.run.as_ref().is_some_and(|run| run.seen.is_some()) {
            return self.follow(interval, ratio, usual);
        }
        let waits = interval.running >= usual.least_running() || interval.late;
        if ratio >= 1.0 - usual.allowance || !waits {
            self.end_run(interval.from_s);
            return self.judge_short(interval, usual);
        }
        let before_per_s = self.before_per_s(pace_per_s);
        let run = self.run.get_or_insert_with(|| Run::at(pace_per_s, before_per_s));
        run.add(interval, ratio, usual);
        let bound_s = usual.bound_s();
        if run.shallow > MOST_SHALLOW {
            self.end_run(interval.from_s);
            return self.judge_short(interval, usual);
        }
        if run.stop_began_s.is_none() || run.lost_s < bound_s || run.missing < LEAST_MISSING {
            return self.judge_short(interval, usual);
        }
        self.short = None;
        run.seen_s = interval.to_s;
        run.seen = run.stop_began_s.map(|began_s| Sight {
            began_s,
            because: because(self.names, run, interval.to_s - began_s, interval.running),
        });
        run.seen.clone()
    }

    /// Whether the run before was a short stop, once enough is known of what came after it.
    fn judge_short(&mut self, interval: Interval, usual: Usual) -> Option<Sight> {
        let short = self.short.as_mut()?;
        if interval.from_s >= short.run.ended_s {
            short.after.push(interval.grown / interval.counted_s);
        }
        if short.after.len() < BESIDE_INTERVALS {
            return None;
        }
        let Short { run, after } = self.short.take()?;
        let beside_per_s = run.before_per_s.min(mean(&after)).max(LEAST_PACE_RATIO * usual.per_s);
        let lost_s = run.counted_s - run.grown / beside_per_s;
        let enough_s = usual.short_bound_s();
        if lost_s < enough_s || lost_s * beside_per_s < LEAST_MISSING {
            return None;
        }
        let began_s = run.stop_began_s?;
        Some(Sight { began_s, because: because(self.names, &run, run.ended_s - began_s, run.running) })
    }

    /// While it lasts: until the counter grows again, or nobody waits.
    fn follow(&mut self, interval: Interval, ratio: f64, usual: Usual) -> Option<Sight> {
        let run = self.run.as_mut()?;
        run.grown += interval.grown;
        run.length_s += interval.to_s - interval.from_s;
        let goes_on =
            ratio >= RECOVERED_RATIO || (interval.running < usual.least_running() && !interval.late);
        run.recovered = if goes_on { run.recovered + 1 } else { 0 };
        let is_usual_now = interval.to_s - run.seen_s >= NEW_USUAL_AFTER_S
            && run.grown / (run.length_s * run.pace_per_s) >= NEVER_USUAL_RATIO;
        if is_usual_now {
            let (before, asked) = (self.before, self.asked);
            *self = Self { before, asked, ..Self::of(self.names) };
            return None;
        }
        if run.recovered >= RECOVERED_INTERVALS {
            self.end_run(interval.from_s);
            return None;
        }
        run.seen.clone()
    }

    fn end_run(&mut self, at_s: f64) {
        let Some(mut run) = self.run.take() else { return };
        let Some(began_s) = run.stop_began_s else { return };
        self.stops.push(at_s, at_s - began_s);
        if run.seen.is_none() {
            run.ended_s = at_s;
            self.short = Some(Short { run, after: Vec::new() });
        }
    }

    /// How fast the counter grew just now.
    fn before_per_s(&self, pace_per_s: f64) -> f64 {
        let last: Vec<f64> = self.pace.iter().rev().take(BESIDE_INTERVALS).copied().collect();
        if last.is_empty() { pace_per_s } else { mean(&last) }
    }

    /// How fast the counter grew in the last second, where that is no more than usual.
    fn pace_per_s(&self, usual: Usual) -> f64 {
        let mut pace: Vec<f64> = self.pace.iter().copied().collect();
        pace.sort_by(f64::total_cmp);
        let median = pace.get(pace.len() / 2).copied().unwrap_or(usual.per_s);
        median.clamp(LEAST_PACE_RATIO * usual.per_s, usual.per_s)
    }

    fn learn(&mut self, interval: Interval, answer_s: f64) {
        let at_s = interval.to_s;
        // Without load there is nothing to learn.
        if interval.running >= 1.0 || interval.grown >= 1.0 {
            let per_s = interval.grown / (interval.to_s - interval.from_s);
            if let Some(usual) = self.usual
                && usual.per_s > 0.0
            {
                self.deviations.push(at_s, per_s / self.pace_per_s(usual));
            }
            self.rates.push(at_s, per_s);
            self.running.push(at_s, interval.running);
            if self.run.as_ref().is_none_or(|run| run.stop_began_s.is_none()) {
                self.pace.push_back(per_s);
                if self.pace.len() > PACE_OVER_PROBES {
                    self.pace.pop_front();
                }
            }
        }
        self.answers.push(at_s, answer_s);
        let is_due = self.usual.is_none_or(|usual| at_s - usual.computed_s >= USUAL_EVERY_S);
        if is_due && self.rates.len() >= ENOUGH_PROBES {
            self.usual = self.compute_usual(at_s);
        }
    }

    fn compute_usual(&self, at_s: f64) -> Option<Usual> {
        let scatter = match self.deviations.len() >= ENOUGH_PROBES {
            true => self.deviations.scatter()?,
            false => self.rates.scatter()? / self.rates.median()?.max(1.0),
        };
        let every_s = self.between_questions.median()?;
        Some(Usual {
            computed_s: at_s,
            per_s: self.rates.median()?,
            allowance: scatter.clamp(LEAST_ALLOWANCE, MOST_ALLOWANCE),
            beyond_allowance: (scatter / MOST_ALLOWANCE).max(1.0),
            running: self.running.median()?,
            every_s,
            answer_s: self.answers.median()?,
            habit_s: self.habit_s(at_s, every_s),
        })
    }

    /// How long stops last here as a habit; 0 where they are none.
    fn habit_s(&self, at_s: f64, every_s: f64) -> f64 {
        let lately = self.stops.iter().filter(|&(ended_s, _)| ended_s >= at_s - USUAL_OVER_S);
        let stopped_s: f64 = lately.map(|(_, length_s)| length_s.min(HABIT_COUNTS_S)).sum();
        let with_load_s = self.rates.len() as f64 * every_s;
        if self.stops.len() < HABIT_STOPS || stopped_s < HABIT_RATIO * with_load_s {
            return 0.0;
        }
        self.stops.quantile(0.75).unwrap_or_default()
    }
}

impl Usual {
    /// So much time must be lost, allowance taken off.
    fn bound_s(&self) -> f64 {
        let bound = BOUND_WITHOUT_ALLOWANCE - BOUND_PER_ALLOWANCE * self.allowance;
        let by_noise_s = self.every_s * bound * self.beyond_allowance * self.beyond_allowance;
        by_noise_s.max(BEYOND_HABIT * self.habit_s * (1.0 - self.allowance))
    }

    /// The same for a stop that is over, nothing taken off.
    fn short_bound_s(&self) -> f64 {
        let by_noise_s = self.every_s * SHORT_BOUND * self.beyond_allowance * self.beyond_allowance;
        by_noise_s.max(BEYOND_HABIT * self.habit_s)
    }

    fn least_running(&self) -> f64 {
        LEAST_RUNNING.max(RUNNING_RATIO * self.running)
    }
}

impl Run {
    fn at(pace_per_s: f64, before_per_s: f64) -> Self {
        Self {
            pace_per_s,
            before_per_s,
            counted_s: 0.0,
            running: 0.0,
            ended_s: 0.0,
            lost_s: 0.0,
            missing: 0.0,
            grown: 0.0,
            length_s: 0.0,
            previous: None,
            stop_began_s: None,
            shallow: 0,
            seen: None,
            seen_s: 0.0,
            recovered: 0,
        }
    }

    fn add(&mut self, interval: Interval, ratio: f64, usual: Usual) {
        let expected = self.pace_per_s * interval.counted_s;
        self.lost_s += interval.counted_s * (1.0 - usual.allowance) - interval.grown / self.pace_per_s;
        self.missing += expected - interval.grown;
        self.counted_s += interval.counted_s;
        self.grown += interval.grown;
        self.length_s += interval.to_s - interval.from_s;
        let missing_s = interval.counted_s - interval.grown / self.pace_per_s;
        let is_long = interval.counted_s >= LONG_INTERVALS * usual.every_s;
        let stopped = ratio <= STOPPED_RATIO || (is_long && ratio <= STOPPED_RATIO_OF_LONG);
        let waits = interval.running >= usual.least_running() || interval.late;
        self.shallow += 1;
        if stopped && waits && missing_s >= LEAST_MISSING_INTERVALS * usual.every_s {
            // What was counted came before the stop.
            let first = self.previous.unwrap_or(interval);
            let counted_until_s = first.from_s + first.grown / self.pace_per_s;
            self.stop_began_s.get_or_insert(counted_until_s.min(first.to_s));
            self.running = self.running.max(interval.running);
            self.shallow = 0;
        }
        self.previous = Some(interval);
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn because([none, many]: [&str; 2], run: &Run, lasted_s: f64, running: f64) -> String {
    let per_s = (run.grown / run.length_s).round();
    match per_s {
        0.0 => format!("{none} for {lasted_s:.1} s while {running:.0} threads run"),
        _ => format!(
            "{per_s:.0} {many} a second for {lasted_s:.1} s instead of {:.0} while {running:.0} threads run",
            run.pace_per_s
        ),
    }
}
