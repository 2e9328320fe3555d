//! Simulated trials: how often a verdict is wrong, and how many quads it takes to be right.
//!
//! In: a seed and what is true. Out: verdicts, from the same code that judges real trials, under loads of several kinds
//! ([`NOISES`]): some with a memory, some that stall or drift, some on a host whose speed changes, and some on which the
//! effect itself moves. Each of the three quantities is better, the same or worse: [`combinations`] has all of them.

use spindoctor_model::{Block, Effect, Verdict};

use super::quads::Order;
use super::verdict::{Look, Terms, judge};

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

/// What kind of noise blocks have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// Normal, each block by itself.
    Gaussian,
    /// Lognormal (sigma 1) towards slow: most blocks are alike, some are far slower.
    Skewed,
    /// Each block remembers the one before: AR(1) with that correlation.
    Memory(f64),
    /// One block in twelve stalls, by six times the noise.
    Stalls,
    /// A steady drift and a swing of half an hour or so below normal noise.
    Drift,
    /// A host whose speed changes by four times the noise, on average every 12 blocks; the loops see it.
    Steps,
    /// Normal noise, and an effect that moves from quad to quad by as much: AR(1) with that correlation.
    MovingEffect(f64),
    /// Normal noise, and an effect that is far larger in some quads: lognormal (sigma 1).
    SkewedEffect,
}

/// Every kind, with its name.
pub const NOISES: [(&str, Noise); 10] = [
    ("normal", Noise::Gaussian),
    ("skewed", Noise::Skewed),
    ("memory 0.5", Noise::Memory(0.5)),
    ("memory 0.8", Noise::Memory(0.8)),
    ("stalls", Noise::Stalls),
    ("drift", Noise::Drift),
    ("steps of the host's speed", Noise::Steps),
    ("moving effect 0.6", Noise::MovingEffect(0.6)),
    ("moving effect 0.8", Noise::MovingEffect(0.8)),
    ("skewed effect", Noise::SkewedEffect),
];

/// What is true in a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Truth {
    /// Throughput with the new setting against the old one, a ratio.
    pub throughput: f64,
    /// The same of p95.
    pub p95: f64,
    /// The same of CPU per query.
    pub cpu_per_query: f64,
    /// The kind of noise.
    pub noise: Noise,
    /// Noise of throughput in one block, as a share of it; CPU per query has as much.
    pub level: f64,
    /// Noise of p95, as a multiple of that of throughput.
    pub p95_level: f64,
    /// Quads after which a trial must end.
    pub most_quads: u32,
    /// What it is judged by.
    pub terms: Terms,
}

impl Default for Truth {
    /// No effect, and 1 % of normal noise: a lab server in blocks of some seconds. Its p95 moves four times as much.
    fn default() -> Self {
        Self {
            throughput: 1.0,
            p95: 1.0,
            cpu_per_query: 1.0,
            noise: Noise::Gaussian,
            level: 0.01,
            p95_level: 4.0,
            most_quads: 40,
            terms: Terms::default(),
        }
    }
}

impl Truth {
    fn ratios(&self) -> [f64; 3] {
        [self.throughput, self.p95, self.cpu_per_query]
    }

    /// How each quantity truly is.
    pub fn ways(&self) -> [Way; 3] {
        [
            Way::from_benefit(self.throughput),
            Way::from_benefit(1.0 / self.p95),
            Way::from_benefit(1.0 / self.cpu_per_query),
        ]
    }

    /// True where that verdict would be wrong. *Inconclusive* never is.
    pub fn is_false(&self, verdict: Verdict) -> bool {
        let ways = self.ways();
        let any = |way: Way| ways.contains(&way);
        match verdict {
            Verdict::Helps => !any(Way::Better) || any(Way::Worse),
            Verdict::Hurts => !any(Way::Worse),
            Verdict::NoSignificantEffect => any(Way::Better) || any(Way::Worse),
            Verdict::Inconclusive => false,
        }
    }

