//! Every scenario on every server that it can be made on: the server really suffers, and the diagnosis
//! names the scenario's label first.
//!
//! They run one at a time: the machine's CPUs are part of what is measured. Only where the server does nothing but wait,
//! in [`calm`], are they not.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use spindoctor_lab::scenario::{RunOptions, find, run};
use spindoctor_lab::{Home, SCENARIOS, Which};
use spindoctor_model::Flavor;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn runs_alone(name: &str, which: Which) {
    let _lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    runs(name, which);
}

fn runs(name: &str, which: Which) {
    let scenario = find(name).unwrap();
    if !scenario.needs.is_empty() && !rustix::process::geteuid().is_root() {
        println!("{name} is skipped: it needs {}", scenario.needs);
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = RunOptions { which, window: Duration::from_secs(5) };
    let outcome = runtime
        .block_on(run(&Home::open().unwrap(), scenario, &options, &|line| println!("{line}")))
        .unwrap();
    assert!(outcome.seen_after.is_some(), "it suffered before ({}), not after", outcome.seen_before);
    let found: Vec<_> =
        outcome.diagnosis.findings.iter().map(|f| (&f.cause, f.severity, &f.headline)).collect();
    assert!(
        outcome.named_first,
        "label {:?}, found {found:#?}, not examined {:#?}",
        outcome.label, outcome.diagnosis.not_examined
    );
}

macro_rules! scenarios {
    ($runs:ident: $($test:ident: $scenario:literal, $which:ident;)*) => {
        $(
            #[test]
            fn $test() {
                $runs($scenario, Which::$which);
            }
        )*
        pub(crate) const TESTED: &[(&str, Which)] = &[$(($scenario, Which::$which)),*];
    };
}

scenarios! {
    runs_alone:
    a_healthy_mysql_has_nothing_above_a_note: "healthy", Mysql;
    a_healthy_mariadb_has_nothing_above_a_note: "healthy", Mariadb;
    mysql_is_found_to_spin_on_cpu_that_its_quota_does_not_grant: "quota-blind-spin", Mysql;
    mysql_is_found_to_be_throttled: "cpu-throttled", Mysql;
    mariadb_is_found_to_be_throttled: "cpu-throttled", Mariadb;
    mysql_is_found_to_spin_on_its_latches: "spin-burn", Mysql;
    mysql_is_found_to_saturate_its_cpus: "cpu-saturated", Mysql;
    mariadb_is_found_to_saturate_its_cpus: "cpu-saturated", Mariadb;
    mysql_is_found_to_queue_on_the_lock_of_an_index: "index-lock", Mysql;
    mysql_is_found_to_wait_for_a_truncate: "dictionary-stall", Mysql;
    mariadb_is_found_to_wait_for_a_truncate: "dictionary-stall", Mariadb;
    mysql_is_found_to_wait_for_a_file_that_grows: "file-extension-stall", Mysql;
    mysql_is_found_to_wait_for_statistics: "statistics-stall", Mysql;
    mysql_is_found_to_wait_for_checkpoints: "checkpoint-stall", Mysql;
    mariadb_is_found_to_wait_for_checkpoints: "checkpoint-stall", Mariadb;
    mysql_is_found_to_delay_changes_for_purge: "purge-lag", Mysql;
    mariadb_is_found_to_delay_changes_for_purge: "purge-lag", Mariadb;
    mysql_is_found_to_wait_for_syncs: "commit-sync-bound", Mysql;
    mariadb_is_found_to_wait_for_syncs: "commit-sync-bound", Mariadb;
    mysql_is_found_to_wait_for_a_disk_that_hardly_answers: "storage-stalled", Mysql;
    mariadb_is_found_to_wait_for_a_disk_that_hardly_answers: "storage-stalled", Mariadb;
    mysql_is_found_to_fill_its_memory_with_logs: "log-cache-pressure", Mysql;
    mariadb_is_found_to_fill_its_memory_with_logs: "log-cache-pressure", Mariadb;
    mysql_is_found_to_open_tables_all_the_time: "table-cache-contention", Mysql;
    mariadb_is_found_to_open_tables_all_the_time: "table-cache-contention", Mariadb;
    mysql_is_found_to_dive_into_indexes: "index-dive-waste", Mysql;
    mariadb_is_found_to_dive_into_indexes: "index-dive-waste", Mariadb;
    mysql_is_found_to_read_rows_in_vain: "rows-read-waste", Mysql;
    mariadb_is_found_to_read_rows_in_vain: "rows-read-waste", Mariadb;
    mysql_is_found_to_let_no_more_in: "accept-bottleneck", Mysql;
    mariadb_is_found_to_let_nobody_in: "accept-bottleneck", Mariadb;
    mysql_is_found_to_lag_behind_its_source: "replica-lag", Mysql;
    mariadb_is_found_to_lag_behind_its_source: "replica-lag", Mariadb;
    mysql_is_found_to_be_connected_to_for_each_query: "connection-churn", Mysql;
    mariadb_is_found_to_be_connected_to_for_each_query: "connection-churn", Mariadb;
    mysql_is_found_to_create_a_thread_for_each_connection: "thread-cache-miss", Mysql;
    mariadb_is_found_to_create_a_thread_for_each_connection: "thread-cache-miss", Mariadb;
}

/// Whose sessions wait for locks, find no room, or are those of a server that stands still: of the machine they want
/// nothing, and it can take nothing from them.
mod calm {
    use super::{Which, runs};

    scenarios! {
        runs:
        mysql_is_found_to_queue_on_one_row: "row-lock-pileup", Mysql;
        mariadb_is_found_to_queue_on_one_row: "row-lock-pileup", Mariadb;
        mysql_is_found_to_queue_on_a_metadata_lock: "metadata-lock-pileup", Mysql;
        mariadb_is_found_to_queue_on_a_metadata_lock: "metadata-lock-pileup", Mariadb;
        mysql_is_found_to_queue_on_the_global_lock: "global-lock-pileup", Mysql;
        mariadb_is_found_to_queue_on_the_global_lock: "global-lock-pileup", Mariadb;
        mysql_is_found_to_be_full: "connections-exhausted", Mysql;
        mariadb_is_found_to_be_full: "connections-exhausted", Mariadb;
        a_stopped_mysql_is_found: "server-stopped", Mysql;
        a_stopped_mariadb_is_found: "server-stopped", Mariadb;
        a_frozen_mysql_is_found: "server-frozen", Mysql;
        a_frozen_mariadb_is_found: "server-frozen", Mariadb;
    }
}

#[test]
fn every_scenario_has_a_test_on_each_server_that_it_can_be_made_on() {
    for scenario in SCENARIOS {
        for (flavor, which) in [(Flavor::Mysql, Which::Mysql), (Flavor::Mariadb, Which::Mariadb)] {
            let one = (scenario.name, which);
            let tested = TESTED.contains(&one) || calm::TESTED.contains(&one);
            assert_eq!(tested, scenario.flavors.contains(&flavor), "{} on {flavor}", scenario.name);
        }
    }
}

#[test]
fn every_label_is_a_cause_of_the_catalogue() {
    for label in SCENARIOS.iter().filter_map(|scenario| scenario.label) {
        assert!(spindoctor_rules::CAUSES.iter().any(|cause| cause.name == label), "{label}");
    }
}
