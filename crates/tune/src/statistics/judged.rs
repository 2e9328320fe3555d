//! One quantity of a trial, judged by itself, and its part of the reason in words.

use std::fmt::Write as _;

use spindoctor_model::trial::QuantityVerdict;

use super::interval::Comparison;
use super::margins::{percent, worth_having};
use super::quads::Quantity;
use super::verdict::Terms;
use super::words::{signed, up};

/// One quantity that was measured.
pub(super) struct Judged {
    pub(super) of: Quantity,
    /// The interval that is shown.
    pub(super) comparison: Comparison,
    pub(super) shown: QuantityVerdict,
    pub(super) margin: f64,
    pub(super) quads: usize,
    /// True where it is shown to be worse than none, if only within its margin.
    pub(super) is_below_none: bool,
    pub(super) is_lacking: bool,
}

impl Judged {
    /// `comparison` is at the whole level, `strict` at the level of a claim of one of several.
    pub(super) fn new(
        of: Quantity,
        (comparison, strict): (Comparison, Comparison),
        quads: usize,
        is_lacking: bool,
        terms: &Terms,
    ) -> Self {
        let (benefit, strictly) = (comparison.times(of.sign()), strict.times(of.sign()));
        let (margin, least) = (terms.margins.ln(of), worth_having(of));
        let above = |bound: Option<f64>, least: f64| bound.is_some_and(|bound| bound > least);
        let below = |bound: Option<f64>, most: f64| bound.is_some_and(|bound| bound < most);
        let shown = match () {
            () if below(benefit.high, -margin) && below(strictly.high, -margin) => QuantityVerdict::Worse,
            () if !is_lacking && above(benefit.low, least) && above(strictly.low, least) => {
                QuantityVerdict::Better
            }
            () if is_lacking => QuantityVerdict::Open,
            () if benefit.is_within(margin) => QuantityVerdict::Same,
            () if above(benefit.low, -margin) => QuantityVerdict::NoWorse,
            () => QuantityVerdict::Open,
        };
        let is_below_none = below(benefit.high, 0.0);
        Self { of, comparison, shown, margin: terms.margins.part(of), quads, is_below_none, is_lacking }
    }

    /// `throughput +68.2 % (+61.0 to +75.3)`.
    pub(super) fn words(&self) -> String {
        let mut words = format!("{} {}", self.of.words(), signed(self.comparison.mean));
        if let (Some(low), Some(high)) = (self.comparison.low, self.comparison.high) {
            let _infallible = write!(words, " % ({} to {})", signed(low), signed(high));
        } else {
            words.push_str(" % (no interval yet)");
        }
        words
    }

    /// `p95 may be up to 14.2 % worse, and its margin is 10 %`.
    pub(super) fn open_words(&self) -> String {
        let (name, margin) = (self.of.words(), percent(self.margin));
        match self.comparison.times(self.of.sign()).low {
            _ if self.is_lacking => format!("{name} was measured in {} quads only", self.quads),
            None => format!("{name} has no interval yet"),
            Some(low) => {
                // As the ratio of the quantity itself: throughput that falls, time that grows.
                let worst = 100.0 * ((low * self.of.sign()).clamp(-700.0, 700.0).exp() - 1.0).abs();
                format!("{name} may be up to {worst:.1} % worse, and its margin is {margin}")
            }
        }
    }

    /// `throughput by less than 2.3 %`; none while there is no interval.
    pub(super) fn less_than(&self) -> Option<String> {
        let farthest = self.comparison.farthest()?.min(700.0).exp_m1();
        Some(format!("{} by less than {}", self.of.words(), up(farthest)))
    }
}
