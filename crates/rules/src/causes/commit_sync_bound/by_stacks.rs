//! How long syncs of commits take by the stacks, where neither the server's counters nor the disks say it.

use std::collections::BTreeSet;

use spindoctor_model::Window;
use spindoctor_model::stack::{Observation, Profile, ThreadState};

use super::super::storage_stalled::{Stretch, stretches};
use super::same_sync::SameSync;
use crate::below::Below;
use crate::redo_sync::{RedoSync, syncs_per_s};
use crate::stall::with_enough_snapshots;
use crate::time_model::tables;

/// Where the time of a sync was read.
pub(super) const FROM_STACKS: &str = "stacks: from the first to the last snapshot that shows the same sync";

/// The same where the server counts its syncs.
const FROM_COUNT: &str = "stacks, divided by the syncs";

/// The syncs below the commits of statements. Where nothing counts them they take as long as snapshots are known to show the same one:
/// none where that is less than the time between two snapshots, in which many may have ended.
pub(super) fn sync_by_stacks(window: &Window) -> Option<RedoSync> {
    let profile = with_enough_snapshots(window).ok()?;
    let is_sync = syncs(profile);
    let (first, last) = (profile.snapshots.first()?, profile.snapshots.last()?);
    let seconds = last.at_us.checked_sub(first.at_us).filter(|&us| us > 0)? as f64 / 1e6;
    let snapshots = profile.snapshots.len() as f64;
    let busy_ratio = (with_one(profile, &is_sync) as f64 / snapshots).min(1.0);
    let sync = |per_s, mean_s: f64, source: &str| RedoSync {
        per_s,
        mean_us: mean_s * 1e6,
        busy_ratio,
        source: source.into(),
        busy_source: "stacks",
    };
    if let Some(per_s) = syncs_per_s(window) {
        return Some(sync(per_s, busy_ratio / per_s, FROM_COUNT));
    }
    let all = stretches(profile, &is_sync);
    let same = SameSync::new(window, profile);
    let known_s: f64 = all.iter().map(|one| same.known_s(one)).sum();
    let whole_s: f64 = all.iter().map(Stretch::seconds).sum();
    // Of what is not known each snapshot may show another one.
    let each_s = seconds / snapshots;
    let count = all.len() as f64 + (whole_s - known_s) / each_s;
    let mean_s = known_s / count.max(1.0);
    (mean_s >= each_s).then(|| sync(count / seconds, mean_s, FROM_STACKS))
}

/// How many snapshots show a thread in such a sync, of how many; None where none does.
pub(super) fn snapshots_in_sync(window: &Window) -> Option<(usize, usize)> {
    let profile = window.profile.value()?;
    let seen = with_one(profile, syncs(profile));
    (seen > 0).then_some((seen, profile.snapshots.len()))
}

/// True for a thread that syncs below the commit of a statement.
fn syncs(profile: &Profile) -> impl Fn(&Observation) -> bool {
    let (statements, commits) = (Below::new(profile, tables::STATEMENT), Below::new(profile, tables::COMMIT));
    move |one: &Observation| one.state == ThreadState::Sync && statements.has(one) && commits.has(one)
}

/// Snapshots with a thread that is such.
fn with_one(profile: &Profile, is_such: impl Fn(&Observation) -> bool) -> usize {
    let such = profile.observations.iter().filter(|one| is_such(one));
    such.map(|one| one.snapshot).collect::<BTreeSet<_>>().len()
}
