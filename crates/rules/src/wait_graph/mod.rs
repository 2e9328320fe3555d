//! Who waits for whom, from every source that shows it: one file per kind of lock.
//!
//! In: one reading of the server's lists of locks, threads and transactions, the stacks of its threads, and what its
//! memory says of the C library's locks. Out: a [`WaitGraph`]; its roots and rings are computed from it alone. Pure:
//! reading is `collect`'s and `stacks`'.
//!
//! # A wait graph's trip
//!
//! 1. **Readings.** `collect::locks` asks one session for the lists of who waits and who holds, and no other source:
//!    threads with their statements, open transactions, row lock waits, metadata locks, and what InnoDB prints. Of a
//!    queue for one row only one waiter is looked up; where nobody waits nothing is asked; where a list would cost the
//!    server the square of the waiters (MariaDB, MySQL 5.7) it is not read, and InnoDB's text is used instead. Then
//!    comes one snapshot with stacks, and who holds the locks of the C library (`crates/stacks/src/futex_waits/`), then
//!    InnoDB's text where the stacks do not show that nobody waits for a latch, then the busy connections again.
//! 2. **Graph** (`crates/rules/src/wait_graph/`): one file per kind of lock adds edges, the sources that list waits
//!    before those from which a wait is inferred (`is_inferred`). `builder` knows a thread by all of its four names:
//!    connection, kernel's id, performance_schema's id, `pthread_self`. A waiter that went on by the second reading of
//!    the threads is left out; so the graph is of one instant. What a bound cut off is counted (`left_out`) or noted
//!    (`notes`).
//! 3. **Roots and rings** (`roots.rs`) are computed from the graph alone. `doing.rs` says what a root does, `freeing.rs`
//!    what would free those behind it and at what cost. An owner that nobody can see is a root without a thread.
//! 4. **Trees.** `crates/spindoctor/src/locks/forest.rs` puts each thread in one place, as near to a root as it can stand.
//!    The formats beside it draw the same trees: terminal, SVG, graphviz, a section of the HTML page. JSON has
//!    every edge. `doctor`'s rules take their roots from the same graph (`verdict.rs`); where the root has another lock than most of
//!    those behind it want, `chain.rs` says who stands between.

mod builder;
mod by_frames;
mod chain;
mod commit_order;
mod doing;
mod freeing;
mod futex;
mod latch;
mod metadata;
mod ring;
mod roots;
mod row;
mod stacks;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;

use spindoctor_model::wait_graph::WaitRoot;
use spindoctor_model::{Profile, ServerSample, ServerVersion, WaitGraph};

use crate::managed;
use builder::Builder;
pub(crate) use doing::ROLLING_BACK;
pub(crate) use latch::{is_free, latch_named};
pub(crate) use metadata::{keeps_statements_out, kind as lock_kind};
pub(crate) use ring::Ring;
pub(crate) use roots::all_behind;
pub use roots::{cycles, waiting_behind};
pub(crate) use verdict::{Verdict, graph, owner_by_number, root_at_the_end, without_connection};

/// What a wait graph is built from: the readings of one instant.
#[derive(Debug, Clone, Copy)]
pub struct Readings<'a> {
    /// Which server it is.
    pub version: Option<ServerVersion>,
    /// Threads, transactions, locks.
    pub server: &'a ServerSample,
    /// The threads, read again when everything else had been read: a waiter that went on meanwhile is left out.
    pub again: Option<&'a ServerSample>,
    /// Stacks of the server's threads; of several snapshots the last counts. With them, who waits for a lock of the C
    /// library, as the process's memory shows them.
    pub profile: Option<&'a Profile>,
}

impl<'a> Readings<'a> {
    /// What the server alone shows.
    pub fn of_server(version: Option<ServerVersion>, server: &'a ServerSample) -> Self {
        Self { version, server, again: None, profile: None }
    }
}

/// The wait graph of one instant.
///
/// What the server or the process's memory shows comes first; what only follows from other readings is added for
/// threads of which nothing else is known.
pub fn build(readings: &Readings<'_>) -> WaitGraph {
    let mut builder = Builder::new(readings);
    row::add(&mut builder);
    metadata::add(&mut builder);
    latch::add(&mut builder);
    futex::add(&mut builder);
    commit_order::add(&mut builder);
    by_frames::add(&mut builder);
    left_out(&mut builder);
    let mut graph = builder.finish();
    graph.is_amazons = !graph.edges.is_empty() && managed::is_of_amazon(readings.version, readings.server);
    graph
}

/// The roots of a graph, those that block the most first, with the statements that its server takes. An owner that nobody can see is a root
/// without a thread.
pub fn roots(graph: &WaitGraph) -> Vec<WaitRoot> {
    let mut roots = roots::roots(graph);
    if graph.is_amazons {
        managed::adapt_roots(&mut roots);
    }
    roots
}

/// True where `SHOW ENGINE INNODB STATUS` may show what nothing else does: who waits for a latch, or for which row where that was
/// not looked up, or where no list of row locks could be read (MySQL 8.0 and later keep it in performance_schema) and a transaction
/// waits. Stacks in which InnoDB's functions have names show that nobody waits for a latch.
pub fn is_text_of_use(server: &ServerSample, profile: Option<&Profile>) -> bool {
    let row_locks = match server.row_lock_waits.value() {
        Some(waits) => waits.iter().any(|wait| wait.table.is_empty()),
        None => !in_lock_wait(server).is_empty(),
    };
    row_locks || latch::may_be_waited_for(profile)
}

/// The transactions that wait for a lock, by INNODB_TRX.
fn in_lock_wait(server: &ServerSample) -> BTreeSet<&str> {
    let transactions = server.transactions.value().into_iter().flatten();
    transactions.filter(|one| one.state == "LOCK WAIT").map(|one| one.id.as_str()).collect()
}

/// Waits that the server counts and no list names: what a bound cut off, or what could not be read.
fn left_out(builder: &mut Builder<'_>) {
    let server = builder.readings.server;
    let in_lock_wait = in_lock_wait(server);
    let named: BTreeSet<&str> = server
        .row_lock_waits
        .value()
        .into_iter()
        .flatten()
        .map(|wait| wait.waiting_transaction.as_str())
        .collect();
    if server.row_lock_waits.value().is_some() {
        let unnamed = in_lock_wait.difference(&named).count() as u64;
        let is_cut = ["performance_schema.data_lock_waits", "information_schema.INNODB_LOCKS"]
            .iter()
            .any(|source| server.cut.iter().any(|cut| cut == source));
        // Where no bound cut the list, they went on between the reading of the transactions and that of their locks.
        if is_cut { builder.left_out(unnamed) } else { builder.moved_on(unnamed) }
    }
    for source in &server.cut {
        builder.note(format!("{source} was cut at its limit: there is more"));
    }
    let printed = server.innodb_status.value().into_iter().flat_map(|s| &s.transactions.transactions);
    let some_wait = !in_lock_wait.is_empty() || printed.into_iter().any(|t| t.lock_wait);
    if let (true, Some(missing)) = (some_wait, server.row_lock_waits.unavailable()) {
        let unlock = missing.unlock.as_ref().map_or_else(String::new, |unlock| format!("; {unlock}"));
        builder.note(format!("who holds rows was not read: {}{unlock}", missing.because));
    }
}
