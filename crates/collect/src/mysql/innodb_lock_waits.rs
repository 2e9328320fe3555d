//! `information_schema.INNODB_LOCK_WAITS` and `INNODB_LOCKS`: row lock waits of MariaDB and of MySQL
//! to 5.7.

use spindoctor_model::mysql::{RowLockWait, Transaction};

use super::rows::Rows;
use super::source::{Plan, Source, note_if_cut, process_grant};
use crate::source::Cadence;

/// Pairs of waiter and holder read at most.
const LIMIT: usize = 1000;

/// The source.
///
/// Cost: the same copy that INNODB_TRX makes (asked just before, so shared: at most one in 0.1 s);
/// INNODB_LOCKS holds only locks that are waited for or in the way. Safe to ask every second.
///
/// Of n transactions that queue for one row the table has n(n+1)/2 pairs: holders stand first, so
/// that what is left out are pairs of two waiters.
pub const SOURCE: Source = Source {
    name: "information_schema.INNODB_LOCK_WAITS",
    help: "who waits for whose row lock (MariaDB, MySQL 5.7 and older)",
    cost: "shares INNODB_TRX's copy, made under InnoDB's lock latches",
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    plan: |version, _| {
        if version.mysql_at_least(8, 0, 0) {
            Plan::Elsewhere
        } else {
            Plan::Ask(
                "SELECT w.requesting_trx_id, w.blocking_trx_id, r.lock_table, r.lock_index, r.lock_mode, \
                 LEFT(r.lock_data, 256) AS lock_data \
                 FROM information_schema.INNODB_LOCK_WAITS AS w \
                 LEFT JOIN information_schema.INNODB_LOCKS AS r ON r.lock_id = w.requested_lock_id \
                 ORDER BY w.blocking_lock_id IN \
                 (SELECT requested_lock_id FROM information_schema.INNODB_LOCK_WAITS) LIMIT 1000",
            )
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.INNODB_LOCK_WAITS", rows, LIMIT, sample);
        let transactions = sample.transactions.value().map(Vec::as_slice).unwrap_or_default();
        sample.row_lock_waits = answer.reading(row_lock_waits(rows, transactions));
    },
    fail: |why, sample| sample.row_lock_waits.fail(why),
    answered: |sample| sample.row_lock_waits.value().is_some(),
};

fn row_lock_waits(rows: &Rows, transactions: &[Transaction]) -> Vec<RowLockWait> {
    rows.iter()
        .map(|row| {
            let (waiting, blocking) = (row.string("requesting_trx_id"), row.string("blocking_trx_id"));
            let waiter = transactions.iter().find(|t| t.id == waiting);
            let blocker = transactions.iter().find(|t| t.id == blocking);
            RowLockWait {
                waiting_connection_id: waiter.and_then(|t| t.connection_id),
                blocking_connection_id: blocker.and_then(|t| t.connection_id),
                waiting_transaction: waiting,
                blocking_transaction: blocking,
                // `t`.`a`
                table: row.text("lock_table").unwrap_or_default().replace('`', ""),
                index: row.text("lock_index").unwrap_or_default().replace('`', ""),
                record: row.string("lock_data"),
                mode: row.string("lock_mode"),
                waited_s: waiter.and_then(|t| t.waited_s).unwrap_or(0.0),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn names_the_connections_of_waiter_and_holder() {
        let transaction = |id: &str, connection_id, waited_s| Transaction {
            id: id.into(),
            connection_id: Some(connection_id),
            waited_s,
            ..Transaction::default()
        };
        let transactions = [transaction("23", 27, None), transaction("24", 28, Some(3.0))];
        // From MariaDB 10.11.19: an UPDATE waits for the row of an open transaction.
        let waits = row_lock_waits(
            &fixture::tabbed(
                "requesting_trx_id\tblocking_trx_id\tlock_table\tlock_index\tlock_mode\tlock_data\n\
                 24\t23\t`t`.`a`\tPRIMARY\tX\t1\n",
            ),
            &transactions,
        );
        let wait = &waits[0];
        assert_eq!((wait.waiting_connection_id, wait.blocking_connection_id), (Some(28), Some(27)));
        assert_eq!((wait.table.as_str(), wait.record.as_str(), wait.waited_s), ("t.a", "1", 3.0));
    }
}
