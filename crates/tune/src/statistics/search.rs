//! Finds which of several candidates deserves a trial: a race, whose losers drop out.
//!
//! In: scores of blocks, in the order that the race asked for. Out: the remaining arms and the leader. A race proves
//! nothing: luck is part of why its winner won, so the winner is measured again on fresh quads.
//!
//! Each round measures every arm twice, in a random order and back: A C B B C A. As in a quad, a linear drift cancels,
//! for every arm. An arm whose mean stays behind the leader's by more than the noise allows drops out (successive
//! elimination); the noise is pooled over all arms, so that the worst drop out after one round.

use distrs::StudentsT;
use spindoctor_model::Block;

use super::quads::Quantity;

/// What CPU per query counts beside throughput: a quarter. Where clients cannot send more, throughput stays the same
/// and CPU decides; where they can, 20 % more CPU is as bad as 5 % less throughput.
const CPU_WEIGHT: f64 = 0.25;

/// An arm drops out at this quantile, one-sided. Each look takes that chance again; it costs a good arm at times, and no
/// verdict rests on it.
const DROPS_AT: f64 = 0.975;

/// Arms that close to the leader are as good: more rounds would not be worth their time.
const TIE: f64 = 0.02;

/// A block's score: more is better; none where it was not measured.
pub fn score(block: &Block) -> Option<f64> {
    let throughput = Quantity::Throughput.ln(block)?;
    Some(throughput - CPU_WEIGHT * Quantity::CpuPerQuery.ln(block).unwrap_or(0.0))
}

/// A race between arms, numbered from 0. The present setting is one of them.
#[derive(Debug, Clone)]
pub struct Race {
    /// Which arm leads before anything was measured, and among equals: the model's guess.
    guess: usize,
    remaining: Vec<usize>,
    /// Blocks of the round that is under way, as they were asked for.
    order: Vec<usize>,
    rounds: Vec<Vec<Score>>,
}

/// An arm's two blocks in a round.
#[derive(Debug, Clone, Copy)]
struct Score {
    arm: usize,
    mean: f64,
    /// The second less the first, and how many blocks lay between.
    change: f64,
    apart: f64,
}

/// Where an arm stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Its number.
    pub arm: usize,
    /// Its mean score less the leader's, over the rounds that both were in: 0 or less for most.
    pub behind: f64,
    /// How far off that may be.
    pub give_or_take: f64,
}

impl Race {
    /// A race of so many arms, with the model's guess in front.
    pub fn new(arms: usize, guess: usize) -> Self {
        Self { guess, remaining: (0..arms).collect(), order: Vec::new(), rounds: Vec::new() }
    }

    /// The blocks of the next round, as arms, in order. `below` gives a random whole number below its argument.
    pub fn next_round(&mut self, mut below: impl FnMut(usize) -> usize) -> &[usize] {
        let mut order = self.remaining.clone();
        for last in (1..order.len()).rev() {
            order.swap(last, below(last + 1).min(last));
        }
        self.order = order.iter().chain(order.iter().rev()).copied().collect();
        &self.order
    }

    /// Takes the scores of the round, in the order in which it was asked for. An arm with a block that could not be
    /// measured, or was aborted, drops out. Returns those that dropped out.
    pub fn record(&mut self, scores: &[Option<f64>]) -> Vec<usize> {
        let before = self.remaining.clone();
        let order = std::mem::take(&mut self.order);
        let of = |wanted: usize| -> Vec<(usize, f64)> {
            let placed = order.iter().zip(scores).enumerate().filter(|(_, (arm, _))| **arm == wanted);
            placed.filter_map(|(at, (_, score))| Some((at, score.filter(|s| s.is_finite())?))).collect()
        };
        let round: Vec<Score> = before
            .iter()
            .filter_map(|&arm| match of(arm)[..] {
                [(first_at, first), (second_at, second)] => Some(Score {
                    arm,
                    mean: f64::midpoint(first, second),
                    change: second - first,
                    apart: (second_at - first_at) as f64,
                }),
                _ => None,
            })
            .collect();
        self.remaining.retain(|arm| round.iter().any(|score| score.arm == *arm));
        self.rounds.push(round);
        let standings = self.standings();
        self.remaining.retain(|arm| {
            let standing = standings.iter().find(|standing| standing.arm == *arm);
            standing.is_none_or(|standing| -standing.behind <= standing.give_or_take)
        });
        before.into_iter().filter(|arm| !self.remaining.contains(arm)).collect()
    }

