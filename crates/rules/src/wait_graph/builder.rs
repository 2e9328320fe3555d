//! A wait graph in the making: each thread once, however the sources name it; each wait once.
//!
//! A thread has four names: connection id, the kernel's id, performance_schema's THREAD_ID and `pthread_self`. Sources
//! use what they have; here they all lead to one place in the graph.

use std::collections::{BTreeSet, HashMap, HashSet};

use spindoctor_model::WaitGraph;
use spindoctor_model::mysql::{ServerSample, ServerThread, Transaction};
use spindoctor_model::wait_graph::{LockKind, WaitEdge, WaitTransaction, WaitingThread};
use spindoctor_sql::digest;

use super::freeing::EVENT_WORKER;
use super::stacks::Stacks;
use super::{Readings, doing};
use crate::{comes_back, killing};

/// The wait graph in the making.
pub(super) struct Builder<'a> {
    /// What it is built from.
    pub(super) readings: &'a Readings<'a>,
    /// The stacks of the last snapshot.
    pub(super) stacks: Stacks<'a>,
    graph: WaitGraph,
    threads: &'a [ServerThread],
    by_connection: HashMap<u64, usize>,
    by_os_id: HashMap<u64, usize>,
    by_internal_id: HashMap<u64, usize>,
    transactions: HashMap<u64, WaitTransaction>,
    /// The connections of `pthread_self`, and the kernel's ids.
    by_pthread: HashMap<u64, Who>,
    places: HashMap<Who, u32>,
    /// Waits that are in the graph already: waiter, holder, kind.
    known: BTreeSet<(u32, Option<u32>, LockKind)>,
    waiters: BTreeSet<u32>,
}

/// A thread, as well as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Who {
    /// One that the server lists: its place in the list.
    Listed(usize),
    /// A connection that the list does not hold.
    Connection(u64),
    /// A thread that only the kernel knows.
    Os(u64),
    /// A thread of which only `pthread_self` is known.
    Pthread(u64),
    /// A transaction of InnoDB that no connection has.
    Transaction(String),
}

impl<'a> Builder<'a> {
    pub(super) fn new(readings: &'a Readings<'a>) -> Self {
        let threads = listed(readings.server);
        let index = |id: fn(&ServerThread) -> Option<u64>| -> HashMap<u64, usize> {
            threads.iter().enumerate().filter_map(|(at, thread)| Some((id(thread)?, at))).collect()
        };
        let mut builder = Self {
            readings,
            stacks: Stacks::from_profile(readings.profile),
            graph: WaitGraph::default(),
            threads,
            by_connection: index(|thread| thread.connection_id),
            by_os_id: index(|thread| thread.thread_os_id),
            by_internal_id: index(|thread| thread.internal_id),
            transactions: transactions(readings.server),
            by_pthread: HashMap::new(),
            places: HashMap::new(),
            known: BTreeSet::new(),
            waiters: BTreeSet::new(),
        };
        builder.by_pthread = builder.pthreads();
        builder
    }

    /// Who has which `pthread_self`: from the snapshot's registers, else from InnoDB's list of transactions, which
    /// prints it beside the connection.
    fn pthreads(&self) -> HashMap<u64, Who> {
        let printed = self.readings.server.innodb_status.value().into_iter();
        let printed = printed.flat_map(|status| &status.transactions.transactions);
        let printed = printed.filter_map(|t| Some((t.pthread_id?, self.connection(t.connection_id?))));
        let threads = self.readings.profile.into_iter().flat_map(|profile| &profile.threads);
        let read = threads.filter_map(|t| Some((t.thread_pointer?, self.os_thread(t.tid.into()))));
        printed.chain(read).collect()
    }

