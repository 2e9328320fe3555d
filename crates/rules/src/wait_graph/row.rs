//! Row and table locks of InnoDB, from its lock tables.

use std::collections::{HashMap, HashSet};

use spindoctor_model::innodb_status::ListedTransaction;
use spindoctor_model::mysql::RowLockWait;
use spindoctor_model::wait_graph::{LockKind, WaitEdge};
use spindoctor_sql::record_without_texts;

use super::builder::{Builder, Who};

/// Adds who waits for whose row.
///
/// Lock tables also say that a waiter waits for those before it in the queue. Whom the holder frees goes on in an order
/// that InnoDB chooses, so a waiter for the same place counts as a holder only where no other is known.
pub(super) fn add(builder: &mut Builder<'_>) {
    if builder.readings.server.row_lock_waits.value().is_none() {
        return as_printed(builder);
    }
    let waits = builder.readings.server.row_lock_waits.value().map(Vec::as_slice).unwrap_or_default();
    let queued: HashSet<_> = waits.iter().map(|wait| (&wait.waiting_transaction, place(wait))).collect();
    let in_queue = |wait: &RowLockWait| queued.contains(&(&wait.blocking_transaction, place(wait)));
    let behind_a_holder: HashSet<&String> =
        waits.iter().filter(|wait| !in_queue(wait)).map(|wait| &wait.waiting_transaction).collect();
    let printed = builder.readings.server.innodb_status.value().into_iter();
    let printed = printed.flat_map(|status| &status.transactions.transactions);
    let printed: HashMap<u64, &str> =
        printed.filter_map(|t| Some((t.connection_id?, t.waits_for.as_deref()?))).collect();
    for wait in waits {
        if in_queue(wait) && behind_a_holder.contains(&wait.waiting_transaction) {
            continue;
        }
        let who = |connection: Option<u64>, transaction: &String| match connection {
            Some(id) => builder.connection(id),
            None => Who::Transaction(transaction.clone()),
        };
        let waiter = who(wait.waiting_connection_id, &wait.waiting_transaction);
        // A text that was captured may name who waits and not for whom.
        let is_known = wait.blocking_connection_id.is_some() || !wait.blocking_transaction.is_empty();
        let holder = is_known.then(|| who(wait.blocking_connection_id, &wait.blocking_transaction));
        let printed = || wait.waiting_connection_id.and_then(|id| printed.get(&id).copied());
        let object = object(wait).or_else(|| printed().map(str::to_owned));
        let edge = WaitEdge {
            kind: LockKind::Row,
            object: object.unwrap_or_else(|| A_ROW.to_owned()),
            mode: wait.mode.clone(),
            waited_s: Some(wait.waited_s),
            ..WaitEdge::default()
        };
        builder.add(waiter, holder, edge);
    }
}

/// Where the lock tables were not read, `SHOW ENGINE INNODB STATUS` prints who waits. The holder is concluded where only
/// one other transaction has rows locked and is as old as the longest wait.
fn as_printed(builder: &mut Builder<'_>) {
    let Some(status) = builder.readings.server.innodb_status.value() else { return };
    let (waiting, others): (Vec<_>, Vec<_>) =
        status.transactions.transactions.iter().filter(|t| t.active).partition(|t| t.lock_wait);
    let longest_s = waiting.iter().filter_map(|t| t.lock_waited_s).fold(0.0, f64::max);
    // Ages are printed in whole seconds.
    let old = |t: &&&ListedTransaction| t.active_s.is_none_or(|active_s| active_s + 1.0 >= longest_s);
    let mut holders = others.iter().filter(|t| t.row_locks.is_some_and(|rows| rows > 0)).filter(old);
    let holder = match (holders.next(), holders.next()) {
        (Some(only), None) => only.connection_id.map(|id| builder.connection(id)),
        _ => None,
    };
    for wait in waiting {
        let waiter = match wait.connection_id {
            Some(id) => builder.connection(id),
            None => Who::Transaction(wait.id.clone()),
        };
        let edge = WaitEdge {
            kind: LockKind::Row,
            object: wait.waits_for.clone().unwrap_or_else(|| A_ROW.to_owned()),
            waited_s: wait.lock_waited_s,
            is_inferred: true,
            ..WaitEdge::default()
        };
        builder.add(waiter, holder.clone(), edge);
    }
}

fn place(wait: &RowLockWait) -> (&str, &str, &str) {
    (&wait.table, &wait.index, &wait.record)
}

/// What a place is where no source names it.
const A_ROW: &str = "a row";

/// `shop.stock PRIMARY record 5`, `shop.stock`; none for a place that was not looked up.
fn object(wait: &RowLockWait) -> Option<String> {
    Some(match (wait.table.as_str(), wait.index.as_str(), wait.record.as_str()) {
        ("", ..) => return None,
        (table, "", _) => table.to_owned(),
        (table, index, "") => format!("{table} {index}"),
        (table, index, record) => format!("{table} {index} record {}", record_without_texts(record)),
    })
}
