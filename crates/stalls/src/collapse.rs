//! A counter that stops while threads wait: the core of two detectors.
//!
//! A stop is a run of intervals in which the counter lost most of its usual growth. It is measured by the lost time: in
//! these intervals, and in parts of the one before and the one after. A stop of 200 ms loses two intervals wherever it
//! begins between the probes; a dip of the load or the machine rarely loses more than one. The usual growth is the
//! median of the last minute, and how deep an interval falls by itself is taken from the lowest of them; both are
//! learnt outside stalls.

use std::collections::VecDeque;

use super::Sight;
use super::interval::Interval;
use super::recent::Recent;
use super::threads_running::Crowd;

/// The usual value is taken from this much time.
const USUAL_OVER_S: f64 = 60.0;
/// And from this many intervals at least: ten seconds.
const ENOUGH_INTERVALS: usize = 100;
/// Of a counter that is read once a second, from this much time, and from this many intervals.
const SLOW_USUAL_OVER_S: f64 = 300.0;
const ENOUGH_SLOW_INTERVALS: usize = 60;
/// The usual value is computed again this often.
const USUAL_EVERY_S: f64 = 1.0;
/// The counter's pace just now is taken from this many intervals: the load of a shared machine drifts within seconds.
const PACE_OVER_INTERVALS: usize = 10;
/// A pace below this share of the usual is not a baseline.
const LEAST_PACE_RATIO: f64 = 0.4;
/// Below this share there was too little load to stop.
const FLOWED_RATIO: f64 = 0.1;
/// Slower counters show nothing at ten probes a second: five of an interval scatter by half.
pub(super) const LEAST_PER_S: f64 = 50.0;
/// So much must be missing, or chance could have left it out (e^-25).
const LEAST_MISSING: f64 = 25.0;
/// Where waiting threads have begun to pile up, chance would have to explain both (e^-8 alone).
const LEAST_MISSING_OF_CROWD: f64 = 8.0;

/// A counter has stopped in an interval that lost this share of a usual one's length, and most of its own.
const STOPPED_INTERVALS: f64 = 0.75;
const STOPPED_RATIO: f64 = 0.5;
/// Load that falls so deep by itself shows in the lowest 3 % of intervals: a standstill has half of that, and where it
/// has no more than this it is one under any load. Stalls that nobody found are fewer. 200 ms hold one whole interval;
/// where nobody piles up, nothing or next to it must have ended in one: a machine that is slow for a moment still ends
/// a tenth.
const LOWEST_QUANTILE: f64 = 0.03;
const BELOW_LOWEST: f64 = 0.5;
const NOTHING_RATIO: f64 = 0.05;
/// So many intervals are lost in 200 ms, less what they scatter: and in a dip one.
const LOST_INTERVALS: f64 = 1.4;
/// Clients that come as they please make up for a stop within the interval in which it ends: one interval is seen to be
/// lost. It is not a dip where waiting threads have begun to pile up.
const LOST_INTERVALS_OF_CROWD: f64 = 0.95;

/// Threads that run besides spindoctor's own. One or two may be long queries, and nobody waits.
pub(super) const LEAST_RUNNING: f64 = 3.0;
/// Where threads wait, as many run as usually, or more. With fewer, it is the load that went away.
const RUNNING_RATIO: f64 = 0.8;

/// The stop is over when the counter grows at this share of its pace again, or no thread waits any more.
const RECOVERED_RATIO: f64 = 0.5;
/// In so many consecutive intervals.
const RECOVERED_INTERVALS: u32 = 2;
/// After that long a slower pace becomes the usual one; a stop never does.
const NEW_USUAL_AFTER_S: f64 = 600.0;
const NEVER_USUAL_RATIO: f64 = 0.1;

/// Batches stop again and again while no more threads run than before: they compute, then write. Where stops take this
/// share of the time with load, they are a habit; a stall of half a second every five seconds takes 10 %.
const HABIT_RATIO: f64 = 0.12;
/// A long stop counts as this long there: one stall is not a habit.
const HABIT_COUNTS_S: f64 = 0.6;
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
    over_s: f64,
    enough: usize,
    rates: Recent,
    ratios: Recent,
    running: Recent,
    pace: VecDeque<f64>,
    usual: Option<Usual>,
    /// What the last interval lost, and when a standstill began that it is a part of.
    before: (f64, f64),
    run: Option<Run>,
    /// How long earlier stops were, in which no more threads ran than usually.
    stops: Recent,
}