    /// The verdict that a trial without end would reach.
    pub fn right(&self) -> Verdict {
        let ways = self.ways();
        match () {
            () if ways.contains(&Way::Worse) => Verdict::Hurts,
            () if ways.contains(&Way::Better) => Verdict::Helps,
            () => Verdict::NoSignificantEffect,
        }
    }
}

/// How a quantity is with the new setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Better.
    Better,
    /// The same.
    Same,
    /// Worse.
    Worse,
}

impl Way {
    fn from_benefit(benefit: f64) -> Self {
        match benefit {
            more if more > 1.0 => Self::Better,
            less if less < 1.0 => Self::Worse,
            _ => Self::Same,
        }
    }

    /// In a word.
    pub fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "same",
            Self::Worse => "worse",
        }
    }
}

/// Each combination of better, same and worse of the three quantities: 5 % of throughput and of CPU per query, 20 % of p95.
pub fn combinations() -> Vec<Truth> {
    let mut all = Vec::new();
    for throughput in [1.05, 1.0, 0.95] {
        for p95 in [0.8, 1.0, 1.2] {
            for cpu_per_query in [0.95, 1.0, 1.05] {
                all.push(Truth { throughput, p95, cpu_per_query, ..Truth::default() });
            }
        }
    }
    all
}

/// How a simulated trial ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Its verdict.
    pub verdict: Verdict,
    /// True where the verdict was a trade-off.
    pub is_trade_off: bool,
    /// Quads that it took.
    pub quads: u32,
    /// For each quantity, true where its interval holds the truth.
    pub holds: [bool; 3],
}

/// Runs one trial to its verdict, looking after every quad.
pub fn trial(truth: &Truth, seed: u64) -> Outcome {
    let mut host = Host::new(truth, seed);
    let mut blocks = Vec::new();
    for quad in 0..truth.most_quads {
        host.quad(quad, &mut blocks);
        let look = if quad + 1 == truth.most_quads { Look::Last } else { Look::More };
        let judgement = judge(&blocks, look, &truth.terms);
        if let Some(verdict) = judgement.verdict {
            let effects = judgement.effects;
            let [throughput, p95, cpu] = truth.ratios();
            let holds = |effect: Option<Effect>, ratio: f64| {
                effect.is_none_or(|effect| {
                    effect.low.is_none_or(|low| low <= ratio) && effect.high.is_none_or(|high| high >= ratio)
                })
            };
            return Outcome {
                verdict,
                is_trade_off: judgement.is_trade_off,
                quads: quad + 1,
                holds: [
                    holds(effects.throughput, throughput),
                    holds(effects.p95, p95),
                    holds(effects.cpu_per_query, cpu),
                ],
            };
        }
    }
    Outcome { verdict: Verdict::Inconclusive, is_trade_off: false, quads: truth.most_quads, holds: [true; 3] }
}

/// Seconds from block to block.
const BLOCK_S: f64 = 10.0;

/// A server that is measured: what its noise remembers from block to block.
struct Host<'a> {
    truth: &'a Truth,
    random: Random,
    /// Of the load, which all quantities share, and of p95 and CPU per query by themselves.
    memories: [Memory; 3],
    moving: [Memory; 3],
    speed: f64,
    blocks: u32,
}

impl<'a> Host<'a> {
    fn new(truth: &'a Truth, seed: u64) -> Self {
        let correlation = if let Noise::Memory(correlation) = truth.noise { correlation } else { 0.0 };
        let moving = if let Noise::MovingEffect(correlation) = truth.noise { correlation } else { 0.0 };
        let memories = |correlation| std::array::from_fn(|_| Memory::new(correlation));
        let mut host = Self {
            truth,
            random: Random::seeded(seed),
            memories: memories(correlation),
            moving: memories(moving),
            speed: 0.0,
            blocks: 0,
        };
        // Long enough that nothing remembers its start.
        for _ in 0..100 {
            for memory in host.memories.iter_mut().chain(&mut host.moving) {
                memory.next(&mut host.random);
            }
        }
        host
    }

