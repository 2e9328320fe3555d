//! The number of threads that usually run at this hour of the week, with a limit on how much a bad day may change it.
//!
//! One number for each of the 168 hours (UTC): the most threads that ran, without short peaks. The number is learnt
//! hour by hour, and one hour changes it by a quarter at most: a pile-up of one afternoon does not become usual, and a
//! weekly job becomes usual within some weeks, in steps. The saved baseline takes about two kilobytes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const HOURS_OF_A_WEEK: usize = 168;
const HOURS_OF_A_DAY: usize = 24;
/// One hour raises or lowers the usual number by this share at most.
const MOST_CHANGE_RATIO: f64 = 0.25;
/// And by so many threads at least where it rises, or the number would stay at zero for ever.
const LEAST_RISE: f64 = 2.0;
/// An hour of which less was seen is not learnt from.
const LEAST_MINUTES: u16 = 30;

/// How many threads usually run, by hour of the week.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Baseline {
    /// The most threads that usually run, from Monday 0 h UTC on; negative where that hour was never learnt.
    highs: Vec<f32>,
    /// The hour that is being learnt.
    current: Hour,
}

/// What an hour has shown so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Hour {
    /// Hours since 1970.
    number: i64,
    high: f32,
    minutes: u16,
}

impl Baseline {
    /// The most threads that usually run at that time; where this hour of the week was never learnt, the most of the same
    /// hour of other days. None where nothing is known.
    pub fn usual_high(&self, at: Timestamp) -> Option<f64> {
        let hour = hour_of_week(hours(at));
        self.high(hour).or_else(|| {
            let same_hour =
                (0..HOURS_OF_A_WEEK).filter(|other| other % HOURS_OF_A_DAY == hour % HOURS_OF_A_DAY);
            same_hour.filter_map(|hour| self.high(hour)).reduce(f64::max)
        })
    }

    /// Adds a minute: the most threads that ran in it, less what only a moment had.
    pub fn learn_minute(&mut self, at: Timestamp, high: f64) {
        let number = hours(at);
        if number != self.current.number {
            self.learn_hour();
            self.current = Hour { number, ..Hour::default() };
        }
        self.current.high = self.current.high.max(high.max(0.0) as f32);
        self.current.minutes += 1;
    }

    fn high(&self, hour: usize) -> Option<f64> {
        self.highs.get(hour).map(|&high| f64::from(high)).filter(|high| *high >= 0.0)
    }

    fn learn_hour(&mut self) {
        if self.current.minutes < LEAST_MINUTES {
            return;
        }
        let hour = hour_of_week(self.current.number);
        let seen = f64::from(self.current.high);
        let learnt = match self.high(hour) {
            Some(high) => seen.clamp(
                high * (1.0 - MOST_CHANGE_RATIO),
                (high * (1.0 + MOST_CHANGE_RATIO)).max(high + LEAST_RISE),
            ),
            None => seen,
        };
        self.highs.resize(HOURS_OF_A_WEEK, -1.0);
        self.highs[hour] = learnt as f32;
    }
}

fn hours(at: Timestamp) -> i64 {
    at.as_second().div_euclid(3_600)
}

fn hour_of_week(hours: i64) -> usize {
    // 1970-01-01 was a Thursday: three days after a Monday.
    (hours + 3 * HOURS_OF_A_DAY as i64).rem_euclid(HOURS_OF_A_WEEK as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Monday.
    const MONDAY: &str = "2026-11-16T00:00:00Z";

    fn after(hours: i64) -> Timestamp {
        MONDAY.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_hours(hours)
    }

    fn hour(baseline: &mut Baseline, hours: i64, high: f64) {
        for minute in 0..60 {
            baseline.learn_minute(after(hours) + jiff::SignedDuration::from_mins(minute), high);
        }
    }

    #[test]
    fn an_hour_is_known_after_it_was_seen_and_stands_in_for_other_days() {
        let mut baseline = Baseline::default();
        assert_eq!(hour_of_week(hours(after(0))), 0);
        hour(&mut baseline, 9, 40.0);
        assert_eq!(baseline.usual_high(after(9)), None, "it is not over");
        hour(&mut baseline, 10, 12.0);
        hour(&mut baseline, 11, 12.0);
        assert_eq!(baseline.usual_high(after(9)), Some(40.0));
        assert_eq!(baseline.usual_high(after(24 + 9)), Some(40.0), "Tuesday, as Monday was");
        assert_eq!(baseline.usual_high(after(168 + 10)), Some(12.0), "the next Monday");
        assert_eq!(baseline.usual_high(after(20)), None);
    }

    #[test]
    fn a_long_stall_does_not_become_usual_and_a_job_of_every_week_does_in_steps() {
        let mut baseline = Baseline::default();
        let mut usual = Vec::new();
        for week in 0..8 {
            hour(&mut baseline, 168 * week + 9, if week == 0 { 40.0 } else { 400.0 });
            hour(&mut baseline, 168 * week + 10, 10.0);
            usual.push(baseline.usual_high(after(9)).unwrap());
        }
        assert_eq!(usual[..3], [40.0, 50.0, 62.5]);
        assert!(usual[7] < 200.0, "{usual:?}");
    }

    #[test]
    fn a_baseline_is_saved_and_loaded_and_is_small() {
        let mut baseline = Baseline::default();
        for hours in 0..170 {
            hour(&mut baseline, hours, 12.5);
        }
        let text = serde_json::to_string(&baseline).unwrap();
        assert!(text.len() < 2_000, "{}", text.len());
        assert_eq!(serde_json::from_str::<Baseline>(&text).unwrap(), baseline);
        let broken: Baseline = serde_json::from_str(r#"{"highs": [1.0, 2.0]}"#).unwrap();
        assert_eq!(broken.usual_high(after(0)), Some(1.0));
    }
}
