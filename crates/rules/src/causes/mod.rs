//! The catalogue: one file per cause, and the one list that names them all.
//!
//! A cause's file holds its documentation, its rule and the windows of its tests. Everything else follows from the list:
//! the order of a report, `explain`, the book's pages, the tests below. `script/new-cause` adds one from `template.rs`.
//! Where a rule is long, its parts and its tests stand in a folder of the same name beside the file.

pub mod accept_bottleneck;
pub mod acl_cache_contention;
pub mod adaptive_hash_contention;
pub mod auto_increment_lock;
pub mod buffer_pool_latch_contention;
pub mod checkpoint_stall;
pub mod cluster_partition;
pub mod commit_delay_set;
pub mod commit_sync_bound;
pub mod concurrency_queue;
pub mod connection_churn;
pub mod connections_exhausted;
pub mod cpu_saturated;
pub mod cpu_throttled;
pub mod deadlock_storm;
pub mod dictionary_stall;
pub mod disk_full;
pub mod file_extension_stall;
pub mod free_page_wait;
pub mod galera_flow_control;
pub mod global_lock_pileup;
pub mod index_dive_waste;
pub mod index_lock;
pub mod kernel_contention;
pub mod large_commit;
pub mod latch_pileup;
pub mod log_cache_pressure;
pub mod logins_refused;
pub mod memory_pressure;
pub mod metadata_lock_pileup;
pub mod monitoring_overload;
pub mod noisy_neighbour;
pub mod numa_imbalance;
pub mod plan_change;
pub mod prepared_statements_exhausted;
pub mod prepared_xa_left;
pub mod purge_lag;
pub mod query_cache_contention;
pub mod quota_blind_spin;
pub mod read_io_bound;
pub mod replica_lag;
pub mod rollback_running;
pub mod rollback_segment_contention;
pub mod row_lock_pileup;
pub mod rows_read_waste;
pub mod semi_sync_wait;
pub mod server_stopped;
pub mod spin_burn;
pub mod spin_too_short;
pub mod statement_log_contention;
pub mod statements_refused;
pub mod statistics_stall;
pub mod storage_stalled;
pub mod swapping;
pub mod table_cache_contention;
pub mod table_lock_pileup;
#[cfg(test)]
pub mod template;
pub mod temporary_table_spill;
pub mod thread_cache_miss;
pub mod thread_pool_starved;
pub mod transaction_system_contention;
pub mod unnamed_wait;
pub mod user_lock_pileup;
pub mod write_io_bound;

use crate::Cause;

/// Every cause that there is a rule for, in the catalogue's order.
pub const CAUSES: &[Cause] = &[
    quota_blind_spin::CAUSE,
    cpu_throttled::CAUSE,
    spin_burn::CAUSE,
    spin_too_short::CAUSE,
    kernel_contention::CAUSE,
    cpu_saturated::CAUSE,
    noisy_neighbour::CAUSE,
    concurrency_queue::CAUSE,
    thread_pool_starved::CAUSE,
    index_lock::CAUSE,
    latch_pileup::CAUSE,
    adaptive_hash_contention::CAUSE,
    rollback_segment_contention::CAUSE,
    transaction_system_contention::CAUSE,
    buffer_pool_latch_contention::CAUSE,
    row_lock_pileup::CAUSE,
    prepared_xa_left::CAUSE,
    rollback_running::CAUSE,
    auto_increment_lock::CAUSE,
    deadlock_storm::CAUSE,
    metadata_lock_pileup::CAUSE,
    acl_cache_contention::CAUSE,
    table_lock_pileup::CAUSE,
    user_lock_pileup::CAUSE,
    query_cache_contention::CAUSE,
    statement_log_contention::CAUSE,
    global_lock_pileup::CAUSE,
    dictionary_stall::CAUSE,
    file_extension_stall::CAUSE,
    statistics_stall::CAUSE,
    checkpoint_stall::CAUSE,
    purge_lag::CAUSE,
    commit_sync_bound::CAUSE,
    large_commit::CAUSE,
    commit_delay_set::CAUSE,
    semi_sync_wait::CAUSE,
    galera_flow_control::CAUSE,
    cluster_partition::CAUSE,
    storage_stalled::CAUSE,
    disk_full::CAUSE,
    read_io_bound::CAUSE,
    write_io_bound::CAUSE,
    free_page_wait::CAUSE,
    memory_pressure::CAUSE,
    swapping::CAUSE,
    numa_imbalance::CAUSE,
    log_cache_pressure::CAUSE,
    table_cache_contention::CAUSE,
    accept_bottleneck::CAUSE,
    thread_cache_miss::CAUSE,
    connection_churn::CAUSE,
    connections_exhausted::CAUSE,
    prepared_statements_exhausted::CAUSE,
    logins_refused::CAUSE,
    statements_refused::CAUSE,
    index_dive_waste::CAUSE,
    rows_read_waste::CAUSE,
    plan_change::CAUSE,
    monitoring_overload::CAUSE,
    temporary_table_spill::CAUSE,
    replica_lag::CAUSE,
    server_stopped::CAUSE,
    unnamed_wait::CAUSE,
];

