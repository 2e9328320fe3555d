//! The Universal Scalability Law, fitted to throughput against clients.
//!
//! In: points. Out: a curve `X(N) = lambda N / (1 + alpha (N - 1) + beta N (N - 1))`, its maximum, and how well it
//! fits; or why there is none. lambda is the throughput of one client, alpha the serial part (contention), beta the
//! cost of each pair of clients (coherency): with beta above zero, throughput falls from some number of clients on.
//! (Gunther, "Guerrilla Capacity Planning", chapter 4.)
//!
//! N / X is linear in 1/lambda, alpha/lambda and beta/lambda: weighted least squares of that give the start,
//! Gauss-Newton steps on X itself the fit. alpha and beta are shares of work, and not below zero: where the best curve
//! would have one there, it is left out and the rest fitted again.

use thiserror::Error;

/// Throughput at a number of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Clients that work at once.
    pub clients: f64,
    /// What they get done together, 1/s.
    pub throughput_per_s: f64,
    /// Its weight: 1 divided by its variance, or 1 for all points.
    pub weight: f64,
}

/// The curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Throughput of one client, 1/s.
    pub lambda: f64,
    /// Contention.
    pub alpha: f64,
    /// Coherency.
    pub beta: f64,
    /// Part of the points' variance that it explains, at most 1.
    pub r_squared: f64,
}

/// Why no curve was fitted.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum NotFitted {
    /// Three parameters need three points, and a curve that goes through all of them shows nothing.
    #[error("a curve needs throughput at {LEAST_POINTS} numbers of clients or more, and there are {0}")]
    TooFewPoints(usize),
    /// The points are all alike, or of a shape that no curve of the law has.
    #[error("the points follow no curve of the Universal Scalability Law")]
    NoCurve,
}

/// Numbers of clients that a curve needs.
const LEAST_POINTS: usize = 4;
/// Below this the curve is no description of the points, and its peak means nothing.
const LEAST_R_SQUARED: f64 = 0.5;
/// Gauss-Newton is there after a handful.
const MOST_STEPS: usize = 100;

impl Usl {
    /// Fits the curve.
    ///
    /// # Errors
    /// Too few numbers of clients with throughput above zero, or points that follow no such curve.
    pub fn fit(points: &[Point]) -> Result<Self, NotFitted> {
        let points: Vec<Point> = points.iter().copied().filter(Point::is_usable).collect();
        let mut clients: Vec<f64> = points.iter().map(|point| point.clients).collect();
        clients.sort_by(f64::total_cmp);
        clients.dedup();
        if clients.len() < LEAST_POINTS {
            return Err(NotFitted::TooFewPoints(clients.len()));
        }
        [[true, true], [true, false], [false, true], [false, false]]
            .into_iter()
            .filter_map(|free| Curve::start(&points, free)?.improved(&points, free))
            .min_by(|one, other| one.squares(&points).total_cmp(&other.squares(&points)))
            .map(|curve| curve.law(&points))
            .filter(|law| law.r_squared >= LEAST_R_SQUARED)
            .ok_or(NotFitted::NoCurve)
    }

    /// The curve's throughput at a number of clients, 1/s.
    pub fn throughput_per_s(&self, clients: f64) -> f64 {
        Curve { lambda: self.lambda, shares: [self.alpha, self.beta] }.at(clients)
    }

    /// The number of clients at which it stands highest; none where it only rises.
    pub fn peak_clients(&self) -> Option<f64> {
        let peak = ((1.0 - self.alpha) / self.beta).sqrt();
        (self.beta > 0.0 && peak.is_finite()).then(|| peak.max(1.0))
    }
}

impl Point {
    fn is_usable(&self) -> bool {
        let sane = |value: f64| (1e-9..1e15).contains(&value);
        sane(self.clients) && sane(self.throughput_per_s) && sane(self.weight)
    }

    /// What each parameter but lambda is multiplied with in the denominator.
    fn terms(&self) -> [f64; 2] {
        [self.clients - 1.0, self.clients * (self.clients - 1.0)]
    }
}

#[derive(Debug, Clone, Copy)]
struct Curve {
    lambda: f64,
    /// alpha and beta.
    shares: [f64; 2],
}

impl Curve {
    fn at(&self, clients: f64) -> f64 {
        let [alpha, beta] = self.shares;
        self.lambda * clients / (1.0 + alpha * (clients - 1.0) + beta * clients * (clients - 1.0))
    }

