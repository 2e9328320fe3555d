//! Functions of MySQL and MariaDB that wait for a lock, or sleep: they show what a condition variable below them is
//! for.
//!
//! Both servers build their locks on condition variables, so the kernel cannot distinguish a thread that waits for a
//! latch from one that waits for work. The function that waits does. Names are those of MySQL 5.5 to 9.7 and MariaDB
//! 10.3 to 11.8; a stripped server exports only some of them, and a thread below a function without a name stays
//! [`ThreadState::Condition`].

use spindoctor_model::stack::ThreadState::{self, Lock, Sleep};

/// A function, and the state of a thread that is blocked below it.
pub const FRAME_STATES: &[(&str, ThreadState)] = &[
    // metadata locks (sql/mdl.cc)
    ("MDL_wait::timed_wait", Lock),
    ("MDL_context::acquire_lock", Lock),
    // row and table locks of InnoDB (lock0wait.cc, lock0lock.cc; srv0srv.c in 5.5)
    ("lock_wait_suspend_thread", Lock),
    ("srv_suspend_mysql_thread", Lock),
    ("lock_wait", Lock),
    // mutexes and rw-locks of InnoDB (sync0arr.cc, sync0rw.cc, ib0mutex.h; srw_lock.cc and rw_lock.cc in MariaDB)
    ("sync_array_wait_event", Lock),
    ("rw_lock_s_lock_spin", Lock),
    ("rw_lock_x_lock_func", Lock),
    ("rw_lock_x_lock_wait_func", Lock),
    ("rw_lock_sx_lock_func", Lock),
    ("mutex_spin_wait", Lock),
    ("TTASEventMutex::wait", Lock),
    ("srw_mutex_impl::wait", Lock),
    ("srw_mutex_impl::wait_and_lock", Lock),
    ("ssux_lock_impl::wait", Lock),
    ("ssux_lock_impl::rd_wait", Lock),
    ("ssux_lock_impl::wr_wait", Lock),
    ("srw_lock_impl::rd_wait", Lock),
    ("srw_lock_impl::wr_wait", Lock),
    // tickets of innodb_thread_concurrency (srv0conc.cc)
    ("srv_conc_enter_innodb", Lock),
    ("srv_conc_enter_innodb_with_atomics", Lock),
    // table locks of the server (mysys/thr_lock.c), GET_LOCK is an MDL lock
    ("thr_lock", Lock),
    ("thr_multi_lock", Lock),
    // FLUSH TABLES WITH READ LOCK before it was an MDL lock, and tables that are being flushed
    ("TABLE_SHARE::wait_for_old_version", Lock),
    ("TDC_element::wait_for_refs", Lock),
    // commit order: of the binary log's groups, of a replica's workers (wait_for_commit is MariaDB's)
    ("Commit_order_manager::wait", Lock),
    ("Commit_order_manager::wait_on_graph", Lock),
    ("wait_for_commit::wait_for_prior_commit2", Lock),
    // SLEEP() waits on a condition variable, so that KILL can end it (sql/item_func.cc)
    ("Item_func_sleep::val_int", Sleep),
    // the query cache's one mutex
    ("Query_cache::lock", Lock),
    ("Query_cache::try_lock", Lock),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_is_named_twice() {
        let mut names: Vec<&str> = FRAME_STATES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FRAME_STATES.len());
    }
}
