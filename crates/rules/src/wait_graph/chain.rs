//! A chain over several locks: the root has what one session waits for, and that session has what most of the others want. And how
//! a finding says it: what the root has is another thing than what the others wait for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitRoot, WaitingThread};
use spindoctor_model::{Remedy, WaitGraph};

use super::metadata::{TABLE_FLUSH, TABLE_LEVEL, names_no_object};
use super::roots::most_wanted;
use super::row::A_ROW;
use super::verdict::Verdict;
use crate::killing::{self, FLUSH_STAYS};
use crate::sessions;

/// What one session has and others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lock {
    /// What kind of lock.
    pub(crate) kind: LockKind,
    /// What is locked, as in [`WaitEdge::object`].
    pub(crate) object: String,
    /// How it is wanted, as in [`WaitEdge::mode`].
    mode: String,
}

impl Lock {
    fn from_edge(edge: &WaitEdge) -> Self {
        Self { kind: edge.kind, object: edge.object.clone(), mode: edge.mode.clone() }
    }

    /// What most of these wait for: where it is named of some, that.
    fn most_of(edges: &[&WaitEdge]) -> Option<Self> {
        let named: Vec<&WaitEdge> = edges.iter().copied().filter(|edge| !is_unnamed(edge)).collect();
        let edges = if named.is_empty() { edges } else { &named };
        let (kind, object) = most_wanted(edges);
        edges.iter().find(|edge| edge.kind == kind && edge.object == object).map(|edge| Self::from_edge(edge))
    }

    /// `a row lock on shop.orders`. A record, and the name that GET_LOCK was given, are data and stay out.
    pub(crate) fn words(&self) -> String {
        let table = self.object.split(' ').next().filter(|table| self.object != A_ROW && !table.is_empty());
        match (self.kind, table) {
            (LockKind::Row, Some(table)) if self.mode.starts_with("AUTO_INC") => {
                format!("the AUTO_INCREMENT lock of {table}")
            }
            (LockKind::Row, Some(table)) => format!("a row lock on {table}"),
            (LockKind::Row, None) => "a row lock".to_owned(),
            (LockKind::Metadata, _) if self.object == TABLE_LEVEL => "the lock on a whole table".to_owned(),
            (LockKind::Metadata, Some(_)) if !names_no_object(&self.object) => {
                format!("the metadata lock of {}", self.object)
            }
            (LockKind::Metadata, _) => "a metadata lock".to_owned(),
            (LockKind::Global, _) if self.is_old_copy() => "the old copy of a table".to_owned(),
            (LockKind::Global, Some(_)) => format!("the {}", self.object),
            (LockKind::User, _) => "a lock of GET_LOCK".to_owned(),
            (LockKind::Latch | LockKind::Mutex, _) => format!("a {}", self.kind.label()),
            (LockKind::RwLock, _) => "an rw-lock".to_owned(),
            (kind, _) => format!("the {}", kind.label()),
        }
    }

    /// True for the copy of a table that a FLUSH or an ANALYZE made old: it is used, and not locked.
    pub(crate) fn is_old_copy(&self) -> bool {
        self.object == TABLE_FLUSH
    }

    fn verb(&self) -> &'static str {
        if self.is_old_copy() { "uses" } else { "holds" }
    }
}

/// Of a chain, the session that has what most of the others want, and itself waits behind the root.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// It: `connection 8`.
    pub(crate) holder: String,
    /// Its connection, where it has one.
    pub(crate) holder_id: Option<u64>,
    /// How many want what it has.
    pub(crate) behind: usize,
    /// What they want.
    pub(crate) wanted: Lock,
    /// Each of them was concluded to wait for it, and not reported.
    pub(crate) is_inferred: bool,
    /// What it waits for itself.
    pub(crate) waits_for: Lock,
    /// Whom it waits for, where that is not the root; and true where that one waits for the root itself.
    pub(crate) next: Option<(String, bool)>,
}

