//! Whether all clients of a load get their share: throughput can be bought with clients that starve.

use serde::{Deserialize, Serialize};

/// What the clients of one measurement did, each by itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fairness {
    /// Transactions of a client: their mean, by each client's own count, or as sysbench prints it.
    pub mean: f64,
    /// Their standard deviation, from the same.
    pub sd: f64,
    /// Those of the client with the fewest, where each was counted.
    pub least: Option<u64>,
    /// Those of the client with the most.
    pub most: Option<u64>,
}

impl Fairness {
    /// Standard deviation by the mean: 0 where all did the same.
    pub fn sd_ratio(&self) -> Option<f64> {
        self.by_mean(self.sd)
    }

    /// What the client with the fewest did, by the mean: 1 where all did the same, 0 where one did nothing.
    pub fn least_ratio(&self) -> Option<f64> {
        self.by_mean(self.least? as f64)
    }

    /// What the client with the most did, by the mean.
    pub fn most_ratio(&self) -> Option<f64> {
        self.by_mean(self.most? as f64)
    }

    fn by_mean(&self, count: f64) -> Option<f64> {
        Some(count / self.mean).filter(|ratio| ratio.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_compared_with_their_mean() {
        let fairness = Fairness { mean: 200.0, sd: 50.0, least: Some(20), most: Some(300) };
        let ratios = [fairness.sd_ratio(), fairness.least_ratio(), fairness.most_ratio()];
        assert_eq!(ratios, [Some(0.25), Some(0.1), Some(1.5)]);
        assert_eq!(Fairness::default().sd_ratio(), None);
        assert_eq!(Fairness { least: None, ..fairness }.least_ratio(), None);
    }
}
