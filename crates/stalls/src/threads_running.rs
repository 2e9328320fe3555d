//! [`StallKind::ThreadsRunning`](spindoctor_model::StallKind): far more threads run than usually.
//!
//! Waiting threads pile up whether or not others go on: this is the plainest sign of a stall. A pile-up that is over
//! within a second is compared with the last minutes, a longer one with this hour of other days too. The usual number
//! is what runs for most of a second: stalls that come every few seconds do not become usual; a job of some seconds
//! that comes every minute does.

use std::collections::VecDeque;

use jiff::Timestamp;
use spindoctor_model::Probe;

use super::Sight;
use super::baseline::Baseline;
use super::recent::Recent;

/// So many times the most that usually run, and so many more: twice as many is a good day.
const TIMES_USUAL: f64 = 2.0;
const MORE_THAN_USUAL: f64 = 6.0;
/// Two readings see a pile-up, and one of them may see its beginning or its end: so many times the usual, and more. The
/// other must be beyond the bound.
const TIMES_USUAL_BESIDE: f64 = 1.5;
const MORE_THAN_USUAL_BESIDE: f64 = 3.0;
/// Two readings are so far apart at least: an answer that was late and the next may show one instant.
const LEAST_APART_S: f64 = 0.06;
/// It is over below this share of the bound.
const OVER_RATIO: f64 = 0.6;
/// The usual value of the last minute is what this share of its readings do not exceed: stalls of half a second every
/// five seconds are a tenth of them.
const USUAL_OVER_S: f64 = 60.0;
pub(super) const USUAL_QUANTILE: f64 = 0.85;
/// Of a pile-up so much counts: batches that come every few seconds become usual, one stall does not.
const LEARNT_FOR_S: f64 = 3.0;
/// From so many readings on, over so long at least.
const ENOUGH_READINGS: usize = 10;
const ENOUGH_S: f64 = 10.0;
/// The usual number is computed again this often.
const USUAL_EVERY_S: f64 = 1.0;
/// The number that runs for a second is the one that so many of ten readings in a row reach.
const SECOND: usize = 10;
const OF_SECOND: usize = 8;
/// A pile-up that lasts for a second may be what this hour is used to.
const LONG_S: f64 = 1.0;
/// So far back what ran for a second is remembered, minute by minute; what had so many of them is usual.
const MOST_MINUTES: usize = 10;
const OF_MINUTES: usize = 3;
/// What a minute with a pile-up may add to the usual number.
const RISE_IN_STALL: f64 = 1.25;
const RISE_IN_STALL_THREADS: f64 = 2.0;

/// The number of running threads, compared with the usual number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Crowd {
    /// No more than usually, or not known.
    Usual,
    /// More: a pile-up may have begun.
    More,
    /// Far more.
    PileUp,
}

/// Watches `Threads_running`.
#[derive(Debug)]
pub(super) struct ThreadsRunning {
    baseline: Baseline,
    /// Readings, those of a long pile-up left out.
    lately: Recent,
    usual: Option<f64>,
    computed_s: f64,
    second: VecDeque<f64>,
    minutes: VecDeque<f64>,
    minute: Minute,
    before: Option<Reading>,
    pile_up: Option<PileUp>,
}

/// The current minute.
#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    /// Minutes since 1970; 0 before the first.
    number: i64,
    /// The most that ran for a second.
    most: f64,
    /// Others saw a stall in it.
    with_stall: bool,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    asked_s: f64,
    at_s: f64,
    running: f64,
}

#[derive(Debug)]
struct PileUp {
    sight: Sight,
    bound: f64,
    /// True once the pile-up was reported.
    is_reported: bool,
}

impl ThreadsRunning {
    pub(super) fn new(baseline: Baseline) -> Self {
        Self {
            baseline,
            lately: Recent::over(USUAL_OVER_S),
            usual: None,
            computed_s: 0.0,
            second: VecDeque::new(),
            minutes: VecDeque::new(),
            minute: Minute::default(),
            before: None,
            pile_up: None,
        }
    }

