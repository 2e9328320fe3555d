//! What the load did during a trial, for the notes: a steady drift, or a step at one moment.
//!
//! In: the blocks. Out: notes, in sentences. The verdict does not need them: drift cancels within quads, and a step
//! widens the interval. But the reader of a trial wants to know that the load changed in its middle.

use spindoctor_model::Block;

use super::quads::Quantity;

/// The load over the time of a trial, the effect of the setting taken out.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Drift {
    /// A steady change.
    pub trend: Option<Trend>,
    /// A step.
    pub step: Option<Step>,
}

/// A steady change of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Throughput at the end against that at the start, a ratio.
    pub ratio: f64,
    /// From the first block to the last, seconds.
    pub seconds: f64,
}

/// A step of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Throughput after it against that before, a ratio.
    pub ratio: f64,
    /// When the first block after it began, seconds from the start of the trial.
    pub at_s: f64,
    /// The quad in whose middle it lies; none where it lies between two.
    pub quad: Option<u32>,
}

/// Change of the load that is worth a note: half of it moves no interval much.
const LEAST_TREND: f64 = 0.10;
/// A step must be larger, for among many places one always looks like a small one.
const LEAST_STEP: f64 = 0.20;
/// Part of the variance that a trend or step explains where there is one: a random walk, too, has a trend, of less.
const LEAST_EXPLAINED: f64 = 0.6;
/// Blocks on each side of a step.
const LEAST_BLOCKS: usize = 3;

impl Drift {
    /// What the blocks show. Of trend and step the one that explains more is given.
    pub fn from_blocks(blocks: &[Block]) -> Self {
        let Some(load) = load(blocks) else { return Self::default() };
        let points: Vec<(f64, f64)> = load.iter().map(|(block, ln)| (block.at_s, *ln)).collect();
        let mean = super::mean(&points.iter().map(|point| point.1).collect::<Vec<_>>());
        let whole: f64 = points.iter().map(|(_, ln)| (ln - mean).powi(2)).sum();
        let seconds = points[points.len() - 1].0 - points[0].0;
        let trend = super::line(&points).map(|(_, slope, left)| (slope * seconds, left));
        let step = (LEAST_BLOCKS..=points.len().saturating_sub(LEAST_BLOCKS))
            .map(|at| {
                let (before, after) = points.split_at(at);
                let ((before, left), (after, more)) = (level(before), level(after));
                (at, after - before, left + more)
            })
            .min_by(|one, other| one.2.total_cmp(&other.2));
        let explains = |left: f64| left <= (1.0 - LEAST_EXPLAINED) * whole;
        let is_step = match (trend, step) {
            (Some((_, trend_left)), Some((_, _, step_left))) => step_left < trend_left,
            (_, step) => step.is_some(),
        };
        Self {
            trend: trend
                .filter(|(change, left)| !is_step && change.abs() >= LEAST_TREND.ln_1p() && explains(*left))
                .map(|(change, _)| Trend { ratio: change.exp(), seconds }),
            step: step
                .filter(|(_, change, left)| is_step && change.abs() >= LEAST_STEP.ln_1p() && explains(*left))
                .map(|(at, change, _)| {
                    let (before, after) = (load[at - 1].0, load[at].0);
                    let quad = (before.quad == after.quad).then_some(after.quad);
                    Step { ratio: change.exp(), at_s: after.at_s, quad }
                }),
        }
    }

    /// In sentences, for the notes of a trial.
    pub fn notes(&self) -> Vec<String> {
        let trend = self.trend.map(|Trend { ratio, seconds }| {
            format!(
                "The load drifted by {:+.0} % over {seconds:.0} s; within a quad that cancels.",
                100.0 * (ratio - 1.0)
            )
        });
        let step = self.step.map(|Step { ratio, at_s, quad }| {
            let within = match quad {
                Some(quad) => format!(", in the middle of quad {}: it makes the interval wider", quad + 1),
                None => ", between two quads: the comparison is untouched".to_owned(),
            };
            format!("The load changed by {:+.0} % at {at_s:.0} s{within}.", 100.0 * (ratio - 1.0))
        });
        Vec::from_iter(trend.into_iter().chain(step))
    }
}