    /// Weighted squares that the points leave.
    fn squares(&self, points: &[Point]) -> f64 {
        points.iter().map(|p| p.weight * (p.throughput_per_s - self.at(p.clients)).powi(2)).sum()
    }

    fn is_allowed(&self) -> bool {
        let shares = self.shares.iter().all(|share| share.is_finite() && *share >= 0.0);
        shares && self.lambda.is_finite() && self.lambda > 0.0
    }

    /// From N / X, which is linear. An error of X is one of N / X times N / X^2.
    fn start(points: &[Point], free: [bool; 2]) -> Option<Self> {
        let rows = points.iter().map(|point| {
            let [alpha, beta] = point.terms();
            let weight = point.weight * (point.throughput_per_s.powi(2) / point.clients).powi(2);
            ([1.0, alpha, beta], point.clients / point.throughput_per_s, weight)
        });
        let [inverse, alpha, beta] = least_squares(rows, [true, free[0], free[1]])?;
        let start = Self { lambda: 1.0 / inverse, shares: [alpha / inverse, beta / inverse] };
        start.is_allowed().then_some(start)
    }

    /// Gauss-Newton, with a step halved until it makes the fit better. None where it leads out of what is allowed.
    fn improved(mut self, points: &[Point], free: [bool; 2]) -> Option<Self> {
        for _ in 0..MOST_STEPS {
            let rows = points.iter().map(|point| {
                let at = self.at(point.clients);
                // dX/dlambda = X / lambda; dX/dshare = -X^2 / (lambda N) times its term.
                let slope = -at * at / (self.lambda * point.clients);
                let [alpha, beta] = point.terms();
                ([at / self.lambda, slope * alpha, slope * beta], point.throughput_per_s - at, point.weight)
            });
            let Some([lambda, alpha, beta]) = least_squares(rows, [true, free[0], free[1]]) else { break };
            let before = self.squares(points);
            let step = |part: f64| Self {
                lambda: self.lambda + part * lambda,
                shares: [self.shares[0] + part * alpha, self.shares[1] + part * beta],
            };
            let better = (0..20)
                .map(|halved| step(0.5_f64.powi(halved)))
                .find(|next| next.is_allowed() && next.squares(points) < before);
            let Some(better) = better else { break };
            self = better;
            if self.squares(points) > before * (1.0 - 1e-12) {
                break;
            }
        }
        self.is_allowed().then_some(self)
    }

    fn law(&self, points: &[Point]) -> Usl {
        let weights: f64 = points.iter().map(|point| point.weight).sum();
        let mean = points.iter().map(|p| p.weight * p.throughput_per_s).sum::<f64>() / weights;
        let whole: f64 = points.iter().map(|p| p.weight * (p.throughput_per_s - mean).powi(2)).sum();
        let r_squared = 1.0 - self.squares(points) / whole;
        Usl { lambda: self.lambda, alpha: self.shares[0], beta: self.shares[1], r_squared }
    }
}

/// The weighted least squares of up to three unknowns, by their normal equations; those not asked for stay zero.
/// None where the rows do not determine them.
fn least_squares(
    rows: impl Iterator<Item = ([f64; 3], f64, f64)> + Clone,
    asked: [bool; 3],
) -> Option<[f64; 3]> {
    // Columns are brought to one length first: N^2 beside 1 would cost half of the digits.
    let mut lengths = [0.0; 3];
    for (terms, _, weight) in rows.clone() {
        for (length, term) in lengths.iter_mut().zip(terms) {
            *length += weight * term * term;
        }
    }
    let lengths = lengths.map(f64::sqrt);
    let mut normal = [[0.0; 4]; 3];
    for (terms, value, weight) in rows {
        for row in 0..3 {
            for column in 0..3 {
                normal[row][column] +=
                    weight * (terms[row] / lengths[row]) * (terms[column] / lengths[column]);
            }
            normal[row][3] += weight * (terms[row] / lengths[row]) * value;
        }
    }
    for at in (0..3).filter(|&at| !asked[at]) {
        normal.iter_mut().for_each(|row| row[at] = 0.0);
        normal[at] = [0.0; 4];
        normal[at][at] = 1.0;
    }
    let solved = solve(normal)?;
    let unknowns = [0, 1, 2].map(|at| if asked[at] { solved[at] / lengths[at] } else { 0.0 });
    unknowns.iter().all(|unknown| unknown.is_finite()).then_some(unknowns)
}

