//! Random numbers that depend on the seed alone: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
//! generators, scrambled", 2016), its state from the seed by splitmix64.

use crate::world::Spread;

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((z ^ (z >> 31)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A time with that mean, nanoseconds.
    pub(crate) fn time(&mut self, mean_ns: f64, spread: Spread) -> f64 {
        match spread {
            Spread::Fixed => mean_ns,
            Spread::Uniform => mean_ns * 2.0 * self.unit(),
            Spread::Exponential => -mean_ns * (1.0 - self.unit()).ln(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spread_has_the_mean_that_it_is_given() {
        for spread in [Spread::Fixed, Spread::Uniform, Spread::Exponential] {
            let mut rng = Rng::new(1);
            let mean = (0..100_000).map(|_| rng.time(50.0, spread)).sum::<f64>() / 100_000.0;
            assert!((mean - 50.0).abs() < 0.5, "{spread:?}: {mean}");
        }
        let mut rng = Rng::new(0);
        assert!((0..1_000).all(|_| rng.below(3) < 3));
    }
}
