//! What frames and states say of a session that waits: the tables of the time model, one line per wait.
//!
//! Functions are those of MySQL 5.5 to 9.7 and MariaDB 10.1 to 11.8, with the file they come from; states are those of their
//! process lists. A line that is missing here makes a wait `other`, never another class.

use spindoctor_model::TimeClass::{self, *};

/// Functions below which a thread serves a client (sql/sql_parse.cc, sql/sql_connect.cc, sql/conn_handler, sql/threadpool*).
pub(crate) const CONNECTION: &[&str] = &[
    "do_command",
    "dispatch_command",
    "handle_connection",
    "handle_one_connection",
    "do_handle_one_connection",
    "tp_callback",
    "threadpool_process_request",
    "threadpool_add_connection",
    // sql/event_data_objects.cc: an event has a session of its own, and no client
    "Event_job_data::execute",
    // sql/mysqld.cc: the end of a connection
    "one_thread_per_connection_end",
    "close_connection",
    "end_connection",
];

/// How functions begin that run below a statement alone (sql/handler.cc, storage/innobase/handler/ha_innodb.cc, sql/sql_base.cc).
/// They say that a thread serves a client where the outer functions of its stack are not known.
pub(super) const BELOW_STATEMENT: &[&str] = &[
    "mysql_execute_command",
    "mysql_parse",
    "mysql_select",
    "mysql_insert",
    "mysql_update",
    "mysql_delete",
    "JOIN::exec",
    "open_table",
    "open_and_lock_tables",
    "mysql_lock_tables",
    "handler::ha_",
    "ha_innobase::",
    "ha_innodb::",
    "innodb_srv_conc_enter_innodb",
    "trans_commit",
];

/// Functions that send the binary log to a replica (sql/rpl_source.cc, sql/rpl_binlog_sender.cc, sql/sql_repl.cc): such a thread serves
/// a connection and no statement, and rests until something is written.
pub(super) const DUMPS: &[&str] = &[
    "com_binlog_dump",
    "com_binlog_dump_gtid",
    "mysql_binlog_send",
    "Binlog_sender::run",
    "Binlog_sender::wait_new_events",
];

/// The functions below which a statement of a client, or of an event, is at work.
pub(crate) const STATEMENT: &[&str] = &["dispatch_command", "Event_job_data::execute"];

/// Functions below which a client logs in, its authentication and a TLS handshake among it (sql/auth, sql/sql_connect.cc; MariaDB's
/// packages name the first).
pub(crate) const LOGIN: &[&str] =
    &["acl_authenticate", "login_connection", "thd_prepare_connection", "check_connection"];

/// Functions in which a thread of a connection waits for the next statement, or for the next connection (sql/net_serv.cc, vio/viosocket.cc,
/// sql/protocol_classic.cc, sql/mysqld.cc, sql/conn_handler).
pub(super) const RESTS: &[&str] = &[
    "vio_io_wait",
    "vio_socket_io_wait",
    "vio_read",
    "vio_read_buff",
    "my_real_read",
    "my_net_read",
    "my_net_read_packet",
    "net_read_raw_loop",
    "net_read_packet",
    "Protocol_classic::read_packet",
    "Protocol_classic::get_command",
    "end_thread",
    "one_thread_per_connection_end",
    "cache_thread",
    "block_until_new_connection",
    "Per_thread_connection_handler::block_until_new_connection",
];