/// What is usual here.
#[derive(Debug, Clone, Copy)]
struct Usual {
    computed_s: f64,
    per_s: f64,
    /// The lowest intervals, as a share of the pace.
    lowest_ratio: f64,
    running: f64,
    /// Stops last that long here as a habit.
    habit_s: f64,
}

/// Consecutive intervals in which the counter stopped.
#[derive(Debug, Clone)]
struct Run {
    pace_per_s: f64,
    began_s: f64,
    lost_s: f64,
    grown: f64,
    length_s: f64,
    running: f64,
    ratios: Vec<f64>,
    /// An answer in it stood still itself: its interval may hold the time before the stop too.
    is_late: bool,
    crowd: Crowd,
    seen: Option<SeenStall>,
}

#[derive(Debug, Clone)]
struct SeenStall {
    sight: Sight,
    at_s: f64,
    recovered: u32,
}

impl Collapse {
    /// Of a counter that is read ten times a second.
    pub(super) fn new(names: [&'static str; 2]) -> Self {
        Self::over(names, USUAL_OVER_S, ENOUGH_INTERVALS)
    }

    /// Of one that is read once a second.
    pub(super) fn slow(names: [&'static str; 2]) -> Self {
        Self::over(names, SLOW_USUAL_OVER_S, ENOUGH_SLOW_INTERVALS)
    }

    fn over(names: [&'static str; 2], over_s: f64, enough: usize) -> Self {
        Self {
            names,
            over_s,
            enough,
            rates: Recent::over(over_s),
            ratios: Recent::over(over_s),
            running: Recent::over(over_s),
            pace: VecDeque::new(),
            usual: None,
            before: (0.0, 0.0),
            run: None,
            stops: Recent::over(HABIT_OVER_S),
        }
    }

    /// What the interval says, if there is one; without an answer nothing is over.
    pub(super) fn look_at(
        &mut self,
        interval: Option<&Interval>,
        grown: impl Fn(&Interval) -> Option<f64>,
        crowd: Crowd,
    ) -> Option<Sight> {
        match interval.and_then(|interval| Some((interval, grown(interval)?))) {
            Some((interval, grown)) => self.look(interval, grown, crowd),
            None => Some(self.run.as_ref()?.seen.as_ref()?.sight.clone()),
        }
    }

    /// The collapse while it lasts, or once where it was known only when it was over. `crowd`: how many
    /// threads run at its end.
    fn look(&mut self, interval: &Interval, grown: f64, crowd: Crowd) -> Option<Sight> {
        let Some(usual) = self.usual.filter(|usual| usual.per_s >= LEAST_PER_S) else {
            self.run = None;
            self.learn(interval, grown, None);
            return None;
        };
        let pace_per_s = self.run.as_ref().map_or_else(|| self.pace_per_s(usual), |run| run.pace_per_s);
        let part = Part {
            grown,
            ratio: grown / (pace_per_s * interval.counted_s),
            lost_s: (interval.counted_s - grown / pace_per_s).clamp(0.0, interval.counted_s),
            waits: crowd == Crowd::PileUp
                || interval.late
                || interval.running.into_iter().flatten().any(|running| usual.waits(running)),
            crowd,
        };
        if self.run.as_ref().is_some_and(|run| run.seen.is_some()) {
            return self.follow(interval, &part);
        }
        let is_stopped = part.lost_s >= STOPPED_INTERVALS * interval.every_s
            && part.ratio <= usual.stopped_ratio(interval)
            && part.waits
            && (self.run.is_some() || self.flowed(usual));
        let sight = if is_stopped {
            let (lost_before_s, began_s) = self.before;
            let began_s = began_s.min(interval.from_s + grown / pace_per_s);
            let run = self.run.get_or_insert_with(|| Run::after(pace_per_s, lost_before_s, began_s));
            run.add(interval, &part);
            self.see_at_once(interval, usual)
        } else {
            self.see_when_over(interval, &part, usual)
        };
        // It may be the beginning of one: what was counted in it came first.
        self.before = (part.lost_s.min(interval.every_s), interval.to_s - part.lost_s);
        if self.run.is_none() {
            self.learn(interval, grown, Some(part.ratio));
        }
        sight
    }

    /// True while it may be one and is not known to be, or where the counter is too slow to show it.
    pub(super) fn is_unsure(&self) -> bool {
        self.usual.is_none_or(|usual| usual.per_s < LEAST_PER_S)
            || self.run.as_ref().is_some_and(|run| run.seen.is_none())
    }

    fn see_at_once(&mut self, interval: &Interval, usual: Usual) -> Option<Sight> {
        let names = self.names;
        let run = self.run.as_mut()?;
        if !run.is_stall(interval.every_s, usual) {
            return None;
        }
        let sight = run.sight(names, interval.to_s);
        run.seen = Some(SeenStall { sight: sight.clone(), at_s: interval.to_s, recovered: 0 });
        Some(sight)
    }

    /// The first interval after it: a part of it may belong to the stop.
    fn see_when_over(&mut self, interval: &Interval, part: &Part, usual: Usual) -> Option<Sight> {
        let mut run = self.run.take()?;
        run.lost_s += part.lost_s.min(interval.every_s);
        self.note_stop(&run, interval.from_s);
        if run.is_stall(interval.every_s, usual) {
            return Some(run.sight(self.names, interval.from_s));
        }
        run.ratios.iter().for_each(|ratio| self.ratios.push(interval.to_s, *ratio));
        None
    }

    /// While it lasts: until the counter grows again, or nobody waits.
    fn follow(&mut self, interval: &Interval, part: &Part) -> Option<Sight> {
        let run = self.run.as_mut()?;
        run.grown += part.grown;
        run.length_s += interval.counted_s;
        let seen = run.seen.as_mut()?;
        seen.recovered = if part.ratio >= RECOVERED_RATIO || !part.waits { seen.recovered + 1 } else { 0 };
        let is_usual_now = interval.to_s - seen.at_s >= NEW_USUAL_AFTER_S
            && run.grown / (run.length_s * run.pace_per_s) >= NEVER_USUAL_RATIO;
        let is_over = seen.recovered >= RECOVERED_INTERVALS;
        let sight = (!is_usual_now && !is_over).then(|| seen.sight.clone());
        if is_usual_now {
            *self = Self::over(self.names, self.over_s, self.enough);
        } else if is_over && let Some(run) = self.run.take() {
            self.note_stop(&run, interval.from_s);
        }
        sight
    }

    fn note_stop(&mut self, run: &Run, ended_s: f64) {
        if run.crowd < Crowd::PileUp {
            self.stops.push(ended_s, ended_s - run.began_s);
        }
    }

    /// How fast the counter grew in the last second, where that is no more than usual.
    fn pace_per_s(&self, usual: Usual) -> f64 {
        self.last_per_s(usual).clamp(LEAST_PACE_RATIO * usual.per_s, usual.per_s)
    }

    /// False where hardly anything was counted in the last second: what begins then is a batch, and nothing stops.
    fn flowed(&self, usual: Usual) -> bool {
        self.last_per_s(usual) >= FLOWED_RATIO * usual.per_s
    }

    fn last_per_s(&self, usual: Usual) -> f64 {
        spindoctor_model::median(self.pace.iter().copied()).unwrap_or(usual.per_s)
    }

    fn learn(&mut self, interval: &Interval, grown: f64, ratio: Option<f64>) {
        let at_s = interval.to_s;
        let [_, running] = interval.running;
        let per_s = grown / interval.counted_s;
        self.pace.push_back(per_s);
        if self.pace.len() > PACE_OVER_INTERVALS {
            self.pace.pop_front();
        }
        // Without load there is nothing to learn.
        if grown >= 1.0 || running.is_some_and(|running| running >= 1.0) {
            self.rates.push(at_s, per_s);
            running.into_iter().for_each(|running| self.running.push(at_s, running));
            ratio.into_iter().for_each(|ratio| self.ratios.push(at_s, ratio));
        }
        let is_due = self.usual.is_none_or(|usual| at_s - usual.computed_s >= USUAL_EVERY_S);
        if is_due
            && self.rates.len() >= self.enough
            && let Some(per_s) = self.rates.median()
        {
            self.usual = Some(Usual {
                computed_s: at_s,
                per_s,
                lowest_ratio: self.ratios.quantile(LOWEST_QUANTILE).unwrap_or(1.0),
                running: self.running.median().unwrap_or_default(),
                habit_s: self.habit_s(at_s, interval.every_s),
            });
        }
    }

    /// How long stops last here as a habit; 0 where they are none.
    fn habit_s(&self, at_s: f64, every_s: f64) -> f64 {
        let lately = self.stops.iter().filter(|&(ended_s, _)| ended_s >= at_s - self.over_s);
        let stopped_s: f64 = lately.map(|(_, length_s)| length_s.min(HABIT_COUNTS_S)).sum();
        let with_load_s = self.rates.len() as f64 * every_s;
        if self.stops.len() < HABIT_STOPS || stopped_s < HABIT_RATIO * with_load_s {
            return 0.0;
        }
        self.stops.quantile(0.75).unwrap_or_default()
    }
}

/// The counter in one interval.
#[derive(Debug, Clone, Copy)]
struct Part {
    grown: f64,
    /// Of what was to be expected.
    ratio: f64,
    lost_s: f64,
    waits: bool,
    crowd: Crowd,
}

impl Usual {
    fn waits(&self, running: f64) -> bool {
        running >= LEAST_RUNNING.max(RUNNING_RATIO * self.running)
    }

    /// A late answer makes an interval longer: it may hold the time before the stop too.
    fn stopped_ratio(&self, interval: &Interval) -> f64 {
        let share = (STOPPED_INTERVALS * interval.every_s / interval.counted_s).min(1.0);
        let by_itself = (BELOW_LOWEST * self.lowest_ratio).max(NOTHING_RATIO);
        STOPPED_RATIO.min(1.0 - share * (1.0 - by_itself))
    }
}

impl Run {
    fn after(pace_per_s: f64, lost_s: f64, began_s: f64) -> Self {
        Self {
            pace_per_s,
            began_s,
            lost_s,
            grown: 0.0,
            length_s: 0.0,
            running: 0.0,
            ratios: Vec::new(),
            is_late: false,
            crowd: Crowd::Usual,
            seen: None,
        }
    }

    fn add(&mut self, interval: &Interval, part: &Part) {
        self.lost_s += part.lost_s;
        self.grown += part.grown;
        self.length_s += interval.counted_s;
        self.running = interval.running.into_iter().flatten().fold(self.running, f64::max);
        self.ratios.push(part.ratio);
        self.is_late |= interval.late;
        self.crowd = self.crowd.max(part.crowd);
    }

    fn is_stall(&self, every_s: f64, usual: Usual) -> bool {
        let habit_s = if self.crowd == Crowd::PileUp { 0.0 } else { BEYOND_HABIT * usual.habit_s };
        let (lost_intervals, least_missing) = match self.crowd {
            Crowd::Usual => (LOST_INTERVALS, LEAST_MISSING),
            Crowd::More | Crowd::PileUp => (LOST_INTERVALS_OF_CROWD, LEAST_MISSING_OF_CROWD),
        };
        let is_deep = self.is_late
            || self.crowd > Crowd::Usual
            || self.ratios.iter().any(|ratio| *ratio <= NOTHING_RATIO);
        is_deep
            && self.lost_s >= (lost_intervals * every_s).max(habit_s)
            && self.lost_s * self.pace_per_s >= least_missing
    }

    fn sight(&self, [none, many]: [&str; 2], until_s: f64) -> Sight {
        let (lasted_s, running) = (until_s - self.began_s, self.running);
        let because = match (self.grown / self.length_s).round() {
            0.0 => format!("{none} for {lasted_s:.1} s while {running:.0} threads run"),
            per_s => format!(
                "{per_s:.0} {many} a second for {lasted_s:.1} s instead of {:.0} while {running:.0} threads run",
                self.pace_per_s
            ),
        };
        Sight { began_s: self.began_s, because }
    }
}
