//! How long a trial has to be, from the noise of its first quads.
//!
//! In: the blocks so far, how long a quad takes, and the time that is allowed. Out: a [`Budget`], and a sentence. It looks at
//! the spread alone, never at the mean, so that nothing which follows from it favours an effect.

use distrs::StudentsT;
use spindoctor_model::Block;
use spindoctor_model::number::roughly;
use spindoctor_model::trial::Budget;

use super::interval::Comparison;
use super::margins::percent;
use super::quads::{QUANTITIES, Quantity, compared};
use super::verdict::{ALPHA_PLANNED, LEAST_PLANNED, PRECISE, Terms};

/// Quads after which a budget is estimated: with fewer the spread may be wrong by half.
pub const ESTIMATED_AFTER: usize = 6;
/// Beyond so many quads nothing is planned: a day of the longest.
const MOST_QUADS: u32 = 10_000;

/// What the noise so far calls for; none while there are too few quads.
pub fn estimate(
    blocks: &[Block],
    quad_s: f64,
    seconds_allowed: f64,
    terms: &Terms,
) -> Option<(Quantity, Budget)> {
    let affordable = (seconds_allowed / quad_s).floor();
    let needs = QUANTITIES.into_iter().filter_map(|of| {
        let differences = compared(blocks, of);
        let noise = noise(&differences)?;
        let margin = terms.margins.ln(of);
        let quads = quads_for(noise, PRECISE * margin);
        let reached = (affordable >= 4.0)
            .then(|| (reach(noise, affordable.min(f64::from(MOST_QUADS))) / PRECISE).exp_m1());
        Some((
            of,
            Budget {
                quantity: of.field().to_owned(),
                margin: terms.margins.part(of),
                quads,
                seconds: f64::from(quads) * quad_s,
                seconds_allowed,
                reached: reached.filter(|reached| reached.is_finite()),
            },
        ))
    });
    needs.max_by_key(|(_, budget)| budget.quads)
}

/// What memory and skew that are not there add to the interval of one look all the same, at ten to twenty quads: a third,
/// by [`simulated`](super::simulated).
const BY_CHANCE: f64 = 1.3;

/// The standard deviation of one difference, with what makes its interval wider than Student's.
fn noise(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    if differences.len() < ESTIMATED_AFTER {
        return None;
    }
    let mean = super::mean(differences);
    let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
    let plain = (squares / (n - 1.0)).sqrt() * BY_CHANCE;
    let shown = Comparison::at_one_look(differences, ALPHA_PLANNED)?.reach()? * n.sqrt() / quantile(n);
    // Of few quads memory and skew are chance; what twenty and more show of them is believed.
    let believed = ((n - ESTIMATED_AFTER as f64) / 20.0).min(1.0);
    Some(plain + believed * (shown - plain)).filter(|noise| noise.is_finite())
}

fn quantile(quads: f64) -> f64 {
    StudentsT::ppf(1.0 - ALPHA_PLANNED / 2.0, (quads - 1.0).max(1.0))
}

/// How far the interval reaches after so many quads.
fn reach(noise: f64, quads: f64) -> f64 {
    quantile(quads) * noise / quads.sqrt()
}

/// Quads until the interval reaches no farther than that.
fn quads_for(noise: f64, distance: f64) -> u32 {
    let (mut low, mut high) = (LEAST_PLANNED as u32, MOST_QUADS);
    while low < high {
        let middle = low.midpoint(high);
        if reach(noise, f64::from(middle)) <= distance {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// What a budget says, in a sentence.
pub fn words(of: Quantity, budget: &Budget) -> String {
    let Budget { margin, quads, seconds, seconds_allowed, reached, .. } = budget;
    let (name, margin) = (of.words(), percent(*margin));
    if seconds <= seconds_allowed {
        return format!(
            "the noise so far calls for about {} ({quads} quads) to tell ±{margin} of {name} from nothing, a larger effect sooner; {} are allowed",
            roughly(*seconds),
            roughly(*seconds_allowed)
        );
    }
    let less = match reached {
        // A margin of the whole quantity says nothing of it.
        Some(reached) if *reached < 1.0 => format!("which show ±{} at best", percent(*reached)),
        Some(_) | None => "which show nothing".to_owned(),
    };
    format!(
        "the noise here calls for about {} ({quads} quads) to tell ±{margin} of {name} from nothing, a larger effect sooner; {} are allowed, {less}. More with --max-time, or a wider {}",
        roughly(*seconds),
        roughly(*seconds_allowed),
        of.flag()
    )
}

#[cfg(test)]
mod tests {
    use super::super::quads::Order;
    use super::super::simulated::Random;
    use super::*;

    fn blocks(quads: u32, noise: f64) -> Vec<Block> {
        let mut random = Random::seeded(8);
        (0..quads)
            .flat_map(|quad| {
                Order::toss(|| random.coin()).is_new().map(|is_new| Block {
                    quad,
                    is_new,
                    throughput_per_s: 1_000.0 * (noise * random.normal()).exp(),
                    ..Block::default()
                })
            })
            .collect()
    }

    #[test]
    fn a_quiet_server_needs_the_least_and_four_times_the_noise_sixteen_times_the_quads() {
        let of = |noise| super::estimate(&blocks(6, noise), 10.0, 600.0, &Terms::default());
        assert_eq!(super::estimate(&blocks(5, 0.01), 10.0, 600.0, &Terms::default()), None);
        let (_, quiet) = of(0.001).unwrap();
        assert_eq!((quiet.quads, quiet.seconds), (8, 80.0));
        let (restless, wild) = (of(0.02).unwrap().1, of(0.08).unwrap().1);
        let times = f64::from(wild.quads) / f64::from(restless.quads);
        assert!((12.0..20.0).contains(&times), "{restless:?} {wild:?}");
    }

    #[test]
    fn it_says_how_many_quads_are_needed_and_what_the_allowed_time_reaches() {
        let (of, budget) = super::estimate(&blocks(6, 0.05), 80.0, 600.0, &Terms::default()).unwrap();
        let words = words(of, &budget);
        assert!(
            words.contains(" h (")
                && words
                    .contains("±2 % of throughput from nothing, a larger effect sooner; 10 min are allowed"),
            "{words}"
        );
        assert!(budget.reached.unwrap() > 0.03, "{budget:?}");
        let (of, budget) = super::estimate(&blocks(6, 0.001), 10.0, 600.0, &Terms::default()).unwrap();
        let words = super::words(of, &budget);
        assert!(
            words.contains(
                "about 80 s (8 quads) to tell ±2 % of throughput from nothing, a larger effect sooner; 10 min"
            ),
            "{words}"
        );
        assert_eq!([90.0, 4_200.0, 23_400.0].map(roughly), ["90 s", "70 min", "6.5 h"]);
    }
}
