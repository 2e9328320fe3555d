//! How long syncs of commits take by the stacks, where neither the server's counters nor the disks say it.

use spindoctor_model::Window;
use spindoctor_model::stack::{Observation, ThreadState};

use super::super::storage_stalled::{Stretch, stretches};
use crate::below::Below;
use crate::redo_sync::RedoSync;
use crate::stall::with_enough_snapshots;
use crate::time_model::tables;

/// Where the time of a sync was read.
pub(super) const FROM_STACKS: &str = "stacks: from the first to the last snapshot that shows the sync";

/// The syncs below the commits of statements, from the first snapshot that shows one to the last. None where they are shorter than the
/// time between two snapshots, in which many may have ended.
pub(super) fn sync_by_stacks(window: &Window) -> Option<RedoSync> {
    let profile = with_enough_snapshots(window).ok()?;
    let (statements, commits) = (Below::new(profile, tables::STATEMENT), Below::new(profile, tables::COMMIT));
    let is_sync =
        |one: &Observation| one.state == ThreadState::Sync && statements.has(one) && commits.has(one);
    let syncs = stretches(profile, is_sync);
    let (first, last) = (profile.snapshots.first()?, profile.snapshots.last()?);
    let seconds = last.at_us.checked_sub(first.at_us).filter(|&us| us > 0)? as f64 / 1e6;
    let snapshots = profile.snapshots.len() as f64;
    let mean_s = syncs.iter().map(Stretch::seconds).sum::<f64>() / syncs.len().max(1) as f64;
    if mean_s < seconds / snapshots {
        return None;
    }
    let mut with_one: Vec<u32> =
        profile.observations.iter().filter(|one| is_sync(one)).map(|one| one.snapshot).collect();
    with_one.sort_unstable();
    with_one.dedup();
    Some(RedoSync {
        per_s: syncs.len() as f64 / seconds,
        mean_us: mean_s * 1e6,
        busy_ratio: (with_one.len() as f64 / snapshots).min(1.0),
        source: FROM_STACKS.into(),
        busy_source: "stacks",
    })
}
