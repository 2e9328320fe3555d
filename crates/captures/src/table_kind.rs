//! What a result set is, by the names of its columns.

use crate::thread_pool::{self, ThreadPoolTable};

/// Columns that a replica's status has and nothing else.
const REPLICA: [&str; 8] = [
    "slave_io_state",
    "replica_io_state",
    "slave_io_running",
    "replica_io_running",
    "slave_sql_running",
    "replica_sql_running",
    "seconds_behind_master",
    "seconds_behind_source",
];

/// What a result set is, by the names of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Who is connected.
    ProcessList,
    /// Names and values.
    Named,
    /// `SHOW REPLICA STATUS`
    Replica,
    /// `SHOW ENGINE INNODB STATUS`, whose text stands in it, or `SHOW ENGINE INNODB MUTEX`.
    Status,
    /// `information_schema.INNODB_TRX`
    Transactions,
    /// `sys.innodb_lock_waits`
    LockWaits,
    /// `performance_schema.metadata_locks`
    MetadataLocks,
    /// MariaDB's `information_schema.METADATA_LOCK_INFO`
    MetadataLockInfo,
    /// `sys.schema_table_lock_waits`
    TableLockWaits,
    /// `performance_schema.data_locks`
    DataLocks,
    /// MariaDB's `information_schema.THREAD_POOL_GROUPS`, `_QUEUES`, `_STATS` and `_WAITS`.
    ThreadPool(ThreadPoolTable),
    /// `SHOW BINARY LOG STATUS`, to MySQL 8.0 `SHOW MASTER STATUS`
    BinaryLog,
}

/// What a table of these columns, in lower case, is; None for one that is not known.
pub(crate) fn kind(columns: &[String]) -> Option<TableKind> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let any = |names: &[&str]| names.iter().any(|name| has(name));
    if has("argument") {
        // The head that a server writes at the beginning of its slow and its general log: `Time  Id Command  Argument`.
        None
    } else if has("variable_name") && any(&["value", "variable_value"]) {
        Some(TableKind::Named)
    } else if any(&REPLICA) {
        Some(TableKind::Replica)
    } else if let Some(table) = thread_pool::table(columns) {
        Some(TableKind::ThreadPool(table))
    } else if has("file") && has("position") && has("binlog_do_db") {
        Some(TableKind::BinaryLog)
    } else if has("trx_id") && has("trx_state") {
        Some(TableKind::Transactions)
    } else if has("waiting_lock_type") && has("blocking_lock_type") && has("waiting_pid") {
        Some(TableKind::TableLockWaits)
    } else if has("lock_status") && has("lock_type") && has("lock_data") {
        Some(TableKind::DataLocks)
    } else if has("lock_mode") && has("lock_type") && has("thread_id") && has("table_name") {
        Some(TableKind::MetadataLockInfo)
    } else if (has("waiting_pid") && has("blocking_pid"))
        || any(&["blocking_trx_id", "blocking_engine_transaction_id"])
    {
        Some(TableKind::LockWaits)
    } else if has("lock_type") && has("lock_status") && has("object_type") {
        Some(TableKind::MetadataLocks)
    } else if has("type") && has("name") && has("status") && columns.len() == 3 {
        Some(TableKind::Status)
    } else if any(&["id", "processlist_id"])
        && any(&["info", "state", "command", "processlist_command", "processlist_state"])
        || has("time") && any(&["user", "state", "info", "command"])
    {
        Some(TableKind::ProcessList)
    } else {
        None
    }
}
