//! Simulated trials: how often a verdict is wrong, and how many quads it takes to be right.
//!
//! In: a seed and what is true. Out: verdicts, from the same code that judges real trials. The load has a memory (each
//! second remembers the one before, AR(1)) and drifts; p95 and CPU per query have noise of their own.

use spindoctor_model::{Block, Verdict};

use super::quads::Order;
use super::verdict::{Look, judge};

/// Random numbers that a seed repeats: SplitMix64 (Steele, Lea and Flood, 2014). For simulations; real coins come
/// from the system.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, not including, 1.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A fair coin.
    pub fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// A whole number below another; 0 below 0.
    pub fn below(&mut self, most: usize) -> usize {
        (self.uniform() * most as f64) as usize
    }

    /// Of the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Noise of variance 1 in which each step remembers the one before: AR(1).
#[derive(Debug, Clone)]
pub struct Memory {
    correlation: f64,
    now: f64,
}

impl Memory {
    /// With that correlation from step to step, below 1.
    pub fn new(correlation: f64) -> Self {
        Self { correlation, now: 0.0 }
    }

    /// The next step.
    pub fn next(&mut self, random: &mut Random) -> f64 {
        self.now = self.correlation * self.now + (1.0 - self.correlation.powi(2)).sqrt() * random.normal();
        self.now
    }
}

/// What is true in a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// Throughput with the new setting against the old one, a ratio.
    pub throughput: f64,
    /// The same of p95.
    pub p95: f64,
    /// The same of CPU per query.
    pub cpu_per_query: f64,
    /// Noise of throughput in one second, as a share of it.
    pub noise: f64,
    /// Its correlation from second to second.
    pub correlation: f64,
    /// How much the load grows in an hour, as a share of it.
    pub drift_per_hour: f64,
    /// Quads after which a trial must end.
    pub most_quads: u32,
}

impl Default for Truth {
    /// No effect, under a restless load: 10 % of noise in a second that remembers for 19 s, which a block of 15 s
    /// does not average out.
    fn default() -> Self {
        Self {
            throughput: 1.0,
            p95: 1.0,
            cpu_per_query: 1.0,
            noise: 0.10,
            correlation: 0.9,
            drift_per_hour: 0.5,
            most_quads: 40,
        }
    }
}

/// Seconds of a block: settled, then measured.
const SETTLE_S: u32 = 5;
/// See [`SETTLE_S`].
const MEASURE_S: u32 = 15;

/// Runs one trial to its verdict, looking after every quad; returns it with the quads that it took.
pub fn trial(truth: &Truth, seed: u64) -> (Verdict, u32) {
    let mut random = Random::seeded(seed);
    let mut load = Memory::new(truth.correlation);
    // Long enough that it does not remember its start.
    for _ in 0..100 {
        load.next(&mut random);
    }
    let (mut blocks, mut now_s) = (Vec::new(), 0.0);
    for quad in 0..truth.most_quads {
        for is_new in Order::toss(|| random.coin()).is_new() {
            blocks.push(block(truth, quad, is_new, &mut now_s, &mut load, &mut random));
        }
        let look = if quad + 1 == truth.most_quads { Look::Last } else { Look::More };
        if let Some(verdict) = judge(&blocks, look).verdict {
            return (verdict, quad + 1);
        }
    }
    (Verdict::Inconclusive, truth.most_quads)
}

fn block(
    truth: &Truth,
    quad: u32,
    is_new: bool,
    now_s: &mut f64,
    load: &mut Memory,
    random: &mut Random,
) -> Block {
    let with = |ratio: f64| if is_new { ratio } else { 1.0 };
    let mut queries = 0.0;
    for second in 0..SETTLE_S + MEASURE_S {
        *now_s += 1.0;
        let noise = truth.noise * load.next(random);
        if second >= SETTLE_S {
            queries += (noise + truth.drift_per_hour * *now_s / 3_600.0).exp();
        }
    }
    let rate = queries / f64::from(MEASURE_S);
    // A busier server is slower, and works a little better in bulk.
    let own = |random: &mut Random, noise: f64| (noise * random.normal()).exp();
    Block {
        quad,
        is_new,
        at_s: *now_s - f64::from(MEASURE_S),
        seconds: f64::from(MEASURE_S),
        throughput_per_s: 5_000.0 * rate * with(truth.throughput),
        p95_ms: Some(20.0 * rate * own(random, 0.05) * with(truth.p95)),
        cpu_us_per_query: Some(150.0 * rate.powf(-0.2) * own(random, 0.01) * with(truth.cpu_per_query)),
        ..Block::default()
    }
}

/// Trials of a simulation, by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// That help.
    pub helps: u32,
    /// That hurt.
    pub hurts: u32,
    /// Without significant effect.
    pub no_effect: u32,
    /// Inconclusive.
    pub inconclusive: u32,
    /// Quads of all of them.
    pub quads: u32,
}

/// Runs so many trials, with seeds from `first_seed` on.
pub fn tally(truth: &Truth, trials: u32, first_seed: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in (first_seed..).take(trials as usize) {
        // A seed's neighbours differ in one bit; SplitMix64 makes them strangers.
        let (verdict, quads) = trial(truth, Random::seeded(seed).next());
        tally.quads += quads;
        match verdict {
            Verdict::Helps => tally.helps += 1,
            Verdict::Hurts => tally.hurts += 1,
            Verdict::NoSignificantEffect => tally.no_effect += 1,
            Verdict::Inconclusive => tally.inconclusive += 1,
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_effect_5_percent_at_most_help_or_hurt() {
        for (correlation, drift_per_hour) in [(0.0, 0.0), (0.9, 0.5), (0.97, -2.0)] {
            let truth = Truth { correlation, drift_per_hour, ..Truth::default() };
            let found = tally(&truth, 200, 1);
            assert!(found.helps + found.hurts <= 10, "{correlation} {drift_per_hour}: {found:?}");
        }
    }

    #[test]
    fn an_effect_of_5_percent_is_found() {
        let found = tally(&Truth { throughput: 1.05, noise: 0.03, ..Truth::default() }, 100, 1);
        assert!(found.helps >= 95 && found.hurts == 0, "{found:?}");
        let found = tally(&Truth { throughput: 0.95, noise: 0.03, ..Truth::default() }, 100, 1);
        assert!(found.hurts >= 95 && found.helps == 0, "{found:?}");
        let found = tally(&Truth { cpu_per_query: 0.95, noise: 0.01, ..Truth::default() }, 100, 1);
        assert!(found.helps >= 95 && found.hurts == 0, "{found:?}");
    }
}
