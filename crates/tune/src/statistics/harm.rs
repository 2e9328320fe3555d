//! Harm: the new setting loses throughput, told as early as can be, so that a production server does not pay for
//! certainty.
//!
//! In: the blocks so far, also of a quad that is not over. Out: whether to stop. Pairs of neighbours are compared, not
//! quads: twice as many, so that after three and a half there can be an answer. One-sided, at 1 %, by the same always-valid
//! e-value as the interval's: by symmetry half of what it alarms falsely is on the side of harm.

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
    /// The harm that the blocks show; none where they do not (yet).
    pub fn of(blocks: &[Block]) -> Option<Self> {
        let differences = pair_differences(blocks, Quantity::Throughput);
        let mean = super::mean(&differences);
        // Two-sided at twice the level.
        let is_shown = mean < 0.0 && ln_e_value(&differences) >= (1.0 / (2.0 * ALPHA)).ln();
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
        assert_eq!(Harm::of(&blocks(1, 0.5)), None);
        let harmed = Harm::of(&blocks(4, 0.5)[..14]).unwrap();
        assert!((harmed.ratio - 0.5).abs() < 0.01 && harmed.pairs == 7, "{harmed:?}");
    }

    #[test]
    fn a_gain_is_no_harm_nor_is_nothing() {
        assert_eq!(Harm::of(&blocks(20, 2.0)), None);
        assert_eq!(Harm::of(&blocks(20, 1.0)), None);
        assert_eq!(Harm::of(&[]), None);
    }
}
