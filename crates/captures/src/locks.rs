//! Who waits for whose row lock, as `sys` lists it: the server's own list needs more than one result set.

use std::collections::BTreeMap;

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::{MetadataLock, RowLockWait, ServerThread, Transaction};

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

/// Who stands in a list of lock waits that says what each runs, as `sys.innodb_lock_waits` does: their sessions, and their transactions.
pub(crate) fn who_waits(rows: &Rows) -> (Vec<ServerThread>, Vec<Transaction>) {
    // Without this column it is not known whether who has the lock runs anything.
    if !rows.names().iter().any(|name| name.eq_ignore_ascii_case("blocking_query")) {
        return (Vec::new(), Vec::new());
    }
    let mut threads: BTreeMap<u64, ServerThread> = BTreeMap::new();
    let mut transactions: BTreeMap<u64, Transaction> = BTreeMap::new();
    // Who waits stands in the list as what others wait for, too: that it waits is what counts.
    for who in ["blocking", "waiting"] {
        let of = |row: &Row<'_>, what: &str| row.text(&format!("{who}_{what}")).map(str::to_owned);
        let number = |row: &Row<'_>, what: &str| row.number(&format!("{who}_{what}"));
        for row in rows.iter() {
            let Some(id) = number(&row, "pid") else { continue };
            let waited_s = row.text("wait_age").and_then(clock).filter(|_| who == "waiting");
            let waited_s = row.number("wait_age_secs").filter(|_| who == "waiting").or(waited_s);
            let age_s = of(&row, "trx_age").as_deref().and_then(clock).unwrap_or(0.0);
            let statement = of(&row, "query").filter(|text| !text.is_empty());
            let thread = ServerThread {
                connection_id: Some(id),
                is_connection: true,
                // Who runs nothing has no statement in the list.
                command: if statement.is_some() || who == "waiting" { "Query" } else { "Sleep" }.to_owned(),
                time_s: waited_s.unwrap_or(0.0),
                statement,
                ..ServerThread::default()
            };
            let transaction = Transaction {
                id: of(&row, "trx_id").unwrap_or_default(),
                connection_id: Some(id),
                state: if who == "waiting" { "LOCK WAIT" } else { "RUNNING" }.to_owned(),
                age_s,
                waited_s,
                rows_locked: number(&row, "trx_rows_locked").unwrap_or(0),
                rows_modified: number(&row, "trx_rows_modified").unwrap_or(0),
                ..Transaction::default()
            };
            threads.insert(id, thread);
            transactions.insert(id, transaction);
        }
    }
    (threads.into_values().collect(), transactions.into_values().collect())
}

/// `sys.schema_table_lock_waits`: the locks of those who wait and of those who block, and who waits for how long.
pub(crate) fn table_lock_waits(rows: &Rows) -> (Vec<MetadataLock>, Vec<ServerThread>) {
    let lock = |row: &Row<'_>, who: &str, granted: bool| MetadataLock {
        object_type: "TABLE".to_owned(),
        schema: row.string("object_schema"),
        name: row.string("object_name"),
        lock_type: row.string(&format!("{who}_lock_type")),
        granted,
        owner_internal_id: row.number(&format!("{who}_thread_id")),
        owner_connection_id: row.number(&format!("{who}_pid")),
    };
    let thread = |row: &Row<'_>, who: &str| {
        let account = row.string(&format!("{who}_account"));
        let (user, host) = account.rsplit_once('@').unwrap_or((&account, ""));
        ServerThread {
            internal_id: row.number(&format!("{who}_thread_id")),
            connection_id: row.number(&format!("{who}_pid")),
            user: user.to_owned(),
            host: host.to_owned(),
            is_connection: true,
            ..ServerThread::default()
        }
    };
    let mut locks: Vec<MetadataLock> = Vec::new();
    let mut threads: BTreeMap<Option<u64>, ServerThread> = BTreeMap::new();
    for row in rows.iter() {
        let waiting = ServerThread {
            command: "Query".to_owned(),
            state: "Waiting for table metadata lock".to_owned(),
            time_s: row.number("waiting_query_secs").unwrap_or(0.0),
            statement: row.text("waiting_query").map(str::to_owned),
            ..thread(&row, "waiting")
        };
        // What the holder does, this list does not say.
        let blocking = ServerThread { command: "Sleep".to_owned(), ..thread(&row, "blocking") };
        for new in [lock(&row, "blocking", true), lock(&row, "waiting", false)] {
            if !locks.contains(&new) {
                locks.push(new);
            }
        }
        threads.entry(blocking.connection_id).or_insert(blocking);
        threads.insert(waiting.connection_id, waiting);
    }
    (locks, threads.into_values().collect())
}

