//! The events to come, the next one first: a heap with four children at each place, so that few lines of the cache are
//! touched. Events of the same time come in an order that depends on the events alone.

/// Something that will happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// When, nanoseconds.
    pub(crate) at: u64,
    /// To what.
    pub(crate) to: u32,
    /// It no longer happens where that has another turn by then.
    pub(crate) turn: u32,
}

/// The events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue(Vec<Event>);

impl Queue {
    pub(crate) fn push(&mut self, event: Event) {
        let heap = &mut self.0;
        let mut at = heap.len();
        heap.push(event);
        while at > 0 {
            let above = (at - 1) / 4;
            if heap[above] <= event {
                break;
            }
            heap[at] = heap[above];
            at = above;
        }
        heap[at] = event;
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let heap = &mut self.0;
        let last = heap.pop()?;
        let Some(&first) = heap.first() else { return Some(last) };
        let mut at = 0;
        loop {
            let begin = at * 4 + 1;
            let end = (begin + 4).min(heap.len());
            if begin >= end {
                break;
            }
            let mut least = begin;
            for child in begin + 1..end {
                if heap[child] < heap[least] {
                    least = child;
                }
            }
            if heap[least] >= last {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = last;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_in_the_order_of_their_times(times in proptest::collection::vec(any::<u64>(), 0..200)) {
            let mut queue = Queue::default();
            for (to, &at) in times.iter().enumerate() {
                queue.push(Event { at, to: to as u32, turn: 0 });
            }
            let came: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|event| event.at).collect();
            let mut sorted = times;
            sorted.sort_unstable();
            prop_assert_eq!(came, sorted);
        }
    }
}
