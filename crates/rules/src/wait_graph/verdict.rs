//! The wait graph for a rule: the root behind the threads that wait for locks of some kinds, as a finding needs it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerSample, ServerThread, Transaction};
use spindoctor_model::wait_graph::{LockKind, WaitRoot, WaitingThread};
use spindoctor_model::{Remedy, Root, Sample, WaitGraph, Window};

use super::chain::{Chain, Lock, reach};
use super::doing::ROLLING_BACK;
use super::metadata::lock_name;
use super::roots::{root_behind, roots_before, roots_behind, waiters};
use super::{Readings, build};
use crate::{killing, replica, sessions};

/// Samples of which one connection is the root before that is no chance. Chosen.
const AGAIN: usize = 3;

/// The root of waits of some kinds in one sample.
#[derive(Debug, Clone)]
pub(crate) struct Verdict<'a> {
    sample: &'a Sample,
    /// Its connection.
    pub(crate) connection_id: u64,
    /// How it stands in the graph.
    pub(crate) root: WaitRoot,
    /// What it has: what those wait for that it was asked for, or of a chain the one between.
    pub(crate) held: Lock,
    /// That it has it was concluded from other readings, and not reported.
    pub(crate) held_is_inferred: bool,
    /// Where another session has what most of them want, and waits for this one.
    pub(crate) chain: Option<Chain>,
    thread: WaitingThread,
}

impl<'a> Verdict<'a> {
    /// The connection behind which most of those wait that wait for these kinds of locks.
    pub(crate) fn from_window(window: &'a Window, sample: &'a Sample, kinds: &[LockKind]) -> Option<Self> {
        let graph = graph(window, sample);
        Self::from_root(&graph, sample, root_behind(&graph, kinds)?, &waiters(&graph, kinds))
    }

    /// Each connection behind which sessions wait for these kinds of locks, with how many, the most first.
    pub(crate) fn all(window: &'a Window, sample: &'a Sample, kinds: &[LockKind]) -> Vec<(usize, Self)> {
        let graph = graph(window, sample);
        let such = waiters(&graph, kinds);
        let roots = roots_behind(&graph, kinds).into_iter();
        roots
            .filter_map(|(behind, root)| Some((behind, Self::from_root(&graph, sample, root, &such)?)))
            .collect()
    }

    /// The session, no such thread itself, behind which most of such threads wait for what it holds of these kinds.
    pub(crate) fn before(
        window: &'a Window,
        sample: &'a Sample,
        kinds: &[LockKind],
        such: impl Fn(&ServerThread) -> bool,
    ) -> Option<Self> {
        let graph = graph(window, sample);
        let listed = |id: Option<u64>| sessions::session(&sample.server, id?);
        let waiting =
            (0..).zip(&graph.threads).filter(|(_, thread)| listed(thread.connection_id).is_some_and(&such));
        let waiting: BTreeSet<u32> = waiting.map(|(at, _)| at).collect();
        let for_locks: BTreeSet<u32> = waiters(&graph, kinds).intersection(&waiting).copied().collect();
        let is_session = |root: &Self| {
            kinds.contains(&root.root.kind)
                && listed(Some(root.connection_id))
                    .is_some_and(|thread| thread.is_connection && !such(thread))
        };
        let roots = roots_before(&graph, &waiting).into_iter();
        // Of a chain of such threads the first is as good as the others.
        let is_one_of_them =
            |chain: &Chain| chain.holder_id.and_then(|id| listed(Some(id))).is_some_and(&such);
        let apart = |verdict: Self| Self {
            chain: verdict.chain.clone().filter(|chain| !is_one_of_them(chain)),
            ..verdict
        };
        roots
            .filter_map(|(_, root)| Self::from_root(&graph, sample, root, &for_locks))
            .find(is_session)
            .map(apart)
    }

    /// `such` are the threads that it was asked for.
    fn from_root(
        graph: &WaitGraph,
        sample: &'a Sample,
        root: WaitRoot,
        such: &BTreeSet<u32>,
    ) -> Option<Self> {
        let thread = graph.threads.get(root.thread? as usize)?.clone();
        let reach = reach(graph, &root, such)?;
        Some(Self {
            sample,
            connection_id: thread.connection_id?,
            held: reach.held,
            held_is_inferred: reach.is_inferred,
            chain: reach.chain,
            root,
            thread,
        })
    }

