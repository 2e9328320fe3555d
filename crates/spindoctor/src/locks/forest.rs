//! The wait graph as trees, for views that people read.
//!
//! In: one snapshot of a server. Out: a tree for each root, each ring and each lock whose holder is not visible. A
//! thread appears once, as near to the top as it can: a queue of 500 for one row is 500 children of the row's holder,
//! and not a chain of 500, although each of them waits for all those before it, too.

use std::collections::{HashMap, VecDeque};

use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitRoot};

use spindoctor_sql::digest;

use super::waits::Locks;

/// A root that blocks fewer threads than this, each for a moment, is traffic: two clients that met.
const BRIEF_WAITERS: u32 = 10;
/// A wait of no more than this is a moment, seconds. It is the shortest that clocks of whole seconds can show (MySQL's
/// process list, INNODB_TRX): one that ticks in the middle of a wait of 10 ms makes 1 s of it.
const BRIEF_WAIT_S: f64 = 1.0;

/// The trees of one look, the largest first.
#[derive(Debug)]
pub struct Forest<'a> {
    /// The trees.
    pub trees: Vec<Tree<'a>>,
    nodes: Vec<Node<'a>>,
}

/// A root and all who wait behind it.
#[derive(Debug)]
pub struct Tree<'a> {
    /// What stands at its top.
    pub top: Top<'a>,
    /// Who waits for that: places in the forest.
    pub children: Vec<usize>,
    /// Threads behind it, directly and through others.
    pub behind: u32,
}

