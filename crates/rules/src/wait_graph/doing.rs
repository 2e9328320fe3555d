//! What a thread does now, in a few words: from what the server says, what the kernel says, and the functions it is in.

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::wait_graph::{LockKind, WaitingThread};

use crate::peers::Peer;

/// What functions mean, whatever the kernel says of the thread: the first that it stands in counts (mysql-facts,
/// section 11: MySQL 5.1 to 9.7, MariaDB 10.3 to 11.8; the last column of names is the C library's).
const WORK: [(&str, &[&str]); 12] = [
    (SYNCING, &["fsync", "fdatasync", "os_file_flush_func", "my_sync"]),
    (
        "deleting a file",
        &[
            "os_file_delete_func",
            "os_file_delete_if_exists_func",
            "Fil_shard::space_delete",
            "fil_delete_tablespace",
            "row_drop_tablespace",
            "my_delete",
            "unlink",
            "__unlink",
            "__GI_unlink",
        ],
    ),
    (
        "extending a file",
        &[
            "Fil_shard::space_extend",
            "fil_space_extend",
            "fil_extend_space_to_desired_size",
            "fsp_try_extend_data_file",
            "os_file_set_size",
            "posix_fallocate",
        ],
    ),
    ("truncating a file", &["Fil_shard::space_truncate", "row_truncate_table_for_mysql", "os_file_truncate"]),
    (ROLLING_BACK, &["trx_rollback_for_mysql", "row_undo", "row_undo_step", "trx_rollback_active"]),
    (
        "reading statistics of indexes",
        &[
            "dict_stats_update",
            "dict_stats_update_persistent",
            "dict_stats_analyze_index",
            "dict_stats_update_transient",
            "dict_update_statistics",
        ],
    ),
    (
        "dropping the adaptive hash index of a table",
        &["btr_drop_ahi_for_table", "btr_search_drop_page_hash_index"],
    ),
    (
        "dropping pages from the buffer pool",
        &["buf_LRU_flush_or_remove_pages", "buf_LRU_invalidate_tablespace"],
    ),
    ("sleeping (SLEEP)", &["Item_func_sleep::val_int"]),
    ("sending rows to the client", &["net_write_packet", "net_real_write", "vio_write"]),
    ("reading a page", &["buf_read_page", "buf_read_page_low", "Buf_fetch_normal::get", "buf_page_get_gen"]),
    ("copying a table", &["copy_data_between_tables", "row_merge_build_indexes", "ddl::Loader::load"]),
];

/// What a thread does whose changes are undone.
pub(crate) const ROLLING_BACK: &str = "rolling back";

/// What a thread in fsync does.
const SYNCING: &str = "syncing a file (fsync)";

/// True for a session between statements.
pub(super) fn rests(thread: &ServerThread) -> bool {
    thread.command == "Sleep"
}

/// What a thread that holds a lock of that kind does.
pub(super) fn doing(thread: &WaitingThread, holds: LockKind) -> String {
    if thread.has_ended {
        return "ended while it held the lock".to_owned();
    }
    // INNODB_TRX says so, whatever the connection's own list says of it: after KILL it may look idle.
    if thread.transaction.is_some_and(|transaction| transaction.is_rolling_back) {
        return ROLLING_BACK.to_owned();
    }
    if thread.is_idle_in_transaction {
        return "idle in transaction".to_owned();
    }
    if is_idle(thread) {
        return match holds {
            LockKind::User => "idle, holding a user lock",
            LockKind::Global | LockKind::Backup => "idle, holding a lock of the whole server",
            LockKind::Metadata => "idle, holding tables",
            _ => "idle",
        }
        .to_owned();
    }
    if let Some(work) = work(thread) {
        return work.to_owned();
    }
    if !thread.server_state.is_empty() {
        return thread.server_state.clone();
    }
    match (&thread.statement, thread.connection_id) {
        (Some(_), _) => "running its statement".to_owned(),
        (None, None) if !thread.name.is_empty() => format!("working as {}", thread.name),
        _ => "not known".to_owned(),
    }
}

/// A connection that the server lists without statement or state, or whose stack waits for its client.
fn is_idle(thread: &WaitingThread) -> bool {
    thread.connection_id.is_some()
        && !thread.is_in_statement
        && thread.server_state.is_empty()
        && match thread.state {
            Some(state) => state == ThreadState::NetworkIdle && peer(thread).is_none(),
            None => thread.since_s.is_some(),
        }
}

/// Who is at the other end of the socket or pipe that a thread stands in, where it is not its client.
pub(super) fn peer(thread: &WaitingThread) -> Option<Peer> {
    let is_in_call = matches!(thread.state, Some(ThreadState::NetworkIdle | ThreadState::Epoll));
    Peer::from_frames(thread.stack.iter().map(String::as_str)).filter(|_| is_in_call)
}

