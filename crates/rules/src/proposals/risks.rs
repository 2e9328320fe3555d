//! The risks of a change that the user names, in the words of the causes. Pure.

/// A variable, what a lower value risks, what a higher one risks.
type Risk = (&'static str, &'static str, &'static str);

/// Commits that spin less.
pub(crate) const SPINS_LESS_FOR_THE_LOG: &str =
    "If the quota is raised or lifted, the mark is too low: commits then sleep where they could spin.";
/// Commits that spin more.
const SPINS_MORE_FOR_THE_LOG: &str =
    "The threads spin for a while: with few CPUs, or a quota, that takes CPU time from the clients.";
/// Latches that spin less.
pub(crate) const SPINS_LESS: &str =
    "Latches that are free again soon are then slept for: more context switches.";
/// Latches that spin more.
pub(crate) const SPINS_MORE: &str = "CPU is burnt where latches are held for long: watch the spin share.";
/// A limit on threads inside InnoDB.
pub(crate) const FEWER_INSIDE: &str =
    "Too low a value leaves CPUs idle while threads inside wait for locks or disks: measure.";
/// More pages written.
pub(crate) const WRITES_MORE: &str =
    "More pages are written that would have been changed again: watch the storage's wait times.";
const WRITES_LESS: &str = "Dirty pages pile up: where the redo log fills, writers wait for the flushing.";
/// A larger purge batch.
pub(crate) const PURGES_MORE: &str = "Purge takes more CPU and I/O from statements while it catches up.";
const PURGES_LESS: &str = "The history list grows, and reads of old rows take longer.";
/// No delay of changes.
pub(crate) const DELAYS_NOTHING: &str = "The history list grows faster until its cause is gone.";
const DELAYS_MORE: &str = "Statements that change rows wait while purge is behind.";
const LARGER_REDO: &str = "Takes as much of the disk, and recovery after a crash takes longer.";
const SMALLER_REDO: &str = "Pages are flushed earlier and more often; a log that is full stops every writer.";
const UNDO_GROWS: &str =
    "Disk: an undo tablespace grows to its limit and a step beyond before it is truncated.";
const UNDO_TRUNCATED: &str =
    "A truncation writes the tablespace's pages out, which may block statements for a moment.";
/// More threads kept.
pub(crate) const KEEPS_THREADS: &str = "Each kept thread holds some hundred kilobytes at most.";
const MAKES_THREADS: &str = "More connections have a thread made for them, which costs CPU.";
/// More open tables.
pub(crate) const KEEPS_TABLES: &str = "Each open instance takes some kilobytes to tens of them.";
const OPENS_TABLES: &str = "Tables are closed and opened again, under a lock, where more are in use at once.";
const HASHES: &str = "Its latches block statements where many connections change the same index.";
const NO_HASH: &str =
    "Emptying it takes seconds with a large buffer pool; lookups by key take more CPU afterwards.";
const DIVES_LESS: &str = "Where values are unevenly spread the statistics mislead, and a plan may change: compare EXPLAIN of the statements with lists first.";
const DIVES_MORE: &str =
    "Each value of a list is looked up in each index that could serve, before the statement runs.";
/// Commits that wait for company.
pub(crate) const COMMITS_LATER: &str = "Each commit takes that much longer; with few sessions it only costs.";
const COMMITS_ALONE: &str = "Fewer commits share a sync: the disk syncs more often.";

const RISKS: &[Risk] = &[
    ("innodb_log_spin_cpu_pct_hwm", SPINS_LESS_FOR_THE_LOG, SPINS_MORE_FOR_THE_LOG),
    ("innodb_log_spin_cpu_abs_lwm", SPINS_MORE_FOR_THE_LOG, SPINS_LESS_FOR_THE_LOG),
    ("innodb_log_wait_for_flush_spin_hwm", SPINS_LESS_FOR_THE_LOG, SPINS_MORE_FOR_THE_LOG),
    (
        "innodb_log_writer_threads",
        "Each committing session writes the log itself, and waits while another session does.",
        SPINS_MORE_FOR_THE_LOG,
    ),
    ("innodb_spin_wait_delay", SPINS_LESS, SPINS_MORE),
    ("innodb_spin_wait_pause_multiplier", SPINS_LESS, SPINS_MORE),
    ("innodb_sync_spin_loops", SPINS_LESS, SPINS_MORE),
    ("innodb_thread_concurrency", FEWER_INSIDE, "More threads compete for latches and CPUs."),
    (
        "innodb_concurrency_tickets",
        "Statements queue more often before they go on.",
        "Long statements keep others waiting.",
    ),
    (
        "innodb_adaptive_max_sleep_delay",
        "Threads that wait to enter InnoDB look more often, which costs CPU.",
        "A thread sleeps longer before it enters InnoDB, though there may be room for it.",
    ),
    (
        "innodb_rollback_segments",
        "More transactions share a rollback segment, and wait for its latch.",
        "The new ones take disk in the undo tablespaces and are not removed again.",
    ),
    ("innodb_max_undo_log_size", UNDO_TRUNCATED, UNDO_GROWS),
    ("innodb_undo_log_truncate", UNDO_GROWS, UNDO_TRUNCATED),
    ("innodb_redo_log_capacity", SMALLER_REDO, LARGER_REDO),
    ("innodb_log_file_size", SMALLER_REDO, LARGER_REDO),
    (
        "innodb_log_file_buffering",
        "Each write of the log goes to the storage at once: where many transactions share a sync it may take longer.",
        "The redo log fills the page cache, and pushes out what is read.",
    ),
    ("innodb_io_capacity", WRITES_LESS, WRITES_MORE),
    ("innodb_io_capacity_max", WRITES_LESS, WRITES_MORE),
    ("innodb_lru_scan_depth", "Statements find no free page and look for one themselves.", WRITES_MORE),
    ("innodb_purge_batch_size", PURGES_LESS, PURGES_MORE),
    ("innodb_max_purge_lag", DELAYS_MORE, DELAYS_NOTHING),
    ("innodb_max_purge_lag_delay", DELAYS_NOTHING, DELAYS_MORE),
    ("thread_cache_size", MAKES_THREADS, KEEPS_THREADS),
    ("table_open_cache", OPENS_TABLES, KEEPS_TABLES),
    ("innodb_adaptive_hash_index", NO_HASH, HASHES),
    ("eq_range_index_dive_limit", DIVES_LESS, DIVES_MORE),
    ("binlog_group_commit_sync_delay", COMMITS_ALONE, COMMITS_LATER),
];

/// What a change of a variable from one value to another may do; none for a variable that is not known here.
pub fn risk(variable: &str, from: &str, to: &str) -> Option<&'static str> {
    let (_, lower, higher) = RISKS.iter().find(|(name, ..)| *name == variable)?;
    // For these the least value is no limit at all, which is the highest: threads inside, lists that are dived into, the lag.
    let no_limit = ["innodb_thread_concurrency", "eq_range_index_dive_limit", "innodb_max_purge_lag"];
    let size = |value: &str| match value.parse::<f64>() {
        Ok(0.0) if no_limit.contains(&variable) => f64::INFINITY,
        Ok(number) => number,
        Err(_) if value.eq_ignore_ascii_case("ON") => 1.0,
        Err(_) => 0.0,
    };
    Some(if size(to) < size(from) { lower } else { higher })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_risk_of_a_change_is_that_of_its_direction() {
        assert_eq!(risk("innodb_spin_wait_delay", "100", "6"), Some(SPINS_LESS));
        assert_eq!(risk("innodb_spin_wait_delay", "6", "100"), Some(SPINS_MORE));
        assert_eq!(risk("innodb_thread_concurrency", "0", "64"), Some(FEWER_INSIDE));
        assert_eq!(risk("innodb_max_purge_lag", "1000", "0"), Some(DELAYS_NOTHING));
        assert_eq!(risk("innodb_adaptive_hash_index", "ON", "OFF"), Some(NO_HASH));
        assert_eq!(risk("datadir", "a", "b"), None);
    }
}