    /// The server in the sample that shows it.
    pub(super) fn server(&self) -> &'a ServerSample {
        &self.sample.server
    }

    /// The root of the most of the samples in which sessions wait as `waits` says, of those connections that are still there in the
    /// last of these, with the last sample that shows it: what runs again and again waits for an instant itself, and at such an
    /// instant another is the root. Without one, the last sample in which they wait.
    pub(crate) fn from_most_samples(
        window: &'a Window,
        kinds: &[LockKind],
        waits: impl Fn(&ServerThread) -> bool,
    ) -> (&'a Sample, Option<Self>) {
        let waiting = in_which_they_wait(window, waits);
        let last = waiting.last().copied().or(window.samples.last()).unwrap_or(&window.samples[0]);
        let mut roots = Self::of_each(window, kinds, &waiting);
        roots.retain(|&id, _| sessions::session(&last.server, id).is_some());
        match roots.into_values().max_by_key(|&(times, at, _)| (times, at)) {
            Some((_, at, root)) => (waiting[at], Some(root)),
            None => (last, None),
        }
    }

    /// The connection that is the root in half of the samples in which sessions wait as `waits` says: it has what they want again and
    /// again, though never for long. None of a few samples, in which that is chance.
    pub(crate) fn again_and_again(
        window: &'a Window,
        kinds: &[LockKind],
        waits: impl Fn(&ServerThread) -> bool,
    ) -> Option<Self> {
        let waiting = in_which_they_wait(window, waits);
        let roots = Self::of_each(window, kinds, &waiting).into_values();
        let (times, _, root) = roots.max_by_key(|&(times, at, _)| (times, at))?;
        (times >= AGAIN && times * 2 >= waiting.len()).then_some(root)
    }

    /// The roots of these samples by their connections: of how many each is the root, the last of them, and how it stands there.
    fn of_each(
        window: &'a Window,
        kinds: &[LockKind],
        samples: &[&'a Sample],
    ) -> BTreeMap<u64, (usize, usize, Self)> {
        let mut roots: BTreeMap<u64, (usize, usize, Self)> = BTreeMap::new();
        for (at, sample) in samples.iter().enumerate() {
            let Some(root) = Self::from_window(window, sample, kinds) else { continue };
            let times = roots.get(&root.connection_id).map_or(0, |(times, ..)| *times);
            roots.insert(root.connection_id, (times + 1, at, root));
        }
        roots
    }

    /// How it stands in a report.
    pub(crate) fn described(&self) -> Root {
        described(&self.thread, &self.root)
    }

    /// Its transaction, where a statement of its is at work in it.
    pub(crate) fn works_in(&self) -> Option<&Transaction> {
        let server = &self.sample.server;
        let runs = |thread: &ServerThread| {
            thread.command != "Sleep" && thread.statement.as_deref().is_some_and(|text| !text.is_empty())
        };
        let is_at_work = sessions::session(server, self.connection_id).is_some_and(runs);
        sessions::transaction(server, self.connection_id).filter(|_| is_at_work)
    }

    /// True where nothing shows what it holds: neither a list of locks nor a statement of its, but that it was there before the
    /// others began to wait.
    pub(crate) fn is_a_guess(&self) -> bool {
        let server = &self.sample.server;
        let rests = sessions::session(server, self.connection_id)
            .is_some_and(|thread| thread.command == "Sleep" && server.last_statement(thread).is_none());
        let dumps = sessions::session(server, self.connection_id)
            .is_some_and(|thread| thread.statement.as_deref().is_some_and(spindoctor_sql::is_of_dump));
        let is_by_state = match self.root.kind {
            LockKind::Global | LockKind::Backup | LockKind::User => rests || dumps,
            // A statement at work names its tables.
            LockKind::Metadata => rests,
            _ => false,
        };
        is_by_state && self.root.is_inferred && server.metadata_locks.value().is_none()
    }

    /// True for one that was concluded, and that the list of sessions does not have.
    pub(crate) fn is_unlisted(&self) -> bool {
        self.held_is_inferred && killing::is_unlisted(&self.sample.server, self.connection_id)
    }

    /// What takes the place of a KILL of a replica's applier.
    pub(crate) fn stop_applier(&self, window: &Window) -> Option<Remedy> {
        replica::stop_applier(window, sessions::session(&self.sample.server, self.connection_id)?)
    }

    /// Ending what it does, with what that costs; none where no statement would, or where nothing but a list of another moment has who
    /// was concluded.
    pub(crate) fn remedy(&self, why: &str) -> Option<Remedy> {
        if self.is_unlisted() {
            return None;
        }
        let statement = self.root.free_with.clone()?;
        let ending = sessions::ending(&self.sample.server, self.connection_id, why);
        let risk = if statement.starts_with("KILL QUERY") {
            "Its statement ends with error 1317, and what that has changed is rolled back; its connection stays.".to_owned()
        } else {
            ending.risk
        };
        Some(Remedy { statement, risk, ..ending })
    }
}

/// The samples in which a session at work waits so.
fn in_which_they_wait(window: &Window, waits: impl Fn(&ServerThread) -> bool) -> Vec<&Sample> {
    let someone_waits = |sample: &&Sample| {
        sample.server.threads.value().is_some_and(|list| sessions::at_work(list).any(&waits))
    };
    window.samples.iter().filter(someone_waits).collect()
}