/// Height and squares left of a level.
fn level(points: &[(f64, f64)]) -> (f64, f64) {
    let mean = super::mean(&points.iter().map(|point| point.1).collect::<Vec<_>>());
    (mean, points.iter().map(|(_, ln)| (ln - mean).powi(2)).sum())
}

/// ln throughput of each block that was measured, in order of time, less the mean difference of its setting; none
/// where there are too few.
fn load(blocks: &[Block]) -> Option<Vec<(&Block, f64)>> {
    let mut load: Vec<(&Block, f64)> = blocks
        .iter()
        .filter(|block| block.at_s.is_finite())
        .filter_map(|block| Some((block, Quantity::Throughput.ln(block)?)))
        .collect();
    load.sort_by(|one, other| one.0.at_s.total_cmp(&other.0.at_s));
    let differences = super::quads::differences(blocks, Quantity::Throughput);
    let effect = if differences.is_empty() { 0.0 } else { super::mean(&differences) };
    for (block, ln) in &mut load {
        *ln -= if block.is_new { effect } else { 0.0 };
    }
    (load.len() >= 2 * LEAST_BLOCKS).then_some(load)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::quads::Order;
    use super::super::simulated::Random;
    use super::*;

    /// Blocks of 20 s with an effect of 30 %, under a load that changes with time.
    fn blocks(load: impl Fn(f64) -> f64) -> Vec<Block> {
        let mut random = Random::seeded(5);
        let mut blocks = Vec::new();
        for quad in 0..8 {
            for is_new in Order::toss(|| random.coin()).is_new() {
                let at_s = 20.0 * blocks.len() as f64;
                let throughput_per_s =
                    1_000.0 * load(at_s) * if is_new { 1.3 } else { 1.0 } * (0.02 * random.normal()).exp();
                blocks.push(Block { quad, is_new, at_s, throughput_per_s, ..Block::default() });
            }
        }
        blocks
    }

    #[test]
    fn a_steady_load_has_neither_trend_nor_step_whatever_the_effect() {
        assert_eq!(Drift::from_blocks(&blocks(|_| 1.0)), Drift::default());
        assert_eq!(Drift::from_blocks(&[]), Drift::default());
    }

    #[test]
    fn a_load_that_fades_has_a_trend() {
        let drift = Drift::from_blocks(&blocks(|at_s| (-at_s / 1_000.0).exp()));
        let trend = drift.trend.unwrap();
        assert!((trend.ratio - 0.54).abs() < 0.05 && drift.step.is_none(), "{drift:?}");
        assert_eq!(drift.notes().len(), 1);
        assert!(drift.notes()[0].starts_with("The load drifted by -4"), "{:?}", drift.notes());
    }

    #[test]
    fn a_load_that_halves_has_a_step_with_its_time_and_quad() {
        let middle = Drift::from_blocks(&blocks(|at_s| if at_s < 280.0 { 1.0 } else { 0.5 }));
        let step = middle.step.unwrap();
        assert_eq!((step.at_s, step.quad), (280.0, Some(3)));
        assert!((step.ratio - 0.5).abs() < 0.05 && middle.trend.is_none());
        assert!(middle.notes()[0].contains("in the middle of quad 4"), "{:?}", middle.notes());
        let between = Drift::from_blocks(&blocks(|at_s| if at_s < 320.0 { 1.0 } else { 0.5 }));
        assert_eq!(between.step.unwrap().quad, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_numbers_never_panic(
            numbers in prop::collection::vec((any::<f64>(), any::<f64>(), any::<bool>(), 0_u32..5), 0..40),
        ) {
            let blocks: Vec<Block> = numbers
                .into_iter()
                .map(|(at_s, throughput_per_s, is_new, quad)| Block {
                    quad, is_new, at_s, throughput_per_s, ..Block::default()
                })
                .collect();
            let _notes = Drift::from_blocks(&blocks).notes();
        }
    }
}
