//! [`StallKind::ThreadsRunning`](spindoctor_model::StallKind): far more threads run than usually at this hour.
//!
//! Where this hour was never seen, the last minutes stand in for it.

use std::collections::VecDeque;

use jiff::Timestamp;
use spindoctor_model::Probe;

use super::Sight;
use super::baseline::Baseline;

/// So many times the most that usually run, and so many more: twice as many is a good day.
const TIMES_USUAL: f64 = 3.0;
const MORE_THAN_USUAL: f64 = 8.0;
/// In so many probes that follow one another: 200 ms.
const LEAST_PROBES: u32 = 3;
/// It is over below this share of the bound.
const OVER_RATIO: f64 = 0.6;
/// Where the hour is not known, this many minutes tell what is usual: jobs that run every minute have come.
const LEAST_MINUTES: usize = 3;
/// And at most so many.
const MOST_MINUTES: usize = 10;
/// A minute's most is what at least so many of its probes had.
const OF_PROBES: usize = 3;
/// What a minute with a stall may add to what is usual.
const RISE_IN_STALL: f64 = 1.25;
const RISE_IN_STALL_THREADS: f64 = 2.0;
/// The last minutes may raise the hour's usual by this much: more is what is looked for.
const RISE_ABOVE_HOUR: f64 = 2.0;

/// Watches `Threads_running`.
#[derive(Debug)]
pub(super) struct ThreadsRunning {
    baseline: Baseline,
    minutes: VecDeque<f64>,
    minute: Minute,
    readings: u32,
    since_s: f64,
    lasts: Option<Sight>,
}

/// The minute that is being looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    /// Minutes since 1970; 0 before the first.
    number: i64,
    /// The most that ran, in falling order.
    most: [f64; OF_PROBES],
    with_stall: bool,
}

impl ThreadsRunning {
    pub(super) fn new(baseline: Baseline) -> Self {
        Self {
            baseline,
            minutes: VecDeque::new(),
            minute: Minute::default(),
            readings: 0,
            since_s: 0.0,
            lasts: None,
        }
    }

    pub(super) fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Another start of the server or of the recorder: what is usual at this hour stays.
    pub(super) fn begin_segment(&mut self) {
        (self.readings, self.lasts) = (0, None);
    }

    /// `is_stalled`: another detector sees a stall now.
    pub(super) fn look(&mut self, at: Timestamp, probe: &Probe, is_stalled: bool) -> Option<Sight> {
        let Some(running) = probe.threads_running.map(|running| running as f64) else {
            return self.lasts.clone();
        };
        self.end_minute(at);
        let usual = self.usual_high(at);
        let bound = usual.map_or(f64::INFINITY, |usual| TIMES_USUAL * usual + MORE_THAN_USUAL);
        let is_far = running > bound;
        if is_far && self.readings == 0 {
            self.since_s = probe.at_s;
        }
        self.readings = if is_far { self.readings + 1 } else { 0 };
        if running <= OVER_RATIO * bound {
            self.lasts = None;
        } else if self.readings == LEAST_PROBES && self.lasts.is_none() {
            self.lasts = Some(Sight {
                began_s: self.since_s,
                because: format!(
                    "{running:.0} threads run; at this hour it is {:.0} at most",
                    usual.unwrap_or_default()
                ),
            });
        }
        self.minute.with_stall |= is_stalled || is_far || self.lasts.is_some();
        let mut value = running;
        for place in &mut self.minute.most {
            if value > *place {
                std::mem::swap(place, &mut value);
            }
        }
        self.lasts.clone()
    }

    fn usual_high(&self, at: Timestamp) -> Option<f64> {
        let lately = self.minutes.iter().copied().reduce(f64::max);
        match (self.baseline.usual_high(at), lately) {
            (Some(hour), Some(lately)) => Some(hour.max(lately.min(RISE_ABOVE_HOUR * hour))),
            (Some(hour), None) => Some(hour),
            (None, lately) => lately.filter(|_| self.minutes.len() >= LEAST_MINUTES),
        }
    }

    fn end_minute(&mut self, at: Timestamp) {
        let number = at.as_second().div_euclid(60);
        if number == self.minute.number {
            return;
        }
        if self.minute.number != 0 {
            let began = Timestamp::from_second(self.minute.number * 60).unwrap_or(at);
            let seen = self.minute.most[OF_PROBES - 1];
            let high = match self.usual_high(began).filter(|_| self.minute.with_stall) {
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
        assert_eq!(run(&mut threads, 300, 301, |tenth| if tenth % 10 < 2 { 500 } else { 2 }), None);
        let seen = run(&mut threads, 301, 302, |_| 60).unwrap();
        assert_eq!(
            (seen.began_s, seen.because.as_str()),
            (301.0, "60 threads run; at this hour it is 3 at most")
        );
        assert_eq!(run(&mut threads, 302, 303, |_| 2), None);
    }

    #[test]
    fn peaks_of_every_minute_are_usual() {
        let mut threads = ThreadsRunning::new(Baseline::default());
        let peaks = |tenth: i64| if tenth % 600 < 20 { 60 } else { 3 };
        assert_eq!(run(&mut threads, 0, 3600, peaks), None);
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
