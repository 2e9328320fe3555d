//! `information_schema.INNODB_LOCKS`: row locks that are waited for or in the way, on MariaDB and MySQL to 5.7.

use std::collections::{HashMap, HashSet};

use spindoctor_model::ServerSample;
use spindoctor_model::mysql::{RowLockWait, Transaction};

use super::innodb_trx;
use super::rows::{Row, Rows};
use super::source::{Plan, Source, note_if_cut, open_transactions, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// Locks read at most.
const LIMIT: usize = 5000;

/// Holders of one place that are named for each of its waiters.
const HOLDERS: usize = 10;

const SQL: &str = "SELECT lock_id, lock_trx_id, lock_mode, lock_table, lock_index, lock_space, lock_page, lock_rec, \
    LEFT(lock_data, 256) AS lock_data FROM information_schema.INNODB_LOCKS LIMIT 5000";

/// The source. Where no transaction waits, nothing is asked.
///
/// Cost: the same copy that INNODB_TRX makes (asked just before, so shared: at most one in 0.1 s);
/// INNODB_LOCKS holds only locks that are waited for or in the way. Safe to ask every second.
///
/// Of n transactions that queue for one row INNODB_LOCK_WAITS has n(n+1)/2 pairs, INNODB_LOCKS n+1 locks. What a
/// transaction waits for stands in INNODB_TRX; a lock of the same place that is not waited for is in its way.
pub const SOURCE: Source = Source {
    name: "information_schema.INNODB_LOCKS",
    help: "who waits for whose row lock (MariaDB, MySQL 5.7 and older)",
    cost: "shares INNODB_TRX's copy, made under InnoDB's lock latches",
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::with(innodb_trx::SOURCE.name),
    plan: |version, _| {
        if version.mysql_at_least(8, 0, 0) {
            Plan::Elsewhere
        } else {
            Plan::AskAbout(|sample| {
                let waits = open_transactions(sample)?.iter().any(|t| t.requested_lock.is_some());
                Ok(waits.then(|| SQL.to_owned()))
            })
        }
    },
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.INNODB_LOCKS", rows, LIMIT, sample);
        let transactions = sample.transactions.value().map(Vec::as_slice).unwrap_or_default();
        sample.row_lock_waits = answer.reading(row_lock_waits(rows, transactions));
    },
    reading: ServerSample::field("row_lock_waits"),
};

/// A record, or a table where space, page and record are NULL.
fn place<'r>(lock: &Row<'r>) -> [Option<&'r str>; 4] {
    ["lock_table", "lock_space", "lock_page", "lock_rec"].map(|column| lock.text(column))
}

fn row_lock_waits(rows: &Rows, transactions: &[Transaction]) -> Vec<RowLockWait> {
    let connections: HashMap<&str, u64> =
        transactions.iter().filter_map(|t| Some((t.id.as_str(), t.connection_id?))).collect();
    let known: HashSet<&str> = transactions.iter().map(|t| t.id.as_str()).collect();
    let requested: HashSet<&str> = transactions.iter().filter_map(|t| t.requested_lock.as_deref()).collect();
    let locks: HashMap<&str, Row<'_>> =
        rows.iter().filter_map(|row| Some((row.text("lock_id")?, row))).collect();
    // A copy that is newer than that of the transactions has waiters that those do not: they are no holders.
    let is_known = |row: &Row<'_>| row.text("lock_trx_id").is_some_and(|id| known.contains(id));
    let mut holders: HashMap<_, Vec<&str>> = HashMap::new();
    let in_the_way =
        |row: &Row<'_>| row.text("lock_id").is_some_and(|id| !requested.contains(id)) && is_known(row);
    for row in rows.iter().filter(in_the_way) {
        holders.entry(place(&row)).or_default().extend(row.text("lock_trx_id"));
    }
    let mut waits = Vec::new();
    for waiter in transactions {
        let lock = waiter.requested_lock.as_deref().and_then(|id| locks.get(id));
        let Some(lock) = lock else { continue };
        let of_place = holders.get(&place(lock)).into_iter().flatten().filter(|holder| **holder != waiter.id);
        for blocking in of_place.take(HOLDERS) {
            waits.push(RowLockWait {
                waiting_connection_id: waiter.connection_id,
                blocking_connection_id: connections.get(blocking).copied(),
                waiting_transaction: waiter.id.clone(),
                blocking_transaction: (*blocking).to_owned(),
                // `t`.`a`
                table: lock.text("lock_table").unwrap_or_default().replace('`', ""),
                index: lock.text("lock_index").unwrap_or_default().replace('`', ""),
                record: lock.string("lock_data"),
                mode: lock.string("lock_mode"),
                waited_s: waiter.waited_s.unwrap_or(0.0),
            });
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_waiter_for_one_row_waits_for_its_holder_and_for_no_other_waiter() {
        let transaction = |id: &str, connection_id, requested: Option<&str>| Transaction {
            id: id.into(),
            connection_id: Some(connection_id),
            waited_s: requested.map(|_| 3.0),
            requested_lock: requested.map(str::to_owned),
            ..Transaction::default()
        };
        let transactions = [
            transaction("23", 27, None),
            transaction("24", 28, Some("24:0:304:2")),
            transaction("25", 29, Some("25:0:304:2")),
        ];
        // As MariaDB 10.11.19 prints them: two UPDATEs wait for the row of an open transaction; a third came
        // after the transactions had been read.
        let waits = row_lock_waits(
            &fixture::tabbed(
                "lock_id\tlock_trx_id\tlock_mode\tlock_table\tlock_index\tlock_space\tlock_page\tlock_rec\tlock_data\n\
                 25:0:304:2\t25\tX\t`t`.`a`\tPRIMARY\t0\t304\t2\t1\n\
                 23:0:304:2\t23\tX\t`t`.`a`\tPRIMARY\t0\t304\t2\t1\n\
                 24:0:304:2\t24\tX\t`t`.`a`\tPRIMARY\t0\t304\t2\t1\n\
                 26:0:304:2\t26\tX\t`t`.`a`\tPRIMARY\t0\t304\t2\t1\n",
            ),
            &transactions,
        );
        let pairs: Vec<_> =
            waits.iter().map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id)).collect();
        assert_eq!(pairs, [(Some(28), Some(27)), (Some(29), Some(27))]);
        let wait = &waits[0];
        assert_eq!((wait.table.as_str(), wait.record.as_str(), wait.waited_s), ("t.a", "1", 3.0));
        assert!(SQL.ends_with(&format!("LIMIT {LIMIT}")));
    }
}
