//! InnoDB's latches and the server's mutexes: how each shows itself in a stack, in performance_schema, and in the section SEMAPHORES of
//! `SHOW ENGINE INNODB STATUS`.
//!
//! No stack has the name of a latch; the function that takes it shows which it is, by [`LATCHES`]. One that is not in the table has
//! that function's name.

use crate::innodb_status::{SemaphoreKind, SemaphoreWait};

/// Frames within which a function that waits stands, from the innermost on: what the kernel and the C library do below it.
const WAITS_WITHIN: usize = 12;
/// Frames within which the function that takes a latch stands, outside of those that wait: helpers without a name lie between.
const TAKEN_WITHIN: usize = 3;

/// A latch, or a kind of which there are many. In the lists of names one with `*` at its end stands for all that begin so.
#[derive(Debug, PartialEq, Eq)]
pub struct Latch {
    /// What it protects.
    pub name: &'static str,
    /// How performance_schema of MySQL 8.0 names it, within `wait/synch/`; none where it has no instrument.
    pub event: Option<&'static str>,
    /// Other instruments that count it, of other versions and of parts of it: the last word of each, which is its own.
    pub other_events: &'static [&'static str],
    /// Functions that take it.
    pub takers: &'static [&'static str],
    /// How SEMAPHORES names it, in small letters: its mutexes from MySQL 5.7 on, all in XtraDB.
    pub printed: &'static [&'static str],
    /// Files that make its mutexes: to MySQL 5.6 a mutex has no other name in SEMAPHORES.
    pub mutex_files: &'static [&'static str],
    /// Files that make its rw-locks: they have no other name there.
    pub rw_lock_files: &'static [&'static str],
}

/// One of which the other texts and versions are not asked.
const fn latch(name: &'static str, event: Option<&'static str>, takers: &'static [&'static str]) -> Latch {
    Latch { name, event, other_events: &[], takers, printed: &[], mutex_files: &[], rw_lock_files: &[] }
}

/// A rollback segment's mutex, and the lists of segments (trx0rseg.cc, sync0types.h).
pub const ROLLBACK_SEGMENT: Latch = Latch {
    other_events: &[
        "temp_space_rseg_mutex",
        "trx_sys_rseg_mutex",
        // MySQL 5.7, MariaDB 10.2 to 10.5
        "redo_rseg_mutex",
        "noredo_rseg_mutex",
        // MySQL 5.5 and 5.6
        "rseg_mutex",
        "rsegs_lock",
        // MariaDB 10.6 and later
        "trx_rseg_latch",
    ],
    printed: &[
        "undo_space_rseg",
        "temp_space_rseg",
        "trx_sys_rseg",
        "redo_rseg",
        "noredo_rseg",
        "rseg->mutex",
    ],
    mutex_files: &["trx0rseg.*"],
    rw_lock_files: &["trx0rseg.*"],
    ..latch(
        "rollback segment",
        Some("mutex/innodb/undo_space_rseg_mutex"),
        &[
            "get_next_redo_rseg",
            "trx_assign_rseg_low",
            "trx_assign_rseg_durable",
            "trx_undo_assign_undo",
            "trx_undo_assign",
            "trx_undo_assign_low",
            "trx_undo_add_page",
            "trx_undo_insert_cleanup",
            "trx_write_serialisation_history",
        ],
    )
};

