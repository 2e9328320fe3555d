//! `row-lock-pileup`: many transactions wait for one row.

mod checking;
mod evidence;
mod holders;
mod likely;
mod meaning;
mod pileup;
mod printed;
mod queue;
mod remedies;
mod stacks;
mod statements;
#[cfg(test)]
mod tests;

use spindoctor_model::{Finding, TimeClass, Unavailable, Window};

use super::{connections_exhausted, thread_pool_starved};
use crate::draft::Draft;
use crate::wait_graph::Verdict;
use crate::{Cause, Costs, Outcome, Rule, Stacks};

use checking::Checking;
use pileup::Pileup;
use queue::Queue;
pub(super) use remedies::{SHORT_TIMEOUT_S, shorter_timeout, undoes_transactions};

/// The catalogue entry.
pub const CAUSE: Cause = Cause {
    name: "row-lock-pileup",
    title: "many transactions wait for one row",
    what: "InnoDB locks the rows that a transaction changes, and those that it reads FOR UPDATE or FOR SHARE, \
           until the transaction ends. Others that want the same row queue for it. Two shapes: one transaction \
           that stays open blocks all the others (often it is idle: its client went away to do something \
           else), or a hot row that every transaction wants, where the holder changes all the time and the \
           queue never empties.",
    why_it_hurts: "Behind one row, work is done one at a time, however many CPUs there are. Waiting transactions \
                   hold the locks they already have, so the queue grows in breadth; clients time out, retry, and \
                   fill max_connections.",
    evidence: "What is read: in each sample, who waits for whose row lock (performance_schema.data_lock_waits from 8.0, \
               information_schema.INNODB_LOCKS before and on MariaDB), transactions in LOCK WAIT, and Innodb_row_lock_current_waits. \
               Where the lock tables cannot be read, the counters show that there are waits, and no root is named.\n\n\
               It fires when sessions wait that are 5 % or more of those at work, and half a session or more on average (a quarter \
               by the time that InnoDB counts), or one waits for 5 s and more. The root is the transaction that is not waiting and \
               blocks the most; it is one holder when the same transaction is the root in half of the samples with waits. The same \
               connection in several transactions, which never waits itself, takes the lock again and again; else the row is hot, and no \
               root is named.\n\n\
               What most of those run who wait says what the row is: the next of a queue (SELECT ... LIMIT ... FOR UPDATE), a row of a \
               table that the statement does not name (a foreign key's, a trigger's), or the gap at an index's end. Where lists meet \
               nobody who waits, a session or event that sleeps (SLEEP) in nearly all snapshots of stacks in which sessions wait is \
               named as most likely.\n\n\
               Of lists that somebody captured and that do not name the holder, an idle transaction is named as most likely: one \
               that has locks, is not waiting and is as old as the longest wait. Of errors that clients print: 1205. Of captured CPU \
               samples, or of sessions at work in captured stacks: a fifth in the functions that check a row's queue.\n\n\
               The estimate is the share of the sessions' working time spent waiting.",
    looks_alike: "Waits for table metadata lock are another lock, above InnoDB: metadata-lock-pileup. Lock waits \
                  of a few milliseconds are normal traffic of a busy server. Statements that wait for a page \
                  latch or a mutex show no lock wait at all. A holder that itself waits for a commit to reach \
                  the disk points to commit-sync-bound.",
    remedies: "One holder: end it (KILL id), then find out why the client leaves a transaction open; set a limit \
               on idle transactions in the pool, or idle_transaction_timeout on MariaDB 10.3 and later. A hot \
               row: make the transaction shorter, touch the hot row last, add up in batches, split the counter \
               into several rows, or use FOR UPDATE SKIP LOCKED for queues. An UPDATE or a SELECT ... FOR \
               UPDATE without a fitting index locks every row it reads: give it one, on the columns of WHERE and ORDER BY. \
               INSERT statements that wait for a gap at an index's end: no locking read of a range that is empty or \
               open at its end, or READ COMMITTED.",
    safety: "KILL rolls the holder back: its changes are lost and undoing them takes about as long as making \
             them did, the locks staying until then. Lowering innodb_lock_wait_timeout makes waiters fail \
             sooner with error 1205, which rolls back the statement, not the transaction; it is dynamic, and \
             holds for sessions that start later.",
    references: &[
        "MySQL Reference Manual: InnoDB Locking; The data_lock_waits Table",
        "MariaDB Knowledge Base: Information Schema INNODB_LOCKS; idle_transaction_timeout",
    ],
    costs: Costs::Waits(&[TimeClass::RowLock]),
    explains_time: &[TimeClass::RowLock],
    stacks: Stacks::Standing(ROW_LOCK_FUNCTIONS),
    rule: Rule::ReadingsOrCapture(evaluate, of_capture),
    #[cfg(test)]
    examples: crate::Examples { fires: tests::fires, near_miss: tests::near_miss, missing: tests::missing },
};

/// In which a session waits for a row.
const ROW_LOCK_FUNCTIONS: &[&str] = &[
    "lock_wait_suspend_thread", // 5.6 and later
    "srv_suspend_mysql_thread", // before
    "lock_wait",                // MariaDB 10.6 and later
];

/// What a capture of one moment says: stacks or CPU samples, or errors of clients.
fn of_capture(window: &Window) -> Option<Finding> {
    checking::captured(window).or_else(|| printed::of_clients(window))
}

fn evaluate(window: &Window) -> Outcome {
    examine(window).into()
}

fn examine(window: &Window) -> Result<Option<Finding>, Unavailable> {
    let Some(queue) = Queue::from_window(window)? else { return Ok(None) };
    let pileup = Pileup::from_queue(window, queue);
    let checking = Checking::from_window(window);
    let why = match &checking {
        Some(checking) => format!("{} {}", pileup.why(), checking.why()),
        None => pileup.why(),
    };
    Ok(Some(
        Draft::new(&CAUSE, pileup.queue.score(), pileup.headline())
            .why(why)
            .evidence_all(pileup.evidence().into_iter())
            .evidence_all(checking.iter().flat_map(Checking::evidence))
            .remedies(pileup.remedies())
            .remedies(checking.iter().flat_map(|_| checking::shorter_queue()))
            .root(pileup.root().map(Verdict::described))
            .explains(&[connections_exhausted::CAUSE.name, thread_pool_starved::CAUSE.name])
            .finding(),
    ))
}
