//! What a simulation counted.

use serde::{Deserialize, Serialize};

/// One setting with so many connections.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Simulated time that was counted.
    pub seconds: f64,
    /// Transactions in it.
    pub transactions: u64,
    /// Transactions a second.
    pub throughput_per_s: f64,
    /// Mean time of a transaction, milliseconds.
    pub mean_ms: f64,
    /// 95th percentile of it.
    pub p95_ms: f64,
    /// CPUs that worked, on average.
    pub cpus: f64,
    /// CPU of a transaction, microseconds.
    pub cpu_us_per_transaction: f64,
    /// Part of the CPU time that went into spinning.
    pub spin_share: f64,
    /// And into that of commits.
    pub commit_spin_share: f64,
    /// How often a transaction slept for a latch.
    pub sleeps_per_transaction: f64,
    /// Context switches a second.
    pub switches_per_s: f64,
    /// Part of the time that the quota stopped the server.
    pub throttled_share: f64,
    /// Latches that were taken while it was counted.
    pub latch_operations: u64,
    /// Events that it took in all.
    pub events: u64,
}

/// Times, in classes that are wider by a sixteenth each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    pub(crate) fn add(&mut self, ns: u64) {
        let class = Self::class(ns);
        if self.counts.len() <= class {
            self.counts.resize(class + 1, 0);
        }
        self.counts[class] += 1;
        self.sum += ns as f64;
        self.count += 1;
    }

    fn class(ns: u64) -> usize {
        let ns = ns.max(16);
        let power = 63 - ns.leading_zeros();
        (((power - 4) as usize) << 4) + ((ns >> (power - 4)) & 15) as usize
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The middle of the class in which that part of the times is reached.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let wanted = (part * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (class, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                let power = (class >> 4) as i32;
                return (16.5 + (class & 15) as f64) * 2_f64.powi(power);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_a_class_of_the_true_one() {
        let mut times = Histogram::default();
        (1..=10_000_u64).for_each(|at| times.add(at * 1_000));
        for part in [0.05, 0.5, 0.95, 1.0] {
            let (got, want) = (times.quantile(part), part * 1e7);
            assert!((got / want - 1.0).abs() < 0.04, "{part}: {got}");
        }
        assert!((times.mean() - 5_000_500.0).abs() < 1.0);
        assert_eq!(Histogram::default().quantile(0.95), 0.0);
    }
}
