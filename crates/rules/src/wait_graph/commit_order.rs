//! The commit order of a replica's appliers: each applier waits for the transaction before its own.
//!
//! The server says only that they wait (`Waiting for preceding transaction to commit`). They all wait for the applier
//! that is at work on a transaction and does not wait: where there are several, for the one whose transaction is
//! oldest. That is inferred.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::wait_graph::{LockKind, WaitEdge};

use super::builder::{Builder, Who};

/// States of an applier that waits for its turn: MySQL 5.7 and later, MariaDB 10.0 and later.
const IN_ORDER: [&str; 4] = [
    "waiting for preceding transaction to commit",
    "waiting for prior transaction to commit",
    "waiting for prior transaction to start commit",
    "waiting for its turn to commit",
];

/// States of an applier that has nothing to apply.
const RESTING: [&str; 8] = [
    "replica has read all relay log",
    "slave has read all relay log",
    "waiting for an event from coordinator",
    "waiting for work from sql thread",
    "waiting for dependent transaction to commit",
    "waiting for replica workers to process their queues",
    "waiting for slave workers to process their queues",
    "waiting for room in worker thread event queue",
];

/// Adds the appliers that wait for their turn.
pub(super) fn add(builder: &mut Builder<'_>) {
    let appliers: Vec<(usize, &ServerThread)> =
        builder.listed().iter().enumerate().filter(|(_, thread)| is_worker(thread)).collect();
    let waiting: Vec<_> = appliers.iter().filter(|(_, thread)| starts(thread, &IN_ORDER)).collect();
    if waiting.is_empty() {
        return;
    }
    let at_work =
        appliers.iter().filter(|(_, thread)| !starts(thread, &IN_ORDER) && !starts(thread, &RESTING));
    let first =
        at_work.max_by(|(_, a), (_, b)| a.time_s.total_cmp(&b.time_s)).map(|&(at, _)| Who::Listed(at));
    for &&(at, thread) in &waiting {
        let edge = WaitEdge {
            kind: LockKind::CommitOrder,
            object: "commit order of the replica's appliers".to_owned(),
            waited_s: Some(thread.time_s),
            is_inferred: true,
            ..WaitEdge::default()
        };
        builder.add(Who::Listed(at), first.clone(), edge);
    }
}

/// An applier's worker; where the server applies in one thread, nobody waits in order.
fn is_worker(thread: &ServerThread) -> bool {
    let by_name = ["/replica_worker", "/slave_worker"].iter().any(|end| thread.name.ends_with(end));
    // MariaDB, and MySQL without performance_schema. MariaDB's coordinator is called as what applies in one thread is; InnoDB's threads are
    // daemons there, and what applies write sets of a cluster sleeps between them.
    let is_other = ["Slave_IO", "Slave_SQL", "Daemon", "Sleep"].contains(&thread.command.as_str());
    by_name || (thread.name.is_empty() && thread.user == "system user" && !is_other)
}

fn starts(thread: &ServerThread, states: &[&str]) -> bool {
    let state = thread.state.to_ascii_lowercase();
    states.iter().any(|start| state.starts_with(start))
}
