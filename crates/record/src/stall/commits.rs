//! [`StallKind::CommitsStopped`](spindoctor_model::StallKind): commits stop while threads run, even if they still read.
//! Where the counter of commits includes read-only transactions, the detector checks whether nothing is written to the
//! redo log.

use super::Sight;
use super::collapse::Collapse;
use super::interval::Interval;
use super::threads_running::Crowd;

/// Watches how many transactions were committed, and how much they wrote.
#[derive(Debug)]
pub(super) struct Commits {
    commits: Collapse,
    redo: Collapse,
}

impl Commits {
    pub(super) fn new() -> Self {
        let redo = ["nothing was written to the redo log", "blocks of redo log"];
        Self { commits: Collapse::new(["no commit", "commits"]), redo: Collapse::new(redo) }
    }

    /// `crowd`: how many threads run at its end.
    pub(super) fn look(&mut self, interval: Option<&Interval>, crowd: Crowd) -> Option<Sight> {
        let commits = self.commits.look_at(interval, |interval| interval.commits, crowd);
        let redo = self.redo.look_at(interval, |interval| interval.redo_blocks, crowd);
        commits.or(redo)
    }
}
