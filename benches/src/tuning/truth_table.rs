//! The verdict of trials with a known truth: every combination of better, same and worse, under ten kinds of noise.

use spindoctor_tune::statistics::interval::{ALPHA, Comparison};
use spindoctor_tune::statistics::simulated::{
    Memory, NOISES, Noise, Random, Tally, Truth, Way, combinations, tally,
};

use crate::page::Row;
use crate::{Bench, Benchmark, progress};

/// Trials of each combination under each kind of noise.
const TRIALS: u32 = 100;
/// Trials of a setting against itself, and of a real effect, under each kind of noise.
const MORE_TRIALS: u32 = 400;
const FIRST_SEED: u64 = 1;
/// Series of differences that are given to the interval itself.
const SERIES: usize = 2_000;
/// The goals.
const MOST_WRONG: f64 = 0.05;
const LEAST_NULL: f64 = 0.80;
const LEAST_HELD: f64 = 0.93;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "truth-table",
    of: &["crates/tune/src/statistics"],
    minutes: 2,
    story: "Simulated trials, judged by the code that judges real ones, looked at after every quad, 40 quads at most, with the \
            default margins (throughput 2 %, p95 10 %, CPU per query 3 %). Better and worse are 5 % of throughput and of CPU \
            per query and 20 % of p95. Blocks have 1 % of noise (p95 4 %), of ten kinds: normal; skewed (lognormal, sigma 1); a \
            memory from block to block (AR(1), 0.5 and 0.8); stalls of six times the noise in a twelfth of the blocks; a drift \
            with a swing; a host whose speed changes in steps; and three in which the effect itself moves from quad to quad by \
            as much as the noise (AR(1), 0.6 and 0.8; lognormal). Wrong is *helps* where nothing is better or something is \
            worse, *hurts* where nothing is worse, *no significant effect* where something is better or worse; inconclusive \
            is never wrong and never right. 100 trials of each combination under each kind of noise, 400 of a setting against \
            itself and of a real effect, 2,000 series for the interval by itself; seeds from 1 on, by SplitMix64. All of this \
            was fixed before the run.",
    run: |bench| Box::pin(run(bench)),
};

#[expect(clippy::unused_async, reason = "a benchmark is a future, and this one waits for nothing")]
async fn run(_bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let last = |trials: u32| FIRST_SEED + u64::from(trials) - 1;
    progress(&format!(
        "truth-table: seeds {FIRST_SEED} to {} for combinations, to {} for the rest",
        last(TRIALS),
        last(MORE_TRIALS)
    ));
    let mut rows = combined();
    rows.extend(nulls());
    rows.extend(noisy_losses());
    rows.extend(real_effects());
    rows.extend(intervals());
    Ok(rows)
}

/// A row for each combination over all kinds of noise, and one for each kind over all combinations.
fn combined() -> Vec<Row> {
    let truths = combinations();
    let mut by_truth = vec![Tally::default(); truths.len()];
    let mut by_noise = Vec::new();
    for (name, noise) in NOISES {
        progress(&format!("truth-table: combinations, {name}"));
        let mut all = Tally::default();
        let (mut worst, mut least_right): (f64, f64) = (0.0, 1.0);
        for (truth, sum) in truths.iter().zip(&mut by_truth) {
            let found = tally(&Truth { noise, ..*truth }, TRIALS, FIRST_SEED);
            add(sum, &found);
            add(&mut all, &found);
            worst = worst.max(part(found.wrong, found.trials));
            least_right = least_right.min(part(found.right, found.trials));
        }
        by_noise.push(Row::goal(
            format!("{name}: wrong verdicts, over all combinations; of the worst one"),
            format!("{}; {}", percent(part(all.wrong, all.trials)), percent(worst)),
            "<= 5 %",
            worst <= MOST_WRONG,
        ));
        by_noise.push(Row::plain(
            format!("{name}: right verdicts, over all combinations; of the worst one; quads"),
            format!(
                "{}; {}; {:.1}",
                percent(part(all.right, all.trials)),
                percent(least_right),
                f64::from(all.quads) / f64::from(all.trials)
            ),
        ));
    }
    let mut rows: Vec<Row> = truths
        .iter()
        .zip(&by_truth)
        .map(|(truth, found)| {
            let [throughput, p95, cpu] = truth.ways().map(Way::words);
            Row::plain(
                format!("throughput {throughput}, p95 {p95}, CPU {cpu}: helps, hurts (trade-off), no effect, inconclusive"),
                format!(
                    "{}, {} ({}), {}, {}",
                    found.helps, found.hurts, found.trade_offs, found.no_effect, found.inconclusive
                ),
            )
        })
        .collect();
    rows.extend(by_noise);
    rows
}

/// Trials of a setting against itself.
fn nulls() -> Vec<Row> {
    let mut rows = Vec::new();
    for level in [0.005, 0.01, 0.02] {
        for (name, noise) in NOISES {
            progress(&format!("truth-table: no effect, {name}, {}", percent(level)));
            let found = tally(&Truth { noise, level, ..Truth::default() }, MORE_TRIALS, FIRST_SEED);
            let what = format!(
                "no effect, {} of noise, {name}: no significant effect; wrong; quads",
                percent(level)
            );
            let none = part(found.no_effect, found.trials);
            let measured = format!(
                "{}; {}; {:.1}",
                percent(none),
                percent(part(found.wrong, found.trials)),
                f64::from(found.quads) / f64::from(found.trials)
            );
            // A quiet server is the goal's.
            rows.push(match noise {
                Noise::Gaussian if level <= 0.01 => {
                    let is_reached = none >= LEAST_NULL && part(found.wrong, found.trials) <= MOST_WRONG;
                    Row::goal(what, measured, ">= 80 %; <= 5 %", is_reached)
                }
                _ => Row::plain(what, measured),
            });
        }
    }
    rows
}