/// What stands at the top of a tree.
#[derive(Debug, Clone, PartialEq)]
pub enum Top<'a> {
    /// A thread that is not waiting.
    Root(&'a WaitRoot),
    /// A lock whose holder is not visible.
    Unseen {
        /// What kind of lock.
        kind: LockKind,
        /// What is locked.
        object: &'a str,
    },
    /// Threads that wait for each other in a ring, each with the edge to the next.
    Ring(Vec<(u32, Option<&'a WaitEdge>)>),
}

/// A thread that waits, in its place.
#[derive(Debug)]
pub struct Node<'a> {
    /// Place in the graph's threads.
    pub thread: u32,
    /// What it waits for.
    pub edge: &'a WaitEdge,
    /// Who waits for it: places in the forest.
    pub children: Vec<usize>,
    /// Threads behind it.
    pub behind: u32,
    /// True where it stands in an earlier tree already, with all that is behind it.
    pub is_repeated: bool,
}

/// Siblings that look alike: they wait for the same lock.
#[derive(Debug)]
pub struct Group {
    /// Places in the forest, the longest wait first.
    pub members: Vec<usize>,
}

impl<'a> Forest<'a> {
    /// The trees of a look.
    pub fn from_locks(locks: &'a Locks) -> Self {
        let mut builder = Builder::new(locks);
        let unseen_root = |root: &&WaitRoot| root.thread.is_none();
        for root in locks.roots.iter().filter(|root| !unseen_root(root)) {
            builder.tree(Top::Root(root), &root.thread.into_iter().collect::<Vec<_>>(), &[]);
        }
        for cycle in &locks.cycles {
            builder.ring(cycle);
        }
        for root in locks.roots.iter().filter(unseen_root) {
            let edges = builder.unseen.remove(&(root.kind, root.object.as_str())).unwrap_or_default();
            builder.tree(Top::Root(root), &[], &edges);
        }
        let mut unseen: Vec<_> = std::mem::take(&mut builder.unseen).into_iter().collect();
        unseen.sort_by_key(|((kind, object), edges)| (std::cmp::Reverse(edges.len()), *kind, *object));
        for ((kind, object), edges) in unseen {
            builder.tree(Top::Unseen { kind, object }, &[], &edges);
        }
        let mut forest = Self { trees: builder.trees, nodes: builder.nodes };
        forest.trees.sort_by_key(|tree| std::cmp::Reverse(tree.behind));
        forest
    }

    /// The longest wait for the top of a tree, seconds; None where no source shows it.
    pub fn longest_wait_s(&self, tree: &Tree<'_>) -> Option<f64> {
        let within = match &tree.top {
            Top::Ring(members) => {
                members.iter().filter_map(|(_, edge)| (*edge)?.waited_s).max_by(f64::total_cmp)
            }
            Top::Root(root) => root.longest_wait_s,
            Top::Unseen { .. } => None,
        };
        let behind = self.waited_s(&tree.children).map(|(_, longest)| longest);
        within.filter(|waited_s| waited_s.is_finite()).into_iter().chain(behind).max_by(f64::total_cmp)
    }

    /// True where few are blocked, each for a moment, as happens all the time on a busy server. Commits wait for each
    /// other in any number: the queue is there so that many of them need one sync.
    pub fn is_brief(&self, locks: &Locks, tree: &Tree<'_>) -> bool {
        match &tree.top {
            Top::Ring(_) => return false,
            // Who rests and holds a lock gives it back when a client wants to: nothing says that this is soon.
            Top::Root(root) if root.doing.starts_with("idle") => return false,
            Top::Root(_) | Top::Unseen { .. } => {}
        }
        // No wait is older than the statement that waits. Where neither is known, the wait may be of any length.
        let is_moment = |child: &usize| {
            let Node { edge, thread, .. } = &self.nodes[*child];
            let statement_s =
                || locks.thread(*thread).filter(|thread| thread.connection_id.is_some())?.since_s;
            edge.waited_s.or_else(statement_s).is_some_and(|waited_s| waited_s <= BRIEF_WAIT_S)
        };
        let are_commits = |child: &usize| self.nodes[*child].edge.kind == LockKind::CommitQueue;
        (tree.behind < BRIEF_WAITERS || tree.children.iter().all(are_commits))
            && tree.children.iter().all(is_moment)
            && self.longest_wait_s(tree).is_none_or(|waited_s| waited_s <= BRIEF_WAIT_S)
    }

    /// The node at a place.
    pub fn node(&self, at: usize) -> &Node<'a> {
        &self.nodes[at]
    }

    /// Siblings sorted into groups, the largest first.
    pub fn groups(&self, locks: &Locks, siblings: &[usize]) -> Vec<Group> {
        let mut places: HashMap<GroupKey<'a>, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for &at in siblings {
            let node = &self.nodes[at];
            let is_client = locks.thread(node.thread).is_some_and(|thread| thread.connection_id.is_some());
            let key = GroupKey {
                kind: node.edge.kind,
                object: without_record(&node.edge.object),
                wanted_in: &node.edge.wanted_in,
                holds_up_others: node.behind > 0,
                is_repeated: node.is_repeated,
                is_client,
            };
            let place = *places.entry(key).or_insert_with(|| {
                groups.push(Group { members: Vec::new() });
                groups.len() - 1
            });
            groups[place].members.push(at);
        }
        for group in &mut groups {
            group.members.sort_by(|a, b| {
                let (a, b) = (&self.nodes[*a], &self.nodes[*b]);
                let waited = |node: &Node<'_>| node.edge.waited_s.unwrap_or(-1.0);
                b.behind.cmp(&a.behind).then(waited(b).total_cmp(&waited(a))).then(a.thread.cmp(&b.thread))
            });
        }
        groups.sort_by_key(|group| std::cmp::Reverse(self.size(&group.members)));
        groups
    }

    /// True where the threads at these places run the same statement, but for its literals.
    pub fn are_of_one_statement(&self, locks: &Locks, places: &[usize]) -> bool {
        let shape = |at: &usize| {
            let statement = locks.thread(self.nodes[*at].thread)?.statement.as_deref()?;
            Some(digest(statement))
        };
        let mut shapes = places.iter().map(shape);
        let first = shapes.next();
        shapes.all(|other| Some(other) == first)
    }

    /// Threads at these places and behind them.
    pub fn size(&self, places: &[usize]) -> u32 {
        places.iter().map(|at| 1 + self.nodes[*at].behind).sum()
    }

    /// The shortest and the longest wait at these places, seconds; None where no source shows it.
    pub fn waited_s(&self, places: &[usize]) -> Option<(f64, f64)> {
        let text = |at: &usize| self.nodes[*at].edge.waited_s.filter(|waited_s| waited_s.is_finite());
        let waits = || places.iter().filter_map(text);
        Some((waits().min_by(f64::total_cmp)?, waits().max_by(f64::total_cmp)?))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GroupKey<'a> {
    kind: LockKind,
    object: &'a str,
    wanted_in: &'a str,
    holds_up_others: bool,
    is_repeated: bool,
    is_client: bool,
}

