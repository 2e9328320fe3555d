//! What a result set is, by the names of its columns.

use crate::appliers;
use crate::counted;
use crate::group_members;
use crate::innodb_locks;
use crate::locks;
use crate::open_tables;
use crate::plan_rows;
use crate::profile_rows;
use crate::semaphore_rows;
use crate::slow_rows;
use crate::summaries::{self, Summary};
use crate::thread_pool::{self, ThreadPoolTable};

/// Columns that a replica's status has and nothing else.
const REPLICA: [&str; 10] = [
    "slave_io_state",
    "replica_io_state",
    "slave_io_running",
    "replica_io_running",
    "slave_sql_running",
    "replica_sql_running",
    "seconds_behind_master",
    "seconds_behind_source",
    "last_io_errno",
    "last_sql_errno",
];

/// Columns that lists of TiDB have and nothing else.
const TIDB: [&str; 5] =
    ["current_holding_trx_id", "try_lock_trx_id", "cop_task_num", "txn_start_ts", "sum_cop_task_num"];

/// Columns that process lists of StarRocks have and no other's; those of Apache Doris have two more by which they are known.
const STARROCKS: [&str; 2] = ["connectionstarttime", "ispending"];

/// Columns with the errors of a replica's parts, which somebody may have copied without the rest.
pub(crate) const ERRORS_OF_REPLICA: [&str; 4] =
    ["last_io_errno", "last_io_error", "last_sql_errno", "last_sql_error"];

/// Columns of lists of row locks, beside who waits, and of no list of metadata locks.
const OF_ROW_LOCKS: [&str; 8] = [
    "waiting_trx_id",
    "blocking_trx_id",
    "waiting_lock_mode",
    "blocking_lock_mode",
    "lock_mode",
    "index_name",
    "locked_index",
    "lock_data",
];

/// What a result set is, by the names of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Who is connected.
    ProcessList,
    /// How many sessions are in each state, or of each user.
    SessionCounts,
    /// Names and values.
    Named,
    /// `SHOW REPLICA STATUS`
    Replica,
    /// What performance_schema lists of the parts of a replica, each with its last error.
    Appliers,
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
    /// `information_schema.INNODB_LOCKS`
    InnodbLocks,
    /// MariaDB's `information_schema.INNODB_SYS_SEMAPHORE_WAITS`
    SemaphoreWaits,
    /// MariaDB's `information_schema.THREAD_POOL_GROUPS`, `_QUEUES`, `_STATS` and `_WAITS`.
    ThreadPool(ThreadPoolTable),
    /// Numbers of `performance_schema.threads` with their connections, and no more of these.
    ThreadIds,
    /// `XA RECOVER`
    PreparedXa,
    /// `performance_schema.replication_group_members`
    GroupMembers,
    /// `performance_schema.replication_group_member_stats`
    GroupQueues,
    /// `SHOW OPEN TABLES`
    OpenTables,
    /// `mysql.slow_log`
    SlowLog,
    /// A summary of performance_schema or `sys`.
    Summary(Summary),
    /// `EXPLAIN`, and MariaDB's `ANALYZE`
    Plan,
    /// What ProxySQL lists of its sessions and servers, in words of its own: `SHOW PROCESSLIST`, `stats_mysql_connection_pool`.
    OfProxySql,
    /// What a server of another kind that speaks MySQL's protocol lists by columns of its own, and which it is: TiDB's `DATA_LOCK_WAITS`,
    /// the process list of StarRocks.
    OfOther(&'static str),
    /// `SHOW PROFILE`
    StatementProfile,
    /// `SHOW BINARY LOG STATUS`, to MySQL 8.0 `SHOW MASTER STATUS`
    BinaryLog,
}