    /// Rounds so far.
    pub fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// Arms that are still in it.
    pub fn remaining(&self) -> &[usize] {
        &self.remaining
    }

    /// The arm with the best mean; before the first round, the guess.
    pub fn leader(&self) -> Option<usize> {
        let best = self.remaining.iter().map(|&arm| (arm, self.mean_of(arm))).max_by(|one, other| {
            one.1.total_cmp(&other.1).then_with(|| (one.0 == self.guess).cmp(&(other.0 == self.guess)))
        });
        best.map(|(arm, _)| arm)
    }

    /// True where one remains, or all that remain are as good as the leader.
    pub fn is_over(&self) -> bool {
        let near = |standing: &Standing| standing.give_or_take - standing.behind <= TIE;
        self.remaining.len() <= 1 || (!self.rounds.is_empty() && self.standings().iter().all(near))
    }

    /// The arms that remain, the leader first.
    pub fn standings(&self) -> Vec<Standing> {
        let Some(leader) = self.leader() else { return Vec::new() };
        let (variance, degrees) = self.noise();
        let mut standings: Vec<Standing> = self
            .remaining
            .iter()
            .map(|&arm| {
                let behind: Vec<f64> = self
                    .rounds
                    .iter()
                    .filter_map(|round| {
                        let of =
                            |wanted| round.iter().find(|score| score.arm == wanted).map(|score| score.mean);
                        Some(of(arm)? - of(leader)?)
                    })
                    .collect();
                let give_or_take = match arm == leader {
                    true => 0.0,
                    false => {
                        StudentsT::ppf(DROPS_AT, degrees) * (2.0 * variance / behind.len() as f64).sqrt()
                    }
                };
                let give_or_take = if give_or_take.is_nan() { f64::INFINITY } else { give_or_take };
                let behind = if behind.is_empty() { 0.0 } else { super::mean(&behind) };
                Standing { arm, behind, give_or_take }
            })
            .collect();
        standings.sort_by(|one, other| other.behind.total_cmp(&one.behind).then(one.arm.cmp(&other.arm)));
        standings
    }

    /// Its mean over the rounds, each less the round's own, which the load of the hour moves.
    fn mean_of(&self, arm: usize) -> f64 {
        // All that remain were in every round, so that their means compare.
        let scores: Vec<f64> =
            self.rounds.iter().flatten().filter(|score| score.arm == arm).map(|score| score.mean).collect();
        if scores.is_empty() { 0.0 } else { super::mean(&scores) }
    }

    /// The variance of an arm's mean in one round, and its degrees of freedom: from the two blocks of each arm, drift
    /// taken out, and from how arms differ between rounds. The larger counts: neighbouring blocks are too alike where
    /// the load has a memory.
    fn noise(&self) -> (f64, f64) {
        let within = self.rounds.iter().filter(|round| round.len() > 1).map(|round| {
            let (moved, apart) = round.iter().fold((0.0, 0.0), |(moved, apart), score| {
                (moved + score.change * score.apart, apart + score.apart.powi(2))
            });
            let drift = moved / apart;
            let squares: f64 = round.iter().map(|s| (s.change - drift * s.apart).powi(2)).sum();
            (squares / 4.0, (round.len() - 1) as f64)
        });
        let (squares, degrees) = sum(within);
        let within = (squares / degrees, degrees);

        let arms = self.remaining.len() as f64;
        let rounds = self.rounds.len() as f64;
        let residuals = self.rounds.iter().map(|round| {
            let here: Vec<&Score> =
                round.iter().filter(|score| self.remaining.contains(&score.arm)).collect();
            let level = here.iter().map(|score| score.mean - self.mean_of(score.arm)).sum::<f64>() / arms;
            (here.iter().map(|s| (s.mean - self.mean_of(s.arm) - level).powi(2)).sum::<f64>(), 0.0)
        });
        let between = (sum(residuals).0, (rounds - 1.0) * (arms - 1.0));
        let between = (between.0 / between.1, between.1);
        // With fewer degrees the quantile is not to be trusted.
        let pick = if between.1 >= 3.0 && between.0 > within.0 { between } else { within };
        (pick.0, pick.1.max(1.0))
    }
}

