//! What is drawn at random for a run of a scenario: how many sessions, which protocol, what else the server does.
//!
//! A draw is a function of its seed and of a name, so that a scenario asks for the same number wherever it needs it, and a
//! run can be made again from what its score says. Tests take the usual values.

use std::ops::RangeInclusive;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// How much of the sessions' time the cause takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// About a tenth: few sessions suffer beside a busy load.
    Mild,
    /// More than half.
    #[default]
    Severe,
}

/// How clients send their statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// As texts.
    Text,
    /// Prepared, as far as they can be.
    Prepared,
}

/// What is drawn for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Draw {
    /// None where the usual values are wanted.
    seed: Option<u64>,
    /// How much the cause takes.
    pub strength: Strength,
    /// How all clients send their statements, where that is not to be drawn.
    protocol: Option<Protocol>,
}

impl Draw {
    /// Drawn from a seed.
    pub fn by(seed: u64, strength: Strength) -> Self {
        Self { seed: Some(seed), strength, protocol: None }
    }

    /// The usual values, sent by this protocol where one is given.
    pub fn usual(protocol: Option<Protocol>) -> Self {
        Self { protocol, ..Self::default() }
    }

    /// A count from a range, each order of magnitude as likely as the next; the usual one where nothing is drawn. A mild run
    /// takes the least of the range.
    pub(crate) fn count(&self, name: &str, usual: u32, range: RangeInclusive<u32>) -> u32 {
        let Some(mut rng) = self.rng(name) else { return usual };
        if self.strength == Strength::Mild {
            return *range.start();
        }
        let (low, high) = (f64::from(*range.start()).ln(), f64::from(*range.end()).ln());
        let drawn = (low + rng.f64() * (high - low)).exp().round() as u32;
        drawn.clamp(*range.start(), *range.end())
    }

    /// True in so many of a hundred draws; false where nothing is drawn.
    pub(crate) fn happens(&self, name: &str, percent: u32) -> bool {
        self.rng(name).is_some_and(|mut rng| rng.u32(0..100) < percent)
    }

    /// Whether the clients prepare their statements: half of the runs. Where nothing is drawn they send texts.
    pub(crate) fn is_prepared(&self) -> bool {
        self.protocol.map_or_else(|| self.happens("protocol", 50), |protocol| protocol == Protocol::Prepared)
    }

    /// Whether sysbench's clients send texts: half of the runs. Where nothing is drawn they prepare, as sysbench does.
    pub(crate) fn is_sysbench_in_text(&self) -> bool {
        self.protocol.map_or_else(|| self.happens("text", 50), |protocol| protocol == Protocol::Text)
    }

    /// A random number of its own for each name. None where nothing is drawn.
    pub(crate) fn rng(&self, name: &str) -> Option<Rng> {
        // FNV-1a: the same on every machine and in every version.
        let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.seed.map(|seed| Rng::with_seed(seed ^ name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, hash)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_the_same_wherever_it_is_asked_for_and_others_have_their_own() {
        let draw = Draw::by(7, Strength::Severe);
        let counts: Vec<u32> = (0..100).map(|at| draw.count(&format!("n{at}"), 40, 10..=160)).collect();
        assert_eq!(counts[3], draw.count("n3", 40, 10..=160));
        assert!(counts.iter().all(|count| (10..=160).contains(count)));
        // Half of them below the geometric mean.
        let below = counts.iter().filter(|count| **count < 40).count();
        assert!((35..=65).contains(&below), "{below}");
        assert_ne!(
            counts,
            (0..100)
                .map(|at| Draw::by(8, Strength::Severe).count(&format!("n{at}"), 40, 10..=160))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_test_has_the_usual_and_a_mild_run_the_least() {
        assert_eq!(Draw::default().count("sessions", 40, 2..=160), 40);
        assert!(!Draw::default().is_prepared() && !Draw::default().is_sysbench_in_text());
        let prepared = Draw::usual(Some(Protocol::Prepared));
        assert!(prepared.is_prepared() && !prepared.is_sysbench_in_text());
        let in_text = Draw::usual(Some(Protocol::Text));
        assert!(!in_text.is_prepared() && in_text.is_sysbench_in_text());
        assert_eq!(Draw::by(7, Strength::Mild).count("sessions", 40, 2..=160), 2);
    }
}
