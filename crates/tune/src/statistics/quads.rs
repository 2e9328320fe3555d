//! Quads: four blocks, old and new twice each, in an order that a fair coin decides.
//!
//! In: a coin from the caller, and the blocks as they were measured. Out: one difference per quad, the mean of
//! ln(metric) with the new setting minus that with the old one. Within ABBA and BAAB a linear drift of the load
//! cancels. The coin is what keeps a load with a memory from passing for an effect: with a fixed order,
//! autocorrelated noise gave 55 % false alarms at 5 %; with the coin it gives 5 %.

use spindoctor_model::Block;

/// The order of a quad's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Old, new, new, old.
    Abba,
    /// New, old, old, new.
    Baab,
}

impl Order {
    /// One of the two, as the coin falls. The coin is fair, and each quad gets its own toss.
    pub fn toss(coin: impl FnOnce() -> bool) -> Self {
        if coin() { Self::Abba } else { Self::Baab }
    }

    /// For each of the four blocks, true where it has the new setting.
    pub fn is_new(self) -> [bool; 4] {
        match self {
            Self::Abba => [false, true, true, false],
            Self::Baab => [true, false, false, true],
        }
    }
}

/// What is compared. More is better of the first, less of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Statements a second.
    Throughput,
    /// 95th percentile of a statement's time.
    P95,
    /// CPU time of the server's process for each statement.
    CpuPerQuery,
}

/// All of them, the one that decides first in front.
pub const QUANTITIES: [Quantity; 3] = [Quantity::Throughput, Quantity::P95, Quantity::CpuPerQuery];

impl Quantity {
    /// Its logarithm in a block; none where it was not measured, or is not above zero.
    pub fn ln(self, block: &Block) -> Option<f64> {
        let value = match self {
            Self::Throughput => Some(block.throughput_per_s),
            Self::P95 => block.p95_ms,
            Self::CpuPerQuery => block.cpu_us_per_query,
        };
        value.filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln)
    }

    /// 1 where more is better, -1 where less is: what a difference is multiplied with to be a benefit.
    pub fn sign(self) -> f64 {
        match self {
            Self::Throughput => 1.0,
            Self::P95 | Self::CpuPerQuery => -1.0,
        }
    }

    /// Its name in JSON, as in the model's `Effects`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P95 => "p95",
            Self::CpuPerQuery => "cpu_per_query",
        }
    }

    /// The flag that sets its margin.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Throughput => "--margin-throughput",
            Self::P95 => "--margin-p95",
            Self::CpuPerQuery => "--margin-cpu",
        }
    }

    /// In words: `throughput`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P95 => "p95",
            Self::CpuPerQuery => "CPU per query",
        }
    }
}

/// The differences of a quantity, one for each whole quad that counts, in order: mean ln(metric) of the new blocks
/// minus that of the old ones.
pub fn differences(blocks: &[Block], of: Quantity) -> Vec<f64> {
    whole_quads(blocks).filter_map(|quad| difference(quad, of)).collect()
}

/// Fewer quads do not show how a quantity follows the CPUs' speed.
const LEAST_WEIGHED: usize = 10;
/// The part of a quantity's variance that the CPUs' speed must explain before it is weighed: of less, the slope is noise.
const LEAST_EXPLAINED: f64 = 0.3;

/// The differences as they are compared: where they follow how fast the host's CPUs were, that is taken off.
///
/// A loop that is always the same runs beside the blocks ([`Block::loop_ns`]). On a host whose speed changes (neighbours,
/// clocks) throughput follows it, and the coin makes the difference in speed between new and old blocks 0 in the long run, so
/// that a straight line through it takes off noise and no effect (CUPED: Deng, Xu, Kohavi and Walker, 2013). Three things
/// must hold: quads enough; the line explains a good part, in the direction that a slow CPU has; and the loops were not
/// slower with one setting than with the other, for then the setting itself may be why.
///
/// The block before a quad would be a second such number, and is of no use: of noise that remembers 0.8 from block to block
/// its correlation with the difference of a quad is 0.06, for A B B A has taken out what it knows.
pub fn compared(blocks: &[Block], of: Quantity) -> Vec<f64> {
    let differences = differences(blocks, of);
    let speed: Option<Vec<f64>> = whole_quads(blocks)
        .filter(|quad| difference(quad, of).is_some())
        .map(|quad| {
            contrast(quad, |block| block.loop_ns.filter(|ns| *ns > 0.0 && ns.is_finite()).map(f64::ln))
        })
        .collect();
    match speed {
        Some(speed) if differences.len() >= LEAST_WEIGHED => {
            // A slow CPU: fewer statements, and more time for each.
            weighed(&differences, &speed, -of.sign()).unwrap_or(differences)
        }
        _ => differences,
    }
}

