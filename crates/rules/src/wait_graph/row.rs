//! Row and table locks of InnoDB, from its lock tables.

use std::collections::{HashMap, HashSet};

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
        return without_lock_tables(builder);
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

/// Where the lock tables were not read, `SHOW ENGINE INNODB STATUS` prints who waits, and INNODB_TRX lists who does. The holder is
/// concluded where only one other transaction has rows locked and is as old as the longest wait.
fn without_lock_tables(builder: &mut Builder<'_>) {
    let waiting = match printed(builder) {
        printed if !printed.is_empty() => printed,
        _ => listed(builder),
    };
    let longest_s = waiting.iter().filter_map(|wait| wait.waited_s).fold(0.0, f64::max);
    let holder = holder_of_printed(builder, longest_s)
        .or_else(|| holder_of_listed(builder, longest_s))
        .map(|id| builder.connection(id));
    for wait in waiting {
        let waiter = match wait.connection_id {
            Some(id) => builder.connection(id),
            None => Who::Transaction(wait.transaction),
        };
        let edge = WaitEdge {
            kind: LockKind::Row,
            object: wait.object.unwrap_or_else(|| A_ROW.to_owned()),
            waited_s: wait.waited_s,
            is_inferred: true,
            ..WaitEdge::default()
        };
        builder.add(waiter, holder.clone(), edge);
    }
}

/// A transaction that waits for a row.
struct Waiting {
    connection_id: Option<u64>,
    transaction: String,
    waited_s: Option<f64>,
    /// What it wants, where that is known.
    object: Option<String>,
}

fn printed(builder: &Builder<'_>) -> Vec<Waiting> {
    let status = builder.readings.server.innodb_status.value();
    let active = status.into_iter().flat_map(|status| &status.transactions.transactions).filter(|t| t.active);
    let waiting = active.filter(|t| t.lock_wait).map(|t| Waiting {
        connection_id: t.connection_id,
        transaction: t.id.clone(),
        waited_s: t.lock_waited_s,
        object: t.waits_for.clone(),
    });
    waiting.collect()
}

fn listed(builder: &Builder<'_>) -> Vec<Waiting> {
    let transactions = builder.readings.server.transactions.value().into_iter().flatten();
    let waiting = transactions.filter(|t| t.state == LOCK_WAIT && !t.wants_a_table()).map(|t| Waiting {
        connection_id: t.connection_id,
        transaction: t.id.clone(),
        waited_s: t.waited_s,
        object: None,
    });
    waiting.collect()
}

/// The connection of the only one of these transactions that has rows locked, waits for none and is as old as the longest wait.
fn only_holder(
    holders: impl Iterator<Item = (Option<u64>, u64, Option<f64>)>,
    longest_s: f64,
) -> Option<u64> {
    // Ages are given in whole seconds.
    let is_old = |age_s: Option<f64>| age_s.is_none_or(|age_s| age_s + 1.0 >= longest_s);
    let mut holders = holders.filter(|&(_, rows_locked, age_s)| rows_locked > 0 && is_old(age_s));
    match (holders.next(), holders.next()) {
        (Some((connection_id, ..)), None) => connection_id,
        _ => None,
    }
}

fn holder_of_printed(builder: &Builder<'_>, longest_s: f64) -> Option<u64> {
    let status = builder.readings.server.innodb_status.value()?;
    let active = status.transactions.transactions.iter().filter(|t| t.active && !t.lock_wait);
    only_holder(active.map(|t| (t.connection_id, t.row_locks.unwrap_or(0), t.active_s)), longest_s)
}

fn holder_of_listed(builder: &Builder<'_>, longest_s: f64) -> Option<u64> {
    let transactions = builder.readings.server.transactions.value()?;
    let others = transactions.iter().filter(|t| t.state != LOCK_WAIT);
    only_holder(others.map(|t| (t.connection_id, t.rows_locked, Some(t.age_s))), longest_s)
}

/// `INNODB_TRX.trx_state` of a transaction that waits for a lock.
const LOCK_WAIT: &str = "LOCK WAIT";

fn place(wait: &RowLockWait) -> (&str, &str, &str) {
    (&wait.table, &wait.index, &wait.record)
}

/// What a place is where no source names it.
pub(super) const A_ROW: &str = "a row";

/// `shop.stock PRIMARY record 5`, `shop.stock`; none for a place that was not looked up.
fn object(wait: &RowLockWait) -> Option<String> {
    Some(match (wait.table.as_str(), wait.index.as_str(), wait.record.as_str()) {
        ("", ..) => return None,
        (table, "", _) => table.to_owned(),
        (table, index, "") => format!("{table} {index}"),
        (table, index, record) => format!("{table} {index} record {}", record_without_texts(record)),
    })
}
