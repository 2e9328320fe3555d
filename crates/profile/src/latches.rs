//! The latches and mutexes that threads wait for: how many threads sleep for each, and how many CPUs spin for it.
//!
//! In: a profile. Out: [`latches()`], the one that costs most first. No stack has the name of a latch; the function that takes it shows
//! which it is, by a table of the servers' own ([`KNOWN`]). One that is not in the table has that function's name.

use std::collections::HashMap;

use serde::Serialize;
use spindoctor_model::Profile;
use spindoctor_model::stack::{Spin, StackSource, ThreadState};
use spindoctor_stacks::aggregate::{cpu_samples, frame_names};

/// A latch that fewer than this wait for is left out: threads asleep and CPUs that spin together.
const LEAST: f64 = 0.01;
/// Frames within which a function that waits stands, from the innermost on: what the kernel and the C library do below it.
const WAITS_WITHIN: usize = 12;
/// Frames within which the function that takes a latch stands, outside of those that wait: helpers without a name lie between.
const TAKEN_WITHIN: usize = 3;

/// A latch, or a kind of which there are many.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// What it protects.
    latch: &'static str,
    /// How performance_schema of MySQL 8.0 names it, within `wait/synch/`; none where it has no instrument.
    event: Option<&'static str>,
    /// Functions that take it; with `*` at its end, all whose names begin so.
    takers: &'static [&'static str],
}

const fn known(latch: &'static str, event: Option<&'static str>, takers: &'static [&'static str]) -> Known {
    Known { latch, event, takers }
}

/// Who takes what, in MySQL 5.5 to 9.7 and MariaDB 10.3 to 11.8 (trx0trx.cc, trx0undo.cc, trx0rseg.cc, read0read.cc, lock0lock.cc,
/// btr0sea.cc, buf0buf.cc, buf0lru.cc, buf0flu.cc, btr0cur.cc, log0buf.cc, log0write.cc, sync0arr.cc, sql_base.cc, binlog.cc). Special
/// ones stand before general ones. In MySQL 5.5 the transaction system and row locks have one mutex, `kernel_mutex`.
const KNOWN: &[Known] = &[
    known(
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
    ),
    known(
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
    ),
    known(
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
    ),
    known("adaptive hash index", Some("sxlock/innodb/btr_search_latch"), &["btr_search_*"]),
    known("page hash", Some("sxlock/innodb/hash_table_locks"), &["Buf_fetch::lookup", "buf_page_hash_*"]),
    known(
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
    ),
    known(
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
    ),
    known(
        "index",
        Some("sxlock/innodb/index_tree_rw_lock"),
        &["btr_cur_search_to_nth_level*", "btr_cur_open_at_*", "btr_cur_t::*", "btr_pcur_*"],
    ),
    known("wait array", Some("mutex/innodb/sync_array_mutex"), &["sync_array_*"]),
    known("redo log", Some("sxlock/innodb/log_sn_lock"), &["log_*", "mtr_t::*", "mtr_commit"]),
    known("auto-increment counter", Some("mutex/innodb/autoinc_mutex"), &["dict_table_autoinc_lock"]),
    known("dictionary", Some("mutex/innodb/dict_sys_mutex"), &["dict_*", "dd_*"]),
    known("tablespaces", Some("mutex/innodb/fil_system_mutex"), &["fil_*", "Fil_shard::*", "Fil_system::*"]),
    known(
        "table cache",
        Some("mutex/sql/LOCK_table_cache"),
        &["open_table", "close_thread_table*", "Table_cache*"],
    ),
    known("list of connections", Some("mutex/sql/LOCK_thd_list"), &["Global_THD_manager::*"]),
    known(
        "binary log",
        Some("mutex/sql/MYSQL_BIN_LOG::LOCK_log"),
        &["MYSQL_BIN_LOG::*", "Commit_stage_manager::*", "Stage_manager::*"],
    ),
    known("query cache", None, &["Query_cache::*"]),
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

/// A latch that is waited for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitedLatch {
    /// What it protects, or the function that takes it.
    pub latch: String,
    /// How performance_schema names it, within `wait/synch/`; none where it has no instrument or is not in the table.
    pub event: Option<&'static str>,
    /// The function that takes it, of several the commonest.
    pub taken_in: String,
    /// Threads that sleep for it, on average over the snapshots; none of a profile without snapshots.
    pub threads_asleep: Option<f64>,
    /// CPUs that spin for it, on average; none where no CPU samples were taken.
    pub cpus_spinning: Option<f64>,
}

