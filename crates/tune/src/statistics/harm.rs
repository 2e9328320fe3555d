//! Harm: the new setting loses throughput by more than its margin, found as early as possible, so that a production server does not pay for
//! certainty.
//!
//! In: the blocks so far, also of a quad that is not over, and how much may be lost. Out: whether to stop. Pairs of
//! neighbours are compared, not quads: twice as many, so that after three and a half there can be an answer. The test
//! is one-sided, at 1 %, with the same always-valid e-value as the interval: by symmetry half of its false alarms are
//! on the side of harm.

use spindoctor_model::Block;

use super::interval::ln_e_value;
use super::quads::{Quantity, pair_differences};

/// The probability that a setting without effect is ever stopped for harm.
pub const ALPHA: f64 = 0.01;

/// What was lost when the trial was stopped for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harm {
    /// Throughput with the new setting against the old one, a ratio.
    pub ratio: f64,
    /// Pairs of blocks that say so.
    pub pairs: usize,
}

impl Harm {
    /// The harm that the blocks show: a loss that is greater than the margin (a difference of logarithms). None where they
    /// do not (yet).
    pub fn from_blocks(blocks: &[Block], margin: f64) -> Option<Self> {
        let differences = pair_differences(blocks, Quantity::Throughput);
        let mean = super::mean(&differences);
        let beyond: Vec<f64> = differences.iter().map(|difference| difference + margin).collect();
        // Two-sided at twice the level.
        let is_shown = mean < -margin && ln_e_value(&beyond) >= (1.0 / (2.0 * ALPHA)).ln();
        is_shown.then(|| Self { ratio: mean.exp(), pairs: differences.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::quads::Order;
    use super::*;

    fn blocks(quads: u32, effect: f64) -> Vec<Block> {
        (0..quads)
            .flat_map(|quad| {
                let order = Order::toss(|| quad % 2 == 0);
                order.is_new().into_iter().zip([0.99, 1.0, 1.01, 1.02]).map(move |(is_new, load)| Block {
                    quad,
                    is_new,
                    throughput_per_s: 1_000.0 * load * if is_new { effect } else { 1.0 },
                    ..Block::default()
                })
            })
            .collect()
    }

    #[test]
    fn half_the_throughput_is_harm_after_seven_pairs_also_in_the_middle_of_a_quad() {
        assert_eq!(Harm::from_blocks(&blocks(1, 0.5), 0.02), None);
        let harmed = Harm::from_blocks(&blocks(4, 0.5)[..14], 0.02).unwrap();
        assert!((harmed.ratio - 0.5).abs() < 0.01 && harmed.pairs == 7, "{harmed:?}");
    }

    #[test]
    fn a_loss_within_the_margin_is_no_harm_however_sure_it_is() {
        assert_eq!(Harm::from_blocks(&blocks(40, 0.985), 0.02), None);
        assert!(Harm::from_blocks(&blocks(40, 0.985), 0.001).is_some());
    }

    #[test]
    fn a_gain_is_no_harm_nor_is_nothing() {
        assert_eq!(Harm::from_blocks(&blocks(20, 2.0), 0.02), None);
        assert_eq!(Harm::from_blocks(&blocks(20, 1.0), 0.02), None);
        assert_eq!(Harm::from_blocks(&[], 0.02), None);
    }
}
