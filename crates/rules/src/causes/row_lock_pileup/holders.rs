//! Who has the lock, and whether the same one stays.

use spindoctor_model::Window;
use spindoctor_model::wait_graph::LockKind;

use super::queue::Queue;
use crate::wait_graph::Verdict;

/// Holders that stay the root in half of the samples are one holder and not a hot row.
const SAME_HOLDER: f64 = 0.5;

/// Who blocks so many is named beside the first: of fewer there are always some. Chosen.
const BEHIND_ANOTHER: usize = 3;

/// How many are named beside the first.
const OTHERS: usize = 3;

/// The connections behind which the sessions wait, and which do not wait themselves.
pub(super) struct Holders<'w> {
    /// Of each sample that names some: each with how many wait behind it, the most first.
    roots: Vec<Vec<(usize, Verdict<'w>)>>,
    /// Of one list, as somebody captured it, the length of the wait shows that the holder stays.
    is_long_in_one_list: bool,
}

impl<'w> Holders<'w> {
    pub(super) fn from_queue(window: &'w Window, queue: &Queue<'w>) -> Self {
        let each = queue.samples.iter().map(|sample| Verdict::all(window, sample, &[LockKind::Row]));
        Self {
            roots: each.filter(|roots| !roots.is_empty()).collect(),
            is_long_in_one_list: queue.samples.len() == 1 && queue.is_long,
        }
    }

    /// The one behind which most wait in the last of the samples that name some.
    pub(super) fn latest(&self) -> Option<&Verdict<'w>> {
        self.roots.last()?.first().map(|(_, root)| root)
    }

    /// The same, where it is one holder and not a hot row.
    pub(super) fn one(&self) -> Option<&Verdict<'w>> {
        self.latest().filter(|root| self.stays(root))
    }

    /// Others that stay hold rows of their own, and a session that wants these waits on when the first is gone.
    pub(super) fn others(&self) -> Vec<&(usize, Verdict<'w>)> {
        let is_one = self.one().is_some();
        let of_end = self.roots.last().into_iter().flatten().skip(1).filter(|_| is_one);
        of_end.filter(|(behind, root)| *behind >= BEHIND_ANOTHER && self.stays(root)).take(OTHERS).collect()
    }

    /// How many wait behind it at the most: at its end one lets go of them one by one.
    pub(super) fn held_up(&self, root: &Verdict<'_>) -> usize {
        let behind =
            self.roots.iter().flatten().filter(|other| is_of(root, other)).map(|(behind, _)| *behind);
        behind.max().unwrap_or(0)
    }

    fn stays(&self, root: &Verdict<'_>) -> bool {
        let same = self.roots.iter().filter(|roots| roots.iter().any(|other| is_of(root, other))).count();
        self.is_long_in_one_list
            || self.roots.len() >= 2 && same as f64 >= SAME_HOLDER * self.roots.len() as f64
    }
}

fn is_of(root: &Verdict<'_>, (_, other): &(usize, Verdict<'_>)) -> bool {
    other.connection_id == root.connection_id
}
