//! From clients and quantities to pixels, with the round numbers of an axis.

use spindoctor_tune::sweep::Spread;

use crate::sweep::chart::Chart;
use crate::sweep::view::Metric;

/// From this ratio of the greatest to the least on, a linear axis shows the least as zero.
const LOGARITHMIC_FROM: f64 = 25.0;

/// A plot's edges.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// From the clients to pixels: each doubling takes as much room.
pub(super) struct Across {
    pub(super) frame: Frame,
    least: f64,
    most: f64,
}

impl Across {
    pub(super) fn new(chart: &Chart<'_>, frame: Frame) -> Self {
        let clients = |at: Option<&u32>| f64::from(at.copied().unwrap_or(1).max(1)).log2();
        let (least, most) = (clients(chart.threads.first()), clients(chart.threads.last()));
        // One number of clients alone stands in the middle.
        if most > least {
            Self { frame, least, most }
        } else {
            Self { frame, least: least - 1.0, most: most + 1.0 }
        }
    }

    pub(super) fn x(&self, clients: f64) -> f64 {
        const INSET: f64 = 14.0;
        let Frame { left, right, .. } = self.frame;
        let share = (clients.log2() - self.least) / (self.most - self.least);
        left + INSET + share * (right - left - 2.0 * INSET)
    }
}

/// From a quantity to pixels.
pub(super) struct Up {
    frame: Frame,
    least: f64,
    most: f64,
    pub(super) is_logarithmic: bool,
    pub(super) ticks: Vec<f64>,
}

impl Up {
    pub(super) fn for_metric(chart: &Chart<'_>, metric: &Metric, frame: Frame) -> Option<Self> {
        let points = chart.lines.iter().flat_map(|line| line.points.iter().copied());
        let spreads: Vec<Spread> = points.filter_map(metric.of).filter(is_drawn).collect();
        let most = spreads.iter().map(|spread| spread.high).fold(0.0, f64::max);
        let least = spreads.iter().map(|spread| spread.low).fold(f64::INFINITY, f64::min);
        if most <= 0.0 {
            return None;
        }
        // Of throughput the eye compares heights, so that begins at zero.
        if metric.unit == "ms" && least > 0.0 && most / least > LOGARITHMIC_FROM {
            let (least, most) = (least / 1.3, most * 1.3);
            let ticks = decades(least, most);
            return Some(Self { frame, least: least.ln(), most: most.ln(), is_logarithmic: true, ticks });
        }
        let step = step(most / 5.0);
        let steps = (most * 1.02 / step).ceil();
        let ticks = (0..=steps as u32).map(|at| f64::from(at) * step).collect();
        Some(Self { frame, least: 0.0, most: steps * step, is_logarithmic: false, ticks })
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let Frame { top, bottom, .. } = self.frame;
        bottom - (value - self.least) / (self.most - self.least) * (bottom - top)
    }
}

/// 1, 2 or 5 of a power of ten, as near above as there is.
fn step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// Round numbers between two bounds, for a logarithmic axis: powers of ten, with 2 and 5 where those are few.
fn decades(least: f64, most: f64) -> Vec<f64> {
    let powers = (least.log10().floor() as i32)..=(most.log10().ceil() as i32);
    let digits: &[f64] = if (most / least).log10() > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let ticks = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
    ticks.filter(|tick| (least..=most).contains(tick)).collect()
}

/// Numbers that a picture can show.
pub(super) fn is_drawn(spread: &Spread) -> bool {
    [spread.low, spread.median, spread.high].iter().all(|value| (0.0..1e15).contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(
            [step(0.9), step(1.0), step(3.1), step(33_000.0), step(0.000_12)],
            [1.0, 1.0, 5.0, 50_000.0, 0.000_2]
        );
        assert_eq!(decades(0.8, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(decades(0.5, 6_000.0), [1.0, 10.0, 100.0, 1_000.0]);
    }
}