/// Functions that wait, and the class of the wait, wherever on the stack they stand. The first line that fits decides: what
/// is special stands before what is general.
pub(super) const WAITS: &[(&str, TimeClass)] = &[
    // mysys/errors.cc, mysys/errors.c: sleeps between its tries
    ("wait_for_free_space", DiskFull),
    ("mariadb_sleep_for_space", DiskFull),
    // sql/item_func.cc: GET_LOCK waits in the metadata locks' functions
    ("Item_func_get_lock::val_int", UserLock),
    // handler/ha_innodb.cc, row/row0mysql.cc, dict/dict0dict.cc: the lock on the counter is a table lock of InnoDB
    ("row_lock_table_autoinc_for_mysql", AutoIncrementLock),
    ("ha_innobase::innobase_lock_autoinc", AutoIncrementLock),
    ("ha_innobase::innobase_get_autoinc", AutoIncrementLock),
    ("dict_table_autoinc_lock", AutoIncrementLock),
    ("row_lock_table_autoinc", AutoIncrementLock),
    // sql/locks: FLUSH TABLES WITH READ LOCK, BACKUP STAGE
    ("Global_read_lock::lock_global_read_lock", GlobalLock),
    ("Global_read_lock::make_global_read_lock_block_commit", GlobalLock),
    ("Global_read_lock::wait_if_global_read_lock", GlobalLock),
    ("TABLE_SHARE::wait_for_old_version", GlobalLock),
    ("tdc_wait_for_old_version", GlobalLock),
    ("TDC_element::wait_for_refs", GlobalLock),
    // plugin/semisync, sql/semisync_master.cc
    ("ReplSemiSyncMaster::commitTrx", SemiSync),
    ("Repl_semi_sync_master::commit_trx", SemiSync),
    ("Repl_semi_sync_master::await_all_slave_replies", SemiSync),
    // sql/rpl_handler.cc: the hooks behind which the plugin, whose own functions have no names, waits
    ("Binlog_storage_delegate::after_sync", SemiSync),
    ("Trans_delegate::after_commit", SemiSync),
    ("repl_semi_report_commit", SemiSync),
    ("repl_semi_report_binlog_sync", SemiSync),
    // sql/wsrep_*.cc, wsrep-lib
    ("wsrep::transaction::before_commit", Galera),
    ("wsrep::transaction::certify_commit", Galera),
    ("wsrep::client_state::before_command", Galera),
    ("wsrep_run_wsrep_commit", Galera),
    ("galera::ReplicatorSMM::replicate", Galera),
    ("galera::ReplicatorSMM::certify", Galera),
    // galera/src/replicator_smm.cpp, wsrep_provider.cpp, gcs/src/gcs.cpp: below wsrep_run_wsrep_commit to Galera 3
    ("galera::ReplicatorSMM::cert", Galera),
    ("galera::ReplicatorSMM::pre_commit", Galera),
    ("galera_pre_commit", Galera),
    ("galera::Gcs::replv", Galera),
    ("gcs_replv", Galera),
    ("gcs_sm_enter", Galera),
    // plugin/group_replication: pipeline_stats.cc, observer_trans.cc; sql/rpl_handler.cc: the hook that calls the plugin
    ("Flow_control_module::do_wait", GroupReplication),
    ("group_replication_trans_before_commit", GroupReplication),
    ("Trans_delegate::before_commit", GroupReplication),
    // The hook at the begin of a transaction: group_replication_consistency
    ("group_replication_trans_begin", Other),
    ("Trans_delegate::trans_begin", Other),
    // sql/binlog.cc, sql/log.cc: delays that a variable asks for
    ("Commit_stage_manager::wait_count_or_timeout", CommitDelay),
    ("Stage_manager::wait_count_or_timeout", CommitDelay),
    ("MYSQL_BIN_LOG::wait_for_sufficient_commits", CommitDelay),
    // sql/rpl_commit_order_manager.cc, sql/sql_class.cc
    ("Commit_order_manager::wait", CommitOrder),
    ("Commit_order_manager::wait_on_graph", CommitOrder),
    ("wait_for_commit::wait_for_prior_commit2", CommitOrder),
    // sql/item_gtid_func.cc, sql/item_func.cc, sql/rpl_gtid_state.cc, sql/rpl_rli.cc; MariaDB: sql/item_func.cc, sql/rpl_gtid.cc
    ("Item_wait_for_executed_gtid_set::val_int", ReplicaWait),
    ("Item_master_gtid_set_wait::val_int", ReplicaWait),
    ("Item_master_gtid_wait::val_int", ReplicaWait),
    ("Item_master_pos_wait::val_int", ReplicaWait),
    ("Item_source_pos_wait::val_int", ReplicaWait),
    ("Gtid_state::wait_for_gtid_set", ReplicaWait),
    ("Relay_log_info::wait_for_gtid_set", ReplicaWait),
    ("Relay_log_info::wait_for_pos", ReplicaWait),
    ("gtid_waiting::wait_for_pos", ReplicaWait),
    // sql/auth/sql_auth_cache.cc: it waits in the metadata locks' functions
    ("Acl_cache_lock_guard::lock", PrivilegeCache),
    // sql/mdl.cc
    ("MDL_wait::timed_wait", MetadataLock),
    ("MDL_context::acquire_lock", MetadataLock),
    // lock/lock0wait.cc, srv/srv0srv.c
    ("lock_wait_suspend_thread", RowLock),
    ("srv_suspend_mysql_thread", RowLock),
    ("lock_wait", RowLock),
    // MyRocks: rocksdb/utilities/transactions/lock, rocksdb/db/write_thread.cc, the queue before the write-ahead log
    ("rocksdb::TransactionLockMgr::AcquireWithTimeout", RowLock),
    ("rocksdb::PointLockManager::AcquireWithTimeout", RowLock),
    ("TransactionLockMgr::AcquireWithTimeout", RowLock),
    ("PointLockManager::AcquireWithTimeout", RowLock),
    ("rocksdb::WriteThread::BlockingAwaitState", Commit),
    ("rocksdb::WriteThread::AwaitState", Commit),
    ("rocksdb::WriteThread::JoinBatchGroup", Commit),
    ("WriteThread::BlockingAwaitState", Commit),
    // mysys/thr_lock.c
    ("thr_lock", TableLock),
    ("thr_multi_lock", TableLock),
    ("wait_for_lock", TableLock),
    // srv/srv0conc.cc
    ("srv_conc_enter_innodb", ConcurrencyTicket),
    ("srv_conc_enter_innodb_with_atomics", ConcurrencyTicket),
    ("ha_innobase::srv_concurrency_enter", ConcurrencyTicket),
    // log/log0chkp.cc, log/log0log.cc, log/log0buf.cc
    ("log_free_check_wait", LogSpace),
    ("log_wait_for_space", LogSpace),
    ("log_wait_for_space_in_log_buf", LogSpace),
    ("log_checkpoint_margin", LogSpace),
    ("log_preflush_pool_modified_pages", LogSpace),
    ("log_free_check", LogSpace),
    ("buf_flush_wait_flushed", LogSpace),
    // row/row0mysql.cc, trx/trx0purge.cc
    ("row_mysql_delay_if_needed", PurgeDelay),
    // sql/sql_cache.cc
    ("Query_cache::lock", QueryCache),
    ("Query_cache::try_lock", QueryCache),
    // sql/log.cc: each log has one mutex, under which a line is written; one that is kept in a table waits above, for the table
    ("File_query_log::write_general", StatementLog),
    ("File_query_log::write_slow", StatementLog),
    ("MYSQL_QUERY_LOG::write", StatementLog),
    ("Log_to_file_event_handler::log_general", StatementLog),
    ("Log_to_file_event_handler::log_slow", StatementLog),
    ("Query_logger::general_log_write", StatementLog),
    ("Query_logger::slow_log_write", StatementLog),
    ("LOGGER::general_log_write", StatementLog),
    ("LOGGER::slow_log_print", StatementLog),
    // sql/sql_audit.cc, sql/sql_event_tracking_to_audit_event_mapping.cc: plugins that are asked about each statement
    ("mysql_audit_notify", StatementLog),
    ("mysql_audit_table_access_notify", StatementLog),
    ("mysql_event_tracking_command_notify", StatementLog),
    ("mysql_event_tracking_general_notify", StatementLog),
    ("mysql_event_tracking_query_notify", StatementLog),
    ("mysql_event_tracking_table_access_notify", StatementLog),
    // buf/buf0lru.cc
    ("buf_LRU_get_free_block", FreePage),
    // buf/buf0rea.cc, buf/buf0buf.cc
    ("buf_wait_for_read", Read),
    ("buf_read_page", Read),
    ("buf_read_page_low", Read),
    ("buf_read_ahead_linear", Read),
    // sync/sync0arr.cc, sync/sync0rw.cc, include/ib0mutex.h; sync/srw_lock.cc
    ("sync_array_wait_event", Latch),
    ("rw_lock_s_lock_spin", Latch),
    ("rw_lock_s_lock_func", Latch),
    ("rw_lock_x_lock_func", Latch),
    ("rw_lock_x_lock_wait_func", Latch),
    ("rw_lock_sx_lock_func", Latch),
    ("mutex_spin_wait", Latch),
    ("TTASEventMutex::wait", Latch),
    ("srw_mutex_impl::wait", Latch),
    ("srw_mutex_impl::wait_and_lock", Latch),
    ("ssux_lock_impl::wait", Latch),
    ("ssux_lock_impl::rd_wait", Latch),
    ("ssux_lock_impl::wr_wait", Latch),
    ("srw_lock_impl::rd_wait", Latch),
    ("srw_lock_impl::wr_wait", Latch),
];

