//! Waits that no list of the server shows: recognised by the functions that threads are in.
//!
//! A thread in one of a queue's functions waits for the thread that works that queue off. Both are
//! seen in one snapshot, so the holder is inferred. Names are those of MySQL 5.6 to 9.7 and MariaDB 10.3 to 11.8; a
//! server whose functions have no names shows none of these.

use spindoctor_model::stack::ThreadState;
use spindoctor_model::wait_graph::{LockKind, WaitEdge};

use super::builder::{Builder, Who};
use super::stacks::Standing;

/// A queue of the server.
struct Queue {
    kind: LockKind,
    /// What it is, in words.
    object: &'static str,
    /// Who stands in one of these, blocked, waits.
    waiting_in: &'static [&'static str],
    /// Who stands in one of these and does something blocks it: the first that anybody stands in counts. Empty where
    /// nobody in particular does.
    held_in: &'static [&'static [&'static str]],
}

const QUEUES: [Queue; 6] = [
    Queue {
        // binlog.cc, rpl_commit_stage_manager.cc; log.cc of MariaDB. The leader of a stage commits for its followers.
        kind: LockKind::CommitQueue,
        object: "binary log group commit",
        waiting_in: &[
            "Commit_stage_manager::enroll_for",
            "Stage_manager::enroll_for",
            "MYSQL_BIN_LOG::queue_for_group_commit",
            "MYSQL_BIN_LOG::write_transaction_to_binlog_events",
        ],
        held_in: &[
            &["MYSQL_BIN_LOG::sync_binlog_file"],
            &["MYSQL_BIN_LOG::process_flush_stage_queue", "MYSQL_BIN_LOG::flush_cache_to_file"],
            &["MYSQL_BIN_LOG::process_commit_stage_queue", "MYSQL_BIN_LOG::process_after_commit_stage_queue"],
            &["MYSQL_BIN_LOG::trx_group_commit_leader"],
            &["MYSQL_BIN_LOG::ordered_commit"],
        ],
    },
    Queue {
        // log0write.cc: from 8.0 on commits wait for threads of the log; before and in MariaDB for one of their own.
        kind: LockKind::CommitQueue,
        object: "redo log flush",
        waiting_in: &["log_write_up_to", "log_wait_for_flush", "log_wait_for_write"],
        held_in: &[
            &["log_flusher"],
            &["log_writer"],
            &["log_t::persist", "log_write_flush_to_disk_low", "fil_flush"],
            &["log_write_up_to"],
        ],
    },
    Queue {
        // log0chkp.cc, log0log.cc: no room in the redo log until a checkpoint.
        kind: LockKind::LogSpace,
        object: "room in the redo log",
        waiting_in: &[
            "log_free_check_wait",
            "log_wait_for_space_in_log_buf",
            "log_wait_for_space_in_log_recent_written",
        ],
        held_in: &[
            &["log_checkpointer"],
            &["log_checkpoint_margin", "log_preflush_pool_modified_pages"],
            // The pages that are too old are written here.
            &["buf_flush_do_batch", "pc_flush_slot", "buf_flush_sync_all_buf_pools"],
        ],
    },
    Queue {
        // srv0conc.cc: everyone inside holds a ticket; nobody in particular is waited for.
        kind: LockKind::Ticket,
        object: "a ticket of innodb_thread_concurrency",
        waiting_in: &["srv_conc_enter_innodb", "srv_conc_enter_innodb_with_atomics"],
        held_in: &[],
    },
    Queue {
        // row0mysql.cc, dict0dict.cc, dict0dd.cc.
        kind: LockKind::Dictionary,
        object: "the data dictionary of InnoDB",
        waiting_in: &[
            "row_mysql_lock_data_dictionary",
            "row_mysql_freeze_data_dictionary",
            "dict_sys_mutex_enter",
            "dict_sys_t::lock_wait",
            "dict_sys_t::freeze",
        ],
        held_in: &[
            &[
                "fil_delete_tablespace",
                "row_drop_tablespace",
                "Fil_shard::space_delete",
                "Fil_shard::space_truncate",
            ],
            &["row_drop_table_for_mysql", "row_truncate_table_for_mysql", "btr_drop_ahi_for_table"],
            &[
                "dict_stats_update",
                "dict_stats_save",
                "dict_stats_update_persistent",
                "dict_update_statistics",
            ],
            &["row_rename_table_for_mysql", "row_merge_build_indexes", "row_create_table_for_mysql"],
        ],
    },
    Queue {
        // trx0purge.cc: FLUSH TABLES ... FOR EXPORT, undo truncation and slow shutdown wait for purge to pause.
        kind: LockKind::Purge,
        object: "purge to pause",
        waiting_in: &["trx_purge_stop", "row_quiesce_table_start", "purge_sys_t::stop"],
        held_in: &[&["trx_purge", "row_purge_step", "srv_worker_thread", "srv_purge_coordinator_thread"]],
    },
];

