//! Whether snapshots with the same stack show one long sync or many short ones.
//!
//! A thread that syncs again and again for a moment has the same stack in each snapshot. It is one sync where the thread was on no CPU
//! between them. A sync of much data wakes its thread for each part that is written: it is one, too, where a session that waits for that
//! group of commits has not moved, or where the session that syncs is in the same transaction, as each is synced once.

use spindoctor_model::Window;
use spindoctor_model::stack::{Observation, Profile, ThreadState};

use super::super::storage_stalled::{Stretch, unmoved};
use crate::below::Below;
use crate::sessions::transaction;

/// Functions in which a session waits for the others of its group (sql/rpl_commit_stage_manager.cc, sql/binlog.cc, sql/log.cc). MySQL
/// wakes all of them when a group's commit has ended; MariaDB wakes one when its own group's has, two syncs later at most.
const QUEUES: &[&str] = &[
    "Commit_stage_manager::enroll_for",
    "Stage_manager::enroll_for",
    "MYSQL_BIN_LOG::queue_for_group_commit",
];

/// What says of a stretch of snapshots how much of it is one sync.
pub(in crate::causes) struct SameSync<'w> {
    window: &'w Window,
    profile: &'w Profile,
    /// Writes and syncs in which the thread has not moved.
    ios: Vec<Stretch>,
    /// Waits for a group of commits in which the session has not moved.
    waits: Vec<Stretch>,
}

impl<'w> SameSync<'w> {
    pub(in crate::causes) fn new(window: &'w Window, profile: &'w Profile) -> Self {
        let queues = Below::new(profile, QUEUES);
        let is_io = |one: &Observation| matches!(one.state, ThreadState::Sync | ThreadState::DiskWrite);
        let waits = |one: &Observation| one.state.waits_for_another() && queues.has(one);
        Self { window, profile, ios: unmoved(profile, is_io), waits: unmoved(profile, waits) }
    }

    /// For how long a stretch is known to be one sync, seconds: 0 where nothing says so.
    pub(in crate::causes) fn known_s(&self, stretch: &Stretch) -> f64 {
        let in_both = |one: &Stretch| one.until_s.min(stretch.until_s) - one.since_s.max(stretch.since_s);
        let own = self.ios.iter().filter(|one| one.thread == stretch.thread);
        let without_a_move = own.chain(&self.waits).map(in_both).fold(0.0, f64::max);
        without_a_move.max(self.in_one_transaction_s(stretch))
    }

    /// From the first to the last list within it that shows the thread's session in one and the same transaction.
    fn in_one_transaction_s(&self, stretch: &Stretch) -> f64 {
        let Some(thread) = self.profile.threads.get(stretch.thread as usize) else { return 0.0 };
        let begun_s = self.window.profile.timed().map_or(0.0, |(begun_s, _)| begun_s);
        let within = begun_s + stretch.since_s..=begun_s + stretch.until_s;
        let mut longest_s = 0.0_f64;
        let mut since: Option<(f64, &str)> = None;
        for sample in &self.window.samples {
            let Some((at_s, _)) =
                sample.server.transactions.timed().filter(|(at_s, _)| within.contains(at_s))
            else {
                continue;
            };
            let threads = sample.server.threads.value().map(Vec::as_slice).unwrap_or_default();
            let session = threads.iter().find(|one| one.thread_os_id == Some(u64::from(thread.tid)));
            // One that has changed nothing may have the number of another.
            let now = session
                .and_then(|session| transaction(&sample.server, session.connection_id?))
                .filter(|now| now.rows_modified > 0);
            since = match (since, now) {
                (Some((since_s, id)), Some(now)) if now.id == id => {
                    longest_s = longest_s.max(at_s - since_s);
                    since
                }
                (_, now) => now.map(|now| (at_s, now.id.as_str())),
            };
        }
        longest_s
    }
}
