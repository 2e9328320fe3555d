//! The detectors' results over probes, compared with the stalls that were made.

use spindoctor_model::{Probe, StallKind};
use spindoctor_stalls::{Baseline, StallChange, Stalls};

/// A stall that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made {
    /// The kinds that name it rightly; none where any does.
    pub(crate) kinds: &'static [StallKind],
    /// It was asked for then: some may stand from here on.
    pub(crate) asked_s: f64,
    /// From here on it had taken hold.
    pub(crate) held_s: f64,
    /// It was let go.
    pub(crate) ended_s: f64,
}

/// What the detectors made of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub(crate) made: usize,
    /// Seen while they lasted, or within half a second.
    pub(crate) found: usize,
    /// Of those found: the first that was seen is of the right kind.
    pub(crate) kind_right: usize,
    /// Of those found: dated within 150 ms of their beginning, by the first that was seen.
    pub(crate) begin_right: usize,
    pub(crate) worst_begin_ms: f64,
    /// When those began that were not seen.
    pub(crate) missed_s: Vec<f64>,
    /// Stalls that were seen where there were none.
    pub(crate) false_alarms: Vec<String>,
}

/// Seen so long after its end it is still found: the probe that shows a short one comes after it.
const SEEN_WITHIN_S: f64 = 0.5;
/// What follows a stall so soon is a part of it: one event.
const PART_OF_IT_S: f64 = 5.0;
const BEGIN_WITHIN_MS: f64 = 150.0;

pub(crate) fn judge(probes: &[Probe], made: &[Made]) -> Outcome {
    let mut stalls = Stalls::new(Baseline::default(), Vec::new());
    let opened: Vec<_> = probes
        .iter()
        .flat_map(|probe| stalls.probe(probe))
        .filter_map(|change| match change {
            StallChange::Opened(stall) => Some(stall),
            StallChange::Over(..) => None,
        })
        .collect();
    let mut outcome = Outcome { made: made.len(), ..Outcome::default() };
    for one in made {
        let within = |seen_s: f64| seen_s >= one.asked_s && seen_s <= one.ended_s + SEEN_WITHIN_S;
        let Some(first) = opened.iter().find(|stall| within(stall.seen_s)) else {
            outcome.missed_s.push(one.asked_s);
            continue;
        };
        let wrong_ms = (one.asked_s - first.began_s).max(first.began_s - one.held_s).max(0.0) * 1e3;
        outcome.found += 1;
        outcome.kind_right += usize::from(one.kinds.is_empty() || one.kinds.contains(&first.kind));
        outcome.begin_right += usize::from(wrong_ms <= BEGIN_WITHIN_MS);
        outcome.worst_begin_ms = outcome.worst_begin_ms.max(wrong_ms);
    }
    let is_part =
        |at_s: f64| made.iter().any(|one| at_s >= one.asked_s && at_s <= one.ended_s + PART_OF_IT_S);
    outcome.false_alarms = opened
        .iter()
        .filter(|stall| !is_part(stall.seen_s))
        .map(|stall| format!("{:?} at {:.1} s: {}", stall.kind, stall.seen_s, stall.because))
        .collect();
    outcome
}
