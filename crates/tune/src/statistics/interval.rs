//! Intervals of a mean difference: one that holds at every look, and a narrower one for a look that is planned.
//!
//! In: differences, one for each quad. Out: their mean and an interval.
//!
//! [`Comparison::at_every_look`] holds the truth at *all* looks together with probability 1 - alpha, so that a trial may be stopped
//! at any of them. It is the t-mixture of Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian
//! means with unknown variance" (arXiv 2310.03722): for n differences, S their sum, V the sum of their squares,
//!
//! ```text
//! ln E = 1/2 ln(c2 / (n + c2)) + n/2 ln(V / (V - S2 / (n + c2)))
//! ```
//!
//! and the mean is not zero where E >= 1 / alpha. With K = alpha^(-2/n) ((n + c2) / c2)^(1/n) and SS the sum of squared
//! deviations, the means for which E stays below that are
//!
//! ```text
//! mean +- sqrt(SS (1 - 1/K) / (n (1/K - c2 / (n + c2))))
//! ```
//!
//! which is infinite while the denominator is not above zero: at 5 % up to 5 quads. [`Comparison::at_one_look`] is Student's
//! interval, for one look whose time does not depend on the mean; at 20 quads it is half as wide.
//!
//! **Where both assume less than that.** The coin of [`quads`](super::quads) makes the noise of a difference symmetric and
//! uncorrelated, whatever the load does. Not so where the *effect* moves with the load: then differences have a memory or a
//! skew of their own, which alone brought the t-mixture down to 32 % (AR(1), 0.8) and 81 % (lognormal, sigma 1) instead
//! of 95 %. So both are made wider by what the differences show:
//!
//! - *Memory.* The variance of the mean grows by (1 + r) / (1 - r), r the correlation of neighbours with its bias taken out
//!   (Kendall 1954: (1 + 3 r) / n is added). The interval for any look takes r one standard error (1 / sqrt(n)) higher,
//!   because the look that a trial stops at is not picked blindly.
//! - *Skew.* Each end moves outwards to where Hall's transformation puts it ("On the removal of skewness by
//!   transformation", J. R. Statist. Soc. B 54, 1992); no end ever moves inwards.
//!
//! `spindoctor-benches truth-table` measures what then holds under which noise.

use distrs::StudentsT;
use spindoctor_model::Effect;

/// The mixture's width, c squared: 2 gives the narrowest intervals at some ten quads with effects of about
/// their noise.
pub const C_SQUARED: f64 = 2.0;

/// The probability that an interval ever leaves out the truth, at one of all the looks at it.
pub const ALPHA: f64 = 0.05;

/// A correlation above this one cannot be distinguished from a random walk: no interval can be given.
const MOST_CORRELATION: f64 = 0.95;

/// A quantity with the new setting against the old one, as a difference of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The estimate: the mean difference.
    pub mean: f64,
    /// Where the interval begins; none while it is infinite.
    pub low: Option<f64>,
    /// Where the interval ends; none while it is infinite.
    pub high: Option<f64>,
}

impl Comparison {
    /// The mean of the differences with the interval that holds at every look; none where there are no differences, or
    /// one is not a number.
    pub fn at_every_look(differences: &[f64], alpha: f64) -> Option<Self> {
        let shape = Shape::from_differences(differences, alpha)?;
        let inflation = shape.inflation(shape.correlation(1.0));
        let half = half_width(shape.n, shape.squares, alpha).map(|half| half * inflation.sqrt());
        let scale = (shape.squares / (shape.n - 1.0) / shape.n * inflation).sqrt();
        Some(shape.around(half, scale))
    }

    /// The mean of the differences with an interval that holds at one look, whose time was fixed without knowledge of the
    /// mean; none where there are no differences, or one is not a number.
    pub fn at_one_look(differences: &[f64], alpha: f64) -> Option<Self> {
        let shape = Shape::from_differences(differences, alpha)?;
        if shape.n < LEAST_ONCE {
            return Some(shape.around(None, 0.0));
        }
        let correlation = shape.correlation(0.5);
        let inflation = shape.inflation(correlation);
        // The spread of few that are alike is too small, too; and they count for fewer.
        let bias = (1.0 - (inflation - 1.0) / (shape.n - 1.0)).max(0.3);
        let squared = correlation.powi(2);
        let degrees = (shape.n * (1.0 - squared) / (1.0 + squared) - 1.0).clamp(2.0, shape.n - 1.0);
        let scale = (shape.squares / (shape.n - 1.0) / shape.n * inflation / bias).sqrt();
        let half = StudentsT::ppf(1.0 - alpha / 2.0, degrees) * scale;
        Some(shape.around(Some(half), scale))
    }

