//! [`StallKind::CommitsStopped`](spindoctor_model::StallKind): commits stop while threads run, whether or not they still
//! read.

use spindoctor_model::Probe;

use super::Sight;
use super::collapse::Collapse;

/// Watches `Handler_commit`.
#[derive(Debug)]
pub(super) struct Commits {
    collapse: Collapse,
}

impl Commits {
    pub(super) fn new() -> Self {
        Self { collapse: Collapse::of(["no commit", "commits"]) }
    }

    pub(super) fn look(&mut self, probe: &Probe) -> Option<Sight> {
        self.collapse.look(probe, probe.commits)
    }
}