/// The list of transactions, and what of it is locked apart (trx0sys.cc, read0read.cc, sync0types.h). In MySQL 5.5 and before it has one
/// mutex with the row locks, `kernel_mutex`, which srv0srv.c makes.
pub const TRANSACTION_SYSTEM: Latch = Latch {
    other_events: &["trx_sys_shard_mutex", "trx_sys_serialisation_mutex", "kernel_mutex"],
    printed: &["trx_sys", "trx_sys_shard", "trx_sys_serialisation", "trx_sys->mutex", "kernel_mutex"],
    mutex_files: &["trx0sys.*", "srv0srv.c"],
    ..latch(
        "transaction system",
        Some("mutex/innodb/trx_sys_mutex"),
        &[
            "trx_start_low",
            "trx_set_rw_mode",
            "trx_commit_in_memory",
            "trx_commit_off_kernel",
            "trx_release_impl_and_expl_locks",
            "trx_erase_lists",
            "trx_serialisation_number_get",
            "trx_add_to_serialisation_list",
            "trx_rw_is_active",
            "trx_rw_is_active_low",
            "trx_sys_t::*",
            "MVCC::*",
            "ReadView::*",
            "ReadViewBase::*",
            "read_view_open_now",
            "read_view_open_now_low",
            "read_view_remove",
            "read_view_close_for_mysql",
        ],
    )
};

/// Locks of rows and tables: the mutexes of their lists.
pub const ROW_LOCKS: Latch = latch(
    "row locks",
    Some("mutex/innodb/lock_sys_page_mutex"),
    &[
        "lock_rec_*",
        "lock_clust_rec_*",
        "lock_sec_rec_*",
        "lock_table*",
        "lock_trx_*",
        "lock_move_*",
        "lock_update_*",
        "lock_release*",
        "lock_wait_*",
        "lock_sys_t::*",
        "locksys::*",
        "LockGuard::*",
        "LockMultiGuard::*",
        "LockMutexGuard::*",
    ],
);

/// The adaptive hash index (btr0sea.cc): one latch, or one for each of its parts.
pub const ADAPTIVE_HASH_INDEX: Latch = Latch {
    printed: &["btr_search*"],
    rw_lock_files: &["btr0sea.*"],
    ..latch("adaptive hash index", Some("sxlock/innodb/btr_search_latch"), &["btr_search_*"])
};

/// The hash that says where in the buffer pool a page is (buf0buf.cc, hash0hash.cc).
pub const PAGE_HASH: Latch = Latch {
    other_events: &["page_hash_latch"],
    rw_lock_files: &["hash0hash.*"],
    ..latch("page hash", Some("sxlock/innodb/hash_table_locks"), &["Buf_fetch::lookup", "buf_page_hash_*"])
};

/// A page of the buffer pool.
pub const PAGE: Latch = latch(
    "page",
    None,
    &[
        "Buf_fetch::*",
        "Buf_fetch_normal::*",
        "Buf_fetch_other::*",
        "buf_page_get_gen",
        "buf_page_get_low",
        "buf_page_get_known_nowait",
        "buf_page_optimistic_get",
        "buf_page_try_get_func",
        "buf_page_create",
    ],
);

/// The buffer pool's lists: least recently used pages, free ones, changed ones (buf0lru.cc, buf0flu.cc). To MySQL 5.7 and in MariaDB one
/// mutex has all but the last. A page's own mutex is made in the same file, and is rarely waited for.
pub const BUFFER_POOL_LISTS: Latch = Latch {
    other_events: &[
        "buf_pool_free_list_mutex",
        "buf_pool_flush_state_mutex",
        "buf_pool_zip_mutex",
        "buf_pool_zip_free_mutex",
        "buf_pool_zip_hash_mutex",
        "flush_list_mutex",
        "buf_pool_mutex",
    ],
    printed: &["buf_pool*", "flush_list*", "lru_list_mutex", "free_list_mutex"],
    mutex_files: &["buf0buf.*"],
    ..latch(
        "buffer pool lists",
        Some("mutex/innodb/buf_pool_LRU_list_mutex"),
        &[
            "buf_LRU_*",
            "buf_flush_*",
            "buf_pool_*",
            "buf_page_make_young*",
            "buf_page_init_for_read",
            "buf_do_*",
        ],
    )
};

