//! The always-valid interval of a mean difference: it may be looked at after every quad, and stopped at any time.
//!
//! In: differences, one for each quad. Out: their mean and an interval that holds the truth at all looks together with
//! probability 1 - alpha. It is the t-mixture of Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for
//! Gaussian means with unknown variance" (arXiv 2310.03722): for n differences, S their sum, V the sum of their squares,
//!
//! ```text
//! ln E = 1/2 ln(c2 / (n + c2)) + n/2 ln(V / (V - S2 / (n + c2)))
//! ```
//!
//! and the mean is not zero where E >= 1 / alpha. The interval holds the means for which E stays below that. With
//! K = alpha^(-2/n) ((n + c2) / c2)^(1/n) and SS the sum of squared deviations it is
//!
//! ```text
//! mean +- sqrt(SS (1 - 1/K) / (n (1/K - c2 / (n + c2))))
//! ```
//!
//! and infinite while the denominator is not above zero: at 5 % up to 5 quads.

use spindoctor_model::Effect;

/// The mixture's width, c squared: 2 gives the narrowest intervals at some ten quads with effects of about
/// their noise.
pub const C_SQUARED: f64 = 2.0;

/// The probability that an interval ever leaves out the truth, at one of all the looks at it.
pub const ALPHA: f64 = 0.05;

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
    /// The mean of the differences with its interval; none where there are no differences, or one is not a number.
    pub fn of(differences: &[f64], alpha: f64) -> Option<Self> {
        let mean = super::mean(differences);
        if !mean.is_finite() || !(0.0..1.0).contains(&alpha) {
            return None;
        }
        let half = half_width(differences, mean, alpha).filter(|half| half.is_finite());
        Some(Self { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) })
    }

    /// With the sign turned: what is better where less is better.
    #[must_use]
    pub fn times(self, sign: f64) -> Self {
        let Self { mean, low, high } = self;
        let turned = |bound: Option<f64>| bound.map(|bound| bound * sign);
        let (low, high) = if sign < 0.0 { (turned(high), turned(low)) } else { (turned(low), turned(high)) };
        Self { mean: mean * sign, low, high }
    }

    /// True where the whole interval lies within that distance of none.
    pub fn is_within(&self, distance: f64) -> bool {
        self.low.is_some_and(|low| low >= -distance) && self.high.is_some_and(|high| high <= distance)
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

fn half_width(differences: &[f64], mean: f64, alpha: f64) -> Option<f64> {
    let n = differences.len() as f64;
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
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

    use super::*;

    /// By hand, with the formulas above, to the digits shown.
    #[test]
    fn eight_differences_give_the_interval_of_the_formula() {
        let differences = [0.05, 0.06, 0.04, 0.05, 0.07, 0.03, 0.05, 0.05];
        let found = Comparison::of(&differences, 0.05).unwrap();
        // n = 8, SS = 0.001, K = 0.05^(-1/4) 5^(1/8) = 2.114743 * 1.222845 = 2.586003, 1/K = 0.386697.
        let half = (0.001_f64 * (1.0 - 0.386_697) / (8.0 * (0.386_697 - 0.2))).sqrt();
        assert!((found.mean - 0.05).abs() < 1e-12);
        assert!((found.low.unwrap() - (0.05 - half)).abs() < 1e-6, "{found:?} {half}");
        assert!((found.high.unwrap() - (0.05 + half)).abs() < 1e-6);
        assert!(ln_e_value(&differences) > 20.0_f64.ln());
    }

    #[test]
    fn up_to_five_quads_the_interval_is_infinite_and_six_make_it_finite() {
        let some = [0.1, 0.2, 0.1, 0.2, 0.1, 0.2];
        assert_eq!(Comparison::of(&some[..5], ALPHA).unwrap().low, None);
        assert!(Comparison::of(&some, ALPHA).unwrap().low.is_some());
        assert_eq!(Comparison::of(&[], ALPHA), None);
        assert_eq!(Comparison::of(&[f64::NAN; 9], ALPHA), None);
    }

    #[test]
    fn a_difference_that_never_varies_is_known_exactly() {
        let found = Comparison::of(&[0.25; 9], ALPHA).unwrap();
        assert_eq!((found.low, found.high), (Some(0.25), Some(0.25)));
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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_numbers_give_an_interval_around_the_mean_or_none(
            differences in prop::collection::vec(prop_oneof![any::<f64>(), -1e3..1e3], 0..40),
            alpha in prop_oneof![any::<f64>(), 0.001..0.5],
        ) {
            prop_assert!(!ln_e_value(&differences).is_nan());
            if let Some(found) = Comparison::of(&differences, alpha) {
                prop_assert!(found.low.is_none_or(|low| low <= found.mean));
                prop_assert!(found.high.is_none_or(|high| high >= found.mean));
                let effect = Effect::from(found);
                prop_assert!(effect.ratio.is_finite() && effect.low.is_none_or(f64::is_finite));
            }
        }

        /// The interval and the e-value are one test: zero is outside exactly where E reaches 1 / alpha.
        #[test]
        fn zero_is_outside_exactly_where_the_e_value_says_so(
            differences in prop::collection::vec(-0.1..0.3, 1..30),
        ) {
            let found = Comparison::of(&differences, ALPHA).unwrap();
            let outside = found.low.is_some_and(|low| low > 0.0) || found.high.is_some_and(|high| high < 0.0);
            let e_value = ln_e_value(&differences);
            prop_assume!((e_value - (1.0 / ALPHA).ln()).abs() > 1e-6);
            prop_assert_eq!(outside, e_value > (1.0 / ALPHA).ln());
        }
    }
}