#[cfg(test)]
mod tests {
    use spindoctor_model::{Severity, Window};

    use super::*;
    use crate::testing::Build;
    use crate::{Examples, Outcome, diagnose, find, session_time};

    fn evaluate(cause: &Cause, window: &Window) -> Outcome {
        cause.evaluate(window, session_time(window).as_ref())
    }

    #[test]
    fn every_cause_fires_stays_clear_at_a_near_miss_and_says_when_evidence_is_missing() {
        for cause in CAUSES.iter().chain([&template::CAUSE]) {
            let Examples { fires, near_miss, missing } = cause.examples;
            match evaluate(cause, &fires()) {
                Outcome::Fired(finding) => {
                    assert_eq!(finding.cause, cause.name);
                    assert!(!finding.evidence.is_empty() && !finding.why.is_empty(), "{}", cause.name);
                    assert!(!finding.remedies.is_empty(), "{} has no remedy", cause.name);
                }
                other => panic!("{} should fire: {other:?}", cause.name),
            }
            assert_eq!(evaluate(cause, &near_miss()), Outcome::Clear, "{} at its near miss", cause.name);
            assert!(
                matches!(evaluate(cause, &missing()), Outcome::NotEnoughEvidence(_)),
                "{} without its evidence",
                cause.name
            );
        }
    }

    #[test]
    fn every_cause_comes_first_in_the_diagnosis_of_the_window_where_it_fires() {
        for cause in CAUSES {
            let diagnosis = diagnose(&(cause.examples.fires)());
            assert_eq!(diagnosis.findings[0].cause, cause.name, "{:#?}", diagnosis.findings);
            assert!(diagnosis.findings[0].severity >= Severity::Warning, "{}", cause.name);
        }
    }

    #[test]
    fn a_healthy_busy_server_gets_no_finding_and_every_cause_is_examined() {
        for version in ["8.0.36", "9.7.4", "10.11.19-MariaDB"] {
            let diagnosis = diagnose(&Build::busy(version).window());
            assert_eq!(diagnosis.findings, [], "{version}");
            assert_eq!(diagnosis.not_examined, [], "{version}");
            assert_eq!(diagnosis.clear.len(), CAUSES.len(), "{version}");
        }
    }

    #[test]
    fn nothing_is_clear_where_nothing_was_read() {
        let diagnosis = diagnose(&Window::default());
        assert_eq!(diagnosis.findings, []);
        assert_eq!(diagnosis.clear, Vec::<String>::new());
        assert_eq!(diagnosis.not_examined.len(), CAUSES.len());
    }

    /// Words with a hyphen in the texts that name no cause.
    const COMPOUNDS: &[&str] = &[
        "eu-stack",
        "full-text",
        "longest-running",
        "low-water",
        "memory-map",
        "pile-up",
        "pool-of-threads",
        "power-protected",
        "pt-pmp",
        "row-based",
        "read-only",
        "rw-lock",
        "rw-locks",
        "semi-sync",
        "semi-synchronous",
        "set-up",
        "statement-based",
        "systemd-cgtop",
        "wake-ups",
    ];

    #[test]
    fn texts_name_only_causes_that_exist() {
        let is_name = |word: &&str| {
            word.contains('-')
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && !word.starts_with('-')
                && !word.ends_with('-')
        };
        for cause in CAUSES {
            for (heading, text) in cause.documentation() {
                let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
                for word in words.filter(is_name).filter(|word| !COMPOUNDS.contains(word)) {
                    assert!(
                        find(word).is_some(),
                        "{}: {heading} names {word}, which is no cause",
                        cause.name
                    );
                }
            }
        }
    }

    /// Characters of a paragraph, from which on nobody finds anything in it: a dozen lines of a terminal.
    const LONGEST: usize = 1_000;

    #[test]
    fn every_cause_is_documented_under_every_heading() {
        for cause in CAUSES {
            for (heading, text) in cause.documentation() {
                assert!(text.len() > 80 && text.ends_with('.'), "{}: {heading}: {text}", cause.name);
                for paragraph in text.split("\n\n") {
                    assert!(paragraph.len() <= LONGEST, "{}: {heading}: part {paragraph}", cause.name);
                }
            }
            assert!(!cause.references.is_empty(), "{}", cause.name);
            assert!(cause.title.len() <= 80, "{}", cause.name);
            assert!(find(&cause.name.to_uppercase()).is_some());
        }
    }
}