/// The open tables that the server keeps (sql_base.cc, table_cache.h): one mutex to MySQL 5.6.5, LOCK_open, from then on one for each part
/// of the cache, and LOCK_open for what they share.
pub const TABLE_CACHE: Latch = Latch {
    other_events: &["LOCK_open"],
    ..latch(
        "table cache",
        Some("mutex/sql/LOCK_table_cache"),
        &[
            "open_table",
            "close_open_tables",
            "close_thread_table*",
            "tdc_open_view",
            "tdc_remove_table",
            "Table_cache*",
        ],
    )
};

/// Who takes what, in MySQL 5.5 to 9.7 and MariaDB 10.3 to 11.8 (trx0trx.cc, trx0undo.cc, trx0rseg.cc, read0read.cc, lock0lock.cc,
/// btr0sea.cc, buf0buf.cc, buf0lru.cc, buf0flu.cc, btr0cur.cc, log0buf.cc, log0write.cc, sync0arr.cc, sql_base.cc, binlog.cc). Special
/// ones stand before general ones.
pub const LATCHES: &[Latch] = &[
    ROLLBACK_SEGMENT,
    TRANSACTION_SYSTEM,
    ROW_LOCKS,
    ADAPTIVE_HASH_INDEX,
    PAGE_HASH,
    PAGE,
    BUFFER_POOL_LISTS,
    latch(
        "index",
        Some("sxlock/innodb/index_tree_rw_lock"),
        &["btr_cur_search_to_nth_level*", "btr_cur_open_at_*", "btr_cur_t::*", "btr_pcur_*"],
    ),
    latch("wait array", Some("mutex/innodb/sync_array_mutex"), &["sync_array_*"]),
    // A mini-transaction takes it for a page that is to be allocated (mtr0mtr.cc), and its other functions the redo log's.
    Latch {
        rw_lock_files: &["fil0fil.*"],
        ..latch(
            "tablespace",
            Some("sxlock/innodb/fil_space_latch"),
            &["mtr_t::x_lock_space*", "mtr_t::s_lock_space*", "mtr_t::sx_lock_space*", "fil_space_x_lock"],
        )
    },
    latch("redo log", Some("sxlock/innodb/log_sn_lock"), &["log_*", "mtr_t::*", "mtr_commit"]),
    latch("auto-increment counter", Some("mutex/innodb/autoinc_mutex"), &["dict_table_autoinc_lock"]),
    latch("dictionary", Some("mutex/innodb/dict_sys_mutex"), &["dict_*", "dd_*"]),
    latch("tablespaces", Some("mutex/innodb/fil_system_mutex"), &["fil_*", "Fil_shard::*", "Fil_system::*"]),
    // They are taken while a table is opened.
    latch(
        "metadata locks",
        Some("mutex/sql/MDL_map::mutex"),
        &["MDL_map::*", "MDL_map_partition::*", "MDL_lock::*", "MDL_context::*"],
    ),
    TABLE_CACHE,
    latch("list of connections", Some("mutex/sql/LOCK_thd_list"), &["Global_THD_manager::*"]),
    latch(
        "binary log",
        Some("mutex/sql/MYSQL_BIN_LOG::LOCK_log"),
        &["MYSQL_BIN_LOG::*", "Commit_stage_manager::*", "Stage_manager::*"],
    ),
    latch("query cache", None, &["Query_cache::*"]),
];

/// Functions that wait for a latch: InnoDB's (sync0arr.cc, sync0rw.cc, ib0mutex.h; srw_lock.cc) and the C library's. Names are
/// without the underscores that they begin with.
const WAITS: &[&str] = &[
    "sync_array_wait_event",
    "rw_lock_s_lock*",
    "rw_lock_x_lock*",
    "rw_lock_sx_lock*",
    "mutex_spin_wait",
    "TTASEventMutex::*",
    "TTASFutexMutex::*",
    "srw_mutex_impl::*",
    "ssux_lock_impl::*",
    "srw_lock_impl::*",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "lll_lock_wait*",
    "lll_mutex_lock_wait",
];