impl WaitedLatch {
    /// Threads asleep and CPUs that spin.
    pub fn cost(&self) -> f64 {
        self.threads_asleep.unwrap_or(0.0) + self.cpus_spinning.unwrap_or(0.0)
    }
}

/// What of it was counted.
#[derive(Debug, Default)]
struct Tally<'a> {
    asleep: u64,
    spinning: u64,
    takers: HashMap<&'a str, u64>,
}

/// A latch and the function that takes it.
#[derive(Debug, Clone, Copy)]
struct Waited<'a> {
    known: Option<&'static Known>,
    taken_in: &'a str,
}

/// The latches of a profile, the one that costs most first.
pub fn latches(profile: &Profile) -> Vec<WaitedLatch> {
    let has_snapshots = profile.source != StackSource::Cpu && !profile.snapshots.is_empty();
    // A stack that was seen a thousand times is read once.
    let mut stacks: HashMap<(u32, bool), u64> = HashMap::new();
    if has_snapshots {
        for seen in profile.observations.iter().filter(|seen| is_asleep(seen.state)) {
            *stacks.entry((seen.stack, false)).or_default() += 1;
        }
    }
    let samples = cpu_samples(profile);
    for seen in samples.iter().filter(|seen| seen.spin == Some(Spin::User)) {
        *stacks.entry((seen.stack, true)).or_default() += 1;
    }
    let mut tallies: HashMap<&str, (Option<&'static str>, Tally<'_>)> = HashMap::new();
    for ((stack, spins), count) in stacks {
        let Some(waited) = waited(&frame_names(profile, stack), spins) else { continue };
        let latch = waited.known.map_or(waited.taken_in, |known| known.latch);
        let event = waited.known.and_then(|known| known.event);
        let (_, tally) = tallies.entry(latch).or_insert_with(|| (event, Tally::default()));
        *(if spins { &mut tally.spinning } else { &mut tally.asleep }) += count;
        *tally.takers.entry(waited.taken_in).or_default() += count;
    }
    let cpus = profile.process_cpu_us as f64 / 1e6 / profile.seconds;
    let cpus_each = (!samples.is_empty() && cpus.is_finite()).then(|| cpus / samples.len() as f64);
    let mut latches: Vec<WaitedLatch> = tallies
        .into_iter()
        .map(|(latch, (event, tally))| WaitedLatch {
            latch: latch.to_owned(),
            event,
            taken_in: commonest(&tally.takers).to_owned(),
            threads_asleep: has_snapshots.then(|| tally.asleep as f64 / profile.snapshots.len() as f64),
            cpus_spinning: cpus_each.map(|each| tally.spinning as f64 * each),
        })
        .filter(|latch| latch.cost() >= LEAST)
        .collect();
    latches.sort_by(|a, b| b.cost().total_cmp(&a.cost()).then_with(|| a.latch.cmp(&b.latch)));
    latches
}

/// Of several that are as common the first by name.
fn commonest<'a>(takers: &HashMap<&'a str, u64>) -> &'a str {
    let most = takers.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    most.map_or("", |(name, _)| *name)
}

/// True for a thread that waits for another one.
fn is_asleep(state: ThreadState) -> bool {
    matches!(state, ThreadState::Lock | ThreadState::Condition | ThreadState::Futex | ThreadState::Blocked)
}

/// What the functions of a stack wait for, innermost first; none where that is no latch.
fn waited<'a>(names: &[&'a str], spins: bool) -> Option<Waited<'a>> {
    let wait = names.iter().take(WAITS_WITHIN).position(|name| is_among(WAITS, name));
    let takers = match wait {
        Some(at) if plain(names[at]) == OF_THE_C_LIBRARY => return None,
        Some(at) => {
            let passes = |name: &&&str| is_among(WAITS, name) || is_among(PASSES, name);
            &names[at + names[at..].iter().take_while(passes).count()..]
        }
        // Where the slow path of a mutex has no function of its own, who takes it spins: MySQL 5.7 and 8.0.31.
        None if spins => &names[names.iter().take_while(|name| plain(name) == "ut_delay").count()..],
        None => return None,
    };
    let taken_in = *takers.first()?;
    let near = || takers.iter().take(TAKEN_WITHIN);
    if wait.is_none() && near().any(|name| is_among(SPINS_FOR_THE_LOG, name)) {
        return None;
    }
    let known = near().find_map(|name| KNOWN.iter().find(|known| is_among(known.takers, name)));
    (known.is_some() || wait.is_some()).then_some(Waited { known, taken_in })
}

