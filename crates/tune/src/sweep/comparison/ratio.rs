//! The ratio of one quantity at one point of two sweeps, with its interval, from the runs of both. Pure.
//!
//! The ratio is that of the geometric means of the runs, and its interval is Welch's for the difference of two means ("The
//! generalization of Student's problem when several different population variances are involved", Biometrika 34, 1947), on the
//! logarithms, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946): the runs of two machines have no
//! reason to spread alike, and none of them is a pair of another. It takes the runs of a point as independent, which the random
//! order within a sweep makes them; each interval is for its own point, so that of twenty points without any difference one is
//! expected to leave 1 out.

use distrs::StudentsT;
use serde::{Deserialize, Serialize};

use crate::statistics::interval::ALPHA;

/// B divided by A, of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the geometric means.
    pub ratio: f64,
    /// Where its 95 % interval begins; none where one side has a single run.
    pub low: Option<f64>,
    /// Where it ends.
    pub high: Option<f64>,
}

impl Ratio {
    /// Whether B has clearly more (true) or less (false); none where the interval has 1 in it, or there is none.
    pub fn is_more(&self) -> Option<bool> {
        match (self.low?, self.high?) {
            (low, _) if low > 1.0 => Some(true),
            (_, high) if high < 1.0 => Some(false),
            _ => None,
        }
    }

    /// From the runs of both; none where one has none that is above zero.
    pub(super) fn from_runs(a: &[f64], b: &[f64]) -> Option<Self> {
        let (a, b) = (Logarithms::from_runs(a)?, Logarithms::from_runs(b)?);
        let mean = b.mean - a.mean;
        let half = a.half_width(&b);
        let ratio = mean.exp();
        let (low, high) = (half.map(|half| (mean - half).exp()), half.map(|half| (mean + half).exp()));
        let is_finite = [Some(ratio), low, high].into_iter().flatten().all(f64::is_finite);
        is_finite.then_some(Self { ratio, low, high })
    }
}

/// The mean of logarithms, and the variance of that mean.
struct Logarithms {
    count: f64,
    mean: f64,
    /// None of a single one.
    variance_of_mean: Option<f64>,
}

impl Logarithms {
    fn from_runs(runs: &[f64]) -> Option<Self> {
        let logs: Vec<f64> =
            runs.iter().map(|run| run.ln()).filter(|ln: &f64| ln.is_finite()).collect::<Vec<_>>();
        if logs.is_empty() {
            return None;
        }
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|ln| (ln - mean).powi(2)).sum();
        Some(Self { count, mean, variance_of_mean: (count > 1.0).then(|| squares / (count - 1.0) / count) })
    }

    /// Half of Welch's interval for the difference of two means.
    fn half_width(&self, other: &Self) -> Option<f64> {
        let (one, two) = (self.variance_of_mean?, other.variance_of_mean?);
        let both = one + two;
        if both == 0.0 {
            return Some(0.0);
        }
        let part = |variance: f64, count: f64| variance.powi(2) / (count - 1.0);
        let degrees = both.powi(2) / (part(one, self.count) + part(two, other.count));
        // Between the smaller number of degrees and the sum of both, whatever the rounding.
        let degrees = degrees.clamp(self.count.min(other.count) - 1.0, self.count + other.count - 2.0);
        Some(StudentsT::ppf(1.0 - ALPHA / 2.0, degrees) * both.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_run_has_a_ratio_and_no_interval() {
        let one = Ratio::from_runs(&[2.0], &[3.0, 3.0]).unwrap();
        assert!((one.ratio - 1.5).abs() < 1e-9 && one.low.is_none() && one.high.is_none(), "{one:?}");
        assert_eq!(one.is_more(), None);
        assert_eq!(Ratio::from_runs(&[0.0, f64::NAN, -1.0], &[3.0]), None);
        assert_eq!(Ratio::from_runs(&[2.0; 2], &[3.0; 2]).unwrap().is_more(), Some(true));
    }

    /// Welch's interval of 3 and 3 runs, by hand: logarithms 0, 0.1, 0.2 and 1, 1.2, 1.4. Variances of the means 1/300 and
    /// 4/300, degrees (5/300)^2 / ((1/300)^2 / 2 + (4/300)^2 / 2) = 2.941; t(0.975) is 3.2188 (the density integrated by Simpson's rule).
    #[test]
    fn the_interval_is_welchs() {
        let exp = |logs: [f64; 3]| logs.map(f64::exp);
        let ratio = Ratio::from_runs(&exp([0.0, 0.1, 0.2]), &exp([1.0, 1.2, 1.4])).unwrap();
        let half = 3.2188 * (5.0_f64 / 300.0).sqrt();
        assert!((ratio.ratio.ln() - 1.1).abs() < 1e-9, "{ratio:?}");
        assert!((ratio.high.unwrap().ln() - 1.1 - half).abs() < 2e-3, "{ratio:?} {half}");
    }

    /// How often the truth is within the interval, of pairs of three runs whose spreads differ by a factor of three.
    #[test]
    fn the_interval_has_the_truth_in_nineteen_of_twenty() {
        let mut random = crate::statistics::simulated::Random::seeded(7);
        let mut runs = |mean: f64, sd: f64| -> Vec<f64> {
            (0..3).map(|_| (mean + sd * random.normal()).exp()).collect()
        };
        let (mut inside, all) = (0, 4_000);
        for _ in 0..all {
            let ratio = Ratio::from_runs(&runs(5.0, 0.02), &runs(5.4, 0.06)).unwrap();
            let truth = 0.4_f64.exp();
            inside += u32::from((ratio.low.unwrap()..=ratio.high.unwrap()).contains(&truth));
        }
        let share = f64::from(inside) / f64::from(all);
        assert!((0.935..=0.985).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn hostile_runs_are_no_reason_to_panic(
            a in proptest::collection::vec(any::<f64>(), 0..5),
            b in proptest::collection::vec(any::<f64>(), 0..5),
        ) {
            if let Some(ratio) = Ratio::from_runs(&a, &b) {
                prop_assert!(ratio.ratio.is_finite());
                prop_assert!(ratio.low.is_none_or(|low| low <= ratio.ratio * (1.0 + 1e-9)));
            }
        }
    }
}
