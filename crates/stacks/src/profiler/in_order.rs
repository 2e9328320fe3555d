//! What is known of each thread, stored in the order in which every snapshot asks for them.
//!
//! In: thread ids. Out: what is kept under them. A snapshot goes over every thread, most of which did nothing since the
//! snapshot before: cache misses take most of the time. Entries that lie in the order of the snapshots let the
//! processor read ahead.

use rustc_hash::FxHashMap;

/// Values by thread id.
#[derive(Debug)]
pub(super) struct InOrder<T> {
    list: Vec<(u32, T)>,
    places: FxHashMap<u32, usize>,
    /// Behind the one that was asked for last.
    next: usize,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { list: Vec::new(), places: FxHashMap::default(), next: 0 }
    }
}

impl<T> InOrder<T> {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn get(&self, tid: u32) -> Option<&T> {
        self.places.get(&tid).map(|&place| &self.list[place].1)
    }

    /// The value of a thread, a new one where there is none.
    pub(super) fn get_or_insert_with(&mut self, tid: u32, new: impl FnOnce() -> T) -> &mut T {
        let place = match self.list.get(self.next) {
            Some((next, _)) if *next == tid => self.next,
            _ => *self.places.entry(tid).or_insert_with(|| {
                self.list.push((tid, new()));
                self.list.len() - 1
            }),
        };
        self.next = place + 1;
        &mut self.list[place].1
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.list.iter_mut().map(|(_, value)| value)
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.list.retain(|(_, value)| is_kept(value));
        self.places = self.list.iter().map(|(tid, _)| *tid).zip(0..).collect();
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_value_in_any_order_and_after_some_are_gone() {
        let mut threads = InOrder::default();
        for tid in [5, 3, 9] {
            *threads.get_or_insert_with(tid, || 0) += tid;
        }
        for tid in [5, 3, 9, 9, 3, 4] {
            *threads.get_or_insert_with(tid, || 100) += 1;
        }
        let all = |threads: &InOrder<u32>| [3, 4, 5, 9].map(|tid| threads.get(tid).copied());
        assert_eq!(all(&threads), [Some(5), Some(101), Some(6), Some(11)]);

        threads.retain(|&value| value != 5);
        assert_eq!((threads.len(), all(&threads)), (3, [None, Some(101), Some(6), Some(11)]));
        assert_eq!(*threads.get_or_insert_with(9, || 0), 11);
        assert_eq!(*threads.get_or_insert_with(3, || 7), 7);
        threads.values_mut().for_each(|value| *value = 1);
        assert_eq!(all(&threads), [Some(1); 4]);
    }
}