    pub(super) fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Another start of the server or of the recorder: what is usual at this hour stays.
    pub(super) fn begin_segment(&mut self) {
        *self = Self::new(std::mem::take(&mut self.baseline));
    }

    /// What so many running threads are.
    pub(super) fn crowd(&self, running: u64) -> Crowd {
        match self.usual {
            Some(usual) if running as f64 > bound(usual) => Crowd::PileUp,
            Some(usual) if running as f64 >= beside(usual) => Crowd::More,
            _ => Crowd::Usual,
        }
    }

    /// The pile-up while it lasts, or once where it was known only when it was over. `is_stalled`: another detector sees a
    /// stall now.
    pub(super) fn look(&mut self, at: Timestamp, probe: &Probe, is_stalled: bool) -> Option<Sight> {
        let Some(running) = probe.threads_running.map(|running| running as f64) else {
            self.before = None;
            return self.reported();
        };
        let now = Reading { asked_s: probe.at_s, at_s: probe.at_s + probe.took_ms / 1e3, running };
        self.end_minute(at);
        self.minute.with_stall |= is_stalled;
        let before = self.before.replace(now);
        let hour = self.baseline.usual_high(at);
        let sight = match &mut self.pile_up {
            Some(pile_up) if running <= OVER_RATIO * pile_up.bound => {
                let unreported_and_short = !pile_up.is_reported && now.at_s - pile_up.sight.began_s < LONG_S;
                let sight = unreported_and_short.then(|| pile_up.sight.clone());
                self.pile_up = None;
                sight
            }
            Some(pile_up) => {
                // What has come to be usual at this hour is none: a load that grew for good.
                pile_up.bound = pile_up.bound.max(hour.map_or(0.0, bound));
                pile_up.is_reported |= running > hour.map_or(f64::INFINITY, bound);
                self.reported()
            }
            None => {
                let usual = self.usual.or(hour);
                self.pile_up =
                    usual.zip(before).and_then(|(usual, before)| pile_up(usual, hour, before, now));
                self.reported()
            }
        };
        self.learn(now);
        sight
    }

    fn reported(&self) -> Option<Sight> {
        self.pile_up.as_ref().filter(|pile_up| pile_up.is_reported).map(|pile_up| pile_up.sight.clone())
    }

    fn learn(&mut self, now: Reading) {
        self.second.push_back(now.running);
        if self.second.len() > SECOND {
            self.second.pop_front();
            let mut second: Vec<f64> = self.second.iter().copied().collect();
            second.sort_by(f64::total_cmp);
            self.minute.most = self.minute.most.max(second[SECOND - OF_SECOND]);
        }
        let lasts_s = self.pile_up.as_ref().map_or(0.0, |pile_up| now.at_s - pile_up.sight.began_s);
        if lasts_s <= LEARNT_FOR_S {
            self.lately.push(now.at_s, now.running);
        }
        let first_s = self.lately.iter().next().map_or(now.at_s, |(first_s, _)| first_s);
        let is_enough = self.lately.len() >= ENOUGH_READINGS && now.at_s - first_s >= ENOUGH_S;
        if is_enough && now.at_s - self.computed_s >= USUAL_EVERY_S {
            self.computed_s = now.at_s;
            self.usual = self.lately.quantile(USUAL_QUANTILE).map(|usual| usual.max(self.usual_of_minutes()));
        }
    }

    /// What ran for a second in several of the last minutes.
    fn usual_of_minutes(&self) -> f64 {
        let mut minutes: Vec<f64> = self.minutes.iter().copied().collect();
        minutes.sort_by(|a, b| b.total_cmp(a));
        minutes.get(OF_MINUTES - 1).copied().unwrap_or_default()
    }