    fn quad(&mut self, quad: u32, blocks: &mut Vec<Block>) {
        // What the effect is here more than elsewhere, in multiples of the noise.
        let more: [f64; 3] = match self.truth.noise {
            Noise::MovingEffect(_) => std::array::from_fn(|of| self.moving[of].next(&mut self.random)),
            Noise::SkewedEffect => std::array::from_fn(|_| skewed(&mut self.random)),
            _ => [0.0; 3],
        };
        for is_new in Order::toss(|| self.random.coin()).is_new() {
            blocks.push(self.block(quad, is_new, more));
        }
    }

    /// Noise of variance 1 or so, more is faster.
    fn noise(&mut self, of: usize, has_stalled: bool) -> f64 {
        let random = &mut self.random;
        match self.truth.noise {
            Noise::Skewed => -skewed(random),
            Noise::Memory(_) => self.memories[of].next(random),
            Noise::Stalls => random.normal() - if has_stalled { 6.0 } else { 0.0 },
            Noise::Drift if of == 0 => {
                let at = f64::from(self.blocks);
                random.normal() + 0.2 * at + 3.0 * (at / 30.0).sin()
            }
            Noise::Steps if of == 0 => random.normal() + self.speed,
            _ => random.normal(),
        }
    }

    fn block(&mut self, quad: u32, is_new: bool, more: [f64; 3]) -> Block {
        let Truth { level, p95_level, noise, .. } = *self.truth;
        if self.random.uniform() < 1.0 / 12.0 {
            self.speed = 4.0 * self.random.normal();
        }
        let has_stalled = self.random.uniform() < 1.0 / 12.0;
        let own: [f64; 3] = std::array::from_fn(|of| self.noise(of, has_stalled));
        // A server that is slower at the moment has a longer p95 and, less so, needs more CPU for each statement.
        let slower = [-own[0], -0.5 * own[0] - 0.87 * own[1], -0.3 * own[0] - 0.95 * own[2]];
        let [throughput, p95, cpu] = self.truth.ratios().map(f64::ln);
        let with = |effect: f64, more: f64, level: f64| if is_new { effect + level * more } else { 0.0 };
        let at_s = BLOCK_S * f64::from(self.blocks);
        self.blocks += 1;
        Block {
            quad,
            is_new,
            at_s,
            seconds: BLOCK_S,
            throughput_per_s: 5_000.0 * (with(throughput, more[0], level) - level * slower[0]).exp(),
            p95_ms: Some(
                20.0 * (with(p95, more[1], p95_level * level) + p95_level * level * slower[1]).exp(),
            ),
            cpu_us_per_query: Some(150.0 * (with(cpu, more[2], level) + level * slower[2]).exp()),
            loop_ns: (noise == Noise::Steps)
                .then(|| 50_000.0 * (level * (0.2 * self.random.normal() - self.speed)).exp()),
            ..Block::default()
        }
    }
}

/// Lognormal with sigma 1, its mean taken off, of variance 1.
fn skewed(random: &mut Random) -> f64 {
    let one = 1.0_f64;
    (random.normal().exp() - 0.5_f64.exp()) / ((one.exp() - 1.0) * one.exp()).sqrt()
}

/// Trials of a simulation, by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// All of them.
    pub trials: u32,
    /// That help.
    pub helps: u32,
    /// That hurt.
    pub hurts: u32,
    /// Of these, the trade-offs.
    pub trade_offs: u32,
    /// Without significant effect.
    pub no_effect: u32,
    /// Inconclusive.
    pub inconclusive: u32,
    /// With a verdict that is wrong.
    pub wrong: u32,
    /// With the verdict that a trial without end would reach.
    pub right: u32,
    /// For each quantity, those whose interval holds the truth.
    pub holds: [u32; 3],
    /// Quads of all of them.
    pub quads: u32,
}