    /// The part that both intervals have in common; this interval where they have none.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let low = [self.low, other.low].into_iter().flatten().reduce(f64::max);
        let high = [self.high, other.high].into_iter().flatten().reduce(f64::min);
        let is_empty = low.zip(high).is_some_and(|(low, high)| low > high);
        if is_empty { self } else { Self { mean: self.mean, low, high }.with_mean_inside() }
    }

    /// The estimate is never outside of its interval.
    fn with_mean_inside(mut self) -> Self {
        self.mean = self.low.map_or(self.mean, |low| self.mean.max(low));
        self.mean = self.high.map_or(self.mean, |high| self.mean.min(high));
        self
    }

    /// All multiplied by 1 or -1: with [`Quantity::sign`](super::quads::Quantity::sign), above 0 is better.
    #[must_use]
    pub fn times(self, sign: f64) -> Self {
        let Self { mean, low, high } = self;
        let turned = |bound: Option<f64>| bound.map(|bound| bound * sign);
        let (low, high) = if sign < 0.0 { (turned(high), turned(low)) } else { (turned(low), turned(high)) };
        Self { mean: mean * sign, low, high }
    }

    /// True where the whole interval lies within that distance of 0, which is no change.
    pub fn is_within(&self, distance: f64) -> bool {
        self.farthest().is_some_and(|farthest| farthest <= distance)
    }

    /// How far from 0 the truth may be; None while that is infinite.
    pub fn farthest(&self) -> Option<f64> {
        Some(self.low?.abs().max(self.high?.abs()))
    }

    /// How far the farther end is from the estimate; none while that is infinite.
    pub fn reach(&self) -> Option<f64> {
        Some((self.mean - self.low?).max(self.high? - self.mean))
    }
}

impl From<Comparison> for Effect {
    /// As a ratio.
    fn from(Comparison { mean, low, high }: Comparison) -> Self {
        // Ratios stay finite, for JSON knows no infinity.
        let ratio = |difference: f64| difference.clamp(-700.0, 700.0).exp();
        Self { ratio: ratio(mean), low: low.map(ratio), high: high.map(ratio) }
    }
}

/// Fewer differences have no interval for one look: three say next to nothing of their own spread.
const LEAST_ONCE: f64 = 4.0;

/// What differences show of their distribution.
struct Shape {
    n: f64,
    mean: f64,
    /// Of the deviations from the mean.
    squares: f64,
    /// Correlation of neighbours, its bias taken out.
    correlation: f64,
    skewness: f64,
}

impl Shape {
    fn from_differences(differences: &[f64], alpha: f64) -> Option<Self> {
        let mean = super::mean(differences);
        if !mean.is_finite() || !(0.0..1.0).contains(&alpha) {
            return None;
        }
        let n = differences.len() as f64;
        let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
        let mut shape = Self { n, mean, squares, correlation: 0.0, skewness: 0.0 };
        // Of differences that do not vary, or of too few, nothing can be said beyond that.
        if n >= LEAST_ONCE && squares > 0.0 && squares.is_finite() {
            let together: f64 = differences.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
            let raw = together / squares;
            shape.correlation = raw + (1.0 + 3.0 * raw) / n;
            let cubes: f64 =
                differences.iter().map(|difference| (difference - mean).powi(3)).sum::<f64>() / n;
            shape.skewness = cubes / (squares / n).powf(1.5) * (n * (n - 1.0)).sqrt() / (n - 2.0);
        }
        Some(shape)
    }

    /// The correlation of neighbours, so many standard errors higher.
    fn correlation(&self, errors: f64) -> f64 {
        if self.squares > 0.0 {
            (self.correlation + errors / self.n.sqrt()).clamp(0.0, MOST_CORRELATION)
        } else {
            0.0
        }
    }

    /// By which factor the variance of the mean is larger than that of differences without a memory.
    fn inflation(&self, correlation: f64) -> f64 {
        (1.0 + correlation) / (1.0 - correlation)
    }

    /// An interval so far to both sides of the mean, and farther where the skew says so.
    fn around(&self, half: Option<f64>, scale: f64) -> Comparison {
        let half = half.filter(|half| half.is_finite());
        let reaches = half.map(|half| {
            if scale <= 0.0 || !scale.is_finite() || !self.skewness.is_finite() {
                return (half, half);
            }
            // Beyond some eight standard errors the transformation says nothing.
            let errors = (half / scale).min(8.0);
            (half.max(scale * self.untransformed(errors)), half.max(-scale * self.untransformed(-errors)))
        });
        Comparison {
            mean: self.mean,
            low: reaches.map(|(below, _)| self.mean - below).filter(|low| low.is_finite()),
            high: reaches.map(|(_, above)| self.mean + above).filter(|high| high.is_finite()),
        }
        .of_both_or_none()
    }

