//! The values of the last minutes, and the usual one among them: by rank, so that a few extreme values change nothing.

use std::collections::VecDeque;

/// Values with their times, as far back as is looked.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    over_s: f64,
    values: VecDeque<(f64, f64)>,
}

impl Recent {
    /// Keeps what is no older than this.
    pub(super) fn over(over_s: f64) -> Self {
        Self { over_s, values: VecDeque::new() }
    }

    /// Adds one, and forgets what has become too old.
    pub(super) fn push(&mut self, at_s: f64, value: f64) {
        self.values.push_back((at_s, value));
        while self.values.front().is_some_and(|&(oldest_s, _)| oldest_s < at_s - self.over_s) {
            self.values.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// In order of time.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> {
        self.values.iter().copied()
    }

    /// The value below which this share of them lies; None of nothing.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        quantile(self.values.iter().map(|&(_, value)| value).collect(), share)
    }

    /// The value in the middle.
    pub(super) fn median(&self) -> Option<f64> {
        spindoctor_model::median(self.values.iter().map(|&(_, value)| value))
    }
}

fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    let at = ((values.len().checked_sub(1)?) as f64 * share).round() as usize;
    let (_, value, _) = values.select_nth_unstable_by(at, f64::total_cmp);
    Some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_wild_values_do_not_change_the_median() {
        let mut recent = Recent::over(100.0);
        for at in 0..50 {
            recent.push(f64::from(at), f64::from(at % 5));
        }
        assert_eq!(recent.median(), Some(2.0));
        for at in 50..55 {
            recent.push(f64::from(at), 1e9);
        }
        assert_eq!(recent.median(), Some(2.0));
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut recent = Recent::over(10.0);
        assert_eq!(recent.median(), None);
        recent.push(0.0, 1.0);
        recent.push(5.0, 2.0);
        recent.push(10.1, 3.0);
        assert_eq!((recent.len(), recent.quantile(1.0), recent.quantile(0.0)), (2, Some(3.0), Some(2.0)));
    }
}