fn sum(parts: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::{Memory, Random};
    use super::*;

    /// Races arms with those true scores until it is over; the load drifts and has a memory. Winner and blocks.
    fn run(truth: &[f64], noise: f64, seed: u64) -> (usize, usize) {
        let mut random = Random::seeded(seed);
        let mut memory = Memory::new(0.5);
        let mut race = Race::new(truth.len(), 1);
        let mut blocks = 0;
        while !race.is_over() && race.rounds() < 8 {
            let scores: Vec<Option<f64>> = race
                .next_round(|below| random.below(below))
                .to_vec()
                .into_iter()
                .map(|arm| {
                    blocks += 1;
                    Some(truth[arm] + 0.01 * blocks as f64 + noise * memory.next(&mut random))
                })
                .collect();
            race.record(&scores);
        }
        (race.leader().unwrap(), blocks)
    }

    #[test]
    fn the_best_of_six_wins_nearly_always_and_the_worst_go_home_early() {
        let truth = [0.0, 0.5, 0.45, 0.3, -0.2, 0.1];
        let (mut right, mut blocks) = (0, 0);
        for seed in 0..200 {
            let (winner, used) = run(&truth, 0.02, seed);
            right += usize::from(winner == 1);
            blocks += used;
        }
        assert!(right >= 195, "{right} of 200");
        assert!(blocks < 200 * 24, "{} blocks a race", blocks / 200);
    }

    #[test]
    fn the_winner_is_rarely_worse_than_the_best_by_5_percent() {
        let truth = [0.0, 0.02, 0.04, 0.03, 0.10, -0.1, 0.06, 0.09];
        let far = (0..200).filter(|&seed| truth[run(&truth, 0.03, seed).0] < 0.05).count();
        assert!(far <= 10, "{far} of 200");
    }

    #[test]
    fn arms_that_are_as_good_end_the_race_and_before_it_the_guess_leads() {
        let mut race = Race::new(3, 2);
        assert_eq!(race.leader(), Some(2));
        assert!(!race.is_over());
        let order = race.next_round(|_| 0).to_vec();
        assert_eq!(order.len(), 6);
        assert!(order.iter().eq(order.iter().rev()), "{order:?}");
        let dropped = race.record(&[Some(1.0), Some(1.001), Some(1.0), Some(1.001), Some(1.0), Some(1.001)]);
        assert_eq!(dropped, [] as [usize; 0]);
        assert!(race.is_over(), "{:?}", race.standings());
    }

    #[test]
    fn an_arm_that_was_aborted_drops_out() {
        let mut race = Race::new(3, 0);
        let scores: Vec<_> =
            race.next_round(|_| 0).iter().map(|&arm| (arm != 1).then_some(arm as f64)).collect();
        assert!(race.record(&scores).contains(&1));
        assert!(!race.remaining().contains(&1));
    }

    #[test]
    fn less_cpu_is_better_where_throughput_does_not_change() {
        let block = |cpu| Block { throughput_per_s: 100.0, cpu_us_per_query: cpu, ..Block::default() };
        assert!(score(&block(Some(90.0))) > score(&block(Some(100.0))));
        assert_eq!(score(&Block::default()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_scores_never_panic(
            arms in 0_usize..7,
            guess in any::<usize>(),
            scores in prop::collection::vec(prop::collection::vec(any::<Option<f64>>(), 0..16), 0..5),
            random in any::<usize>(),
        ) {
            let mut race = Race::new(arms, guess);
            for scores in scores {
                race.next_round(|below| random % below.max(1));
                race.record(&scores);
                let _over = (race.is_over(), race.leader(), race.standings());
            }
        }
    }
}