    /// The inverse of Hall's transformation at so many standard errors.
    fn untransformed(&self, errors: f64) -> f64 {
        let skew = self.skewness / self.n.sqrt();
        if skew.abs() < 1e-6 {
            return errors;
        }
        3.0 / skew * ((1.0 + skew * (errors - skew / 6.0)).cbrt() - 1.0)
    }
}

impl Comparison {
    /// An interval has two ends or none.
    fn of_both_or_none(self) -> Self {
        match (self.low, self.high) {
            (Some(_), Some(_)) => self,
            _ => Self { low: None, high: None, ..self },
        }
    }
}

fn half_width(n: f64, squares: f64, alpha: f64) -> Option<f64> {
    // 1 / K, by its logarithm.
    let shrink = (2.0 / n * alpha.ln() - ((n + C_SQUARED) / C_SQUARED).ln() / n).exp();
    let room = shrink - C_SQUARED / (n + C_SQUARED);
    (room > 0.0).then(|| (squares * (1.0 - shrink) / (n * room)).sqrt())
}

/// The logarithm of the e-value against "the mean is zero": how much the differences speak for another mean. Zero
/// where there are none; minus infinity at least, never not a number.
pub fn ln_e_value(differences: &[f64]) -> f64 {
    let n = differences.len() as f64;
    // The e-value does not depend on the unit, and squares of the largest numbers are none.
    let unit = differences.iter().fold(0.0, |unit: f64, difference| unit.max(difference.abs()));
    let (sum, squares) = differences
        .iter()
        .map(|difference| difference / unit)
        .fold((0.0, 0.0), |(sum, squares): (f64, f64), difference| {
            (sum + difference, squares + difference * difference)
        });
    let against = squares - sum * sum / (n + C_SQUARED);
    let ratio = if unit > 0.0 && unit.is_finite() { (squares / against).max(1.0) } else { 1.0 };
    0.5 * (C_SQUARED / (n + C_SQUARED)).ln() + n / 2.0 * ratio.ln()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::{Memory, Random};
    use super::*;

    /// By hand, with the formulas above, to the digits shown.
    #[test]
    fn eight_differences_give_the_interval_of_the_formula() {
        let differences = [0.05, 0.06, 0.04, 0.05, 0.07, 0.03, 0.05, 0.05];
        let found = Comparison::at_every_look(&differences, 0.05).unwrap();
        // n = 8, SS = 0.001, K = 0.05^(-1/4) 5^(1/8) = 2.114743 * 1.222845 = 2.586003, 1/K = 0.386697.
        let half = (0.001_f64 * (1.0 - 0.386_697) / (8.0 * (0.386_697 - 0.2))).sqrt();
        // Neighbours have r = -0.0007 / 0.001; with the bias taken out -0.8375; one standard error higher still below 0.
        assert!((found.low.unwrap() - (0.05 - half)).abs() < 1e-6, "{found:?} {half}");
        assert!((found.high.unwrap() - (0.05 + half)).abs() < 1e-6);
        assert!(ln_e_value(&differences) > 20.0_f64.ln());
        // Student's: 2.365 sqrt(0.001 / 7 / 8).
        let once = Comparison::at_one_look(&differences, 0.05).unwrap();
        assert!((once.high.unwrap() - 0.05 - 2.364_624 * (0.001_f64 / 56.0).sqrt()).abs() < 1e-6, "{once:?}");
    }

    #[test]
    fn up_to_five_quads_the_interval_is_infinite_and_six_make_it_finite() {
        let some = [0.1, 0.2, 0.1, 0.2, 0.1, 0.2];
        assert_eq!(Comparison::at_every_look(&some[..5], ALPHA).unwrap().low, None);
        assert!(Comparison::at_every_look(&some, ALPHA).unwrap().low.is_some());
        assert_eq!(Comparison::at_every_look(&[], ALPHA), None);
        assert_eq!(Comparison::at_every_look(&[f64::NAN; 9], ALPHA), None);
        assert_eq!(Comparison::at_one_look(&some[..3], ALPHA).unwrap().low, None);
        assert!(Comparison::at_one_look(&some[..4], ALPHA).unwrap().low.is_some());
    }

    #[test]
    fn a_difference_that_never_varies_is_known_exactly() {
        for found in
            [Comparison::at_every_look, Comparison::at_one_look].map(|of| of(&[0.25; 9], ALPHA).unwrap())
        {
            assert_eq!((found.low, found.high), (Some(0.25), Some(0.25)));
        }
        assert!(ln_e_value(&[0.0; 9]) < 0.0 && ln_e_value(&[]) == 0.0);
    }

    #[test]
    fn what_is_better_when_less_is_turned_with_its_bounds() {
        let found = Comparison { mean: 0.1, low: Some(0.05), high: Some(0.2) }.times(-1.0);
        assert_eq!(found, Comparison { mean: -0.1, low: Some(-0.2), high: Some(-0.05) });
        let effect = Effect::from(Comparison { mean: 0.0, low: Some(-1e9), high: None });
        assert_eq!((effect.ratio, effect.high), (1.0, None));
        assert!(effect.low.unwrap() >= 0.0);
    }

    #[test]
    fn two_intervals_leave_what_both_hold_and_the_first_where_that_is_nothing() {
        let wide = Comparison { mean: 0.0, low: Some(-0.2), high: Some(0.1) };
        let narrow = Comparison { mean: 0.05, low: Some(0.01), high: Some(0.3) };
        assert_eq!(wide.and(narrow), Comparison { mean: 0.01, low: Some(0.01), high: Some(0.1) });
        let far = Comparison { mean: 2.0, low: Some(1.0), high: Some(3.0) };
        assert_eq!(wide.and(far), wide);
        let open = Comparison { mean: 0.0, low: None, high: None };
        assert_eq!(open.and(wide), wide);
    }

    /// Of so many series of 40 the part whose mean of 0 is never left out, from 6 to 40.
    fn held(series: impl Fn(&mut Random) -> Vec<f64>, trials: usize) -> f64 {
        let mut random = Random::seeded(20);
        let held = (0..trials).filter(|_| {
            let differences = series(&mut random);
            (6..=differences.len()).all(|n| {
                let found = Comparison::at_every_look(&differences[..n], ALPHA).unwrap();
                found.low.is_none_or(|low| low <= 0.0) && found.high.is_none_or(|high| high >= 0.0)
            })
        });
        held.count() as f64 / trials as f64
    }

    fn remembering(random: &mut Random, correlation: f64) -> Vec<f64> {
        let mut memory = Memory::new(correlation);
        (0..140).map(|_| memory.next(random)).skip(100).collect()
    }

    /// At all looks from 6 to 40 together. The t-mixture alone held 81 % and 66 % of these.
    #[test]
    fn the_interval_holds_at_every_look_also_where_differences_are_skewed_or_have_a_memory() {
        let skewed = |random: &mut Random| (0..40).map(|_| random.normal().exp() - 0.5_f64.exp()).collect();
        let skewed = held(skewed, 400);
        assert!(skewed >= 0.92, "skewed: {skewed}");
        let memory = held(|random| remembering(random, 0.6), 400);
        assert!(memory >= 0.92, "memory of 0.6: {memory}");
        let plain = held(|random| (0..40).map(|_| random.normal()).collect(), 400);
        assert!(plain >= 0.95, "no memory: {plain}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_numbers_give_an_interval_around_the_mean_or_none(
            differences in prop::collection::vec(prop_oneof![any::<f64>(), -1e3..1e3], 0..40),
            alpha in prop_oneof![any::<f64>(), 0.001..0.5],
        ) {
            prop_assert!(!ln_e_value(&differences).is_nan());
            for of in [Comparison::at_every_look, Comparison::at_one_look] {
                if let Some(found) = of(&differences, alpha) {
                    prop_assert!(found.low.is_none_or(|low| low <= found.mean));
                    prop_assert!(found.high.is_none_or(|high| high >= found.mean));
                    let effect = Effect::from(found);
                    prop_assert!(effect.ratio.is_finite() && effect.low.is_none_or(f64::is_finite));
                }
            }
        }

        /// The interval is never narrower than the e-value says.
        #[test]
        fn zero_is_outside_only_where_the_e_value_says_so(
            differences in prop::collection::vec(-0.1..0.3, 1..30),
        ) {
            let found = Comparison::at_every_look(&differences, ALPHA).unwrap();
            let outside = found.low.is_some_and(|low| low > 0.0) || found.high.is_some_and(|high| high < 0.0);
            let e_value = ln_e_value(&differences);
            prop_assume!((e_value - (1.0 / ALPHA).ln()).abs() > 1e-6);
            prop_assert!(!outside || e_value > (1.0 / ALPHA).ln());
        }
    }
}
