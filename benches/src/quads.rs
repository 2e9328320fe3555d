//! What a busy server loses to something, from windows with it and without it in turn.

use crate::page::{Row, Verdict};
use crate::paired::{Interval, short};

/// What the server did in a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) queries_per_s: f64,
    /// How long the CPUs took for a loop that is always the same.
    pub(crate) loop_ns: f64,
}

/// Quads of windows: without, with, with, without, or the other way round, so that a steady drift cancels out.
#[derive(Debug, Default)]
pub(crate) struct Quads {
    /// Each quad is two pairs of neighbours.
    is_of_pairs: bool,
    quads: usize,
    losses: Vec<f64>,
    /// How much slower the CPUs were in the windows with it, as the logarithm of a ratio.
    slower: Vec<f64>,
}

impl Quads {
    /// The same of pairs: each quad gives two losses, of its first two windows and of its last two, which are the other way round.
    /// For windows that are so long that few quads can be had.
    pub(crate) fn in_pairs() -> Self {
        Self { is_of_pairs: true, ..Self::default() }
    }

    /// In which windows of this quad it runs.
    pub(crate) fn order(&self) -> [bool; 4] {
        if self.quads.is_multiple_of(2) { [false, true, true, false] } else { [true, false, false, true] }
    }

    /// A quad of that order.
    pub(crate) fn push(&mut self, windows: &[Window]) {
        let turns: Vec<(Window, bool)> = windows.iter().copied().zip(self.order()).collect();
        for compared in turns.chunks(if self.is_of_pairs { 2 } else { 4 }) {
            let mean = |runs: bool, of: fn(&Window) -> f64| {
                let alike = compared.iter().filter(|(_, runs_now)| *runs_now == runs);
                let alike: Vec<f64> = alike.map(|(window, _)| of(window)).collect();
                alike.iter().sum::<f64>() / alike.len() as f64
            };
            let (queries, loops) = (|window: &Window| window.queries_per_s, |window: &Window| window.loop_ns);
            self.losses.push(1.0 - mean(true, queries) / mean(false, queries));
            self.slower.push((mean(true, loops) / mean(false, loops)).ln());
        }
        self.quads += 1;
    }

    /// What is lost to what has this name, beside a goal: with the CPUs' speed weighed, and without.
    pub(crate) fn rows(&self, name: &str, goal: Option<f64>) -> Vec<Row> {
        let what = format!("throughput lost to {name}");
        let unweighed = row(format!("{what}, the CPUs' speed not weighed"), &self.losses, goal);
        vec![row(what, &weighed(&self.losses, &self.slower), goal), unweighed]
    }
}

/// The values as they would be were what they follow 0 throughout: how much they follow it is the slope of the straight line
/// through them with the least squares.
fn weighed(values: &[f64], follow: &[f64]) -> Vec<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_value, mean_follow) = (mean(values), mean(follow));
    let both = values.iter().zip(follow);
    let product: f64 = both.map(|(value, at)| (value - mean_value) * (at - mean_follow)).sum();
    let square: f64 = follow.iter().map(|at| (at - mean_follow).powi(2)).sum();
    let slope = if square > 0.0 { product / square } else { 0.0 };
    values.iter().zip(follow).map(|(value, at)| value - slope * at).collect()
}

/// What is lost: the middle, which stands against the goal, and the mean.
pub(crate) fn row(what: String, losses: &[f64], goal: Option<f64>) -> Row {
    let (Some(middle), Some(mean)) = (Interval::of_symmetric(losses), Interval::of_mean(losses)) else {
        return Row::plain(what, "too few for an interval: more --runs");
    };
    let goal = goal.map(|goal| {
        let verdict = match goal {
            goal if middle.high <= goal => Verdict::Reached,
            goal if middle.low > goal => Verdict::Missed,
            _ => Verdict::Open,
        };
        (format!("<= {:.0} %", goal * 100.0), verdict)
    });
    let text = |interval: Interval| {
        let [middle, low, high] =
            [interval.middle, interval.low, interval.high].map(|ratio| short(ratio * 100.0));
        format!("{middle} % ({low} to {high})")
    };
    Row { goal, ..Row::plain(what, format!("{}; mean {}", text(middle), text(mean))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(queries_per_s: f64, loop_ns: f64) -> Window {
        Window { queries_per_s, loop_ns }
    }

    #[test]
    fn a_quad_compares_its_inner_windows_with_its_outer_ones_and_the_next_the_other_way_round() {
        let mut quads = Quads::default();
        let (with, without) = (window(98.0, 50.0), window(100.0, 50.0));
        quads.push(&[without, with, with, without]);
        assert_eq!(quads.order(), [true, false, false, true]);
        quads.push(&[with, without, without, with]);
        assert!(quads.losses.iter().all(|loss| (loss - 0.02).abs() < 1e-9), "{:?}", quads.losses);
        assert_eq!(quads.slower, [0.0, 0.0]);
    }

    #[test]
    fn a_quad_of_pairs_gives_two_losses_one_in_each_order() {
        let mut quads = Quads::in_pairs();
        // 1 % faster from window to window, and 2 % lost.
        let at = |rate: f64, at: i32| window(rate * 1.01_f64.powi(at), 50.0);
        quads.push(&[at(100.0, 0), at(98.0, 1), at(98.0, 2), at(100.0, 3)]);
        assert_eq!(quads.order(), [true, false, false, true]);
        let expected = [1.0 - 0.98 * 1.01, 1.0 - 0.98 / 1.01];
        assert!(quads.losses.iter().zip(expected).all(|(loss, of)| (loss - of).abs() < 1e-9));
        assert_eq!(quads.losses.len(), 2);
    }

    #[test]
    fn both_estimates_stand_in_both_rows_and_the_interval_of_the_middle_decides() {
        let mut quads = Quads::default();
        let rows = |quads: &Quads| quads.rows("`doctor`", Some(0.01));
        assert!(rows(&quads).iter().all(|row| row.measured.starts_with("too few") && row.goal.is_none()));
        for _ in 0..12 {
            let with = |runs: bool| window(if runs { 97.0 } else { 100.0 }, 50.0);
            quads.push(&quads.order().map(with));
        }
        let rows = rows(&quads);
        let texts: Vec<&str> = rows.iter().map(|row| row.measured.as_str()).collect();
        assert_eq!(texts, ["3.00 % (3.00 to 3.00); mean 3.00 % (3.00 to 3.00)"; 2]);
        assert!(rows[1].what.ends_with("`doctor`, the CPUs' speed not weighed"));
        assert!(rows.iter().all(|row| row.goal == Some(("<= 1 %".to_owned(), Verdict::Missed))));
    }

    /// A loss of 2 %, on CPUs whose speed changes by far more than that.
    #[test]
    fn what_the_cpus_speed_did_is_taken_off_and_what_was_lost_is_not() {
        let slower: Vec<f64> = (0..40).map(|at| 0.1 * f64::from(at * 7 % 13 - 6)).collect();
        let losses: Vec<f64> = slower.iter().map(|slower| 0.02 + 0.5 * slower).collect();
        assert!(weighed(&losses, &slower).iter().all(|loss| (loss - 0.02).abs() < 1e-9));
        assert_eq!(weighed(&losses, &[0.0; 40]), losses);
    }
}