/// Three equations, each with its right-hand side last, by elimination with the largest pivot.
fn solve(mut rows: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for at in 0..3 {
        let pivot = (at..3).max_by(|&one, &other| rows[one][at].abs().total_cmp(&rows[other][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].is_nan() || rows[at][at].abs() <= 1e-13 {
            return None;
        }
        for below in at + 1..3 {
            let part = rows[below][at] / rows[at][at];
            let above = rows[at];
            rows[below].iter_mut().zip(above).skip(at).for_each(|(term, above)| *term -= part * above);
        }
    }
    let mut solved = [0.0; 3];
    for at in (0..3).rev() {
        let known: f64 = (at + 1..3).map(|column| rows[at][column] * solved[column]).sum();
        solved[at] = (rows[at][3] - known) / rows[at][at];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::Random;
    use super::*;

    const CLIENTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

    fn points(throughput: impl FnMut(f64) -> f64) -> Vec<Point> {
        let values: Vec<f64> = CLIENTS.into_iter().map(throughput).collect();
        let pairs = CLIENTS.into_iter().zip(values);
        pairs.map(|(clients, throughput_per_s)| Point { clients, throughput_per_s, weight: 1.0 }).collect()
    }

    #[test]
    fn points_on_a_curve_give_the_curve_and_its_peak() {
        let truth = Usl { lambda: 995.6, alpha: 0.026_7, beta: 0.000_769, r_squared: 1.0 };
        let found = Usl::fit(&points(|clients| truth.throughput_per_s(clients))).unwrap();
        assert!((found.lambda / truth.lambda - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            (found.alpha / truth.alpha - 1.0).abs() < 1e-4 && (found.beta / truth.beta - 1.0).abs() < 1e-4
        );
        assert!(found.r_squared > 0.999_999);
        assert!((found.peak_clients().unwrap() - 35.6).abs() < 0.1, "{:?}", found.peak_clients());
    }

    #[test]
    fn noise_moves_the_curve_little() {
        let truth = Usl { lambda: 700.0, alpha: 0.05, beta: 0.000_4, r_squared: 1.0 };
        let mut random = Random::seeded(2);
        let found =
            Usl::fit(&points(|clients| truth.throughput_per_s(clients) * (0.02 * random.normal()).exp()))
                .unwrap();
        assert!(
            (found.peak_clients().unwrap() / truth.peak_clients().unwrap() - 1.0).abs() < 0.3,
            "{found:?}"
        );
        assert!(found.r_squared > 0.97);
    }

    #[test]
    fn a_line_that_only_rises_has_no_peak_and_no_share_below_zero() {
        let linear = Usl::fit(&points(|clients| 500.0 * clients)).unwrap();
        assert!((linear.lambda - 500.0).abs() < 0.01 && linear.peak_clients().is_none(), "{linear:?}");
        let more_than_linear = Usl::fit(&points(|clients| 500.0 * clients.powf(1.1))).unwrap();
        assert_eq!((more_than_linear.alpha, more_than_linear.beta), (0.0, 0.0));
    }

    #[test]
    fn what_cannot_be_fitted_says_so() {
        let few = &points(|clients| clients)[..3];
        assert_eq!(Usl::fit(few), Err(NotFitted::TooFewPoints(3)));
        assert_eq!(Usl::fit(&points(|_| 0.0)), Err(NotFitted::TooFewPoints(0)));
        let saw = |clients: f64| if (clients.log2() as u32).is_multiple_of(2) { 10.0 } else { 1_000.0 };
        assert_eq!(Usl::fit(&points(saw)), Err(NotFitted::NoCurve));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn hostile_points_never_panic_and_a_curve_is_finite(
            points in prop::collection::vec(
                (prop_oneof![any::<f64>(), 1.0..1e3], prop_oneof![any::<f64>(), 1.0..1e5], prop_oneof![any::<f64>(), Just(1.0)]),
                0..20,
            ),
        ) {
            let points: Vec<Point> = points
                .into_iter()
                .map(|(clients, throughput_per_s, weight)| Point { clients, throughput_per_s, weight })
                .collect();
            if let Ok(found) = Usl::fit(&points) {
                prop_assert!(found.lambda > 0.0 && found.alpha >= 0.0 && found.beta >= 0.0);
                prop_assert!(found.r_squared <= 1.0 && found.peak_clients().is_none_or(f64::is_finite));
            }
        }
    }
}