    /// The threads that the server lists.
    pub(super) fn listed(&self) -> &'a [ServerThread] {
        self.threads
    }

    /// The one that the server lists under that place.
    pub(super) fn thread(&self, who: &Who) -> Option<&'a ServerThread> {
        match who {
            Who::Listed(at) => self.threads.get(*at),
            _ => None,
        }
    }

    pub(super) fn connection(&self, id: u64) -> Who {
        self.by_connection.get(&id).map_or(Who::Connection(id), |&at| Who::Listed(at))
    }

    pub(super) fn os_thread(&self, id: u64) -> Who {
        self.by_os_id.get(&id).map_or(Who::Os(id), |&at| Who::Listed(at))
    }

    pub(super) fn internal(&self, id: u64) -> Option<Who> {
        self.by_internal_id.get(&id).map(|&at| Who::Listed(at))
    }

    pub(super) fn pthread(&self, id: u64) -> Who {
        self.by_pthread.get(&id).cloned().unwrap_or(Who::Pthread(id))
    }

    /// The open transaction of a thread.
    pub(super) fn transaction(&self, thread: &ServerThread) -> Option<WaitTransaction> {
        self.transactions.get(&thread.connection_id?).copied()
    }

    /// True for one that waits for something already.
    pub(super) fn waits(&self, who: &Who) -> bool {
        self.places.get(who).is_some_and(|place| self.waiters.contains(place))
    }

    /// Adds a wait; one that the server shows to be for itself is none.
    pub(super) fn add(&mut self, waiter: Who, holder: Option<Who>, edge: WaitEdge) {
        if holder.as_ref() != Some(&waiter) {
            self.add_even_for_itself(waiter, holder, edge);
        }
    }

    /// Adds a wait that may be for the waiter itself: a ring of one.
    pub(super) fn add_even_for_itself(&mut self, waiter: Who, holder: Option<Who>, edge: WaitEdge) {
        let waiter = self.place(waiter);
        let holder = holder.map(|holder| self.place(holder));
        if self.known.insert((waiter, holder, edge.kind)) {
            self.waiters.insert(waiter);
            self.graph.edges.push(WaitEdge { waiter, holder, ..edge });
        }
    }

    /// Marks the holder of something as one that has ended.
    pub(super) fn has_ended(&mut self, who: Who) {
        let place = self.place(who);
        self.graph.threads[place as usize].has_ended = true;
    }

    /// Says what could not be seen.
    pub(super) fn note(&mut self, note: String) {
        if !self.graph.notes.contains(&note) {
            self.graph.notes.push(note);
        }
    }

    /// Counts waits that a source lists and that were over.
    pub(super) fn moved_on(&mut self, waits: u64) {
        self.graph.moved_on += waits;
    }

    /// Counts waits that a bound left out.
    pub(super) fn left_out(&mut self, waits: u64) {
        self.graph.left_out += waits;
    }

    fn place(&mut self, who: Who) -> u32 {
        if let Some(&place) = self.places.get(&who) {
            return place;
        }
        let place = u32::try_from(self.graph.threads.len()).expect("threads are bounded by the sources");
        let thread = self.describe(&who);
        self.graph.threads.push(thread);
        self.places.insert(who, place);
        place
    }

    fn describe(&self, who: &Who) -> WaitingThread {
        let bare = match who {
            Who::Listed(at) => return self.describe_listed(&self.threads[*at]),
            Who::Connection(id) => {
                let listed = self.readings.server.transactions.value().into_iter().flatten();
                WaitingThread {
                    connection_id: Some(*id),
                    name: "connection".into(),
                    statement: listed
                        .filter(|t| t.connection_id == Some(*id))
                        .find_map(|t| t.statement.as_deref().map(digest)),
                    transaction: self.transactions.get(id).copied(),
                    ..WaitingThread::default()
                }
            }
            Who::Os(id) => WaitingThread { thread_os_id: Some(*id), ..WaitingThread::default() },
            Who::Pthread(id) => WaitingThread { name: format!("pthread {id}"), ..WaitingThread::default() },
            Who::Transaction(id) => {
                let listed = self.readings.server.transactions.value().into_iter().flatten();
                WaitingThread {
                    name: format!("transaction {id} without a connection"),
                    transaction: listed.into_iter().find(|t| t.id == *id).map(wait_transaction),
                    ..WaitingThread::default()
                }
            }
        };
        self.with_stack(bare)
    }

    fn describe_listed(&self, thread: &ServerThread) -> WaitingThread {
        let transaction = self.transaction(thread);
        let rests = doing::rests(thread);
        let applies = killing::state_of_applier(thread);
        let of_client = |text: &str| if applies.is_some() { String::new() } else { text.to_owned() };
        let user = if applies.is_some() { killing::OF_THE_SERVER } else { thread.user.as_str() };
        self.with_stack(WaitingThread {
            thread_os_id: thread.thread_os_id,
            connection_id: thread.connection_id,
            // `thread/innodb/page_flush_coordinator_thread`; MariaDB names none.
            name: match thread.name.rsplit('/').next() {
                _ if comes_back::is_run_of_event(thread) => EVENT_WORKER.to_owned(),
                Some("one_connection" | "") | None if thread.connection_id.is_some() => "connection".into(),
                name => name.unwrap_or_default().to_owned(),
            },
            user: user.to_owned(),
            host: of_client(&thread.host),
            statement: thread
                .statement
                .as_deref()
                .or_else(|| self.readings.server.last_statement(thread).filter(|_| rests))
                .map(digest),
            is_idle_in_transaction: rests && transaction.is_some(),
            is_in_statement: !rests && !thread.command.is_empty() && thread.statement.is_some(),
            is_killed: thread.command == "Killed",
            server_state: if rests {
                String::new()
            } else {
                applies.clone().unwrap_or_else(|| thread.state.clone())
            },
            since_s: Some(thread.time_s),
            transaction,
            ..WaitingThread::default()
        })
    }

    fn with_stack(&self, mut thread: WaitingThread) -> WaitingThread {
        let Some(seen) = thread.thread_os_id.and_then(|id| self.stacks.of_thread(id)) else { return thread };
        thread.state = Some(seen.state);
        thread.stack = seen.frames.iter().map(|&frame| frame.to_owned()).collect();
        if thread.name.is_empty() {
            thread.name = seen.name.to_owned();
        }
        thread
    }

    /// The graph without the waits that were over when the reading ended, and without threads that no wait concerns.
    pub(super) fn finish(mut self) -> WaitGraph {
        let over = self.over();
        self.graph.moved_on += over.len() as u64;
        self.graph.edges.retain(|edge| !over.contains(&edge.waiter));
        let kept: BTreeSet<u32> =
            self.graph.edges.iter().flat_map(|edge| [Some(edge.waiter), edge.holder]).flatten().collect();
        let places: HashMap<u32, u32> = kept.iter().copied().zip(0..).collect();
        let threads = std::mem::take(&mut self.graph.threads);
        self.graph.threads =
            (0..).zip(threads).filter(|(place, _)| kept.contains(place)).map(|(_, thread)| thread).collect();
        for edge in &mut self.graph.edges {
            edge.waiter = places[&edge.waiter];
            edge.holder = edge.holder.map(|holder| places[&holder]);
        }
        self.graph
    }

    /// Waiters that do something else by now: another statement, another state, or they are gone.
    fn over(&self) -> BTreeSet<u32> {
        let Some(again) = self.readings.again.filter(|again| again.threads.value().is_some()) else {
            return BTreeSet::new();
        };
        let key = |thread: &ServerThread| (thread.connection_id, thread.internal_id);
        let now: HashMap<_, &ServerThread> =
            listed(again).iter().map(|thread| (key(thread), thread)).collect();
        let listed = self.places.iter().filter(|(_, place)| self.waiters.contains(place));
        listed
            .filter_map(|(who, &place)| {
                let then = self.thread(who)?;
                // Threads of the server itself have no statement; what they wait in is seen in their stacks only.
                then.connection_id?;
                let waits = match now.get(&key(then)) {
                    Some(now) => is_the_same_wait(then, now),
                    // Who is not listed rests or is gone, unless the list was cut.
                    None => !again.cut.is_empty(),
                };
                (!waits).then_some(place)
            })
            .collect()
    }
}

