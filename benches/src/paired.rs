//! Numbers from repeated runs: medians with their spread, and the ratio of pairs with an interval.

/// The middle, the smallest and the largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// Half of the values are no larger.
    pub(crate) median: f64,
    /// The smallest.
    pub(crate) least: f64,
    /// The largest.
    pub(crate) most: f64,
}

impl Spread {
    /// Of these values; there is one at least.
    pub(crate) fn from_values(values: &[f64]) -> Self {
        let sorted = sorted(values);
        Self { median: middle(&sorted), least: sorted[0], most: sorted[sorted.len() - 1] }
    }

    /// `12.3 ms (11.9 to 14.0)`
    pub(crate) fn text(&self, unit: &str) -> String {
        let Self { median, least, most } = self;
        format!("{} {unit} ({} to {})", short(*median), short(*least), short(*most))
    }
}

/// Three digits that count.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The median, and an interval that holds the true median in at least 95 of 100 cases.
///
/// Order statistics: between the k-th smallest and the k-th largest of n values the median lies with a probability of
/// 1 - 2 P(B < k), B binomial of n and one half. Nothing is assumed about the noise but that runs are independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    /// The median.
    pub(crate) median: f64,
    /// Where the interval begins.
    pub(crate) low: f64,
    /// Where it ends.
    pub(crate) high: f64,
}

impl Interval {
    /// Of these values: six at least, or no interval of 95 % exists.
    pub(crate) fn from_values(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let n = sorted.len();
        let mut outside = 0.0;
        let mut coefficient = 1.0;
        let mut k = 0;
        // P(B < k + 1) grows with each step while it stays within 2.5 %.
        while k < n {
            outside += coefficient * 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
            if outside > 0.025 {
                break;
            }
            coefficient *= (n - k) as f64 / (k + 1) as f64;
            k += 1;
        }
        (k > 0).then(|| Self { median: middle(&sorted), low: sorted[k - 1], high: sorted[n - k] })
    }

    /// The same for values that scatter alike to both sides of their middle, as those of quads in turned order do: the
    /// median of the means of all pairs (Hodges and Lehmann), with the interval of the signed-rank test. It needs two thirds
    /// of the runs. From a hundred values on; the ranks' distribution is taken as normal.
    pub(crate) fn of_symmetric(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < 100 {
            return Self::from_values(values);
        }
        let mut means = Vec::with_capacity(n * (n + 1) / 2);
        for (at, one) in values.iter().enumerate() {
            means.extend(values[at..].iter().map(|other| f64::midpoint(*one, *other)));
        }
        means.sort_by(f64::total_cmp);
        let n = n as f64;
        let outside = n * (n + 1.0) / 4.0 - 1.96 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let k = outside as usize;
        Some(Self { median: middle(&means), low: means[k], high: means[means.len() - 1 - k] })
    }
}

/// Of at least one value.
fn middle(values: &[f64]) -> f64 {
    spindoctor_model::median(values.iter().copied()).unwrap_or(f64::NAN)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_values_have_the_interval_of_the_tables() {
        // The third smallest and the third largest of twelve: 96.1 %.
        let values: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(Interval::from_values(&values), Some(Interval { median: 6.5, low: 3.0, high: 10.0 }));
        assert_eq!(Interval::from_values(&values[..5]), None);
    }

    /// Sums of twelve uniform values, which are nearly normal: the true middle is 6.
    #[test]
    fn nineteen_of_twenty_intervals_of_symmetric_values_hold_the_middle_and_are_narrower() {
        let mut state = 1_u64;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut held, mut width, mut width_of_median) = (0, 0.0, 0.0);
        for _ in 0..300 {
            let values: Vec<f64> = (0..120).map(|_| (0..12).map(|_| uniform()).sum()).collect();
            let interval = Interval::of_symmetric(&values).unwrap();
            let of_median = Interval::from_values(&values).unwrap();
            held += u32::from((interval.low..=interval.high).contains(&6.0));
            width += interval.high - interval.low;
            width_of_median += of_median.high - of_median.low;
        }
        // 285 are expected; 273 would be four standard deviations fewer.
        assert!((270..300).contains(&held), "{held}");
        assert!(width < 0.85 * width_of_median, "{width} {width_of_median}");
    }

    #[test]
    fn the_middle_of_three_is_the_second() {
        assert_eq!(Spread::from_values(&[3.0, 1.0, 2.0]).text("ms"), "2.00 ms (1.00 to 3.00)");
    }
}