/// Functions that take a page's latch for who wants the page (buf/buf0buf.cc).
pub(super) const PAGE_FETCHES: &[&str] = &[
    "Buf_fetch::single_page",
    "buf_page_get_gen",
    "buf_page_get_low",
    "buf_page_optimistic_get",
    "buf_page_get_known_nowait",
];

/// Functions that write pages, with the latches of these pages held until they are written (buf/buf0flu.cc, buf/buf0dblwr.cc).
pub(crate) const PAGE_WRITES: &[&str] = &[
    "Double_write::write_to_datafile",
    "Double_write::write_data_pages",
    "Double_write::flush_to_disk",
    "Double_write::write_pages",
    "Batch_segment::write",
    "buf_dblwr_flush_buffered_writes",
    "buf_dblwr_add_to_batch",
    "buf_dblwr_write_single_page",
    "buf_flush_write_block_low",
    "buf_flush_page",
    "buf_flush_try_neighbors",
    "buf_flush_batch",
    "buf_flush_do_batch",
    "buf_flush_lists",
    "pc_flush_slot",
    "buf_do_flush_list_batch",
    "buf_do_LRU_batch",
];

/// Functions of a commit: what waits below them, and is in none of [`WAITS`], waits for the commit.
pub(crate) const COMMIT: &[&str] = &[
    "trans_commit",
    "trans_commit_stmt",
    "trans_commit_implicit",
    "ha_commit_trans",
    "ha_commit_low",
    "ha_commit_one_phase",
    "MYSQL_BIN_LOG::commit",
    "MYSQL_BIN_LOG::ordered_commit",
    "MYSQL_BIN_LOG::write_transaction_to_binlog_events",
    "MYSQL_BIN_LOG::queue_for_group_commit",
    "log_write_up_to",
    "trx_commit_complete_for_mysql",
    "trx_flush_log_if_needed",
];