/// `performance_schema.data_locks`: who waits for a record that another has, by table, index and record.
/// The transactions of both stand beside it; the list has no connections.
pub(crate) fn data_locks(rows: &Rows) -> (Vec<RowLockWait>, Vec<Transaction>) {
    let place = |row: &Row<'_>| {
        ["object_schema", "object_name", "index_name", "lock_data"].map(|column| row.string(column))
    };
    let is = |row: &Row<'_>, status: &str| row.text("lock_status") == Some(status);
    let granted: Vec<Row<'_>> =
        rows.iter().filter(|row| is(row, "GRANTED") && row.text("lock_type") == Some("RECORD")).collect();
    let mut waits: Vec<RowLockWait> = Vec::new();
    for row in rows.iter().filter(|row| is(row, "WAITING")).take(MOST_WAITS) {
        let of = |row: &Row<'_>| first(*row, ["engine_transaction_id", "thread_id"]);
        let holders = granted.iter().filter(|holder| place(holder) == place(&row) && of(holder) != of(&row));
        let [schema, name, index, record] = place(&row);
        let table = if schema.is_empty() { name } else { format!("{schema}.{name}") };
        waits.extend(holders.take(MOST_HOLDERS).map(|holder| RowLockWait {
            waiting_transaction: of(&row),
            blocking_transaction: of(holder),
            table: table.clone(),
            index: index.clone(),
            record: record.clone(),
            mode: row.string("lock_mode"),
            ..RowLockWait::default()
        }));
    }
    let mut states: BTreeMap<&str, &str> = BTreeMap::new();
    for wait in &waits {
        states.entry(&wait.blocking_transaction).or_insert("RUNNING");
        states.insert(&wait.waiting_transaction, "LOCK WAIT");
    }
    let transaction = |(id, state): (&str, &str)| Transaction {
        id: id.to_owned(),
        state: state.to_owned(),
        ..Transaction::default()
    };
    let transactions = states.into_iter().map(transaction).collect();
    (waits, transactions)
}

/// Waits of one list, and holders of one record, that are kept.
const MOST_WAITS: usize = 2_000;
const MOST_HOLDERS: usize = 20;

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
    fn who_runs_nothing_is_idle_where_the_list_says_what_each_runs() {
        let head = "| waiting_trx_id | waiting_pid | waiting_query | wait_age | blocking_trx_id | blocking_pid | blocking_query |\n";
        let list = format!(
            "{head}| 4412 | 88 | UPDATE stock SET n = 1 | 00:00:19 | 4400 | 71 | NULL |\n\
             | 4413 | 89 | UPDATE stock SET n = 1 | 00:00:07 | 4400 | 71 | NULL |\n\
             | 4413 | 89 | UPDATE stock SET n = 1 | 00:00:07 | 4412 | 88 | UPDATE stock SET n = 1 |\n"
        );
        let (threads, transactions) = who_waits(&tables(&list)[0]);
        let does: Vec<_> = threads
            .iter()
            .map(|thread| (thread.connection_id, thread.command.as_str(), thread.time_s))
            .collect();
        assert_eq!(does, [(Some(71), "Sleep", 0.0), (Some(88), "Query", 19.0), (Some(89), "Query", 7.0)]);
        let states: Vec<_> = transactions.iter().map(|one| (one.id.as_str(), one.state.as_str())).collect();
        assert_eq!(states, [("4400", "RUNNING"), ("4412", "LOCK WAIT"), ("4413", "LOCK WAIT")]);
        let without = list.replace("blocking_query", "something_else");
        assert_eq!(who_waits(&tables(&without)[0]), (Vec::new(), Vec::new()), "what they run is not said");
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