/// `sbtest.sbtest1 PRIMARY` of `sbtest.sbtest1 PRIMARY record 5`: rows of one index are alike.
fn without_record(object: &str) -> &str {
    object.split_once(" record ").map_or(object, |(index, _)| index)
}

struct Builder<'a> {
    edges: &'a [WaitEdge],
    /// Edges to each holder, by its place in the graph's threads.
    of_holder: Vec<Vec<usize>>,
    /// Edges to nobody who can be seen, by their lock.
    unseen: HashMap<(LockKind, &'a str), Vec<usize>>,
    /// For each thread, the tree that it stands in.
    placed: Vec<Option<usize>>,
    trees: Vec<Tree<'a>>,
    nodes: Vec<Node<'a>>,
}

impl<'a> Builder<'a> {
    fn new(locks: &'a Locks) -> Self {
        let threads = locks.graph.threads.len();
        let edges = &locks.graph.edges;
        let mut of_holder = vec![Vec::new(); threads];
        let mut unseen: HashMap<(LockKind, &str), Vec<usize>> = HashMap::new();
        for (at, edge) in edges.iter().enumerate().filter(|(_, edge)| (edge.waiter as usize) < threads) {
            match edge.holder {
                Some(holder) if (holder as usize) < threads => of_holder[holder as usize].push(at),
                Some(_) => {}
                None => unseen.entry((edge.kind, edge.object.as_str())).or_default().push(at),
            }
        }
        Self { edges, of_holder, unseen, placed: vec![None; threads], trees: Vec::new(), nodes: Vec::new() }
    }

    fn ring(&mut self, cycle: &[u32]) {
        let members: Vec<u32> =
            cycle.iter().copied().filter(|place| (*place as usize) < self.placed.len()).collect();
        let with_edges = members
            .iter()
            .enumerate()
            .map(|(at, &member)| {
                let next = members[(at + 1) % members.len()];
                let edge = self.of_holder[next as usize]
                    .iter()
                    .map(|&edge| &self.edges[edge])
                    .find(|edge| edge.waiter == member);
                (member, edge)
            })
            .collect();
        self.tree(Top::Ring(with_edges), &members, &[]);
    }

