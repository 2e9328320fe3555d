//! The roots of a wait graph: threads that are not waiting and block others; and its rings (deadlock cycles), which
//! have no root.
//!
//! Computed from the graph alone, so that a recorded graph gives the same roots.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use spindoctor_model::WaitGraph;
use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitRoot, WaitingThread};

use super::doing::doing;
use super::freeing::freeing;
use super::metadata::TABLE_LEVEL;

/// Who is waited for: a thread, or the unknown owner of something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Held<'a> {
    Thread(u32),
    Unseen(LockKind, &'a str),
}

fn held(edge: &WaitEdge) -> Held<'_> {
    match edge.holder {
        Some(thread) => Held::Thread(thread),
        None => Held::Unseen(edge.kind, &edge.object),
    }
}

/// The roots, those that block the most first. An owner that nobody can see is a root without a thread. What frees those behind it is
/// written as a server takes it that its owner runs.
pub(super) fn roots(graph: &WaitGraph) -> Vec<WaitRoot> {
    let waiters_of = waiters_of(graph);
    let waiting: BTreeSet<u32> = graph.edges.iter().map(|edge| edge.waiter).collect();
    let mut roots: Vec<WaitRoot> = waiters_of
        .iter()
        .filter(|(held, _)| !matches!(held, Held::Thread(thread) if waiting.contains(thread)))
        .map(|(held, edges)| root(graph, held, edges, &waiters_of))
        .collect();
    let connection = |root: &WaitRoot| root.thread.and_then(|at| graph.threads[at as usize].connection_id);
    roots.sort_by_key(|root| {
        let most = (root.waiting_in_all, root.waiting_directly);
        let connection = connection(root);
        (std::cmp::Reverse(most), root.thread.is_none(), connection.is_none(), connection)
    });
    roots
}

fn root(
    graph: &WaitGraph,
    held: &Held<'_>,
    edges: &[&WaitEdge],
    waiters_of: &BTreeMap<Held<'_>, Vec<&WaitEdge>>,
) -> WaitRoot {
    let behind = behind(waiters_of, held);
    let (kind, object) = most_wanted(edges);
    let waited =
        graph.edges.iter().filter(|edge| behind.contains(&edge.waiter)).filter_map(|edge| edge.waited_s);
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let bare = WaitRoot {
        kind,
        object: object.to_owned(),
        waiting_directly: count(edges.iter().map(|edge| edge.waiter).collect::<BTreeSet<_>>().len()),
        waiting_in_all: count(behind.len()),
        longest_wait_s: waited.max_by(f64::total_cmp),
        is_inferred: edges.iter().all(|edge| edge.is_inferred),
        ..WaitRoot::default()
    };
    let Held::Thread(at) = *held else {
        return WaitRoot {
            doing: "held, owner not visible".to_owned(),
            free_note: "who holds it could not be seen".to_owned(),
            is_inferred: false,
            ..bare
        };
    };
    let thread = &graph.threads[at as usize];
    let doing = doing(thread, kind);
    let freeing = freeing(thread, kind, &doing, is_by_name(graph, thread, edges));
    WaitRoot {
        thread: Some(at),
        doing,
        free_with: freeing.statement,
        free_note: freeing.note,
        rows_to_roll_back: freeing.rows,
        ..bare
    }
}

/// True where statements wait for it directly that want no table for themselves, and neither does its own: what a statement or a
/// transaction has of a table keeps out a DDL alone, so that it has locked the table itself, by LOCK TABLES or HANDLER.
fn is_by_name(graph: &WaitGraph, holder: &WaitingThread, edges: &[&WaitEdge]) -> bool {
    let wants_a_table =
        |thread: &WaitingThread| thread.statement.as_deref().map(spindoctor_sql::wants_a_table);
    // An engine without row locks locks the table for each statement.
    let of_tables = edges.iter().filter(|edge| edge.kind == LockKind::Metadata && edge.object != TABLE_LEVEL);
    let mut waiters = of_tables.filter_map(|edge| graph.threads.get(edge.waiter as usize));
    wants_a_table(holder) == Some(false) && waiters.any(|waiter| wants_a_table(waiter) == Some(false))
}

