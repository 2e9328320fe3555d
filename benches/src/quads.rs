//! What a busy server loses to something, from windows with it and without it in turn.

use crate::page::{Row, Verdict};
use crate::paired::{Interval, short};

/// From so many quads on the page says how throughput follows the CPUs' speed.
const FEWEST_WEIGHED: usize = 20;

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
    losses: Vec<f64>,
    /// How much slower the CPUs were in the windows with it, as the logarithm of a ratio.
    slower: Vec<f64>,
}

impl Quads {
    /// In which windows of this quad it runs.
    pub(crate) fn order(&self) -> [bool; 4] {
        if self.losses.len().is_multiple_of(2) {
            [false, true, true, false]
        } else {
            [true, false, false, true]
        }
    }

    /// A quad of that order.
    pub(crate) fn push(&mut self, windows: &[Window]) {
        let order = self.order();
        let mean = |runs: bool, of: fn(&Window) -> f64| {
            let alike = windows.iter().zip(order).filter(|(_, runs_now)| *runs_now == runs);
            alike.map(|(window, _)| of(window)).sum::<f64>() / 2.0
        };
        let (queries, loops) = (|window: &Window| window.queries_per_s, |window: &Window| window.loop_ns);
        self.losses.push(1.0 - mean(true, queries) / mean(false, queries));
        self.slower.push((mean(true, loops) / mean(false, loops)).ln());
    }

    /// What is lost to what has this name, beside a goal. Where there are quads enough, how fast the CPUs were is weighed, and
    /// what comes out without that stands below.
    pub(crate) fn rows(&self, name: &str, goal: Option<f64>) -> Vec<Row> {
        let what = format!("throughput lost to {name}");
        if self.losses.len() < FEWEST_WEIGHED {
            return vec![row(what, &self.losses, goal)];
        }
        let unweighed = row(format!("{what}, the CPUs' speed not weighed"), &self.losses, None);
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

fn row(what: String, losses: &[f64], goal: Option<f64>) -> Row {
    let Some(Interval { median, low, high }) = Interval::of_symmetric(losses) else {
        return Row::plain(what, "too few quads for an interval: --runs 6");
    };
    let goal = goal.map(|goal| {
        let verdict = match goal {
            goal if high <= goal => Verdict::Reached,
            goal if low > goal => Verdict::Missed,
            _ => Verdict::Open,
        };
        (format!("<= {:.0} %", goal * 100.0), verdict)
    });
    let percent = |ratio: f64| short(ratio * 100.0);
    Row { what, measured: format!("{} % ({} to {})", percent(median), percent(low), percent(high)), goal }
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

    /// A loss of 2 %, on CPUs whose speed changes by far more than that.
    #[test]
    fn what_the_cpus_speed_did_is_taken_off_and_what_was_lost_is_not() {
        let slower: Vec<f64> = (0..40).map(|at| 0.1 * f64::from(at * 7 % 13 - 6)).collect();
        let losses: Vec<f64> = slower.iter().map(|slower| 0.02 + 0.5 * slower).collect();
        assert!(weighed(&losses, &slower).iter().all(|loss| (loss - 0.02).abs() < 1e-9));
        assert_eq!(weighed(&losses, &[0.0; 40]), losses);
    }
}
