//! Numbers from repeated runs: medians with their spread, and middles and means with an interval.

use spindoctor_tune::statistics::simulated::Random;

/// Fewer values have no interval of 95 %: the signs of five alone agree by chance in 6 of 100 cases.
const FEWEST: usize = 6;
/// From so many values on, the distribution of signed ranks is taken as normal: at a hundred that moves the interval by one of
/// 5,050 means.
const MANY: usize = 100;
/// How often a series is drawn from its blocks. Efron and Tibshirani (1993) have a thousand as the least for ends of an interval.
const DRAWS: usize = 2_000;
/// Where the drawing begins: the same values have the same interval.
const SEED: u64 = 1;

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

/// A middle or a mean, and an interval that holds the true one in 95 of 100 cases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    /// What is estimated.
    pub(crate) middle: f64,
    /// Where the interval begins.
    pub(crate) low: f64,
    /// Where it ends.
    pub(crate) high: f64,
}

impl Interval {
    /// The median of these values: six at least, or no interval of 95 % exists.
    ///
    /// Order statistics: between the k-th smallest and the k-th largest of n values the median lies with a probability of
    /// 1 - 2 P(B < k), B binomial of n and one half. Nothing is assumed about the noise but that runs are independent.
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
        (k > 0).then(|| Self { middle: middle(&sorted), low: sorted[k - 1], high: sorted[n - k] })
    }

    /// The middle of values that scatter alike to both sides of it, as those of quads in turned order do: the median of the means
    /// of all pairs (Hodges and Lehmann), with the interval of the signed-rank test. It needs two thirds of the runs that a
    /// median needs; six at least.
    pub(crate) fn of_symmetric(values: &[f64]) -> Option<Self> {
        let outside = means_outside(values.len())?;
        let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
        for (at, one) in values.iter().enumerate() {
            means.extend(values[at..].iter().map(|other| f64::midpoint(*one, *other)));
        }
        means.sort_by(f64::total_cmp);
        let (low, high) = (means[outside], means[means.len() - 1 - outside]);
        Some(Self { middle: middle(&means), low, high })
    }

    /// The mean of values in the order in which they were measured, of which neighbours may be alike: moving blocks of them are
    /// drawn, and joined to a series as long as theirs (Künsch 1989, "The jackknife and the bootstrap for general stationary
    /// observations"); the interval is where 95 of 100 of these series have their means. A block has the cube root of their
    /// number, rounded up (Hall, Horowitz and Jing 1995, "On blocking rules for the bootstrap with dependent data").
    ///
    /// Of few values it is too narrow: of twelve that are independent and normal it holds the mean in 90 of 100 cases.
    pub(crate) fn of_mean(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < FEWEST {
            return None;
        }
        let length = (n as f64).cbrt().ceil() as usize;
        let blocks: Vec<f64> =
            values.windows(length).map(|block| block.iter().sum::<f64>() / length as f64).collect();
        let drawn_from = mean(&blocks);
        let in_a_series = n.div_ceil(length);
        let mut random = Random::seeded(SEED);
        let mut drawn = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let sum: f64 = (0..in_a_series).map(|_| blocks[random.below(blocks.len())]).sum();
            drawn.push(sum / in_a_series as f64 - drawn_from);
        }
        drawn.sort_by(f64::total_cmp);
        // Blocks that overlap scatter less than those of other series would, by length / n of their variance; and what was drawn
        // may be longer than what was measured.
        let widened = ((in_a_series * length) as f64 / (n - length) as f64).sqrt();
        let end = |part: f64| mean(values) + widened * drawn[(part * DRAWS as f64) as usize];
        Some(Self { middle: mean(values), low: end(0.025), high: end(0.975) })
    }
}

