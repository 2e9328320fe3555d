//! For how long a thread should spin on a latch before it sleeps, by how long waits were seen to last.
//!
//! A wait of W costs a spinner of at most S: W of CPU where W <= S, else S and then c, which is what a sleep and the wake-up
//! from it cost. The best S is the one with the least E[min(W, S)] + c P(W > S). Whatever the waits, spinning for c costs at
//! most twice what the best does (Karlin, Manasse, McGeoch, Owicki: Competitive randomized algorithms for nonuniform problems,
//! 1990): the best is worth looking for where it costs far less than what is set. Waits too short to be seen say nothing of spins
//! as short: the caller says from which length on a spin may be chosen.

use serde::Serialize;

/// How long waits last: in ascending order, each with how many there were, or how many in a second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitTimes {
    waits: Vec<(f64, f64)>,
}

/// A length of the spin, and what a wait then costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpinBudget {
    /// For how long a thread spins at most, microseconds.
    pub spin_us: f64,
    /// What a wait costs on average, microseconds of CPU.
    pub cost_us: f64,
    /// The share of waits that end while they spin.
    pub met: f64,
}

impl WaitTimes {
    /// From waits of so many microseconds, each with its weight. A wait that never ends is infinite. What is no time or no
    /// weight is left out.
    pub fn new(waits: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let is_one = |&(us, weight): &(f64, f64)| us >= 0.0 && weight > 0.0 && weight.is_finite();
        let mut waits: Vec<(f64, f64)> = waits.into_iter().filter(is_one).collect();
        waits.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        Self { waits }
    }

    /// The sum of all weights.
    pub fn weight(&self) -> f64 {
        self.waits.iter().map(|(_, weight)| weight).sum()
    }

    /// What a wait costs where a thread spins for so long at most, and a sleep costs so much. None where there are no waits.
    pub fn with(&self, spin_us: f64, sleep_us: f64) -> Option<SpinBudget> {
        let (mut cost, mut met) = (0.0, 0.0);
        for &(us, weight) in &self.waits {
            let is_met = us <= spin_us;
            cost += weight * if is_met { us } else { spin_us + sleep_us };
            met += if is_met { weight } else { 0.0 };
        }
        let all = self.weight();
        (all > 0.0).then(|| SpinBudget { spin_us, cost_us: cost / all, met: met / all })
    }

    /// The cost of each length of the spin that may be the best: the shortest that may be chosen (0: none at all), and each
    /// longer one that a wait lasted. Between two of them a longer spin meets no more waits and costs more.
    pub fn curve(&self, shortest_us: f64, sleep_us: f64) -> Vec<SpinBudget> {
        let lasted = self.waits.iter().map(|(us, _)| *us);
        let mut lengths: Vec<f64> = lasted.filter(|us| us.is_finite() && *us > shortest_us).collect();
        lengths.insert(0, shortest_us);
        lengths.dedup();
        lengths.into_iter().filter_map(|spin_us| self.with(spin_us, sleep_us)).collect()
    }

