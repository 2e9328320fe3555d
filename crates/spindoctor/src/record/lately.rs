//! The data of the last seconds that belongs to no event yet: the next event gets it.

use std::collections::VecDeque;

use jiff::Timestamp;
use spindoctor_model::{Probe, RecordedGraph, RecordedSample};

/// Of the last seconds.
#[derive(Default)]
pub struct Lately {
    probes: VecDeque<Probe>,
    looks: VecDeque<RecordedSample>,
    graphs: VecDeque<RecordedGraph>,
}

impl Lately {
    /// Another probe; earlier ones than this horizon go.
    pub fn probe(&mut self, probe: Probe, horizon_s: f64) {
        self.probes.push_back(probe);
        while self.probes.front().is_some_and(|probe| probe.at_s < horizon_s) {
            self.probes.pop_front();
        }
    }

    /// A look at locks in which nobody knows yet whether it is a stall.
    pub fn look(&mut self, look: RecordedSample, horizon: Timestamp) {
        self.looks.push_back(look);
        self.looks.retain(|look| look.at >= horizon);
    }

    /// Who waited for whom.
    pub fn graph(&mut self, graph: RecordedGraph, horizon: Timestamp) {
        self.graphs.retain(|graph| graph.at >= horizon);
        self.graphs.push_back(graph);
    }

    /// The probes since then.
    pub fn probes_since(&self, from_s: f64) -> Vec<Probe> {
        self.probes.iter().filter(|probe| probe.at_s >= from_s).copied().collect()
    }

    /// The wait graphs.
    pub fn graphs(&self) -> Vec<RecordedGraph> {
        self.graphs.iter().cloned().collect()
    }

    /// The looks, which are to be written now.
    pub fn take_looks(&mut self) -> VecDeque<RecordedSample> {
        std::mem::take(&mut self.looks)
    }
}
