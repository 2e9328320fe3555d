//! Quantiles of Student's t, for the bounds of the search.

/// The quantile of t with that many degrees of freedom at which a standard normal stands at `z`: Cornish and Fisher's
/// expansion (Abramowitz and Stegun 26.7.5), within 1 % from four degrees on for |z| <= 2.4.
pub(super) fn quantile(z: f64, degrees: f64) -> f64 {
    let powers = |first: f64, third: f64, fifth: f64, seventh: f64| {
        first * z + third * z.powi(3) + fifth * z.powi(5) + seventh * z.powi(7)
    };
    z + powers(1.0, 1.0, 0.0, 0.0) / (4.0 * degrees)
        + powers(3.0, 16.0, 5.0, 0.0) / (96.0 * degrees.powi(2))
        + powers(-15.0, 17.0, 19.0, 3.0) / (384.0 * degrees.powi(3))
}

#[cfg(test)]
mod tests {
    use super::quantile;

    /// Of a printed table: t at 97.5 %.
    #[test]
    fn the_expansion_meets_the_table() {
        for (degrees, printed) in [(4.0, 2.776), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042), (1e9, 1.960)] {
            assert!((quantile(1.959_964, degrees) / printed - 1.0).abs() < 0.01, "{degrees}");
        }
    }
}