fn work(thread: &WaitingThread) -> Option<&'static str> {
    let stands_in = |functions: &[&str]| thread.stack.iter().any(|frame| functions.contains(&frame.as_str()));
    let by_name = |what: &(&'static str, &[&str])| stands_in(what.1).then_some(what.0);
    let state = thread.state?;
    if let Some(peer) = peer(thread) {
        return Some(peer.doing());
    }
    // The kernel's word first where it is exact; a page is read, a file deleted in functions that say so.
    match state {
        ThreadState::Sync => Some(SYNCING),
        ThreadState::Stopped => Some("stopped by a signal or the freezer"),
        ThreadState::DiskRead => Some(WORK.iter().find_map(by_name).unwrap_or("reading a file")),
        ThreadState::DiskWrite => Some(WORK.iter().find_map(by_name).unwrap_or("writing a file")),
        _ => {
            let named = WORK.iter().filter(|(what, _)| *what != "reading a page").find_map(by_name);
            named.or(match state {
                ThreadState::NetworkIdle => Some("waiting for the client"),
                ThreadState::Sleep => Some("sleeping"),
                ThreadState::Running => Some("running on a CPU"),
                ThreadState::Runnable => Some("waiting for a CPU"),
                _ => None,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::wait_graph::WaitTransaction;

    use super::*;

    fn at_work(state: ThreadState, stack: &[&str]) -> WaitingThread {
        WaitingThread {
            connection_id: Some(7),
            server_state: "executing".into(),
            statement: Some("DROP TABLE big".into()),
            state: Some(state),
            stack: stack.iter().map(|&frame| frame.to_owned()).collect(),
            ..WaitingThread::default()
        }
    }

    #[test]
    fn the_functions_that_a_thread_is_in_say_what_it_does() {
        let doing = |state, stack: &[&str]| doing(&at_work(state, stack), LockKind::Metadata);
        assert_eq!(doing(ThreadState::Blocked, &["unlink", "os_file_delete_func"]), "deleting a file");
        assert_eq!(doing(ThreadState::Sync, &["fsync", "os_file_flush_func"]), "syncing a file (fsync)");
        let just_woken = doing(ThreadState::Runnable, &["libc.so.6+0x9cefe", "fdatasync", "my_sync"]);
        assert_eq!(just_woken, "syncing a file (fsync)");
        assert_eq!(doing(ThreadState::DiskRead, &["pread64", "buf_read_page"]), "reading a page");
        assert_eq!(doing(ThreadState::Running, &["row_search_mvcc", "buf_page_get_gen"]), "running on a CPU");
        assert_eq!(doing(ThreadState::Blocked, &["mysqld+0x12"]), "executing");
        // Another server than its own is asked with the functions that talk to a client.
        let asks =
            doing(ThreadState::NetworkIdle, &["poll", "vio_write", "net_write_packet", "mysql_send_query"]);
        assert_eq!(asks, "waiting for another server");
        let reads = doing(ThreadState::NetworkIdle, &["poll", "vio_read", "my_net_read", "Protocol::read"]);
        assert_eq!(reads, "waiting for the client");
    }

    #[test]
    fn a_transaction_that_rolls_back_does_so_whatever_its_connection_looks_like() {
        let transaction = WaitTransaction { is_rolling_back: true, ..WaitTransaction::default() };
        let killed = WaitingThread {
            connection_id: Some(7),
            is_idle_in_transaction: true,
            transaction: Some(transaction),
            ..WaitingThread::default()
        };
        assert_eq!(doing(&killed, LockKind::Row), "rolling back");
        assert!(
            super::super::freeing::freeing(&killed, LockKind::Row, "rolling back", false).statement.is_none()
        );
    }

    #[test]
    fn an_idle_holder_is_shown_by_what_it_holds() {
        let idle = WaitingThread { connection_id: Some(7), since_s: Some(3.0), ..WaitingThread::default() };
        assert_eq!(doing(&idle, LockKind::User), "idle, holding a user lock");
        let in_transaction = WaitingThread { is_idle_in_transaction: true, ..idle };
        assert_eq!(doing(&in_transaction, LockKind::Row), "idle in transaction");
    }

    #[test]
    fn a_statement_without_a_state_is_not_idle() {
        let executes = WaitingThread {
            connection_id: Some(7),
            since_s: Some(3.0),
            statement: Some("UPDATE stock SET n = 1".into()),
            is_in_statement: true,
            ..WaitingThread::default()
        };
        assert_eq!(doing(&executes, LockKind::Metadata), "running its statement");
        let rests = WaitingThread { is_in_statement: false, ..executes };
        assert_eq!(doing(&rests, LockKind::Metadata), "idle, holding tables");
    }
}