/// Those of them that wait for a mutex.
const MUTEX_WAITS: &[&str] = &[
    "mutex_spin_wait",
    "TTASEventMutex::*",
    "TTASFutexMutex::*",
    "srw_mutex_impl::*",
    "pthread_mutex_lock",
    "pthread_mutex_timedlock",
    "lll_lock_wait*",
    "lll_mutex_lock_wait",
];

/// Functions between those that wait and the one that takes the latch: they take any.
const PASSES: &[&str] = &[
    "pthread_*",
    "L_lock_*",
    "gthread_*",
    "std::*",
    "PolicyMutex::*",
    "IB_mutex_guard::*",
    "mutex_enter*",
    "pfs_*",
    "inline_mysql_*",
    "safe_mutex_*",
    "my_mutex_lock",
    "sux_lock::*",
    "srw_lock_low::*",
    "mtr_s_lock*",
    "mtr_x_lock*",
    "mtr_sx_lock*",
    "mtr_t::s_lock",
    "mtr_t::x_lock",
    "mtr_t::sx_lock",
];

/// A lock of the C library's own, as malloc's: no latch of the server.
const OF_THE_C_LIBRARY: &str = "lll_lock_wait_private";

/// Functions that spin for something else than a latch: commits and the threads of the redo log (log0write.cc).
const SPINS_FOR_THE_LOG: &[&str] = &[
    "log_write_up_to",
    "log_wait_for_*",
    "log_writer",
    "log_flusher",
    "log_write_notifier",
    "log_flush_notifier",
    "log_checkpointer",
];

/// A wait for a latch, as a stack shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatchWait<'a> {
    /// The latch; none where the table does not have it.
    pub latch: Option<&'static Latch>,
    /// The function that takes it.
    pub taken_in: &'a str,
    /// True where it is a mutex; false for an rw-lock, and where the stack does not say.
    pub is_mutex: bool,
}

impl<'a> LatchWait<'a> {
    /// What a thread with these functions on its stack waits for, the innermost first; none where that is no latch. `spins` says that
    /// it spins: it then waits though no function of a wait is on the stack.
    pub fn from_stack(names: &[&'a str], spins: bool) -> Option<Self> {
        let wait = names.iter().take(WAITS_WITHIN).position(|name| is_among(WAITS, name));
        let (waits, takers) = match wait {
            Some(at) if plain(names[at]) == OF_THE_C_LIBRARY => return None,
            Some(at) => {
                let passes = |name: &&&str| is_among(WAITS, name) || is_among(PASSES, name);
                names[at..].split_at(names[at..].iter().take_while(passes).count())
            }
            // Where the slow path of a mutex has no function of its own, who takes it spins: MySQL 5.7 and 8.0.31.
            None if spins => {
                names.split_at(names.iter().take_while(|name| plain(name) == "ut_delay").count())
            }
            None => return None,
        };
        let taken_in = *takers.first()?;
        let near = || takers.iter().take(TAKEN_WITHIN);
        if wait.is_none() && near().any(|name| is_among(SPINS_FOR_THE_LOG, name)) {
            return None;
        }
        let latch = near().find_map(|name| LATCHES.iter().find(|latch| is_among(latch.takers, name)));
        // The outermost says what it is: below a wait for an rw-lock there are mutexes.
        let outermost = waits.iter().rfind(|name| is_among(WAITS, name));
        let is_mutex = outermost.is_some_and(|name| is_among(MUTEX_WAITS, name));
        (latch.is_some() || wait.is_some()).then_some(Self { latch, taken_in, is_mutex })
    }

    /// The latch's name, or that of the function that takes it.
    pub fn name(&self) -> &'a str {
        self.latch.map_or(self.taken_in, |latch| latch.name)
    }

    /// True where it is for this latch.
    pub fn is_for(&self, latch: &Latch) -> bool {
        self.latch.is_some_and(|known| known.name == latch.name)
    }
}

