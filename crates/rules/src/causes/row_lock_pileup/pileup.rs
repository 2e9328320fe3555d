//! The sessions that wait, who has what they want, and what is known where nobody is named.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::mysql::RowLockWait;
use spindoctor_model::wait_graph::{LockKind, WaitRoot};
use spindoctor_model::{Sample, Window};

use super::holders::Holders;
use super::likely::Likely;
use super::queue::Queue;
use super::stacks::ByStacks;
use super::statements::{Commonest, Wanted};
use crate::wait_graph::{Ring, Verdict, without_connection};

/// All that is known of the waits for rows.
pub(super) struct Pileup<'w> {
    pub(super) window: &'w Window,
    pub(super) queue: Queue<'w>,
    pub(super) holders: Holders<'w>,
    /// A transaction without a connection that has the lock, where no connection is named.
    pub(super) unattached: Option<(&'w Sample, WaitRoot)>,
    /// Where nobody has the lock who does not wait himself: the ring of those that wait for each other.
    pub(super) ring: Option<Ring>,
    /// Who has the lock and waits for none, where the list has no connection of it.
    pub(super) nameless: BTreeSet<&'w String>,
    /// Who most likely has the lock, where somebody captured the lists and nothing in them names it.
    pub(super) likely: Option<Likely<'w>>,
    /// What the stacks show of those that wait, where no list has met them.
    pub(super) by_stacks: Option<ByStacks>,
    /// The wait whose place is waited for the most.
    pub(super) place: Option<RowLockWait>,
    /// What most of those run who wait.
    pub(super) waiters: Option<Commonest>,
    /// What most of those ran who have the lock.
    pub(super) ran: Option<Commonest>,
    /// What they wait for, by what they run.
    pub(super) wanted: Wanted,
}

impl<'w> Pileup<'w> {
    pub(super) fn from_queue(window: &'w Window, queue: Queue<'w>) -> Self {
        let holders = Holders::from_queue(window, &queue);
        let last = queue.last();
        let unnamed = last.filter(|_| holders.latest().is_none());
        let unattached =
            unnamed.and_then(|sample| Some((sample, without_connection(window, sample, &[LockKind::Row])?)));
        let unnamed = unnamed.filter(|_| unattached.is_none());
        let ring = unnamed.and_then(|sample| Ring::from_window(window, sample, LockKind::Row));
        let is_one_list = queue.samples.len() == 1 && window.is_given();
        let nameless = unnamed.filter(|_| is_one_list).map(nameless).unwrap_or_default();
        let unnamed = unnamed.filter(|_| window.is_given() && ring.is_none() && nameless.is_empty());
        let likely = unnamed.and_then(|sample| Likely::from_sample(sample, queue.longest_s));
        let is_met = window.is_given() || queue.series.iter().any(|&(_, waiters)| waiters > 0.0);
        let by_stacks = if is_met { None } else { ByStacks::from_window(window) };
        let place = most_wanted(window);
        let table = place.as_ref().map(|place| place.table.as_str());
        let waiters = Commonest::of_waiters(&queue.samples, table);
        let ran = Commonest::of_holders(&holders);
        let wanted = Wanted::from_waits(waiters.as_ref(), place.as_ref());
        Self {
            window,
            queue,
            holders,
            unattached,
            ring,
            nameless,
            likely,
            by_stacks,
            place,
            waiters,
            ran,
            wanted,
        }
    }

    /// Who has the lock, for the report: nobody where that changes from sample to sample, or where one of many samples names somebody.
    pub(super) fn root(&self) -> Option<&Verdict<'w>> {
        let may_stay = !self.holders.change() && (self.is_one_sample() || !self.queue.is_queue);
        let latest = self.holders.latest().filter(|_| may_stay);
        self.holders.one().or_else(|| self.holders.again()).or(latest)
    }

    /// A single list, as somebody captured it.
    pub(super) fn is_one_list(&self) -> bool {
        self.is_one_sample() && self.window.is_given()
    }

    /// A row that many want, where no transaction stays.
    pub(super) fn is_hot(&self) -> bool {
        let stays = self.holders.one().is_some() || self.unattached.is_some() || self.likely.is_some();
        self.queue.is_queue && !stays && self.ring.is_none()
    }

    /// Nothing shows whether it stays so.
    pub(super) fn is_one_sample(&self) -> bool {
        self.queue.samples.len() == 1
    }

    /// ` on shop.stock`, the table that is waited for the most.
    pub(super) fn on(&self) -> String {
        self.place.as_ref().map_or_else(String::new, |wait| format!(" on {}", wait.table))
    }
}

/// The transactions that have a lock and wait for none, of which the list has no connection.
fn nameless(sample: &Sample) -> BTreeSet<&String> {
    let waits = || sample.server.row_lock_waits.value().into_iter().flatten();
    let holders =
        waits().filter(|wait| wait.blocking_connection_id.is_none()).map(|wait| &wait.blocking_transaction);
    let waits_itself = |id: &String| waits().any(|wait| wait.waiting_transaction == *id);
    holders.filter(|id| !id.is_empty() && !waits_itself(id)).collect()
}

/// The wait whose place is waited for the most, over all samples.
fn most_wanted(window: &Window) -> Option<RowLockWait> {
    let mut places: BTreeMap<(&str, &str, &str), (usize, &RowLockWait)> = BTreeMap::new();
    for sample in &window.samples {
        for wait in sample.server.row_lock_waits.value().into_iter().flatten() {
            if !wait.table.is_empty() {
                places.entry((&wait.table, &wait.index, &wait.record)).or_insert((0, wait)).0 += 1;
            }
        }
    }
    places.into_values().max_by_key(|(waits, _)| *waits).map(|(_, wait)| wait.clone())
}
