//! [`StallKind::CommitsStopped`](spindoctor_model::StallKind): commits stop while threads run, whether or not they still
//! read; or nothing is written to the redo log, where commits are counted together with the ends of reads.

use super::Sight;
use super::collapse::Collapse;
use super::interval::Interval;

/// Watches how many transactions were committed, and how much they wrote.
#[derive(Debug)]
pub(super) struct Commits {
    commits: Collapse,
    redo: Collapse,
}

impl Commits {
    pub(super) fn new() -> Self {
        let redo = ["nothing was written to the redo log", "blocks of redo log"];
        Self { commits: Collapse::of(["no commit", "commits"]), redo: Collapse::of(redo) }
    }

    /// `is_pile_up`: far more threads run than usually.
    pub(super) fn look(&mut self, interval: Option<&Interval>, is_pile_up: bool) -> Option<Sight> {
        let commits = self.commits.look_at(interval, |interval| interval.commits, is_pile_up);
        let redo = self.redo.look_at(interval, |interval| interval.redo_blocks, is_pile_up);
        commits.or(redo)
    }
}