/// The root behind which most threads wait whose own wait is of one of these kinds.
pub(crate) fn root_behind(graph: &WaitGraph, kinds: &[LockKind]) -> Option<WaitRoot> {
    roots_behind(graph, kinds).into_iter().next().map(|(_, root)| root)
}

/// Each root behind which threads wait whose own wait is of one of these kinds, with how many, the most first.
pub(crate) fn roots_behind(graph: &WaitGraph, kinds: &[LockKind]) -> Vec<(usize, WaitRoot)> {
    roots_before(graph, &waiters(graph, kinds))
}

/// The threads whose own wait is of one of these kinds.
pub(super) fn waiters(graph: &WaitGraph, kinds: &[LockKind]) -> BTreeSet<u32> {
    graph.edges.iter().filter(|edge| kinds.contains(&edge.kind)).map(|edge| edge.waiter).collect()
}

/// Each root behind which some of these threads wait, with how many of them, the most first.
pub(crate) fn roots_before(graph: &WaitGraph, such: &BTreeSet<u32>) -> Vec<(usize, WaitRoot)> {
    let waiters_of = waiters_of(graph);
    let behind_it = |root: &WaitRoot| {
        let thread = root.thread.map(Held::Thread).unwrap_or(Held::Unseen(root.kind, &root.object));
        behind(&waiters_of, &thread).intersection(such).count()
    };
    let roots = roots(graph).into_iter().filter(|root| root.thread.is_some());
    let mut counted: Vec<(usize, WaitRoot)> =
        roots.map(|root| (behind_it(&root), root)).filter(|(behind, _)| *behind > 0).collect();
    // Of equals the first stays the first: the one that blocks more of all kinds.
    counted.sort_by_key(|(behind, _)| std::cmp::Reverse(*behind));
    counted
}

fn waiters_of(graph: &WaitGraph) -> BTreeMap<Held<'_>, Vec<&WaitEdge>> {
    let mut waiters_of: BTreeMap<Held<'_>, Vec<&WaitEdge>> = BTreeMap::new();
    for edge in &graph.edges {
        waiters_of.entry(held(edge)).or_default().push(edge);
    }
    waiters_of
}

/// Threads that wait for one, directly or through others; never that one itself.
fn behind(waiters_of: &BTreeMap<Held<'_>, Vec<&WaitEdge>>, from: &Held<'_>) -> BTreeSet<u32> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from.clone()];
    while let Some(held) = next.pop() {
        for edge in waiters_of.get(&held).into_iter().flatten() {
            if *from != Held::Thread(edge.waiter) && seen.insert(edge.waiter) {
                next.push(Held::Thread(edge.waiter));
            }
        }
    }
    seen
}

/// Threads that wait for any of these, directly or through others: those of a ring, for one.
pub fn waiting_behind(graph: &WaitGraph, threads: &[u32]) -> u32 {
    let waiters_of = waiters_of(graph);
    let all: BTreeSet<u32> =
        threads.iter().flat_map(|&thread| behind(&waiters_of, &Held::Thread(thread))).collect();
    let behind = all.iter().filter(|waiter| !threads.contains(waiter)).count();
    u32::try_from(behind).unwrap_or(u32::MAX)
}

/// True where threads wait for these kinds of locks, and each of them stands behind one that waits for one of the other kinds.
pub(crate) fn all_behind(graph: &WaitGraph, kinds: &[LockKind], others: &[LockKind]) -> bool {
    let waiters_of = waiters_of(graph);
    let behind_them: BTreeSet<u32> = waiters(graph, others)
        .iter()
        .flat_map(|&waiter| behind(&waiters_of, &Held::Thread(waiter)))
        .collect();
    let such = waiters(graph, kinds);
    !such.is_empty() && such.is_subset(&behind_them)
}

