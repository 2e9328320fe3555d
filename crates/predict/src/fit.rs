//! The declared parameters fitted to measurements: the least mean square of the logarithms' errors, by the simplex of
//! Nelder and Mead ("A simplex method for function minimization", 1965) over the parameters' logarithms.
//!
//! What few measurements say nothing about stays near what is assumed: a parameter that is off by its doubt costs as much
//! as an error of `DOUBT_COSTS` in one measurement.

use serde::{Deserialize, Serialize};

use crate::ground::{Ground, PARAMETERS, Parameter, Parameters};
use crate::sim::{Effort, simulate};

const DOUBT_COSTS: f64 = 0.05;
/// Trials of the simplex.
const TRIALS: usize = 180;
/// Events of one simulation while it fits, and more of them for each connection.
const EVENTS: u64 = 20_000;
const EVENTS_EACH: u64 = 200;

/// One measurement beside the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Connections.
    pub threads: u32,
    /// Transactions a second as measured.
    pub measured_per_s: f64,
    /// And by the model.
    pub model_per_s: f64,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The parameters.
    pub parameters: Parameters,
    /// Names of those that the measurements decided; the others are assumed.
    pub fitted: Vec<String>,
    /// The measurements that it was fitted to, beside the model.
    pub points: Vec<Fitted>,
    /// Root mean square of the logarithms' errors over them.
    pub rms_log_error: f64,
}

/// Fits the parameters.
pub fn fit(ground: &Ground, seed: u64) -> Fit {
    let assumed = Parameters::assumed(ground);
    let many = ground.measured.len();
    let free: Vec<&Parameter> = PARAMETERS.iter().filter(|parameter| many >= parameter.from).collect();
    let with = |logs: &[f64]| {
        let mut parameters = assumed;
        for (parameter, log) in free.iter().zip(logs) {
            let value = (parameter.get)(&assumed) * log.exp();
            (parameter.set)(&mut parameters, value.clamp(parameter.least, parameter.most));
        }
        parameters
    };
    let effort =
        |threads: u32| Effort { events: EVENTS + EVENTS_EACH * u64::from(threads), ..Effort::default() };
    let cost = |logs: &[f64]| {
        let world = ground.world(&with(logs));
        let errors = ground.measured.iter().map(|measured| {
            let model = simulate(&world, measured.threads, seed, effort(measured.threads));
            log_error(measured.throughput_per_s, model.throughput_per_s).powi(2)
        });
        let doubts =
            free.iter().zip(logs).map(|(parameter, log)| (DOUBT_COSTS * log / parameter.doubt.ln()).powi(2));
        errors.sum::<f64>() + doubts.sum::<f64>()
    };
    let best = simplex(free.len(), cost);
    let parameters = with(&best);
    let world = ground.world(&parameters);
    let points: Vec<Fitted> = ground
        .measured
        .iter()
        .map(|measured| Fitted {
            threads: measured.threads,
            measured_per_s: measured.throughput_per_s,
            model_per_s: simulate(&world, measured.threads, seed, Effort::default()).throughput_per_s,
        })
        .collect();
    let fitted = free.iter().map(|parameter| parameter.name.to_owned()).collect();
    Fit { parameters, fitted, rms_log_error: rms_log_error(&points), points }
}

fn log_error(measured_per_s: f64, model_per_s: f64) -> f64 {
    (model_per_s.max(1e-9) / measured_per_s.max(1e-9)).ln()
}

/// Root mean square of the logarithms' errors.
pub fn rms_log_error(points: &[Fitted]) -> f64 {
    let squares = points.iter().map(|point| log_error(point.measured_per_s, point.model_per_s).powi(2));
    (squares.sum::<f64>() / points.len().max(1) as f64).sqrt()
}

/// The least cost, from the origin.
fn simplex(dimensions: usize, cost: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 0.5;
    let mut corners: Vec<(f64, Vec<f64>)> = (0..=dimensions)
        .map(|at| {
            let mut corner = vec![0.0; dimensions];
            if at > 0 {
                corner[at - 1] = STEP;
            }
            (cost(&corner), corner)
        })
        .collect();
    let mut trials = corners.len();
    while trials < TRIALS {
        corners.sort_by(|a, b| a.0.total_cmp(&b.0));
        let worst = dimensions;
        if corners[worst].0 - corners[0].0 < 1e-6 {
            break;
        }
        let middle: Vec<f64> = (0..dimensions)
            .map(|axis| {
                corners[..worst].iter().map(|(_, corner)| corner[axis]).sum::<f64>() / dimensions as f64
            })
            .collect();
        let along = |by: f64| -> Vec<f64> {
            middle.iter().zip(&corners[worst].1).map(|(middle, far)| middle + by * (far - middle)).collect()
        };
        let mut tried = |point: Vec<f64>| {
            trials += 1;
            (cost(&point), point)
        };
        let reflected = tried(along(-1.0));
        if reflected.0 < corners[0].0 {
            let expanded = tried(along(-2.0));
            corners[worst] = if expanded.0 < reflected.0 { expanded } else { reflected };
        } else if reflected.0 < corners[worst - 1].0 {
            corners[worst] = reflected;
        } else {
            let inner = tried(along(if reflected.0 < corners[worst].0 { -0.5 } else { 0.5 }));
            if inner.0 < corners[worst].0.min(reflected.0) {
                corners[worst] = inner;
            } else {
                let best = corners[0].1.clone();
                for corner in &mut corners[1..] {
                    let nearer: Vec<f64> =
                        corner.1.iter().zip(&best).map(|(far, best)| (far + best) / 2.0).collect();
                    trials += 1;
                    *corner = (cost(&nearer), nearer);
                }
            }
        }
    }
    corners.sort_by(|a, b| a.0.total_cmp(&b.0));
    corners.swap_remove(0).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplex_finds_the_bottom_of_a_valley() {
        let best = simplex(2, |at| (at[0] - 1.0).powi(2) + 10.0 * (at[1] + 0.5 - at[0]).powi(2));
        assert!((best[0] - 1.0).abs() < 0.05 && (best[1] - 0.5).abs() < 0.05, "{best:?}");
    }
}