/// The values with what follows another series taken off; none where that is not to be done.
fn weighed(values: &[f64], follow: &[f64], direction: f64) -> Option<Vec<f64>> {
    let n = values.len() as f64;
    let (mean_value, mean_follow) = (super::mean(values), super::mean(follow));
    let both = || values.iter().zip(follow);
    let product: f64 = both().map(|(value, at)| (value - mean_value) * (at - mean_follow)).sum();
    let of_values: f64 = values.iter().map(|value| (value - mean_value).powi(2)).sum();
    let of_follow: f64 = follow.iter().map(|at| (at - mean_follow).powi(2)).sum();
    let explains = product.powi(2) / (of_values * of_follow);
    // 2 standard errors.
    let is_fair = mean_follow.powi(2) <= 4.0 * of_follow / (n - 1.0) / n;
    let slope = product / of_follow;
    let is_weighed = explains >= LEAST_EXPLAINED && slope * direction > 0.0 && slope.is_finite() && is_fair;
    is_weighed.then(|| both().map(|(value, at)| value - slope * at).collect())
}

/// The same from pairs of neighbours: both halves of whole quads that count, and the first half of one that is not
/// over yet. Twice as many, each half as sure; what drifts does not cancel within a pair, but points this way and that
/// as the coin falls.
pub fn pair_differences(blocks: &[Block], of: Quantity) -> Vec<f64> {
    by_quad(blocks)
        .filter(|quad| quad.iter().all(|block| block.left_out.is_none()))
        .flat_map(|quad| quad.chunks_exact(2))
        .filter_map(|pair| difference(pair, of))
        .collect()
}

/// How many quads are whole and have no block that was left out.
pub fn count(blocks: &[Block]) -> u32 {
    u32::try_from(differences(blocks, Quantity::Throughput).len()).unwrap_or(u32::MAX)
}

fn by_quad(blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
    blocks.chunk_by(|one, next| one.quad == next.quad)
}

fn whole_quads(blocks: &[Block]) -> impl Iterator<Item = &[Block]> {
    by_quad(blocks).filter(|quad| {
        quad.len() == 4
            && quad.iter().filter(|block| block.is_new).count() == 2
            && quad.iter().all(|block| block.left_out.is_none())
    })
}

/// None where one of the blocks lacks the quantity, or all have the same setting.
fn difference(blocks: &[Block], of: Quantity) -> Option<f64> {
    contrast(blocks, |block| of.ln(block))
}