/// What most of these wait for.
pub(super) fn most_wanted<'a>(edges: &[&'a WaitEdge]) -> (LockKind, &'a str) {
    let mut counts: HashMap<(LockKind, &str), usize> = HashMap::new();
    for edge in edges {
        *counts.entry((edge.kind, &edge.object)).or_default() += 1;
    }
    let most = counts.into_iter().max_by(|(a, most_a), (b, most_b)| most_a.cmp(most_b).then(b.cmp(a)));
    most.map_or((LockKind::default(), ""), |(wanted, _)| wanted)
}

/// The rings: threads that wait for each other, as places in [`WaitGraph::threads`], each ring once.
///
/// A ring is a strongly connected part of the graph (Tarjan, 1972). The server ends those of its own locks within a
/// moment; one that stays goes through locks of different kinds, or its detection is off.
pub fn cycles(graph: &WaitGraph) -> Vec<Vec<u32>> {
    let mut holders_of: Vec<Vec<u32>> = vec![Vec::new(); graph.threads.len()];
    for edge in &graph.edges {
        if let Some(holder) = edge.holder {
            holders_of[edge.waiter as usize].push(holder);
        }
    }
    let mut search = Search {
        holders_of: &holders_of,
        index: vec![None; graph.threads.len()],
        low: vec![0; graph.threads.len()],
        on_stack: vec![false; graph.threads.len()],
        stack: Vec::new(),
        next: 0,
        found: Vec::new(),
    };
    for start in 0..graph.threads.len() {
        if search.index[start].is_none() {
            search.from(start);
        }
    }
    let mut found = search.found;
    found.sort();
    found
}

struct Search<'a> {
    holders_of: &'a [Vec<u32>],
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<u32>>,
}