/// What the root has of what some threads wait for: for these threads, or for the session that has what they want.
pub(super) struct Reach {
    /// What it has.
    pub(super) held: Lock,
    /// That was concluded, and not reported.
    pub(super) is_inferred: bool,
    /// Where it is another session that has what most of them want.
    pub(super) chain: Option<Chain>,
}

/// A wait behind the root.
struct Step<'g> {
    edge: &'g WaitEdge,
    /// Who has what it waits for: those that queue for the same stand between.
    holder: u32,
}

/// What the root has of what such threads wait for. None for a root that nobody can see.
pub(super) fn reach(graph: &WaitGraph, root: &WaitRoot, such: &BTreeSet<u32>) -> Option<Reach> {
    let at = root.thread?;
    let steps = steps_behind(graph, at);
    let mut wanted_of: BTreeMap<u32, Vec<&WaitEdge>> = BTreeMap::new();
    for step in such.iter().filter_map(|waiter| steps.get(waiter)) {
        wanted_of.entry(step.holder).or_default().push(step.edge);
    }
    let direct = wanted_of.remove(&at).unwrap_or_default();
    let most = wanted_of.into_iter().max_by_key(|(place, edges)| (edges.len(), Reverse(*place)));
    let chained = most
        .filter(|(_, edges)| edges.len() > direct.len())
        .and_then(|(holder, edges)| through(graph, &steps, at, holder, &edges));
    chained.or_else(|| {
        let bare = || Lock { kind: root.kind, object: root.object.clone(), mode: String::new() };
        Some(Reach {
            held: Lock::most_of(&direct).unwrap_or_else(bare),
            is_inferred: root.is_inferred,
            chain: None,
        })
    })
}

/// Each thread that waits behind this one, by the shortest way to it.
fn steps_behind(graph: &WaitGraph, root: u32) -> HashMap<u32, Step<'_>> {
    let mut waiters_of: HashMap<u32, Vec<&WaitEdge>> = HashMap::new();
    for edge in &graph.edges {
        if let Some(holder) = edge.holder {
            waiters_of.entry(holder).or_default().push(edge);
        }
    }
    let mut steps: HashMap<u32, Step<'_>> = HashMap::new();
    let mut next = VecDeque::from([root]);
    while let Some(at) = next.pop_front() {
        for &edge in waiters_of.get(&at).into_iter().flatten() {
            if edge.waiter == root || steps.contains_key(&edge.waiter) {
                continue;
            }
            let holder = match steps.get(&at) {
                Some(before) if is_one_queue(before.edge, edge) => before.holder,
                _ => at,
            };
            steps.insert(edge.waiter, Step { edge, holder });
            next.push_back(edge.waiter);
        }
    }
    steps
}

/// True where nothing says which row or table it is.
fn is_unnamed(edge: &WaitEdge) -> bool {
    edge.object == A_ROW || names_no_object(&edge.object)
}

/// True where one waits for the same as the one before it: what that one only wants, too. Where a list names nothing, a lock of one
/// kind is taken to be one.
fn is_one_queue(before: &WaitEdge, behind: &WaitEdge) -> bool {
    before.kind == behind.kind && (before.object == behind.object || is_unnamed(before) || is_unnamed(behind))
}

/// The way from who has what most want to the root.
fn through(
    graph: &WaitGraph,
    steps: &HashMap<u32, Step<'_>>,
    root: u32,
    holder: u32,
    edges: &[&WaitEdge],
) -> Option<Reach> {
    let own = steps.get(&holder)?;
    let (mut last, mut between) = (own, Vec::new());
    while let Some(place) = last.edge.holder.filter(|place| *place != root) {
        between.push(place);
        last = steps.get(&place)?;
    }
    let thread = graph.threads.get(holder as usize)?;
    let next = between.first().and_then(|place| graph.threads.get(*place as usize));
    let chain = Chain {
        holder: named(thread),
        holder_id: thread.connection_id,
        behind: edges.len(),
        wanted: Lock::most_of(edges)?,
        is_inferred: edges.iter().all(|edge| edge.is_inferred),
        waits_for: Lock::from_edge(own.edge),
        next: next.map(|thread| (named(thread), between.len() == 1)),
    };
    Some(Reach { held: Lock::from_edge(last.edge), is_inferred: last.edge.is_inferred, chain: Some(chain) })
}