    /// The length of the spin that costs least of those that may be chosen, the shortest where some cost the same. None where
    /// there are no waits.
    pub fn best(&self, shortest_us: f64, sleep_us: f64) -> Option<SpinBudget> {
        self.curve(shortest_us, sleep_us)
            .into_iter()
            .reduce(|best, other| if other.cost_us < best.cost_us { other } else { best })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NEVER: f64 = f64::INFINITY;

    /// Ten microseconds with this chance, or never: the question of the published case's thirteenth comment.
    fn ten_or_never(chance: f64) -> WaitTimes {
        WaitTimes::new([(10.0, chance), (NEVER, 1.0 - chance)])
    }

    /// Exponential waits in 2,000 steps of the same chance, each at the middle of its step.
    fn exponential(mean_us: f64) -> WaitTimes {
        WaitTimes::new(
            (0..2_000).map(|step| (-mean_us * (1.0 - (f64::from(step) + 0.5) / 2_000.0).ln(), 1.0)),
        )
    }

    fn any_waits() -> impl Strategy<Value = WaitTimes> {
        let wait = prop_oneof![9 => 0.0..10_000.0, 1 => Just(NEVER)];
        proptest::collection::vec((wait, 0.001..1_000.0), 1..60).prop_map(WaitTimes::new)
    }

    proptest! {
        /// Exponential waits have no memory: who should spin at all should spin for ever.
        #[test]
        fn exponential_waits_are_spun_for_to_their_end_or_not_at_all(mean_us in 1.0..500.0, times in 0.1..10.0) {
            prop_assume!(!(0.9..1.1).contains(&times));
            let best = exponential(mean_us).best(0.0, mean_us * times).unwrap();
            if times > 1.0 {
                prop_assert!(best.met > 0.99, "{best:?}");
            } else {
                prop_assert!(best.met < 0.01, "{best:?}");
            }
        }

        #[test]
        fn the_best_costs_no_more_than_any_other(waits in any_waits(), sleep_us in 0.0..1_000.0, spin_us in 0.0..20_000.0) {
            let best = waits.best(0.0, sleep_us).unwrap();
            for other in [0.0, spin_us, 1e9] {
                prop_assert!(best.cost_us <= waits.with(other, sleep_us).unwrap().cost_us * (1.0 + 1e-9));
            }
        }

        #[test]
        fn to_spin_for_as_long_as_a_sleep_costs_at_most_twice_the_best(waits in any_waits(), sleep_us in 0.0..1_000.0) {
            // In hindsight each wait costs the lesser of itself and a sleep, and that times two bounds it.
            let (best, spun) = (waits.best(0.0, sleep_us).unwrap(), waits.with(sleep_us, sleep_us).unwrap());
            prop_assert!(spun.cost_us <= 2.0 * best.cost_us * (1.0 + 1e-9) + 1e-9, "{spun:?} {best:?}");
        }

        /// Where all waits become so much longer, and a sleep costs more by the same factor, so does the spin.
        #[test]
        fn longer_waits_ask_for_a_longer_spin(waits in any_waits(), sleep_us in 0.1..1_000.0) {
            let twice = WaitTimes::new(waits.waits.iter().map(|(us, weight)| (us * 2.0, *weight)));
            let (once, twice) = (waits.best(0.0, sleep_us).unwrap(), twice.best(0.0, sleep_us * 2.0).unwrap());
            prop_assert_eq!((once.spin_us * 2.0, once.met), (twice.spin_us, twice.met));
        }
    }

    /// Spinning costs 10 + (1 - p) c, sleeping at once c: it is worth it from p c = 10 on.
    #[test]
    fn waits_of_ten_or_never_are_spun_for_where_theory_says() {
        for percent in 1..100 {
            for sleep_us in [0.5, 3.0, 9.9, 10.1, 12.7, 47.3, 333.1, 5_000.7] {
                let chance = f64::from(percent) / 100.0;
                let best = ten_or_never(chance).best(0.0, sleep_us).unwrap();
                let spin_us = if chance * sleep_us > 10.0 { 10.0 } else { 0.0 };
                assert_eq!(best.spin_us, spin_us, "{chance} {sleep_us}");
            }
        }
    }

    #[test]
    fn waits_that_move_take_the_spin_with_them() {
        let at = |us: f64| WaitTimes::new([(us, 9.0), (NEVER, 1.0)]).best(0.0, 100.0).unwrap().spin_us;
        assert_eq!([at(5.0), at(20.0), at(80.0), at(200.0)], [5.0, 20.0, 80.0, 0.0]);
    }

    #[test]
    fn no_spin_is_chosen_that_is_shorter_than_it_may_be() {
        let waits = WaitTimes::new([(5.0, 1.0), (50.0, 1.0)]);
        let at = |shortest_us: f64| waits.best(shortest_us, 1.0).unwrap().spin_us;
        assert_eq!([at(0.0), at(7.0), at(60.0)], [0.0, 7.0, 60.0]);
    }

    #[test]
    fn without_waits_there_is_nothing_to_say() {
        assert_eq!(WaitTimes::new([(f64::NAN, 1.0), (-1.0, 1.0), (1.0, 0.0)]).best(0.0, 1.0), None);
    }
}