/// Waiting for fsync in a commit without a name for the function: MariaDB's packages name none of InnoDB's.
const COMMITS: &[&str] = &["ha_commit_trans", "ha_commit_one_phase", "MYSQL_BIN_LOG::ordered_commit"];

/// Adds what stacks show, for threads of which nothing else said whom they wait for.
pub(super) fn add(builder: &mut Builder<'_>) {
    let mut found: Vec<(Who, Option<Who>, WaitEdge)> = Vec::new();
    for queue in &QUEUES {
        let waiters = waiters(builder, |standing| standing.is_in(queue.waiting_in));
        if waiters.is_empty() {
            continue;
        }
        let holder = queue.held_in.iter().find_map(|functions| {
            let there = builder.stacks.iter().filter(|(os_id, standing)| {
                standing.is_in(functions) && !waiters.contains(os_id) && !rests(builder, *os_id, standing)
            });
            // Of several the one that has stood still for longest.
            let off_cpu_s = |standing: &Standing<'_>| standing.off_cpu_s.unwrap_or(0.0);
            let longest = there.max_by(|(_, a), (_, b)| off_cpu_s(a).total_cmp(&off_cpu_s(b)));
            longest.map(|(os_id, _)| builder.os_thread(os_id))
        });
        if holder.is_none() && !queue.held_in.is_empty() {
            continue;
        }
        for waiter in waiters {
            let edge = edge(builder, waiter, queue.kind, queue.object);
            found.push((builder.os_thread(waiter), holder.clone(), edge));
        }
    }
    // One commit writes or syncs a log, others wait in the same call.
    let syncing = |standing: &Standing<'_>| {
        matches!(standing.state, ThreadState::Sync | ThreadState::DiskWrite) && standing.is_in(COMMITS)
    };
    if let Some((leader, _)) = builder.stacks.iter().find(|(_, standing)| syncing(standing)) {
        let leader = builder.os_thread(leader);
        for waiter in waiters(builder, |standing| standing.is_in(COMMITS)) {
            let edge = edge(builder, waiter, LockKind::CommitQueue, "log sync of a commit");
            found.push((builder.os_thread(waiter), Some(leader.clone()), edge));
        }
    }
    for (waiter, holder, edge) in found {
        if !builder.waits(&waiter) {
            builder.add(waiter, holder, edge);
        }
    }
}

fn edge(builder: &Builder<'_>, waiter: u64, kind: LockKind, object: &str) -> WaitEdge {
    WaitEdge {
        kind,
        object: object.to_owned(),
        // At least: InnoDB wakes waiters for its log now and then, in vain.
        waited_s: builder.stacks.of_thread(waiter).and_then(|standing| standing.off_cpu_s),
        is_inferred: true,
        ..WaitEdge::default()
    }
}

/// Threads that are blocked on a lock or a condition and stand where `is_there` says.
fn waiters(builder: &Builder<'_>, is_there: impl Fn(&Standing<'_>) -> bool) -> Vec<u64> {
    let blocked = |state| matches!(state, ThreadState::Lock | ThreadState::Condition | ThreadState::Futex);
    let there = builder.stacks.iter().filter(|(_, standing)| blocked(standing.state) && is_there(standing));
    there.map(|(os_id, _)| os_id).collect()
}

/// True for a thread of the server itself that waits for work: it holds nobody up. A client's statement that waits in the
/// midst of its work does.
fn rests(builder: &Builder<'_>, os_id: u64, standing: &Standing<'_>) -> bool {
    let who = builder.os_thread(os_id);
    let is_client = builder.thread(&who).is_some_and(|thread| thread.connection_id.is_some());
    !is_client && matches!(standing.state, ThreadState::Condition | ThreadState::Sleep)
}