impl Search<'_> {
    fn enter(&mut self, node: usize) {
        self.index[node] = Some(self.next);
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
    }

    /// Depth first with a stack of its own: a chain of ten thousand waits must not overflow the thread's.
    fn from(&mut self, start: usize) {
        self.enter(start);
        let mut path = vec![(start, 0)];
        while let Some((node, at)) = path.pop() {
            match self.holders_of[node].get(at) {
                Some(&holder) => {
                    path.push((node, at + 1));
                    let holder = holder as usize;
                    match self.index[holder] {
                        None => {
                            self.enter(holder);
                            path.push((holder, 0));
                        }
                        Some(index) if self.on_stack[holder] => self.low[node] = self.low[node].min(index),
                        Some(_) => {}
                    }
                }
                None => {
                    if let Some(&(parent, _)) = path.last() {
                        self.low[parent] = self.low[parent].min(self.low[node]);
                    }
                    if Some(self.low[node]) == self.index[node] {
                        self.close(node);
                    }
                }
            }
        }
    }

    /// Everything above a node on the stack is one part with it.
    fn close(&mut self, node: usize) {
        let mut part = Vec::new();
        while let Some(member) = self.stack.pop() {
            self.on_stack[member] = false;
            part.extend(u32::try_from(member));
            if member == node {
                break;
            }
        }
        let waits_for_itself = || u32::try_from(node).is_ok_and(|own| self.holders_of[node].contains(&own));
        if part.len() > 1 || waits_for_itself() {
            part.sort_unstable();
            self.found.push(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindoctor_model::wait_graph::WaitingThread;

    fn graph(edges: &[(u32, Option<u32>)]) -> WaitGraph {
        let most = edges.iter().flat_map(|&(waiter, holder)| [Some(waiter), holder]).flatten().max().unwrap();
        let thread = |id| WaitingThread { connection_id: Some(u64::from(id)), ..WaitingThread::default() };
        WaitGraph {
            threads: (0..=most).map(thread).collect(),
            edges: edges
                .iter()
                .map(|&(waiter, holder)| WaitEdge {
                    waiter,
                    holder,
                    kind: LockKind::Row,
                    object: "shop.stock".into(),
                    waited_s: Some(f64::from(waiter)),
                    ..WaitEdge::default()
                })
                .collect(),
            ..WaitGraph::default()
        }
    }

    #[test]
    fn the_root_waits_for_nobody_and_holds_up_the_most() {
        // 2 waits for 1, and 3, 4, 5 wait for 2; 7 blocks 6 alone.
        let graph = graph(&[(2, Some(1)), (3, Some(2)), (4, Some(2)), (5, Some(2)), (6, Some(7))]);
        let roots = roots(&graph);
        let waiting: Vec<_> =
            roots.iter().map(|root| (root.thread, root.waiting_directly, root.waiting_in_all)).collect();
        assert_eq!(waiting, [(Some(1), 1, 4), (Some(7), 1, 1)]);
        assert_eq!(roots[0].longest_wait_s, Some(5.0));
        assert!(cycles(&graph).is_empty());
    }

    #[test]
    fn an_owner_that_nobody_can_see_is_a_root_without_a_thread() {
        let roots = roots(&graph(&[(1, None), (2, None), (3, Some(2))]));
        assert_eq!(roots.len(), 1);
        assert_eq!((roots[0].thread, roots[0].waiting_directly, roots[0].waiting_in_all), (None, 2, 3));
        assert_eq!((roots[0].doing.as_str(), roots[0].free_with.as_ref()), ("held, owner not visible", None));
    }

    #[test]
    fn whose_waits_all_stand_behind_another_kind_is_known() {
        let of = |waits: &[(u32, Option<u32>, LockKind)]| {
            let plain: Vec<_> = waits.iter().map(|&(waiter, holder, _)| (waiter, holder)).collect();
            let mut graph = graph(&plain);
            for (edge, &(.., kind)) in graph.edges.iter_mut().zip(waits) {
                edge.kind = kind;
            }
            all_behind(&graph, &[LockKind::Row], &[LockKind::Global, LockKind::Backup])
        };
        // 2 waits for the lock of 1, 3 for a row of 2, and 4 for one of 3.
        let chain =
            [(2, Some(1), LockKind::Backup), (3, Some(2), LockKind::Row), (4, Some(3), LockKind::Row)];
        assert!(of(&chain));
        assert!(!of(&[chain[0], chain[1], (4, Some(5), LockKind::Row)]), "5 waits for nobody");
        assert!(!of(&[chain[0]]), "nobody waits for a row");
    }

    #[test]
    fn a_ring_has_no_root_and_is_found_once_with_those_behind_it() {
        let graph = graph(&[(0, Some(1)), (1, Some(2)), (2, Some(0)), (3, Some(1)), (4, Some(3))]);
        assert_eq!(roots(&graph), []);
        assert_eq!(cycles(&graph), [vec![0, 1, 2]]);
        assert_eq!(waiting_behind(&graph, &[0, 1, 2]), 2);
    }

    #[test]
    fn one_that_waits_for_itself_is_a_ring_and_no_root() {
        let graph = graph(&[(0, Some(0)), (1, Some(0))]);
        assert_eq!(roots(&graph), []);
        assert_eq!(cycles(&graph), [vec![0]]);
        assert_eq!(waiting_behind(&graph, &[0]), 1);
    }

    #[test]
    fn a_chain_of_ten_thousand_waits_has_one_root_and_no_ring() {
        let chain: Vec<_> = (1..10_000).map(|waiter| (waiter, Some(waiter - 1))).collect();
        let graph = graph(&chain);
        let roots = roots(&graph);
        assert_eq!((roots.len(), roots[0].thread, roots[0].waiting_in_all), (1, Some(0), 9_999));
        assert!(cycles(&graph).is_empty());
    }

    #[test]
    fn one_that_waits_for_two_counts_behind_both() {
        let roots = roots(&graph(&[(2, Some(0)), (2, Some(1))]));
        assert_eq!(roots.iter().map(|root| root.waiting_in_all).collect::<Vec<_>>(), [1, 1]);
    }
}