impl Tally {
    fn count(&mut self, truth: &Truth, outcome: Outcome) {
        self.trials += 1;
        self.quads += outcome.quads;
        self.trade_offs += u32::from(outcome.is_trade_off);
        self.wrong += u32::from(truth.is_false(outcome.verdict));
        self.right += u32::from(truth.right() == outcome.verdict);
        for (held, holds) in self.holds.iter_mut().zip(outcome.holds) {
            *held += u32::from(holds);
        }
        match outcome.verdict {
            Verdict::Helps => self.helps += 1,
            Verdict::Hurts => self.hurts += 1,
            Verdict::NoSignificantEffect => self.no_effect += 1,
            Verdict::Inconclusive => self.inconclusive += 1,
        }
    }
}

/// Runs so many trials, with seeds from `first_seed` on.
pub fn tally(truth: &Truth, trials: u32, first_seed: u64) -> Tally {
    let mut tally = Tally::default();
    for seed in (first_seed..).take(trials as usize) {
        // A seed's neighbours differ in one bit; SplitMix64 makes them strangers.
        tally.count(truth, trial(truth, Random::seeded(seed).next()));
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The review's first case. Before, 303 of 400 such trials helped.
    #[test]
    fn a_clear_gain_with_a_noisy_loss_of_p95_never_helps() {
        let truth = Truth { throughput: 1.05, p95: 1.2, p95_level: 20.0, ..Truth::default() };
        for (name, noise) in NOISES {
            let found = tally(&Truth { noise, ..truth }, 40, 1);
            assert!(found.helps <= 2 && found.no_effect == 0, "{name}: {found:?}");
        }
    }

    /// The review's second case. Before, 390 of 400 such trials helped.
    #[test]
    fn a_clear_gain_with_5_percent_more_cpu_never_helps() {
        let truth = Truth { throughput: 1.05, cpu_per_query: 1.05, level: 0.03, ..Truth::default() };
        for (name, noise) in NOISES {
            let found = tally(&Truth { noise, ..truth }, 40, 1);
            assert!(found.helps <= 2 && found.no_effect == 0, "{name}: {found:?}");
        }
    }

    /// The review's third case. Before, 222 of 400 such trials had no significant effect.
    #[test]
    fn a_p95_that_is_30_percent_worse_is_never_no_significant_effect() {
        let truth = Truth { p95: 1.3, p95_level: 30.0, ..Truth::default() };
        for (name, noise) in NOISES {
            let found = tally(&Truth { noise, ..truth }, 40, 1);
            assert!(found.no_effect == 0 && found.helps <= 1, "{name}: {found:?}");
        }
    }

    /// Each combination of better, same and worse, under each kind of noise: 27 x 10 x 4 trials.
    #[test]
    fn no_combination_has_more_than_5_percent_of_false_verdicts() {
        for (name, noise) in NOISES {
            let mut all = Tally::default();
            for truth in combinations() {
                let found = tally(&Truth { noise, ..truth }, 4, 1);
                all.trials += found.trials;
                all.wrong += found.wrong;
            }
            assert!(all.wrong * 20 <= all.trials, "{name}: {all:?}");
        }
    }

    #[test]
    fn what_is_there_is_found() {
        for truth in combinations() {
            let found = tally(&truth, 20, 1);
            assert!(found.right >= 17, "{:?}: {found:?}", truth.ways());
        }
    }

    /// Before, none of 220 ended so.
    #[test]
    fn trials_of_a_setting_against_itself_end_with_no_significant_effect() {
        let found = tally(&Truth::default(), 100, 1);
        assert!(found.no_effect >= 80 && found.wrong <= 5, "{found:?}");
        for (name, noise) in NOISES {
            let found = tally(&Truth { noise, ..Truth::default() }, 100, 1);
            assert!(found.wrong <= 5, "{name}: {found:?}");
        }
    }

    #[test]
    fn intervals_hold_a_real_effect_whatever_the_noise() {
        for (name, noise) in NOISES {
            let truth = Truth { throughput: 1.03, p95: 0.95, noise, ..Truth::default() };
            let found = tally(&truth, 100, 1);
            assert!(found.holds.iter().all(|held| *held >= 90), "{name}: {found:?}");
        }
    }
}
