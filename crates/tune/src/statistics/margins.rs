//! How much worse a quantity may get before a change counts as harmful, and how much better before it is worth having.
//!
//! In: the user's margins, or the defaults. Out: distances on the logarithmic scale. A margin holds in both directions:
//! what is shown to stay within it has not changed significantly.

use super::quads::Quantity;

/// The margins, each as a part of its quantity: 0.1 is 10 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margins {
    /// Of statements a second.
    pub throughput: f64,
    /// Of the 95th percentile of a statement's time.
    pub p95: f64,
    /// Of the CPU time for each statement.
    pub cpu_per_query: f64,
}

impl Default for Margins {
    /// Throughput 2 %: twice the least gain worth having; less is hardly distinguishable from the load's own movement within an hour.
    /// p95 10 %: two buckets of the server's histogram, which are 4.7 % wide
    /// (`performance_schema.events_statements_histogram_global`). CPU per query 3 %: it moves by that much with the load
    /// alone, because a busier server works in larger batches.
    fn default() -> Self {
        Self { throughput: 0.02, p95: 0.10, cpu_per_query: 0.03 }
    }
}

/// The smallest margin that makes sense: below it no trial ends.
pub const LEAST_MARGIN: f64 = 0.001;
/// The largest one: a quantity that may double is not compared.
pub const MOST_MARGIN: f64 = 1.0;

impl Margins {
    /// The margin of a quantity, as a part: 0.1 is 10 %.
    pub fn part(&self, of: Quantity) -> f64 {
        let part = match of {
            Quantity::Throughput => self.throughput,
            Quantity::P95 => self.p95,
            Quantity::CpuPerQuery => self.cpu_per_query,
        };
        if part.is_finite() { part.clamp(LEAST_MARGIN, MOST_MARGIN) } else { LEAST_MARGIN }
    }

    /// The margin of a quantity, as a difference of logarithms.
    pub fn ln(&self, of: Quantity) -> f64 {
        self.part(of).ln_1p()
    }
}

/// The least ratio worth having, as a difference of logarithms: 1 % of throughput and of CPU per query (below that no
/// setting is worth a change); 5 % of p95, a bucket of the server's histogram.
pub fn worth_having(of: Quantity) -> f64 {
    match of {
        Quantity::Throughput | Quantity::CpuPerQuery => 0.01_f64.ln_1p(),
        Quantity::P95 => 0.05_f64.ln_1p(),
    }
}

/// A part in percent, as a flag takes it: `10 %`, `2.5 %`.
pub fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    match percent {
        large if large >= 9.95 => format!("{large:.0} %"),
        small => format!("{} %", (small * 10.0).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_parts_and_stay_within_what_makes_sense() {
        let margins = Margins::default();
        assert!((margins.ln(Quantity::P95) - 1.1_f64.ln()).abs() < 1e-12);
        let strange = Margins { throughput: f64::NAN, p95: -1.0, cpu_per_query: 1e9 };
        assert_eq!(super::super::quads::QUANTITIES.map(|of| strange.part(of)), [0.001, 0.001, 1.0]);
        assert_eq!([0.02, 0.1, 0.125, 0.025].map(percent), ["2 %", "10 %", "12 %", "2.5 %"]);
    }
}