/// What a table of these columns, in lower case, is; None for one that is not known.
pub(crate) fn kind(columns: &[String]) -> Option<TableKind> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let any = |names: &[&str]| names.iter().any(|name| has(name));
    let of_sys = locks::names_of_sys(columns);
    let has_of_sys = |name: &str| of_sys.iter().any(|column| column == name);
    if has("argument") || has("pid") && any(&["wcpu", "pri"]) {
        // The head that a server writes at the beginning of its slow and its general log: `Time  Id Command  Argument`; and that of the
        // BSDs' `top`: `PID USERNAME THR PRI NICE SIZE RES STATE C TIME WCPU COMMAND`.
        None
    } else if has("variable_name") && any(&["value", "variable_value"]) {
        Some(TableKind::Named)
    } else if has("hostgroup") && has("srv_host") {
        Some(TableKind::OfProxySql)
    } else if any(&TIDB) {
        Some(TableKind::OfOther("TiDB"))
    } else if has("info") && any(&STARROCKS) || has("currentconnected") && has("logintime") {
        Some(TableKind::OfOther("StarRocks or Apache Doris"))
    } else if plan_rows::is_list(columns) {
        Some(TableKind::Plan)
    } else if profile_rows::is_list(columns) {
        Some(TableKind::StatementProfile)
    } else if any(&REPLICA) || has_errors_of_replica(columns) {
        Some(TableKind::Replica)
    } else if appliers::is_list(columns) {
        Some(TableKind::Appliers)
    } else if open_tables::is_list(columns) {
        Some(TableKind::OpenTables)
    } else if innodb_locks::is_list(columns) {
        Some(TableKind::InnodbLocks)
    } else if semaphore_rows::is_list(columns) {
        Some(TableKind::SemaphoreWaits)
    } else if slow_rows::is_list(columns) {
        Some(TableKind::SlowLog)
    } else if let Some(summary) = summaries::summary(columns) {
        Some(TableKind::Summary(summary))
    } else if let Some(table) = thread_pool::table(columns) {
        Some(TableKind::ThreadPool(table))
    } else if has("gtrid_length") && has("bqual_length") {
        Some(TableKind::PreparedXa)
    } else if group_members::is_list(columns) {
        Some(TableKind::GroupMembers)
    } else if group_members::has_queues(columns) {
        Some(TableKind::GroupQueues)
    } else if has("file") && has("position") && has("binlog_do_db") {
        Some(TableKind::BinaryLog)
    } else if has("trx_state") && any(&["trx_id", "trx_started", "trx_mysql_thread_id"]) {
        Some(TableKind::Transactions)
    } else if has_of_sys("waiting_pid")
        && (has_of_sys("waiting_lock_type") && has_of_sys("blocking_lock_type") || has("object_name"))
        && !OF_ROW_LOCKS.iter().any(|name| has_of_sys(name))
    {
        Some(TableKind::TableLockWaits)
    } else if has("lock_status") && has("lock_type") && has("lock_data") {
        Some(TableKind::DataLocks)
    } else if has("lock_mode") && has("lock_type") && has("thread_id") && has("table_name") {
        Some(TableKind::MetadataLockInfo)
    } else if ["pid", "thread_id"].iter().any(|id| {
        ["waiting", "requesting"].iter().any(|who| has_of_sys(&format!("{who}_{id}")))
            && has_of_sys(&format!("blocking_{id}"))
    }) || ["blocking_trx_id", "blocking_engine_transaction_id"].iter().any(|id| has_of_sys(id))
    {
        Some(TableKind::LockWaits)
    } else if has("lock_type")
        && has("lock_status")
        && (has("object_type") || has("object_name") && !any(&["lock_mode", "index_name", "engine"]))
    {
        Some(TableKind::MetadataLocks)
    } else if has("type") && has("name") && has("status") && columns.len() == 3 {
        Some(TableKind::Status)
    } else if counted::is_list(columns) {
        Some(TableKind::SessionCounts)
    } else if any(&["id", "processlist_id", "conn_id"])
        && any(&["info", "state", "command", "current_statement", "processlist_command", "processlist_state"])
        || has("time") && any(&["user", "state", "info", "command"])
        || has("state") && has("info")
    {
        Some(TableKind::ProcessList)
    } else if has("thread_id") && has("processlist_id") {
        Some(TableKind::ThreadIds)
    } else {
        None
    }
}