/// Functions that change a row (handler/ha_innodb.cc, sql/handler.cc): InnoDB delays them where purge is behind.
pub(super) const CHANGES: &[&str] = &[
    "ha_innobase::write_row",
    "ha_innobase::update_row",
    "ha_innobase::delete_row",
    "handler::ha_write_row",
    "handler::ha_update_row",
    "handler::ha_delete_row",
];

/// Functions that undo changes.
pub(super) const ROLLBACK: &[&str] =
    &["trans_rollback", "trans_rollback_stmt", "ha_rollback_trans", "trx_rollback_for_mysql"];

/// Functions that open and close tables (sql/sql_base.cc, sql/table_cache.h): a mutex below them is theirs.
pub(super) const TABLES: &[&str] = &[
    "open_table",
    "open_tables",
    "close_open_tables",
    "close_thread_tables",
    "close_thread_table",
    "tdc_acquire_share",
    "tc_acquire_table",
];

/// Functions that look a table up among those that are known: where another thread is about to open it for the first time, they wait for that
/// (sql/sql_base.cc, COND_open).
pub(super) const SHARES: &[&str] = &["get_table_share", "get_table_share_with_discover"];

/// How functions of the query cache begin (sql/sql_cache.cc): to 5.5 its lock is a mutex that they take themselves.
pub(super) const QUERY_CACHE: &[&str] = &["Query_cache::", "query_cache_"];

/// Functions that check and change privileges (sql/auth, sql/sql_acl.cc): a mutex or rw-lock below them is theirs.
pub(super) const PRIVILEGES: &[&str] = &[
    "mysql_grant",
    "acl_reload",
    "grant_reload",
    "acl_authenticate",
    "acl_get",
    "Security_context::has_global_grant",
    "Security_context::checkout_access_maps",
    "check_grant",
    "check_access",
    "check_table_access",
];

/// Functions of the C library that wait for a mutex or a rw-lock.
pub(crate) const MUTEXES: &[&str] = &[
    "pthread_mutex_lock",
    "___pthread_mutex_lock",
    "__pthread_mutex_lock",
    "__GI___pthread_mutex_lock",
    "pthread_mutex_lock@@GLIBC_2.2.5",
    "__lll_lock_wait",
    "__GI___lll_lock_wait",
    "__lll_mutex_lock_wait",
    "lll_mutex_lock_optimized",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "___pthread_rwlock_rdlock",
    "___pthread_rwlock_wrlock",
    "__pthread_rwlock_rdlock",
    "__pthread_rwlock_wrlock",
];

/// Functions of the C library that wait for a condition, as its builds name them.
pub(super) const CONDITIONS: &[&str] = &[
    "pthread_cond_wait",
    "__pthread_cond_wait",
    "___pthread_cond_wait",
    "__pthread_cond_wait_common",
    "pthread_cond_wait@@GLIBC_2.3.2",
    "pthread_cond_timedwait",
    "__pthread_cond_timedwait",
    "___pthread_cond_timedwait64",
    "pthread_cond_timedwait@@GLIBC_2.3.2",
];

/// Functions that sleep on purpose (sql/item_func.cc).
pub(super) const SLEEP: &[&str] = &["Item_func_sleep::val_int"];

