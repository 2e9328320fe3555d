//! A ratio of sums over the parts of a span, and how far it is known.
//!
//! Rows for each execution are the rows of all parts by the executions of all parts. How far that is from the truth shows in how
//! the parts scatter around it (the linearised variance of a ratio; Cochran, Sampling Techniques, section 2.11). Parts that follow
//! each other are alike, so the variance grows by (1 + r) / (1 - r), r the correlation of neighbours with its bias taken out
//! (Kendall 1954). Two such ratios are compared on the logarithmic scale with Student's interval.

use distrs::StudentsT;

/// Parts below which no interval is given: the spread of three says nothing of the spread of all.
pub const LEAST_PARTS: usize = 4;

/// Neighbours that are more alike than this are a drift as likely as noise: no interval.
const MOST_CORRELATION: f64 = 0.95;

/// A ratio, and the standard error of its logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The ratio.
    pub value: f64,
    /// The standard error of its logarithm; none where the parts are too few, or the ratio is zero.
    pub log_error: Option<f64>,
    /// Parts that it comes from.
    pub parts: usize,
}

/// The sum of the numerators by that of the denominators; none where there is nothing to divide by.
pub fn ratio(parts: impl Iterator<Item = (f64, f64)>) -> Option<Estimate> {
    let parts: Vec<(f64, f64)> = parts.filter(|&(_, of)| of > 0.0).collect();
    let (sum, of) = parts.iter().fold((0.0, 0.0), |(sum, of), part| (sum + part.0, of + part.1));
    (of > 0.0).then(|| {
        let value = sum / of;
        Estimate { value, log_error: log_error(&parts, value, of), parts: parts.len() }
    })
}

fn log_error(parts: &[(f64, f64)], value: f64, of: f64) -> Option<f64> {
    if parts.len() < LEAST_PARTS || value <= 0.0 {
        return None;
    }
    let count = parts.len() as f64;
    let left: Vec<f64> = parts.iter().map(|&(part, of)| part - value * of).collect();
    let squares: f64 = left.iter().map(|left| left * left).sum();
    let neighbours: f64 = left.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let correlation = if squares > 0.0 { neighbours / squares } else { 0.0 };
    let correlation = (correlation + (1.0 + 3.0 * correlation) / count).max(0.0);
    if correlation > MOST_CORRELATION {
        return None;
    }
    let inflation = (1.0 + correlation) / (1.0 - correlation);
    let variance = count / (count - 1.0) * squares * inflation / (of * of);
    Some(variance.sqrt() / value)
}

/// A quantity after by the same before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factor {
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Where the interval of after by before begins and ends; none where it is not known.
    pub interval: Option<(f64, f64)>,
}

impl Factor {
    /// With an interval that holds with probability 1 - alpha.
    pub fn new(before: Estimate, after: Estimate, alpha: f64) -> Self {
        let interval = before.log_error.zip(after.log_error).map(|(a, b)| {
            let degrees = (before.parts.min(after.parts) - 1) as f64;
            let half = StudentsT::ppf(1.0 - alpha / 2.0, degrees) * a.hypot(b);
            let mean = (after.value / before.value).ln();
            ((mean - half).exp(), (mean + half).exp())
        });
        Self { before: before.value, after: after.value, interval }
    }

    /// After by before; none where there was nothing before.
    pub fn times(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before)
    }

    /// True where the whole interval lies beyond `times` or below its inverse.
    pub fn is_beyond(&self, times: f64) -> bool {
        self.interval.is_some_and(|(low, high)| low > times || high < 1.0 / times)
    }

    /// True where the whole interval lies between `times` and its inverse.
    pub fn is_within(&self, times: f64) -> bool {
        self.interval.is_some_and(|(low, high)| low >= 1.0 / times && high <= times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noisy(rng: &mut fastrand::Rng, mean: f64, count: usize, memory: f64) -> Vec<(f64, f64)> {
        let mut state = 0.0;
        (0..count)
            .map(|_| {
                // The sum of twelve uniform numbers is as good as normal.
                let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
                state = memory * state + (1.0 - memory * memory).sqrt() * normal;
                let executions = 50.0 + 50.0 * rng.f64();
                (executions * mean * (0.2 * state).exp(), executions)
            })
            .collect()
    }

    /// How often the interval of an unchanged quantity leaves out 1.
    fn wrong(memory: f64, alpha: f64) -> f64 {
        let mut rng = fastrand::Rng::with_seed(7);
        let runs = 2_000;
        let outside = (0..runs).filter(|_| {
            let one = |rng: &mut fastrand::Rng| ratio(noisy(rng, 3.0, 24, memory).into_iter()).unwrap();
            let factor = Factor::new(one(&mut rng), one(&mut rng), alpha);
            factor.is_beyond(1.0)
        });
        outside.count() as f64 / f64::from(runs)
    }

    #[test]
    fn an_interval_leaves_out_the_truth_as_rarely_as_it_says() {
        assert!(wrong(0.0, 0.05) < 0.07, "{}", wrong(0.0, 0.05));
        assert!(wrong(0.5, 0.05) < 0.09, "{}", wrong(0.5, 0.05));
        assert!(wrong(0.0, 0.001) < 0.005, "{}", wrong(0.0, 0.001));
    }

    #[test]
    fn a_change_is_seen_and_few_parts_have_no_interval() {
        let mut rng = fastrand::Rng::with_seed(3);
        let before = ratio(noisy(&mut rng, 2.0, 24, 0.2).into_iter()).unwrap();
        let after = ratio(noisy(&mut rng, 5.0, 24, 0.2).into_iter()).unwrap();
        let factor = Factor::new(before, after, 0.001);
        assert!(factor.is_beyond(1.5) && !factor.is_within(1.5), "{factor:?}");
        let few = ratio(noisy(&mut rng, 2.0, 3, 0.0).into_iter()).unwrap();
        assert_eq!(Factor::new(few, after, 0.05).interval, None);
        assert_eq!(ratio(std::iter::empty()), None);
        let zero = ratio([(0.0, 5.0); 9].into_iter()).unwrap();
        assert_eq!((zero.value, zero.log_error), (0.0, None));
        assert_eq!(Factor::new(zero, after, 0.05).times(), None);
    }

    #[test]
    fn parts_without_any_scatter_are_known_exactly() {
        let same = ratio([(30.0, 10.0); 8].into_iter()).unwrap();
        let factor = Factor::new(same, same, 0.05);
        assert!(factor.is_within(1.01) && !factor.is_beyond(1.0), "{factor:?}");
    }
}