/// True for a name of the list, or one that begins as one of it does that ends with `*`.
fn is_among(list: &[&str], name: &str) -> bool {
    let name = plain(name);
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
    use spindoctor_model::stack::{Frame, Observation, SnapshotCost, Stack};

    use super::*;
    use crate::examples;

    /// The latch of a stack that is written from its innermost function on.
    fn latch(stack: &str, spins: bool) -> Option<String> {
        let names: Vec<&str> = stack.split(" < ").collect();
        waited(&names, spins).map(|it| it.known.map_or(it.taken_in, |known| known.latch).to_owned())
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
        for (at, one) in KNOWN.iter().enumerate() {
            for taker in one.takers {
                let name = taker.trim_end_matches('*');
                let first = KNOWN.iter().position(|other| is_among(other.takers, name));
                assert_eq!(first, Some(at), "{taker}");
            }
        }
    }

    /// Each stack as it was seen: asleep so often in ten snapshots, spinning in so many of a hundred samples of two CPUs.
    fn profile(stacks: &[(&str, u32, u32)]) -> Profile {
        let mut profile = Profile {
            seconds: 10.0,
            process_cpu_us: 20_000_000,
            snapshots: vec![SnapshotCost::default(); 10],
            ..Profile::default()
        };
        for (at, (stack, asleep, spinning)) in stacks.iter().enumerate() {
            let mut frames = Vec::new();
            for name in stack.split(" < ") {
                frames.push(profile.frames.len() as u32);
                profile.frames.push(Frame { name: name.to_owned(), ..Frame::default() });
            }
            profile.stacks.push(Stack { frames, ..Stack::default() });
            let seen = Observation { stack: at as u32, state: ThreadState::Lock, ..Observation::default() };
            profile.observations.extend(std::iter::repeat_n(seen, *asleep as usize));
            let spins = Observation { state: ThreadState::Running, spin: Some(Spin::User), ..seen };
            profile.cpu_samples.extend(std::iter::repeat_n(spins, *spinning as usize));
        }
        let works = Observation { state: ThreadState::Running, ..Observation::default() };
        let rest = 100_usize.saturating_sub(profile.cpu_samples.len());
        profile.cpu_samples.extend(std::iter::repeat_n(works, rest));
        profile
    }

    #[test]
    fn threads_that_sleep_and_cpus_that_spin_are_added_up_and_the_costliest_latch_comes_first() {
        let of = [
            ("sync_array_wait_event < TTASEventMutex::wait < trx_undo_assign_undo", 20, 0),
            ("TTASEventMutex::spin_and_try_lock < trx_write_serialisation_history", 0, 30),
            ("rw_lock_s_lock_spin < Buf_fetch::single_page", 4, 1),
            ("pthread_mutex_lock < get_db_stats", 1, 0),
        ];
        let found = latches(&profile(&of));
        let text: Vec<String> = found
            .iter()
            .map(|it| {
                let (asleep, spinning) = (it.threads_asleep.unwrap(), it.cpus_spinning.unwrap());
                format!("{} < {}: {asleep:.2} asleep, {spinning:.2} spinning", it.latch, it.taken_in)
            })
            .collect();
        assert_eq!(
            text,
            [
                "rollback segment < trx_write_serialisation_history: 2.00 asleep, 0.60 spinning",
                "page < Buf_fetch::single_page: 0.40 asleep, 0.02 spinning",
                "get_db_stats < get_db_stats: 0.10 asleep, 0.00 spinning",
            ]
        );
        assert_eq!(found[0].event, Some("mutex/innodb/undo_space_rseg_mutex"));
        assert_eq!((found[1].event, found[2].event), (None, None));
    }

    #[test]
    fn what_was_not_looked_at_is_none_and_never_nothing() {
        let stack = "TTASEventMutex::spin_and_try_lock < trx_start_low";
        let mut without_samples = profile(&[(stack, 5, 0)]);
        without_samples.cpu_samples.clear();
        let found = latches(&without_samples);
        assert_eq!((found[0].threads_asleep, found[0].cpus_spinning), (Some(0.5), None));
        let mut samples_alone = profile(&[(stack, 0, 50)]);
        samples_alone.source = StackSource::Cpu;
        samples_alone.observations = std::mem::take(&mut samples_alone.cpu_samples);
        let found = latches(&samples_alone);
        assert_eq!((found[0].threads_asleep, found[0].cpus_spinning), (None, Some(1.0)));
        assert_eq!(latches(&examples::busy()), [], "its commits wait for the redo log");
        assert_eq!(latches(&Profile::default()), []);
    }
}