/// True for the errors of a replica's parts without the rest of its status. Each of its columns has a `_` in its name, which words of a
/// sentence about them have not.
fn has_errors_of_replica(columns: &[String]) -> bool {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let has_errors = ERRORS_OF_REPLICA.iter().any(|name| has(name)) || has("last_errno") && has("last_error");
    has_errors && columns.iter().all(|column| column.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(columns: &str) -> Option<TableKind> {
        kind(&columns.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lists_of_lock_waits_are_known_by_who_waits_and_who_blocks() {
        for columns in [
            "waiting_thread,waiting_query,blocking_thread,blocking_query",
            "waiting trx id,waiting thread,blocking trx id,blocking thread",
            "waiting_processlist_id,waiting_query,blocking_processlist_id",
            "waiting_trx_thread,blocking_trx_thread",
            "engine,requesting_thread_id,blocking_thread_id",
            "blocked_thread,blocked_query,blocker_thread,blocker_query",
            "waiter_trx_id,waiter_pid,holder_trx_id,holder_pid",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::LockWaits), "{columns}");
        }
        for columns in [
            "object_schema,object_name,waiting_pid,waiting_query,blocking_pid",
            "object_name,waiting_processlist_id,blocking_processlist_id",
            "object,owner_lock_type,pending_lock_type,connection_id_owner,connection_id_pending_owner",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::TableLockWaits), "{columns}");
        }
        for columns in [
            "object_name,index_name,waiting_pid,blocking_pid",
            "waiting_thread,waiting_trx_id,blocking_thread,blocking_lock_mode,blocking_lock_type,waiting_lock_type",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::LockWaits), "{columns}");
        }
    }

    #[test]
    fn who_blocks_whom_in_lists_of_others_is_no_list_of_lock_waits() {
        for columns in [
            "blocked_pid,blocked_user,blocking_pid,blocking_user,blocked_statement",
            "id,blocker_id,blocked_id",
            "thread_id,owner_id,title",
        ] {
            assert_eq!(kind_of(columns), None, "{columns}");
        }
    }

    #[test]
    fn errors_of_a_replica_alone_are_of_its_status_and_a_sentence_about_them_is_not() {
        for columns in ["last_sql_errno,last_sql_error", "last_io_error", "last_errno,last_error"] {
            assert_eq!(kind_of(columns), Some(TableKind::Replica), "{columns}");
        }
        assert_eq!(kind_of("what,does,last_io_error,mean"), None);
    }

    #[test]
    fn lists_of_proxysql_are_none_of_a_server() {
        for columns in [
            "threadid,sessionid,user,db,cli_host,cli_port,hostgroup,l_srv_host,l_srv_port,srv_host,srv_port,command,time_ms,info",
            "hostgroup,srv_host,srv_port,status,connused,connfree,connok,connerr,queries",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::OfProxySql), "{columns}");
        }
    }

    #[test]
    fn lists_of_servers_of_another_kind_are_known_as_theirs() {
        for columns in [
            "key,trx_id,current_holding_trx_id,sql_digest",
            "deadlock_id,occur_time,retryable,try_lock_trx_id,trx_holding_lock",
            "schema_name,digest,digest_text,exec_count,sum_latency,avg_latency,cop_task_num",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::OfOther("TiDB")), "{columns}");
        }
        for columns in [
            "id,user,host,db,command,connectionstarttime,time,state,info,ispending",
            "currentconnected,id,user,host,logintime,catalog,db,command,time,state,queryid,info,fe",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::OfOther("StarRocks or Apache Doris")), "{columns}");
        }
        assert_eq!(kind_of("id,user,host,db,command,time,state,info"), Some(TableKind::ProcessList));
    }

    #[test]
    fn transactions_are_known_without_their_numbers_and_sessions_of_sys_are_none() {
        for columns in [
            "trx_state,trx_started,trx_mysql_thread_id,trx_query",
            "id,user,time,state,trx_started,trx_state,trx_query",
        ] {
            assert_eq!(kind_of(columns), Some(TableKind::Transactions), "{columns}");
        }
        let of_sys = "thd_id,conn_id,user,command,state,time,current_statement,trx_latency,trx_state";
        assert_eq!(kind_of(of_sys), Some(TableKind::ProcessList));
    }

    #[test]
    fn a_join_of_metadata_locks_with_threads_is_no_process_list() {
        let joined =
            "object_schema,object_name,lock_type,lock_status,thread_id,processlist_id,processlist_info";
        assert_eq!(kind_of(joined), Some(TableKind::MetadataLocks));
        assert_eq!(kind_of("id,user,host,db,command,time,state,info"), Some(TableKind::ProcessList));
    }
}