/// `connection 8`
fn named(thread: &WaitingThread) -> String {
    match thread.connection_id {
        Some(id) => format!("connection {id}"),
        None if thread.name.is_empty() => "a thread of the server".to_owned(),
        None => thread.name.clone(),
    }
}

/// How a finding says a chain.
impl Verdict<'_> {
    /// What the sessions want that wait behind it: of a chain the lock of the one between.
    pub(crate) fn wanted(&self) -> &Lock {
        self.chain.as_ref().map_or(&self.held, |chain| &chain.wanted)
    }

    /// `most likely `, where nothing reports that it has what is waited for.
    pub(crate) fn likely(&self) -> &'static str {
        if self.is_a_guess() || self.held_is_inferred { "most likely " } else { "" }
    }

    /// True where that is likely of it, or of a chain of the one between: somebody has to look before it is ended.
    pub(crate) fn is_likely(&self) -> bool {
        !self.likely().is_empty() || self.chain.as_ref().is_some_and(|chain| chain.is_inferred)
    }

    /// `connection 8 holds it and waits for a row lock on shop.orders that connection 7 holds; connection 7 is idle in transaction`,
    /// of what the others want. None where the root itself has that.
    pub(crate) fn chained(&self, is_certain: bool) -> Option<String> {
        let chain = self.chain.as_ref()?;
        let root = format!("connection {}", self.connection_id);
        let of_root = format!("{} that {root} {}", self.held.words(), self.held.verb());
        let waits = match &chain.next {
            None => format!("waits for {of_root}"),
            Some((next, true)) => format!("waits for {next}, which waits for {of_root}"),
            Some((next, false)) => format!("waits for {next}, which waits behind others for {of_root}"),
        };
        let described = self.described();
        let does = match described.statement.is_empty() {
            true => String::new(),
            false => format!("; {root} {}", sessions::doing(&described)),
        };
        let likely = if is_certain { "" } else { "most likely " };
        Some(format!("{} {likely}{} it and {waits}{does}", chain.holder, chain.wanted.verb()))
    }

    /// Who has which lock of a chain, and who goes on when. None where there is none.
    pub(crate) fn why_of_chain(&self) -> Option<String> {
        let chain = self.chain.as_ref()?;
        let (root, holder) = (format!("connection {}", self.connection_id), &chain.holder);
        let for_whom = match &chain.next {
            None => "that".to_owned(),
            Some((next, _)) => format!("{next}, which waits for that"),
        };
        let stays = match [&chain.waits_for, &chain.wanted].iter().any(|lock| lock.is_old_copy()) {
            true => format!(" {FLUSH_STAYS}"),
            false => String::new(),
        };
        Some(format!(
            "The locks make a chain: {root} {} {}, {holder} waits for {for_whom}, and the others wait for {}, which {holder} {}. Once \
             {root} has let go, {holder} goes on, and the others when {holder} lets go.{stays}",
            self.held.verb(),
            self.held.words(),
            chain.wanted.words(),
            chain.wanted.verb()
        ))
    }

    /// Why its end frees the others; `direct` where it has itself what they want.
    pub(crate) fn why_to_end(&self, direct: &str) -> String {
        match &self.chain {
            Some(Chain { holder, .. }) => {
                format!("Then {holder} goes on, and after it the sessions that wait for {holder}.")
            }
            None => direct.to_owned(),
        }
    }

    /// Ending the one between: those behind it are free, and the root keeps what it has. None where no KILL does that.
    pub(crate) fn remedy_between(&self) -> Option<Remedy> {
        let chain = self.chain.as_ref().filter(|chain| !chain.waits_for.is_old_copy())?;
        let id = chain.holder_id.filter(|id| killing::frees(self.server(), *id))?;
        let why = format!(
            "It gives back {}, for which the others wait; connection {} keeps what it has.",
            chain.wanted.words(),
            self.connection_id
        );
        Some(sessions::ending(self.server(), id, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::{roots, waiters};
    use super::*;

    /// Threads by their connections; each wait is waiter, holder, kind and object.
    fn graph(waits: &[(u32, u32, LockKind, &str)]) -> WaitGraph {
        let most = waits.iter().flat_map(|&(waiter, holder, ..)| [waiter, holder]).max().unwrap();
        let thread = |id| WaitingThread { connection_id: Some(u64::from(id)), ..WaitingThread::default() };
        let edge = |&(waiter, holder, kind, object): &(u32, u32, LockKind, &str)| WaitEdge {
            waiter,
            holder: Some(holder),
            kind,
            object: object.to_owned(),
            ..WaitEdge::default()
        };
        WaitGraph {
            threads: (0..=most).map(thread).collect(),
            edges: waits.iter().map(edge).collect(),
            ..WaitGraph::default()
        }
    }

    /// What the first root holds, and of a chain who has what most want, how many want it, and whom that one waits for.
    fn reached(
        waits: &[(u32, u32, LockKind, &str)],
        kind: LockKind,
    ) -> (String, Option<(String, usize, Option<String>)>) {
        let graph = graph(waits);
        let reach = reach(&graph, &roots(&graph)[0], &waiters(&graph, &[kind])).unwrap();
        let chain = reach.chain.map(|chain| (chain.holder, chain.behind, chain.next.map(|(next, _)| next)));
        (reach.held.words(), chain)
    }

    #[test]
    fn who_queues_for_what_the_root_has_waits_for_the_root() {
        // 2 is a DDL that waits, where a list names the table; 3 and 4 stand behind it, and nobody says for what.
        let queue = [
            (2, 1, LockKind::Metadata, "shop.t"),
            (3, 2, LockKind::Metadata, "table metadata lock"),
            (4, 2, LockKind::Metadata, "table metadata lock"),
        ];
        assert_eq!(reached(&queue, LockKind::Metadata), ("the metadata lock of shop.t".to_owned(), None));
    }

    #[test]
    fn another_lock_or_another_object_makes_a_chain_of_one_waiter_even() {
        let row = (2, 1, LockKind::Row, "shop.s PRIMARY record 5");
        let one = [row, (3, 2, LockKind::Metadata, "shop.t")];
        let held = "a row lock on shop.s".to_owned();
        assert_eq!(
            reached(&one, LockKind::Metadata),
            (held.clone(), Some(("connection 2".to_owned(), 1, None)))
        );
        assert_eq!(reached(&one, LockKind::Row), (held, None), "who waits for the row waits for the root");
        let names =
            [(2, 1, LockKind::User, "user lock 'outer'"), (3, 2, LockKind::User, "user lock 'inner'")];
        let more = [names[0], names[1], (4, 2, LockKind::User, "user lock 'inner'")];
        assert_eq!(reached(&names, LockKind::User).1, None, "as many wait for the one as for the other");
        assert_eq!(reached(&more, LockKind::User).1, Some(("connection 2".to_owned(), 2, None)));
    }

    #[test]
    fn of_a_longer_chain_the_way_is_known() {
        let waits = [
            (2, 1, LockKind::Row, "a row"),
            (3, 2, LockKind::Global, TABLE_FLUSH),
            (4, 3, LockKind::Global, "global read lock"),
            (5, 3, LockKind::Global, "global read lock"),
        ];
        let chain = Some(("connection 3".to_owned(), 2, Some("connection 2".to_owned())));
        assert_eq!(reached(&waits, LockKind::Global), ("a row lock".to_owned(), chain));
    }
}