    fn end_minute(&mut self, at: Timestamp) {
        let number = at.as_second().div_euclid(60);
        if number == self.minute.number {
            return;
        }
        if self.minute.number != 0 {
            let began = Timestamp::from_second(self.minute.number * 60).unwrap_or(at);
            let seen = self.minute.most;
            let high = match self.usual.filter(|_| self.minute.with_stall || self.pile_up.is_some()) {
                Some(usual) => seen.min((RISE_IN_STALL * usual).max(usual + RISE_IN_STALL_THREADS)),
                None => seen,
            };
            self.baseline.learn_minute(began, high);
            self.minutes.push_back(high);
            if self.minutes.len() > MOST_MINUTES {
                self.minutes.pop_front();
            }
        }
        self.minute = Minute { number, ..Minute::default() };
    }
}

fn bound(usual: f64) -> f64 {
    TIMES_USUAL * usual + MORE_THAN_USUAL
}

/// A reading that may be the beginning or the end of a pile-up.
pub(super) fn beside(usual: f64) -> f64 {
    TIMES_USUAL_BESIDE * usual + MORE_THAN_USUAL_BESIDE
}

/// The pile-up that two readings see.
fn pile_up(usual: f64, hour: Option<f64>, before: Reading, now: Reading) -> Option<PileUp> {
    let bound = bound(usual);
    let most = before.running.max(now.running);
    let is_one = before.running.min(now.running) >= beside(usual)
        && most > bound
        && now.at_s - before.at_s >= LEAST_APART_S;
    is_one.then(|| PileUp {
        sight: Sight {
            began_s: before.asked_s,
            because: format!("{most:.0} threads run; lately it was {usual:.0} at most"),
        },
        bound,
        is_reported: most > hour.map_or(bound, self::bound),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten probes a second, from a minute's start on; whether a stall was seen.
    fn run(
        threads: &mut ThreadsRunning,
        from_s: i64,
        to_s: i64,
        running: impl Fn(i64) -> u64,
    ) -> Option<Sight> {
        let mut seen = None;
        for tenth in from_s * 10..to_s * 10 {
            let at = Timestamp::from_millisecond(1_800_000_000_000 + tenth * 100).unwrap();
            let probe = Probe {
                at_s: tenth as f64 / 10.0,
                answered: true,
                threads_running: Some(running(tenth)),
                ..Probe::default()
            };
            seen = threads.look(at, &probe, false).or(seen);
        }
        seen
    }

    #[test]
    fn a_pile_up_is_seen_from_its_first_probe_on_and_one_wild_reading_is_none() {
        let mut threads = ThreadsRunning::new(Baseline::default());
        assert_eq!(run(&mut threads, 0, 300, |tenth| tenth as u64 % 4), None);
        assert_eq!(run(&mut threads, 300, 301, |tenth| if tenth % 10 == 5 { 500 } else { 2 }), None);
        let seen = run(&mut threads, 301, 302, |_| 60).unwrap();
        assert_eq!((seen.began_s, seen.because.as_str()), (301.0, "60 threads run; lately it was 3 at most"));
        assert_eq!(run(&mut threads, 302, 303, |_| 2), None);
    }

    #[test]
    fn peaks_of_every_minute_are_usual_once_there_were_three() {
        let mut threads = ThreadsRunning::new(Baseline::default());
        let peaks = |tenth: i64| if tenth % 600 < 20 { 60 } else { 3 };
        assert!(run(&mut threads, 0, 180, peaks).is_some());
        assert_eq!(run(&mut threads, 180, 3600, peaks), None);
    }

    #[test]
    fn what_is_usual_at_this_hour_outlives_the_recorder_and_a_long_pile_up_does_not_become_usual() {
        let mut threads = ThreadsRunning::new(Baseline::default());
        assert_eq!(run(&mut threads, 0, 7200, |_| 30), None);
        let mut again = ThreadsRunning::new(threads.baseline().clone());
        assert!(run(&mut again, 7 * 86_400, 7 * 86_400 + 10, |_| 200).is_some());
        assert!(
            run(&mut again, 7 * 86_400 + 10, 7 * 86_400 + 3600, |_| 200).is_some(),
            "an hour later still"
        );
    }
}