    /// Adds a tree: the threads that wait for these threads or are at the end of these edges, and all behind them.
    fn tree(&mut self, top: Top<'a>, tops: &[u32], edges: &[usize]) {
        let number = self.trees.len();
        let first = self.nodes.len();
        for &place in tops {
            if let Some(placed) = self.placed.get_mut(place as usize) {
                *placed = Some(number);
            }
        }
        let mut children = Vec::new();
        let mut next: VecDeque<(Option<usize>, usize)> = edges.iter().map(|&edge| (None, edge)).collect();
        let held = |place: &u32| self.of_holder.get(*place as usize).cloned().unwrap_or_default();
        next.extend(tops.iter().flat_map(held).map(|edge| (None, edge)));
        while let Some((parent, at)) = next.pop_front() {
            let edge = &self.edges[at];
            let place = edge.waiter as usize;
            if self.placed[place] == Some(number) {
                continue;
            }
            let is_repeated = self.placed[place].is_some();
            let node = self.nodes.len();
            self.nodes.push(Node { thread: edge.waiter, edge, children: Vec::new(), behind: 0, is_repeated });
            match parent {
                Some(parent) => self.nodes[parent].children.push(node),
                None => children.push(node),
            }
            if !is_repeated {
                self.placed[place] = Some(number);
                next.extend(self.of_holder[place].iter().map(|&edge| (Some(node), edge)));
            }
        }
        // Children stand behind their parents.
        for at in (first..self.nodes.len()).rev() {
            let behind = self.nodes[at].children.iter().map(|child| 1 + self.nodes[*child].behind).sum();
            self.nodes[at].behind = behind;
        }
        let counted: u32 = children.iter().map(|child| 1 + self.nodes[*child].behind).sum();
        let behind = match &top {
            Top::Root(root) => root.waiting_in_all.max(counted),
            Top::Unseen { .. } | Top::Ring(_) => counted,
        };
        self.trees.push(Tree { top, children, behind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::locks::examples;

    #[test]
    fn a_queue_is_children_of_the_holder_and_not_a_chain() {
        let locks = examples::row_pileup();
        let forest = Forest::from_locks(&locks);
        assert_eq!(forest.trees.len(), 1);
        assert_eq!(forest.trees[0].children.len(), 500);
        assert_eq!(forest.trees[0].behind, 500);
        let groups = forest.groups(&locks, &forest.trees[0].children);
        assert_eq!(groups.len(), 1, "they are all alike");
    }

    #[test]
    fn a_chain_counts_what_is_behind_each_of_its_members() {
        let locks = examples::chain();
        let forest = Forest::from_locks(&locks);
        let tree = &forest.trees[0];
        assert_eq!((tree.children.len(), tree.behind), (1, 201));
        let alter = forest.node(tree.children[0]);
        assert_eq!((alter.children.len(), alter.behind), (200, 200));
    }

    #[test]
    fn every_thread_that_waits_stands_in_some_tree() {
        for (name, locks) in examples::all() {
            let forest = Forest::from_locks(&locks);
            let in_rings = forest.trees.iter().flat_map(|tree| match &tree.top {
                Top::Ring(members) => members.iter().map(|(member, _)| *member).collect(),
                _ => Vec::new(),
            });
            let mut placed: Vec<u32> = forest.nodes.iter().map(|node| node.thread).chain(in_rings).collect();
            placed.sort_unstable();
            placed.dedup();
            assert_eq!(placed.len(), locks.waiting(), "{name}");
        }
    }

    #[test]
    fn who_waits_for_two_roots_stands_with_the_first_and_is_named_with_the_second() {
        let locks = examples::two_roots();
        let forest = Forest::from_locks(&locks);
        assert_eq!(forest.trees.len(), 2);
        let repeated: Vec<bool> = forest
            .trees
            .iter()
            .map(|tree| tree.children.iter().any(|child| forest.node(*child).is_repeated))
            .collect();
        assert_eq!(repeated, [false, true]);
    }

    #[test]
    fn commits_that_wait_for_one_sync_are_traffic_until_the_sync_takes_long() {
        for (since_s, is_brief) in [(Some(0.0), true), (Some(1.0), true), (Some(30.0), false), (None, false)]
        {
            let locks = examples::group_commit(since_s);
            let forest = Forest::from_locks(&locks);
            assert_eq!(forest.is_brief(&locks, &forest.trees[0]), is_brief, "{since_s:?}");
        }
    }

    #[test]
    fn few_that_wait_for_a_moment_are_traffic_and_a_ring_never_is() {
        let brief = |locks: &Locks| {
            let forest = Forest::from_locks(locks);
            forest.trees.iter().all(|tree| forest.is_brief(locks, tree))
        };
        assert!(brief(&examples::busy()));
        let mut behind_an_idle_transaction = examples::busy();
        for root in &mut behind_an_idle_transaction.roots {
            root.doing = "idle in transaction".to_owned();
        }
        assert!(!brief(&behind_an_idle_transaction), "nobody knows when it ends");
        assert!(!brief(&examples::ring()) && !brief(&examples::two_roots()) && !brief(&examples::mutexes()));
    }

    #[test]
    fn a_graph_of_nonsense_gives_no_tree_and_no_panic() {
        let mut locks = examples::chain();
        locks.graph.threads.truncate(1);
        locks.cycles = vec![vec![], vec![7, 9]];
        locks.roots[0].thread = Some(77);
        assert!(Forest::from_locks(&locks).trees.iter().all(|tree| tree.children.is_empty()));
    }
}
