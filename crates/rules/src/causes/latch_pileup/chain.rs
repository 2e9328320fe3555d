//! Who waits for whom, and who is at the end.

use std::collections::BTreeMap;

use spindoctor_model::InnodbStatus;
use spindoctor_model::innodb_status::{SemaphoreKind, SemaphoreWait};

use super::NOTE_S;
use crate::wait_graph::is_free;

/// Who is at the end of the waits.
pub(super) enum End<'w> {
    /// Threads that wait for each other.
    Ring(Vec<&'w SemaphoreWait>),
    /// The longest wait, and the waits from it to a thread that waits for nobody who is named.
    Chain(Vec<&'w SemaphoreWait>),
}

/// The waits of a status that last, by the thread that waits.
pub(super) struct Waits<'w>(BTreeMap<u64, &'w SemaphoreWait>);

impl<'w> Waits<'w> {
    pub(super) fn from_status(status: &'w InnodbStatus) -> Self {
        let lasts = |wait: &&SemaphoreWait| !wait.ended && !is_free(wait);
        let waiters = status.semaphores.waiters.iter().filter(lasts);
        Self(waiters.map(|wait| (wait.pthread_id, wait)).collect())
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    fn longest(&self) -> Option<&'w SemaphoreWait> {
        self.0.values().max_by(|one, other| one.waited_s.total_cmp(&other.waited_s)).copied()
    }

    /// How long the longest has lasted.
    pub(super) fn longest_s(&self) -> f64 {
        self.longest().map_or(0.0, |wait| wait.waited_s)
    }

    fn long(&self) -> impl Iterator<Item = &'w SemaphoreWait> {
        self.0.values().copied().filter(|wait| wait.waited_s >= NOTE_S)
    }

    /// A ring that has lasted, wherever it is; else the chain of a long wait; none where no wait is long. What somebody captured was
    /// captured because it hangs: there a ring of any length counts.
    pub(super) fn end(&self, is_given: bool) -> Option<End<'w>> {
        let of = |threads: &[u64]| threads.iter().map(|thread| self.0[thread]).collect::<Vec<_>>();
        let mut rings = self.0.values().filter_map(|wait| {
            let (behind, ring_from) = self.behind(wait);
            ring_from.map(|place| of(&behind[place..]))
        });
        if let Some(ring) = rings.find(|ring| is_given || has_lasted(ring)) {
            return Some(End::Ring(ring));
        }
        self.longest().filter(|longest| longest.waited_s >= NOTE_S)?;
        // Of those that have waited so long, the longest chain says the most. Behind a ring that has not lasted nobody waits: the chain
        // ends at who has the latch that its last one wants.
        let chains = self.long().map(|wait| {
            let (mut behind, ring_from) = self.behind(wait);
            behind.truncate(ring_from.map_or(usize::MAX, |place| place.max(1)));
            behind
        });
        // Of chains as long, one whose end is named.
        let ends_named =
            |chain: &Vec<u64>| chain.last().is_some_and(|last| self.0[last].holder_pthread_id.is_some());
        Some(End::Chain(of(&chains.max_by_key(|chain| (chain.len(), ends_named(chain))).unwrap_or_default())))
    }

    /// The threads behind which this one waits, itself the first, and the place from which on they are a ring.
    fn behind(&self, from: &SemaphoreWait) -> (Vec<u64>, Option<usize>) {
        let mut seen = vec![from.pthread_id];
        let mut at = from.holder_pthread_id;
        while let Some(holder) = at.filter(|holder| self.0.contains_key(holder)) {
            if let Some(place) = seen.iter().position(|one| *one == holder) {
                return (seen, Some(place));
            }
            seen.push(holder);
            at = self.0[&holder].holder_pthread_id;
        }
        (seen, None)
    }

    /// Of other latches that are wanted for long, one wait each.
    pub(super) fn of_other_latches(&self, shown: &[&'w SemaphoreWait]) -> Vec<&'w SemaphoreWait> {
        let mut others: Vec<&SemaphoreWait> = Vec::new();
        for wait in self.long() {
            if !shown.iter().chain(&others).any(|one| one.address == wait.address) {
                others.push(wait);
            }
        }
        others
    }
}

/// True where the waits of a ring of a live server are of one moment. The list is written thread by thread while latches change hands,
/// so waits that have just begun may be of two. A ring never ends, so its waits grow, and one that stands in two lists is as long as the
/// time between them: the length says all that a second list would. InnoDB counts it as the difference of two clocks of whole seconds
/// (sync0arr.cc, sync_array_cell_print): 1 may be a millisecond, [`NOTE_S`] is more than one second.
fn has_lasted(ring: &[&SemaphoreWait]) -> bool {
    ring.iter().all(|wait| wait.waited_s >= NOTE_S)
}

/// True for a thread that waits for a latch which it has reserved itself, as the text prints it: who waits for readers has the mode
/// `wait exclusive`.
pub(super) fn has_itself(wait: &SemaphoreWait) -> bool {
    wait.holder_pthread_id.is_none()
        && wait.held_mode.as_deref().is_some_and(|mode| mode.trim() == "exclusive")
        && wait.readers == Some(0)
}

/// True for one that has begun to read a page and waits for its end: the latch of a page that is read is taken for the read, in the name
/// of who began it, and given back when the read has ended (buf0buf.cc, buf_wait_for_read).
pub(super) fn reads_its_page(wait: &SemaphoreWait) -> bool {
    has_itself(wait)
        && wait.kind == SemaphoreKind::Shared
        && [&wait.created_file, &wait.at_file].iter().all(|file| file.starts_with("buf0buf"))
}
