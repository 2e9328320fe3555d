//! The cost of each source so far: counted where it is read, for any reader.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindoctor_model::SourceCost;

/// The name under which the probe's questions are counted.
pub const PROBE: &str = "probe";

/// All of them, shared by those who ask and those who read.
#[derive(Debug, Clone)]
pub(super) struct Costs(Arc<Mutex<Vec<SourceCost>>>);

impl Costs {
    /// Nothing was asked yet of these sources.
    pub(super) fn from_sources(sources: impl Iterator<Item = (&'static str, f64)>) -> Self {
        let costs =
            sources.map(|(source, period_s)| SourceCost { source, period_s, ..SourceCost::default() });
        Self(Arc::new(Mutex::new(costs.collect())))
    }

    /// A source was asked.
    pub(super) fn count(&self, source: &'static str, took: Duration, rows: usize) {
        self.change(source, |cost| {
            cost.asked += 1;
            cost.took_ms += took.as_secs_f64() * 1e3;
            cost.rows += rows as u64;
        });
    }

    /// A source is asked so often from now on.
    pub(super) fn set_period(&self, source: &'static str, period_s: f64) {
        self.change(source, |cost| cost.period_s = period_s);
    }

    fn change(&self, source: &'static str, change: impl FnOnce(&mut SourceCost)) {
        let mut costs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cost) = costs.iter_mut().find(|cost| cost.source == source) {
            change(cost);
        }
    }

    /// As they are now.
    pub(super) fn all(&self) -> Vec<SourceCost> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_by_one_is_read_by_another() {
        let costs = Costs::from_sources([("SHOW X", 1.0), (PROBE, 0.1)].into_iter());
        let reader = costs.clone();
        costs.count("SHOW X", Duration::from_millis(3), 500);
        costs.count("SHOW X", Duration::from_millis(4), 501);
        costs.count("SHOW Y", Duration::from_millis(4), 1);
        costs.set_period("SHOW X", 2.0);
        let all = reader.all();
        assert_eq!(
            all[0],
            SourceCost { source: "SHOW X", asked: 2, took_ms: 7.0, rows: 1001, period_s: 2.0 }
        );
        assert_eq!((all[1].asked, all.len()), (0, 2));
    }
}