/// How many of the sorted means of all pairs lie outside of the signed-rank test's interval, on each side: the largest sum of
/// ranks to which no more than 2.5 of 100 samples come whose middle is zero. None where even a sum of zero is more common.
fn means_outside(n: usize) -> Option<usize> {
    if n >= MANY {
        let n = n as f64;
        let outside = n * (n + 1.0) / 4.0 - 1.96 * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some(outside as usize);
    }
    // How probable each sum is: a rank is in it in one of two cases.
    let mut probable = vec![0.0; n * (n + 1) / 2 + 1];
    probable[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..probable.len()).rev() {
            let with_rank = sum.checked_sub(rank).map_or(0.0, |without| probable[without]);
            probable[sum] = f64::midpoint(probable[sum], with_rank);
        }
    }
    let mut so_far = 0.0;
    let within = |probable: &&f64| {
        so_far += **probable;
        so_far <= 0.025
    };
    probable.iter().take_while(within).count().checked_sub(1)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
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
    use spindoctor_tune::statistics::simulated::Memory;

    use super::*;

    #[test]
    fn twelve_values_have_the_interval_of_the_tables() {
        // The third smallest and the third largest of twelve: 96.1 %.
        let values: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(Interval::from_values(&values), Some(Interval { middle: 6.5, low: 3.0, high: 10.0 }));
        assert_eq!(Interval::from_values(&values[..5]), None);
    }

    #[test]
    fn the_signed_ranks_are_those_of_the_tables() {
        // Two-sided, 5 %.
        let table = [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)];
        for (n, outside) in table {
            assert_eq!(means_outside(n), Some(outside), "{n}");
        }
        assert_eq!(means_outside(5), None);
        // Where the normal distribution takes over, it is the same but for a step.
        assert_eq!((means_outside(MANY - 1), means_outside(MANY)), (Some(1_913), Some(1_954)));
        let values = [3.0, 1.0, 2.0, 6.0, 5.0, 4.0];
        assert_eq!(Interval::of_symmetric(&values), Some(Interval { middle: 3.5, low: 1.0, high: 6.0 }));
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

    /// Of 200 series of 120 values with a true mean of 0, those whose interval holds it: by blocks, and by what is right for values
    /// that are independent.
    fn held(correlation: f64) -> (u32, u32) {
        let mut random = Random::seeded(1);
        let (mut by_blocks, mut by_values) = (0, 0);
        for _ in 0..200 {
            let mut memory = Memory::new(correlation);
            let series: Vec<f64> = (0..220).map(|_| memory.next(&mut random)).skip(100).collect();
            let Interval { middle, low, high } = Interval::of_mean(&series).unwrap();
            by_blocks += u32::from((low..=high).contains(&0.0));
            let variance = series.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / 119.0;
            by_values += u32::from(middle.abs() <= 1.96 * (variance / 120.0).sqrt());
        }
        (by_blocks, by_values)
    }

    #[test]
    fn an_interval_from_blocks_holds_the_mean_of_values_that_follow_each_other() {
        // Nominally 190 of 200 are to be held.
        let (independent, _) = held(0.0);
        assert!(independent >= 180, "{independent}");
        let (by_blocks, by_values) = held(0.5);
        assert!(by_blocks >= 170 && by_values <= 160, "{by_blocks} {by_values}");
    }

    #[test]
    fn the_mean_of_the_same_values_has_the_same_interval_and_of_few_values_none() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let found = Interval::of_mean(&values).unwrap();
        assert_eq!(Interval::of_mean(&values), Some(found));
        assert_eq!(found.middle, 4.5);
        assert!(found.low < 3.5 && found.high > 5.5 && found.low > 1.0 && found.high < 8.0, "{found:?}");
        assert_eq!(Interval::of_mean(&values[..5]), None);
        assert_eq!(Interval::of_mean(&[2.0; 12]), Some(Interval { middle: 2.0, low: 2.0, high: 2.0 }));
    }

    #[test]
    fn the_middle_of_three_is_the_second() {
        assert_eq!(Spread::from_values(&[3.0, 1.0, 2.0]).text("ms"), "2.00 ms (1.00 to 3.00)");
    }
}