/// Beginnings of states of the process list, in lower case, and their class. The first that fits decides; a state that is
/// not here runs, as far as the list can tell.
pub(super) const STATES: &[(&str, TimeClass)] = &[
    ("user lock", UserLock),
    ("waiting for user lock", UserLock),
    ("waiting for global read lock", GlobalLock),
    ("waiting for commit lock", GlobalLock),
    ("waiting for backup lock", GlobalLock),
    // Percona Server 5.6 and 5.7, LOCK BINLOG FOR BACKUP.
    ("waiting for binlog lock", GlobalLock),
    ("waiting for release of readlock", GlobalLock),
    ("waiting for table flush", GlobalLock),
    ("waiting for table level lock", TableLock),
    // To MySQL 5.1, of an engine without row locks.
    ("locked", TableLock),
    ("waiting for table", MetadataLock),
    ("waiting for schema metadata lock", MetadataLock),
    ("waiting for stored", MetadataLock),
    ("waiting for trigger metadata lock", MetadataLock),
    ("waiting for event metadata lock", MetadataLock),
    ("waiting for acl cache lock", PrivilegeCache),
    ("waiting for query cache lock", QueryCache),
    ("logging slow query", StatementLog),
    ("waiting for semi-sync ack", SemiSync),
    ("waiting for prior transaction to", CommitOrder),
    ("waiting for preceding transaction to commit", CommitOrder),
    ("waiting for its turn to commit", CommitOrder),
    ("waiting for dependent transaction to commit", CommitOrder),
    // sql/mysqld.cc: WAIT_FOR_EXECUTED_GTID_SET, MASTER_POS_WAIT and SOURCE_POS_WAIT; MariaDB's MASTER_GTID_WAIT
    ("waiting for gtid", ReplicaWait),
    ("waiting for the slave sql thread to advance", ReplicaWait),
    ("waiting for the replica sql thread to advance", ReplicaWait),
    ("waiting in master_gtid_wait", ReplicaWait),
    ("waiting for handler commit", Commit),
    ("waiting for other event logging to finish", Commit),
    ("waiting for binlog", Commit),
    // MariaDB Galera Cluster, "Galera Cluster Thread States"
    ("waiting for certification", Galera),
    ("waiting for flow control", Galera),
    ("waiting for toi ddl", Galera),
    ("waiting to execute in isolation", Galera),
    // MySQL Reference Manual, Configuring Transaction Consistency Guarantees: until older transactions of the group are here
    ("executing hook on transaction begin", Other),
    // InnoDB's own words for a session at its door (srv0conc.cc), which its status prints
    ("sleeping before entering innodb", ConcurrencyTicket),
    ("sleeping before joining innodb queue", ConcurrencyTicket),
    ("waiting in innodb queue", ConcurrencyTicket),
    ("wsrep: ", Galera),
    ("wsrep ", Galera),
    ("committing", Commit),
    ("commit", Commit),
    ("query end", Commit),
    ("end of update loop", Commit),
    ("rolling back", Rollback),
    ("rollback", Rollback),
    ("writing to net", Network),
    ("sending to client", Network),
    ("reading from net", Network),
    ("receiving from client", Network),
    ("opening table", TableCache),
    ("closing tables", TableCache),
    ("login", Login),
    ("checking permissions", PrivilegeCache),
    ("waiting for disk space", DiskFull),
    // Of who sleeps on purpose it is not asked.
    ("user sleep", Other),
    // Of who was killed and runs nothing: a captured list has no state of it.
    ("killed", Other),
    ("waiting for", Other),
    // Cut by the client that printed it.
    ("waiti", Other),
];

/// States of sessions that sleep on purpose, in lower case.
pub(super) const SLEEPING: &[&str] = &["user sleep"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_the_binary_log_is_one_of_the_whole_server() {
        let class =
            |state: &str| STATES.iter().find(|(begin, _)| state.starts_with(begin)).map(|(_, class)| *class);
        assert_eq!(class("waiting for binlog lock"), Some(GlobalLock));
        assert_eq!(class("waiting for binlog group commit"), Some(Commit));
    }

    #[test]
    fn no_function_has_two_classes_and_no_state_hides_one_behind_it() {
        let mut names: Vec<&str> = WAITS.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        for (at, (state, _)) in STATES.iter().enumerate() {
            assert!(state.chars().all(|c| !c.is_uppercase()), "{state}");
            let hidden = STATES[..at].iter().find(|(before, _)| state.starts_with(before));
            assert_eq!(hidden, None, "{state} never counts");
        }
    }
}
