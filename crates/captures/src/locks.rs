//! Who waits for whose row lock, as `sys` lists it: the server's own list needs more than one result set.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::{RowLockWait, Transaction};

/// `sys.innodb_lock_waits`, `information_schema.INNODB_LOCK_WAITS`, `performance_schema.data_lock_waits`
pub(crate) fn lock_waits(rows: &Rows) -> Vec<RowLockWait> {
    rows.iter()
        .map(|row| {
            let table = row.text("locked_table").map(|table| table.replace('`', ""));
            let index = row.text("locked_index").map(|index| index.replace('`', ""));
            RowLockWait {
                waiting_connection_id: row.number("waiting_pid"),
                blocking_connection_id: row.number("blocking_pid"),
                waiting_transaction: first(
                    row,
                    ["waiting_trx_id", "requesting_trx_id", "requesting_engine_transaction_id"],
                ),
                blocking_transaction: first(row, ["blocking_trx_id", "blocking_engine_transaction_id"]),
                table: table.unwrap_or_default(),
                index: index.unwrap_or_default(),
                record: String::new(),
                mode: row.string("waiting_lock_mode"),
                waited_s: row
                    .number("wait_age_secs")
                    .or_else(|| row.text("wait_age").and_then(clock))
                    .unwrap_or(0.0),
            }
        })
        .collect()
}

/// The first of these columns that the row has.
fn first<const N: usize>(row: Row<'_>, columns: [&str; N]) -> String {
    columns.iter().find_map(|column| row.text(column)).unwrap_or_default().to_owned()
}

/// Fills in the connections of those who wait and block, where a list of transactions has them.
pub(crate) fn with_connections(waits: &mut [RowLockWait], transactions: &[Transaction]) {
    let of = |id: &str| transactions.iter().find(|transaction| !id.is_empty() && transaction.id == id);
    for wait in waits {
        let (waiting, blocking) = (of(&wait.waiting_transaction), of(&wait.blocking_transaction));
        wait.waiting_connection_id = wait.waiting_connection_id.or(waiting.and_then(|one| one.connection_id));
        wait.blocking_connection_id =
            wait.blocking_connection_id.or(blocking.and_then(|one| one.connection_id));
    }
}

/// `00:00:19`
pub(crate) fn clock(text: &str) -> Option<f64> {
    let mut seconds = 0.0;
    for part in text.split(':') {
        seconds = seconds * 60.0 + part.trim().parse::<f64>().ok().filter(|part| part.is_finite())?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    #[test]
    fn who_waits_for_whom_is_read_as_sys_lists_it() {
        let text = "*************************** 1. row ***************************\nwait_age: 00:01:19\nwait_age_secs: 79\n\
                    locked_table: `shop`.`stock`\nlocked_index: PRIMARY\nwaiting_trx_id: 11\nwaiting_pid: 5\nblocking_trx_id: 12\n\
                    blocking_pid: 6\n";
        let waits = lock_waits(&tables(text)[0]);
        assert_eq!((waits[0].waiting_connection_id, waits[0].blocking_connection_id), (Some(5), Some(6)));
        assert_eq!((waits[0].table.as_str(), waits[0].waited_s), ("shop.stock", 79.0));
        assert_eq!(clock("00:01:19"), Some(79.0));
    }

    #[test]
    fn older_lists_name_transactions_and_get_their_connections() {
        for (waiting, blocking) in [
            ("requesting_trx_id", "blocking_trx_id"),
            ("REQUESTING_ENGINE_TRANSACTION_ID", "BLOCKING_ENGINE_TRANSACTION_ID"),
        ] {
            let text = format!("| {waiting} | requested_lock_id | {blocking} |\n| 11 | 11:58:3:43 | 12 |\n");
            let mut waits = lock_waits(&tables(&text)[0]);
            let transaction = |id: &str, connection| Transaction {
                id: id.to_owned(),
                connection_id: Some(connection),
                ..Transaction::default()
            };
            with_connections(&mut waits, &[transaction("11", 5), transaction("12", 6)]);
            assert_eq!((waits[0].waiting_connection_id, waits[0].blocking_connection_id), (Some(5), Some(6)));
        }
    }
}