/// The mean of something over the new blocks less that over the old ones.
fn contrast(blocks: &[Block], of: impl Fn(&Block) -> Option<f64>) -> Option<f64> {
    let mean_with = |is_new: bool| -> Option<f64> {
        let with: Option<Vec<f64>> = blocks.iter().filter(|block| block.is_new == is_new).map(&of).collect();
        with.filter(|with| !with.is_empty()).map(|with| super::mean(&with))
    };
    Some(mean_with(true)? - mean_with(false)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quad(number: u32, order: Order, throughput: [f64; 4]) -> Vec<Block> {
        let blocks = order.is_new().into_iter().zip(throughput);
        blocks
            .map(|(is_new, throughput_per_s)| Block {
                quad: number,
                is_new,
                throughput_per_s,
                ..Block::default()
            })
            .collect()
    }

    #[test]
    fn a_linear_drift_of_the_logarithm_cancels_within_either_order() {
        for order in [Order::Abba, Order::Baab] {
            let effect = order.is_new().map(|is_new| if is_new { 1.05 } else { 1.0 });
            let drifting = [0, 1, 2, 3].map(|at| effect[at] * 1_000.0 * 0.9_f64.powi(at as i32));
            let found = differences(&quad(0, order, drifting), Quantity::Throughput);
            assert!((found[0] - 1.05_f64.ln()).abs() < 1e-12, "{order:?} {found:?}");
        }
    }

    #[test]
    fn quads_that_are_not_whole_or_left_out_do_not_count() {
        let mut blocks = quad(0, Order::Abba, [1.0, 2.0, 2.0, 1.0]);
        let mut left_out = quad(1, Order::Baab, [9.0; 4]);
        left_out[2].left_out = Some("the load stopped".into());
        blocks.extend(left_out);
        blocks.extend(quad(2, Order::Abba, [1.0, 0.0, 1.0, 1.0]));
        blocks.extend(quad(3, Order::Abba, [1.0, 2.0, 2.0, 1.0]).into_iter().take(3));
        assert_eq!(count(&blocks), 1);
        assert!((differences(&blocks, Quantity::Throughput)[0] - 2.0_f64.ln()).abs() < 1e-12);
        // Of quad 2 the second half, of quad 3 the first.
        assert_eq!(pair_differences(&blocks, Quantity::Throughput).len(), 4);
        assert!(differences(&blocks, Quantity::P95).is_empty());
    }

    /// A host whose speed changes from block to block by 10 %, and a setting that brings 3 %.
    fn on_a_restless_host(quads: u32, loop_ns: impl Fn(f64, bool) -> Option<f64>) -> Vec<Block> {
        let mut random = super::super::simulated::Random::seeded(4);
        (0..quads)
            .flat_map(|number| {
                let order = Order::toss(|| random.coin()).is_new();
                let slower = order.map(|_| 0.1 * random.normal());
                let throughput = [0, 1, 2, 3].map(|at| {
                    let effect = if order[at] { 1.03 } else { 1.0 };
                    1_000.0 * effect * (-slower[at] + 0.005 * random.normal()).exp()
                });
                let mut blocks = quad(number, if order[0] { Order::Baab } else { Order::Abba }, throughput);
                for (block, slower) in blocks.iter_mut().zip(slower) {
                    block.loop_ns = loop_ns(slower, block.is_new);
                }
                blocks
            })
            .collect()
    }

    #[test]
    fn what_the_hosts_speed_did_is_taken_off_and_what_the_setting_did_is_not() {
        let blocks = on_a_restless_host(20, |slower, _| Some(50_000.0 * slower.exp()));
        let far = |values: &[f64]| values.iter().map(|one| (one - 1.03_f64.ln()).abs()).fold(0.0, f64::max);
        let (plain, weighed) =
            (differences(&blocks, Quantity::Throughput), compared(&blocks, Quantity::Throughput));
        assert!(far(&plain) > 0.1 && far(&weighed) < 0.02, "{plain:?} {weighed:?}");
        // Too few, not measured, or one quad without it.
        assert_eq!(compared(&blocks[..36], Quantity::Throughput), plain[..9]);
        let mut lacking = blocks;
        lacking[7].loop_ns = None;
        assert_eq!(compared(&lacking, Quantity::Throughput), plain);
    }

    #[test]
    fn a_setting_that_slows_the_loops_itself_is_not_excused_by_them() {
        let slowed = on_a_restless_host(20, |slower, is_new| {
            Some(50_000.0 * (slower + if is_new { 0.2 } else { 0.0 }).exp())
        });
        assert_eq!(compared(&slowed, Quantity::Throughput), differences(&slowed, Quantity::Throughput));
        // A loop that runs faster while the server is slower is no measure of the server's CPUs.
        let turned = on_a_restless_host(20, |slower, _| Some(50_000.0 * (-slower).exp()));
        assert_eq!(compared(&turned, Quantity::Throughput), differences(&turned, Quantity::Throughput));
    }

    #[test]
    fn each_quad_has_each_setting_twice_and_the_coin_decides_which_comes_first() {
        assert_eq!(Order::toss(|| true), Order::Abba);
        assert_eq!(Order::toss(|| false), Order::Baab);
        for order in [Order::Abba, Order::Baab] {
            assert_eq!(order.is_new().into_iter().filter(|&is_new| is_new).count(), 2);
        }
    }
}