fn listed(server: &ServerSample) -> &[ServerThread] {
    server.threads.value().map(Vec::as_slice).unwrap_or_default()
}

/// True where a thread is still in the same statement, in the same state.
fn is_the_same_wait(then: &ServerThread, now: &ServerThread) -> bool {
    let same_statement = match (then.statement_number, now.statement_number) {
        (Some(then), Some(now)) => then == now,
        _ => then.statement == now.statement,
    };
    same_statement && then.command == now.command && then.state == now.state
}

/// The open transactions of connections: as InnoDB lists them, or where it was not asked to as it prints them.
fn transactions(server: &ServerSample) -> HashMap<u64, WaitTransaction> {
    let printed =
        || server.innodb_status.value().into_iter().flat_map(|status| &status.transactions.transactions);
    if let Some(listed) = server.transactions.value() {
        let prepared: HashSet<u64> =
            printed().filter(|t| t.is_prepared).filter_map(|t| t.connection_id).collect();
        let of_connection = |t: &Transaction| {
            let id = t.connection_id?;
            Some((id, WaitTransaction { is_prepared: prepared.contains(&id), ..wait_transaction(t) }))
        };
        return listed.iter().filter_map(of_connection).collect();
    }
    printed()
        .filter(|t| t.active)
        .filter_map(|t| {
            let transaction = WaitTransaction {
                age_s: t.active_s.unwrap_or(0.0),
                // An undo log entry is a row, or an index entry of it.
                rows_modified: t.undo_entries.unwrap_or(0),
                rows_locked: t.row_locks.unwrap_or(0),
                is_rolling_back: false,
                is_prepared: t.is_prepared,
            };
            Some((t.connection_id?, transaction))
        })
        .collect()
}

fn wait_transaction(transaction: &Transaction) -> WaitTransaction {
    WaitTransaction {
        age_s: transaction.age_s,
        rows_modified: transaction.rows_modified,
        rows_locked: transaction.rows_locked,
        is_rolling_back: transaction.state == "ROLLING BACK",
        is_prepared: false,
    }
}