impl Latch {
    /// True for an instrument of performance_schema that counts it: `wait/synch/mutex/innodb/trx_sys_mutex`. An rw-lock has another
    /// class by version, `rwlock` or `sxlock`, and the same last word.
    pub fn is_counted_by(&self, event: &str) -> bool {
        let mut known = self.event.iter().chain(self.other_events);
        event.starts_with("wait/synch/") && known.any(|known| last_word(known) == last_word(event))
    }

    /// True for a wait in SEMAPHORES that is for it.
    pub fn is_printed(&self, wait: &SemaphoreWait) -> bool {
        // XtraDB prints the expression: `&buf_pool->LRU_list_mutex`.
        let name = wait.name.trim_start_matches('&').to_ascii_lowercase();
        match (name.as_str(), wait.kind) {
            ("", SemaphoreKind::Mutex) => is_in(self.mutex_files, &wait.created_file),
            ("", _) => is_in(self.rw_lock_files, &wait.created_file),
            (name, _) => is_in(self.printed, name),
        }
    }
}

fn last_word(event: &str) -> &str {
    event.rsplit('/').next().unwrap_or(event)
}

/// True for a name of the list, or one that begins as one of it does that ends with `*`.
fn is_among(list: &[&str], name: &str) -> bool {
    is_in(list, plain(name))
}

/// The same of a name that is no function's.
fn is_in(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == *entry,
    })
}

