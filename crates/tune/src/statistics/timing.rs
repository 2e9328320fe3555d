//! How long a block settles and is measured, from how long the load remembers.
//!
//! In: rates of a baseline, one for each second or so, under the present setting. Out: a [`Timing`]. Rates of a server
//! are autocorrelated: flushing, caches and queues carry one second into the next. The integrated
//! autocorrelation time is how long it takes until another measurement says something new; a block of at least five of them
//! averages that out (and the coin of [`quads`](super::quads) takes care of what is left).

use crate::variables::Settles;

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Clients depend on it: their load is restless, and changes should be few.
    Production,
    /// A throw-away server under a generator's steady load.
    ThrowAway,
}

/// How long a block lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// After the change, before it is measured, seconds.
    pub settle_s: f64,
    /// Measured, seconds.
    pub measure_s: f64,
    /// How long the load remembers: its integrated autocorrelation time, seconds.
    pub autocorrelation_s: f64,
}

impl Timing {
    /// From rates that are `step_s` apart. Rates that cannot be used (too few, all the same) count as without memory.
    pub fn from_rates(rates: &[f64], step_s: f64, settles: Settles, pace: Pace) -> Self {
        let autocorrelation_s = autocorrelation_steps(rates) * step_s.clamp(0.01, 60.0);
        let (settle_s, measure_s) = least_s(settles, pace);
        Self {
            settle_s: settle_s.max(autocorrelation_s).min(MOST_SETTLE_S),
            measure_s: measure_s.max(LEAST_TIMES * autocorrelation_s).min(MOST_MEASURE_S),
            autocorrelation_s,
        }
    }

    /// True where the load remembers for longer than a block can make up for: intervals get wider then, not wrong.
    pub fn is_too_short(&self) -> bool {
        self.measure_s < LEAST_TIMES * self.autocorrelation_s
    }

    /// One quad, seconds.
    pub fn quad_s(&self) -> f64 {
        4.0 * (self.settle_s + self.measure_s)
    }
}

/// Autocorrelation times that a block is measured for at least.
const LEAST_TIMES: f64 = 5.0;

/// A quad takes ten minutes at most.
const MOST_SETTLE_S: f64 = 30.0;
/// See [`MOST_SETTLE_S`].
const MOST_MEASURE_S: f64 = 120.0;

/// Settled and measured for at least, seconds. In production 3 and 7: from seventy periods of a quota, and a few of the
/// server's own seconds (it looks at its CPU once a second). Longer blocks make fewer quads in the same time: with 5 and 15
/// ten minutes held seven quads, of which the spread itself is hardly known. Caches fill, and dirty pages reach their new level, within
/// tens of seconds. On a throw-away server the server's own second is what remains.
fn least_s(settles: Settles, pace: Pace) -> (f64, f64) {
    match (pace, settles) {
        (Pace::Production, Settles::AtOnce) => (3.0, 7.0),
        (Pace::Production, Settles::Caches) => (10.0, 15.0),
        (Pace::Production, Settles::Flushing) => (20.0, 30.0),
        (Pace::ThrowAway, Settles::AtOnce) => (1.0, 3.0),
        (Pace::ThrowAway, Settles::Caches) => (2.0, 3.0),
        (Pace::ThrowAway, Settles::Flushing) => (5.0, 10.0),
    }
}

/// The fewest rates that an autocorrelation is computed from: fewer say nothing about five steps.
const LEAST_RATES: usize = 20;

/// The integrated autocorrelation time in steps, at least 1: 1 + 2 sum of the autocorrelations up to the first window
/// of 5 such times (Sokal, "Monte Carlo Methods in Statistical Mechanics", section 3). A linear drift is taken
/// out first, for quads cancel it.
fn autocorrelation_steps(rates: &[f64]) -> f64 {
    if rates.len() < LEAST_RATES || !rates.iter().all(|rate| rate.is_finite()) {
        return 1.0;
    }
    let points: Vec<(f64, f64)> = rates.iter().enumerate().map(|(at, &rate)| (at as f64, rate)).collect();
    let Some((height, slope, squares)) =
        super::line(&points).filter(|(height, _, squares)| *squares > 1e-20 * height.powi(2))
    else {
        return 1.0;
    };
    let middle = (rates.len() - 1) as f64 / 2.0;
    let left: Vec<f64> = points.iter().map(|(at, rate)| rate - height - slope * (at - middle)).collect();
    let mut steps = 1.0;
    for lag in 1..left.len() / 2 {
        let together: f64 = left.iter().zip(&left[lag..]).map(|(one, later)| one * later).sum();
        steps += 2.0 * together / squares;
        if lag as f64 >= 5.0 * steps {
            break;
        }
    }
    if steps.is_finite() { steps.max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::{Memory, Random};
    use super::*;

    fn rates(count: usize, correlation: f64) -> Vec<f64> {
        let mut random = Random::seeded(12);
        let mut memory = Memory::new(correlation);
        (0..count).map(|_| 5_000.0 + 200.0 * memory.next(&mut random)).collect()
    }

    #[test]
    fn a_load_without_memory_gets_the_least_times() {
        let timing = Timing::from_rates(&rates(400, 0.0), 1.0, Settles::AtOnce, Pace::Production);
        assert_eq!((timing.settle_s, timing.measure_s), (3.0, 7.0));
        assert!(timing.autocorrelation_s < 1.5, "{timing:?}");
        assert_eq!(timing.quad_s(), 40.0);
    }

    /// (1 + 0.8) / (1 - 0.8) = 9 steps.
    #[test]
    fn a_load_that_remembers_for_nine_seconds_is_measured_for_about_45() {
        let timing = Timing::from_rates(&rates(4_000, 0.8), 1.0, Settles::AtOnce, Pace::Production);
        assert!((timing.autocorrelation_s - 9.0).abs() < 2.0, "{timing:?}");
        assert!(timing.measure_s > 35.0 && timing.settle_s > 7.0 && !timing.is_too_short());
        let throw_away = Timing::from_rates(&rates(4_000, 0.8), 0.1, Settles::AtOnce, Pace::ThrowAway);
        assert!((throw_away.measure_s - 4.5).abs() < 1.0, "{throw_away:?}");
    }

    #[test]
    fn a_memory_longer_than_any_block_is_said() {
        let timing = Timing::from_rates(&rates(4_000, 0.98), 1.0, Settles::AtOnce, Pace::Production);
        assert!(timing.measure_s == 120.0 && timing.is_too_short(), "{timing:?}");
    }

    #[test]
    fn a_linear_drift_is_no_memory() {
        let drifting: Vec<f64> =
            rates(400, 0.0).iter().enumerate().map(|(at, rate)| rate + 20.0 * at as f64).collect();
        assert!(autocorrelation_steps(&drifting) < 1.5);
        assert_eq!(autocorrelation_steps(&[7.0; 100]), 1.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_rates_give_times_within_the_bounds(
            rates in prop::collection::vec(any::<f64>(), 0..80),
            step_s in any::<f64>(),
        ) {
            prop_assume!(!step_s.is_nan());
            let timing = Timing::from_rates(&rates, step_s, Settles::Flushing, Pace::Production);
            prop_assert!((20.0..=30.0).contains(&timing.settle_s) && (30.0..=120.0).contains(&timing.measure_s));
        }
    }
}
