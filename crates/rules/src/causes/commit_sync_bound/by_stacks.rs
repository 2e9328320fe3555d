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
    // Snapshots without a sync say nothing of how long those between them take.
    if busy_ratio == 0.0 {
        return None;
    }
    let sync = |per_s, mean_s: f64, source: &str| RedoSync {
        per_s,
        mean_us: mean_s * 1e6,
        busy_ratio,
        source: source.into(),
        busy_source: "stacks",
        is_of_binlog: false,
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

#[cfg(test)]
mod tests {
    use spindoctor_model::Reading;

    use super::super::evaluate;
    use super::super::examples::{found, in_groups};
    use super::*;
    use crate::Outcome;
    use crate::testing::{Build, answer, transaction};

    #[test]
    fn stacks_show_the_time_of_a_sync_that_nothing_else_shows() {
        // Snapshots are taken each half second: two syncs of 3.5 s and one of half a second.
        for unmoved in [ThreadState::Sync, ThreadState::Condition] {
            let window = syncs_in(|at| !matches!(at, 8 | 17), Some(unmoved));
            let finding = found(&window);
            assert!(
                finding.headline.ends_with("one sync of the log takes 2500.0 ms"),
                "{}",
                finding.headline
            );
            assert!(finding.evidence.iter().any(|one| one.source == FROM_STACKS), "{:?}", finding.evidence);
        }
        // Each is in one snapshot: many may have ended between two of them.
        let window = syncs_in(|at| at % 2 == 0, Some(ThreadState::Sync));
        assert!(matches!(evaluate(&window), Outcome::NotEnoughEvidence(_)));
    }

    #[test]
    fn the_same_stack_in_each_snapshot_may_be_many_short_syncs() {
        let Outcome::NotEnoughEvidence(why) = evaluate(&syncs_in(|at| !matches!(at, 8 | 17), None)) else {
            panic!("it is not known whether it is one")
        };
        assert!(why.because.contains("18 of 20 snapshots show a thread in one"), "{}", why.because);
        // In one transaction it is one sync, and in another in each list it is not.
        let in_transactions = |each: u64| {
            let mut window = syncs_in(|_| true, None);
            for (at, sample) in (0_u64..).zip(&mut window.samples) {
                let mut batch = transaction(400, "RUNNING", 1.0);
                batch.id = (9_000 + at * each).to_string();
                sample.server.transactions = answer(sample.at_s, vec![batch]);
            }
            evaluate(&window)
        };
        assert!(matches!(in_transactions(0), Outcome::Fired(_)));
        assert!(matches!(in_transactions(1), Outcome::NotEnoughEvidence(_)));
    }

    #[test]
    fn syncs_that_are_counted_say_how_long_one_of_those_is_that_the_stacks_show() {
        let of = |per_s: f64| {
            let mut window = syncs_in(|_| true, None);
            for sample in &mut window.samples {
                let counted = (1_000.0 + per_s * sample.at_s).to_string();
                let status = [("Innodb_os_log_fsyncs", counted)].into_iter().collect();
                sample.server.status = answer(sample.at_s, status);
            }
            evaluate(&window)
        };
        let Outcome::Fired(slow) = of(20.0) else { panic!("20 a second") };
        assert!(slow.headline.contains("one sync of the log takes 50.0 ms"), "{}", slow.headline);
        assert_eq!(of(8_000.0), Outcome::Clear);
    }

    /// Ten sessions in commit on a server whose status was answered once: the stacks show one of them in a sync in some snapshots, and
    /// threads in one state do not move between these.
    fn syncs_in(is_in_sync: fn(u32) -> bool, unmoved: Option<ThreadState>) -> Window {
        let mut window = in_groups(Build::busy("10.5.23-MariaDB").remote()).window();
        let Reading::Available { value: profile, .. } = &mut window.profile else { panic!() };
        for one in &mut profile.observations {
            one.unmoved = Some(one.state) == unmoved;
            if one.state == ThreadState::Sync && !is_in_sync(one.snapshot) {
                one.state = ThreadState::Running;
            }
        }
        for sample in window.samples.iter_mut().skip(1) {
            sample.server.status = Reading::NotAsked;
        }
        window
    }
}
