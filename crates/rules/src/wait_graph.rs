//! Who waits for whom, and the root: the connection that waits for nobody and holds up the most.

use std::collections::{BTreeMap, BTreeSet};

/// Connections that wait, each with those it waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitGraph {
    holders_of: BTreeMap<u64, BTreeSet<u64>>,
}

/// The connection that waits for nobody and holds up the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GraphRoot {
    /// The connection.
    pub(crate) connection_id: u64,
    /// Connections that wait for it directly.
    pub(crate) directly: usize,
    /// Connections that wait for it, directly or through others.
    pub(crate) in_all: usize,
}

impl WaitGraph {
    /// Adds that one connection waits for another; waiting for oneself is not a wait.
    pub(crate) fn add(&mut self, waiter: u64, holder: u64) {
        if waiter != holder {
            self.holders_of.entry(waiter).or_default().insert(holder);
        }
    }

    /// The root that holds up the most, the lowest connection id among equals; None where nobody
    /// waits or all wait in a ring.
    pub(crate) fn root(&self) -> Option<GraphRoot> {
        let mut waiters_of: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (&waiter, holders) in &self.holders_of {
            for &holder in holders {
                waiters_of.entry(holder).or_default().insert(waiter);
            }
        }
        let roots = waiters_of.keys().filter(|holder| !self.holders_of.contains_key(holder));
        let counted = roots.map(|&root| GraphRoot {
            connection_id: root,
            directly: waiters_of[&root].len(),
            in_all: reach(&waiters_of, root),
        });
        counted.max_by_key(|root| (root.in_all, root.directly, std::cmp::Reverse(root.connection_id)))
    }
}

/// How many connections wait for one, directly or through others.
fn reach(waiters_of: &BTreeMap<u64, BTreeSet<u64>>, from: u64) -> usize {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(holder) = next.pop() {
        next.extend(waiters_of.get(&holder).into_iter().flatten().filter(|&&waiter| seen.insert(waiter)));
    }
    seen.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u64, u64)]) -> WaitGraph {
        let mut graph = WaitGraph::default();
        edges.iter().for_each(|&(waiter, holder)| graph.add(waiter, holder));
        graph
    }

    #[test]
    fn the_root_waits_for_nobody_and_holds_up_the_most() {
        // 2 waits for 1, and 3, 4, 5 wait for 2; 7 holds up 6 alone.
        let root = graph(&[(2, 1), (3, 2), (4, 2), (5, 2), (6, 7)]).root().unwrap();
        assert_eq!(root, GraphRoot { connection_id: 1, directly: 1, in_all: 4 });
    }

    #[test]
    fn a_ring_has_no_root() {
        assert_eq!(graph(&[(1, 2), (2, 1)]).root(), None);
        assert_eq!(graph(&[(1, 1)]).root(), None);
    }
}