/// `___pthread_mutex_lock`, `__GI___lll_lock_wait`, `pthread_mutex_lock@@GLIBC_2.2.5` without what glibc adds.
fn plain(name: &str) -> &str {
    let name = name.trim_start_matches('_');
    let name = name.strip_prefix("GI_").unwrap_or(name).trim_start_matches('_');
    name.split_once('@').map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The latch of a stack that is written from its innermost function on.
    fn latch(stack: &str, spins: bool) -> Option<String> {
        let names: Vec<&str> = stack.split(" < ").collect();
        LatchWait::from_stack(&names, spins).map(|wait| wait.name().to_owned())
    }

    #[test]
    fn a_latch_is_known_by_the_function_that_takes_it_and_an_unknown_one_has_its_name() {
        const EVENT: &str = "futex_wait_queue < pthread_cond_wait < os_event::wait_low < sync_array_wait_event < TTASEventMutex::wait < TTASEventMutex::spin_and_try_lock";
        for (stack, expected) in [
            (format!("{EVENT} < trx_undo_assign_undo < trx_undo_report_row_operation"), "rollback segment"),
            (format!("{EVENT} < PolicyMutex::enter < trx_write_serialisation_history"), "rollback segment"),
            (
                format!("{EVENT} < trx_serialisation_number_get < trx_write_serialisation_history"),
                "transaction system",
            ),
            (format!("{EVENT} < MVCC::view_open < row_search_mvcc"), "transaction system"),
            (
                format!("{EVENT} < mysqld+0x29f7609 < lock_rec_lock < lock_clust_rec_read_check_and_lock"),
                "row locks",
            ),
            ("rw_lock_x_lock_func < mtr_t::x_lock_space < fsp_reserve_free_extents".to_owned(), "tablespace"),
            ("rw_lock_s_lock_spin < mtr_t::commit < btr_cur_optimistic_insert".to_owned(), "redo log"),
            ("rw_lock_s_lock_spin < Buf_fetch::single_page < buf_page_get_gen".to_owned(), "page"),
            ("rw_lock_s_lock_spin < Buf_fetch::lookup < Buf_fetch_normal::get".to_owned(), "page hash"),
            ("rw_lock_sx_lock_func < btr_cur_search_to_nth_level < btr_pcur_open".to_owned(), "index"),
            ("rw_lock_x_lock_func < btr_search_drop_page_hash_index".to_owned(), "adaptive hash index"),
            // MariaDB 11: the mangled name of the variant that spins.
            ("syscall < ssux_lock_impl::rd_wait < sux_lock::s_lock < buf_page_get_low".to_owned(), "page"),
            // glibc of Debian 12: what is local to it has no name.
            (
                "libc.so.6+0x85d36 < ___pthread_mutex_lock < inline_mysql_mutex_lock < open_table".to_owned(),
                "table cache",
            ),
            // MySQL 5.5: LOCK_open; and a mutex of the metadata locks that is taken on the way.
            ("__lll_lock_wait < pthread_mutex_lock < open_table < open_tables".to_owned(), "table cache"),
            ("pthread_mutex_lock < close_open_tables < close_thread_tables".to_owned(), "table cache"),
            (
                "pthread_mutex_lock < MDL_map::find_or_insert < MDL_context::acquire_lock < open_table"
                    .to_owned(),
                "metadata locks",
            ),
            (
                "__lll_lock_wait < _L_lock_883 < pthread_mutex_lock < get_db_stats < dispatch_command"
                    .to_owned(),
                "get_db_stats",
            ),
        ] {
            assert_eq!(latch(&stack, false).as_deref(), Some(expected), "{stack}");
        }
    }

    #[test]
    fn who_waits_for_a_condition_the_redo_log_or_malloc_waits_for_no_latch() {
        for (stack, spins) in [
            ("futex_wait < pthread_cond_wait < os_event::wait_low < log_write_up_to", false),
            ("poll < vio_io_wait < do_command", false),
            ("__lll_lock_wait_private < malloc < alloc_root", false),
            ("ut_delay < log_write_up_to < trx_commit_complete_for_mysql", true),
            ("row_search_mvcc < ha_innobase::index_read", true),
            ("", true),
        ] {
            assert_eq!(latch(stack, spins), None, "{stack}");
        }
        assert_eq!(latch("ut_delay < trx_start_low < trx_start_if_not_started_xa_low", true).as_deref(), {
            Some("transaction system")
        });
    }

    #[test]
    fn no_general_name_hides_a_special_one_behind_it() {
        for (at, one) in LATCHES.iter().enumerate() {
            for taker in one.takers {
                let name = taker.trim_end_matches('*');
                let first = LATCHES.iter().position(|other| is_among(other.takers, name));
                assert_eq!(first, Some(at), "{taker}");
            }
        }
    }

    #[test]
    fn a_mutex_is_distinguished_from_an_rw_lock_of_the_same_function() {
        fn wait(stack: &str) -> Option<(&str, bool)> {
            let names: Vec<&str> = stack.split(" < ").collect();
            LatchWait::from_stack(&names, false).map(|wait| (wait.name(), wait.is_mutex))
        }
        // MySQL 5.5: the buffer pool's mutex.
        let mutex = wait("sync_array_wait_event < mutex_spin_wait < buf_page_get_gen");
        assert_eq!(mutex, Some(("page", true)));
        // Who goes to sleep for an rw-lock takes a mutex of the wait array.
        let rw_lock = "__lll_lock_wait < pthread_mutex_lock < sync_array_wait_event < rw_lock_s_lock_spin";
        assert_eq!(wait(&format!("{rw_lock} < buf_page_get_gen")), Some(("page", false)));
    }

    #[test]
    fn instruments_of_every_version_count_their_latch() {
        for (event, latch) in [
            ("wait/synch/mutex/innodb/undo_space_rseg_mutex", ROLLBACK_SEGMENT),
            ("wait/synch/mutex/innodb/redo_rseg_mutex", ROLLBACK_SEGMENT),
            ("wait/synch/mutex/innodb/rseg_mutex", ROLLBACK_SEGMENT),
            ("wait/synch/rwlock/innodb/trx_rseg_latch", ROLLBACK_SEGMENT),
            ("wait/synch/mutex/innodb/trx_sys_mutex", TRANSACTION_SYSTEM),
            ("wait/synch/mutex/innodb/trx_sys_shard_mutex", TRANSACTION_SYSTEM),
            ("wait/synch/mutex/innodb/kernel_mutex", TRANSACTION_SYSTEM),
            ("wait/synch/mutex/innodb/buf_pool_LRU_list_mutex", BUFFER_POOL_LISTS),
            ("wait/synch/mutex/innodb/buf_pool_mutex", BUFFER_POOL_LISTS),
            ("wait/synch/sxlock/innodb/hash_table_locks", PAGE_HASH),
            ("wait/synch/rwlock/innodb/btr_search_latch", ADAPTIVE_HASH_INDEX),
            ("wait/synch/mutex/sql/LOCK_open", TABLE_CACHE),
            ("wait/synch/mutex/sql/LOCK_table_cache", TABLE_CACHE),
        ] {
            let counted: Vec<&str> =
                LATCHES.iter().filter(|one| one.is_counted_by(event)).map(|one| one.name).collect();
            assert_eq!(counted, [latch.name], "{event}");
        }
        for event in ["wait/synch/mutex/innodb/trx_mutex", "wait/io/file/innodb/trx_sys_mutex", ""] {
            assert!(!LATCHES.iter().any(|one| one.is_counted_by(event)), "{event}");
        }
    }

    #[test]
    fn semaphores_of_every_version_name_their_latch() {
        let mutex = SemaphoreKind::Mutex;
        let shared = SemaphoreKind::Shared;
        for (kind, name, created_file, latch) in [
            // MySQL 5.7 and later
            (mutex, "UNDO_SPACE_RSEG", "trx0rseg.cc", Some(ROLLBACK_SEGMENT)),
            (mutex, "REDO_RSEG", "trx0rseg.cc", Some(ROLLBACK_SEGMENT)),
            (mutex, "TRX_SYS", "trx0sys.cc", Some(TRANSACTION_SYSTEM)),
            (mutex, "BUF_POOL_LRU_LIST", "buf0buf.cc", Some(BUFFER_POOL_LISTS)),
            (mutex, "BUF_BLOCK_MUTEX", "buf0buf.cc", None),
            (mutex, "TRX", "trx0trx.cc", None),
            // To MySQL 5.6
            (mutex, "", "srv0srv.c", Some(TRANSACTION_SYSTEM)),
            (mutex, "", "srv0srv.cc", None),
            (mutex, "", "trx0sys.cc", Some(TRANSACTION_SYSTEM)),
            (mutex, "", "trx0rseg.c", Some(ROLLBACK_SEGMENT)),
            (mutex, "", "buf0buf.c", Some(BUFFER_POOL_LISTS)),
            // XtraDB
            (mutex, "&kernel_mutex", "", Some(TRANSACTION_SYSTEM)),
            (mutex, "&buf_pool->mutex", "", Some(BUFFER_POOL_LISTS)),
            (mutex, "&rseg->mutex", "", Some(ROLLBACK_SEGMENT)),
            (shared, "&btr_search_latch", "", Some(ADAPTIVE_HASH_INDEX)),
            (shared, "&block->lock", "", None),
            // rw-locks of every version
            (shared, "", "btr0sea.ic", Some(ADAPTIVE_HASH_INDEX)),
            (shared, "", "hash0hash.cc", Some(PAGE_HASH)),
            (shared, "", "trx0rseg.cc", Some(ROLLBACK_SEGMENT)),
            (shared, "", "buf0buf.cc", None),
        ] {
            let wait = SemaphoreWait {
                kind,
                name: name.into(),
                created_file: created_file.into(),
                ..SemaphoreWait::default()
            };
            let printed: Vec<&str> =
                LATCHES.iter().filter(|one| one.is_printed(&wait)).map(|one| one.name).collect();
            assert_eq!(printed, Vec::from_iter(latch.map(|one| one.name)), "{name} {created_file}");
        }
    }
}
