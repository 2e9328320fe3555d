//! The design of a trial and the meaning of its numbers. Pure: no I/O, no clock; random numbers come from the caller.
//!
//! Blocks of time with the old and the new setting come in [`quads`], whose order a coin decides. Each quad gives one
//! difference on the logarithmic scale for each quantity; [`interval`] turns them into an interval that holds however
//! often it is looked at, [`verdict`] into one of four words by the [`margins`] of each. [`budget`] says how long that
//! will take, [`harm`] ends a trial early, [`timing`] says how long a block lasts, [`drift`] what the load did meanwhile, [`search`] which of several candidates deserve a trial.
//! [`usl`] fits a curve of throughput against clients. [`simulated`] shows how often all this is wrong.

pub mod budget;
pub mod drift;
pub mod harm;
pub mod interval;
mod judged;
pub mod margins;
pub mod quads;
pub mod search;
pub mod simulated;
pub mod timing;
pub mod usl;
pub mod verdict;
mod words;

/// The arithmetic mean; not a number of nothing.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A least-squares line through points, as its height at the points' mean `x`, its slope and the sum of the squares
/// that it leaves; none where all points stand on one `x`.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (xx, xy) = points
        .iter()
        .fold((0.0, 0.0), |(xx, xy), &(x, y)| (xx + (x - mean_x).powi(2), xy + (x - mean_x) * (y - mean_y)));
    let slope = xy / xx;
    let left = points.iter().map(|&(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    (xx > 0.0 && slope.is_finite()).then_some((mean_y, slope, left))
}