fn described(thread: &WaitingThread, root: &WaitRoot) -> Root {
    let is_idle = root.doing.starts_with("idle");
    let statement = match &thread.statement {
        // `idle, holding tables` where there is no transaction: LOCK TABLES, HANDLER, GET_LOCK.
        _ if is_idle || root.doing == ROLLING_BACK => root.doing.clone(),
        Some(statement) => statement.clone(),
        None => String::new(),
    };
    Root {
        thread_os_id: thread.thread_os_id,
        connection_id: thread.connection_id,
        user: thread.user.clone(),
        statement,
        // Who rests stands where every session waits for its client's next statement: that says nothing.
        stack: if is_idle { Vec::new() } else { thread.stack.clone() },
    }
}

/// The thread, of the server itself or of a client, behind which two or more wait at the window's end that wait for these
/// kinds of locks.
pub(crate) fn root_at_the_end(window: &Window, kinds: &[LockKind]) -> Option<Root> {
    let graph = graph(window, window.samples.last()?);
    let root = root_behind(&graph, kinds).filter(|root| root.waiting_in_all > 1)?;
    Some(described(graph.threads.get(root.thread? as usize)?, &root))
}

/// The transaction without a connection behind which most of those wait that wait for these kinds of locks: prepared by XA,
/// or rolled back by InnoDB after its connection was lost.
pub(crate) fn without_connection(window: &Window, sample: &Sample, kinds: &[LockKind]) -> Option<WaitRoot> {
    let graph = graph(window, sample);
    let root = root_behind(&graph, kinds)?;
    let thread = graph.threads.get(root.thread? as usize)?;
    // A list in which nobody has a connection was given without them: it says nothing of the holder's.
    let has_connections = graph.threads.iter().any(|thread| thread.connection_id.is_some());
    (has_connections && thread.connection_id.is_none() && thread.name.starts_with("transaction "))
        .then_some(root)
}

/// The owner of the lock behind which most of those wait that wait for these kinds of locks, by performance_schema's number of its
/// thread, where a list of metadata locks has that and no connection. None where it may be one of several.
pub(crate) fn owner_by_number(window: &Window, sample: &Sample, kinds: &[LockKind]) -> Option<u64> {
    let graph = graph(window, sample);
    let root = root_behind(&graph, kinds)?;
    if graph.threads.get(root.thread? as usize)?.connection_id.is_some() {
        return None;
    }
    let locks = || sample.server.metadata_locks.value().into_iter().flatten();
    let waits = |id: u64| locks().any(|lock| !lock.granted && lock.owner_internal_id == Some(id));
    let owner = |lock: &MetadataLock| {
        let is_of_it = lock.granted && lock.owner_connection_id.is_none() && lock_name(lock) == root.object;
        lock.owner_internal_id.filter(|id| is_of_it && !waits(*id))
    };
    let owners: BTreeSet<u64> = locks().filter_map(owner).collect();
    owners.first().copied().filter(|_| owners.len() == 1)
}

/// The wait graph of one sample. Stacks are those of the window's end: they go with its last sample only.
pub(crate) fn graph(window: &Window, sample: &Sample) -> WaitGraph {
    let is_last = window.samples.last().is_some_and(|last| std::ptr::eq(last, sample));
    let profile = window.profile.value().filter(|_| is_last);
    let mut graph =
        build(&Readings { profile, ..Readings::of_server(window.server.version, &sample.server) });
    if window.is_given() && is_concluded(&sample.server) {
        for edge in graph.edges.iter_mut().filter(|edge| edge.kind == LockKind::Row) {
            edge.is_inferred = true;
        }
    }
    graph
}

/// True where what somebody captured does not name the holder of the rows, and it was concluded from the transactions (`captures`): of
/// such a wait neither an index nor a record is known, and its table is that of the waiter's statement.
fn is_concluded(server: &ServerSample) -> bool {
    let waits = server.row_lock_waits.value().map(Vec::as_slice).unwrap_or_default();
    let Some(transactions) = server.transactions.value().filter(|_| !waits.is_empty()) else { return false };
    let is_bare = |wait: &RowLockWait| wait.index.is_empty() && wait.record.is_empty();
    if server.innodb_status.value().is_some() {
        return waits.iter().all(is_bare);
    }
    let by_id: HashMap<&str, &Transaction> = transactions.iter().map(|one| (one.id.as_str(), one)).collect();
    let table = |wait: &RowLockWait| {
        let waiter = by_id.get(wait.waiting_transaction.as_str());
        waiter.and_then(|one| spindoctor_sql::first_table(one.statement.as_deref()?)).unwrap_or_default()
    };
    waits.iter().all(|wait| is_bare(wait) && wait.mode.is_empty() && wait.table == table(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_a_root_is_shown_where_it_does_something() {
        let thread = WaitingThread {
            connection_id: Some(7),
            statement: Some("SELECT 1".into()),
            stack: vec!["poll".into(), "vio_io_wait".into(), "vio_read".into()],
            ..WaitingThread::default()
        };
        let of = |doing: &str| described(&thread, &WaitRoot { doing: doing.into(), ..WaitRoot::default() });
        assert!(of("idle in transaction").stack.is_empty() && of("idle, holding tables").stack.is_empty());
        assert_eq!(of("executing").stack.len(), 3);
    }
}