/// What a gain hid: a loss that is lost in the noise, or lies on its margin.
fn noisy_losses() -> Vec<Row> {
    let truth = Truth { throughput: 1.05, ..Truth::default() };
    let cases = [
        ("throughput +5 %, p95 20 % worse, noise of p95 20 %", Truth { p95: 1.2, p95_level: 20.0, ..truth }),
        (
            "throughput +5 %, CPU per query 5 % worse, noise 3 %",
            Truth { cpu_per_query: 1.05, level: 0.03, ..truth },
        ),
        ("p95 30 % worse, noise of p95 30 %", Truth { p95: 1.3, p95_level: 30.0, ..Truth::default() }),
        ("throughput +5 %, p95 worse by exactly its margin", Truth { p95: 1.1, ..truth }),
        ("throughput better by exactly what is worth having", Truth { throughput: 1.01, ..truth }),
    ];
    cases
        .into_iter()
        .enumerate()
        .map(|(at, (name, truth))| {
            progress(&format!("truth-table: {name}"));
            let mut found = Tally::default();
            for (_, noise) in NOISES {
                add(&mut found, &tally(&Truth { noise, ..truth }, TRIALS, FIRST_SEED));
            }
            // On its margin, a verdict of no effect is true of the third and the last.
            let wrong = if at == 2 { found.no_effect + found.helps } else { found.helps };
            Row::goal(
                format!(
                    "{name}: said to help{}, all kinds of noise",
                    if at == 2 { " or to change nothing" } else { "" }
                ),
                format!("{wrong} of {}", found.trials),
                "<= 5 %",
                part(wrong, found.trials) <= MOST_WRONG,
            )
        })
        .collect()
}

/// Whether intervals hold a real effect.
fn real_effects() -> Vec<Row> {
    NOISES
        .into_iter()
        .map(|(name, noise)| {
            progress(&format!("truth-table: a real effect, {name}"));
            let truth = Truth { throughput: 1.03, p95: 0.95, noise, ..Truth::default() };
            let found = tally(&truth, MORE_TRIALS, FIRST_SEED);
            let held = found.holds.map(|held| part(held, found.trials));
            let least = held.into_iter().fold(1.0, f64::min);
            Row::goal(
                format!("throughput +3 %, p95 -5 %, {name}: intervals that hold them at the end"),
                held.map(percent).join(", "),
                ">= 93 %",
                least >= LEAST_HELD,
            )
        })
        .collect()
}

/// Differences that are skewed or have a memory themselves, without a coin: at all looks from 6 to 40 together.
fn intervals() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |name: &str, series: &dyn Fn(&mut Random) -> Vec<f64>| {
        progress(&format!("truth-table: intervals, {name}"));
        let mut random = Random::seeded(FIRST_SEED);
        let held = (0..SERIES).filter(|_| holds_at_every_look(&series(&mut random))).count();
        let held = held as f64 / SERIES as f64;
        rows.push(Row::goal(
            format!("the interval by itself, differences {name}: held at every look"),
            percent(held),
            ">= 93 %",
            held >= LEAST_HELD,
        ));
    };
    row("normal", &|random| (0..40).map(|_| random.normal()).collect());
    row("lognormal (sigma 0.5)", &|random| {
        (0..40).map(|_| (0.5 * random.normal()).exp() - 0.125_f64.exp()).collect()
    });
    row("lognormal (sigma 1)", &|random| (0..40).map(|_| random.normal().exp() - 0.5_f64.exp()).collect());
    for correlation in [0.3, 0.5, 0.6, 0.8] {
        row(&format!("of AR(1), {correlation}"), &|random| {
            let mut memory = Memory::new(correlation);
            (0..140).map(|_| memory.next(random)).skip(100).collect()
        });
    }
    rows
}

fn holds_at_every_look(differences: &[f64]) -> bool {
    (6..=differences.len()).all(|n| {
        Comparison::at_every_look(&differences[..n], ALPHA).is_none_or(|found| {
            found.low.is_none_or(|low| low <= 0.0) && found.high.is_none_or(|high| high >= 0.0)
        })
    })
}

fn add(sum: &mut Tally, found: &Tally) {
    sum.trials += found.trials;
    sum.helps += found.helps;
    sum.hurts += found.hurts;
    sum.trade_offs += found.trade_offs;
    sum.no_effect += found.no_effect;
    sum.inconclusive += found.inconclusive;
    sum.wrong += found.wrong;
    sum.right += found.right;
    sum.quads += found.quads;
}

fn part(of: u32, all: u32) -> f64 {
    f64::from(of) / f64::from(all.max(1))
}

fn percent(part: f64) -> String {
    format!("{} %", (part * 1_000.0).round() / 10.0)
}
