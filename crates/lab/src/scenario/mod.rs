//! Scenarios: labelled ways to reproduce one cause on a real server.
//!
//! A scenario says which server it needs, causes the problem, and checks by readings of its own that the problem is
//! there. [`run()`] waits until those readings show it, watches a window as `doctor` does, and compares the first
//! finding with the label.
//!
//! Everything follows from the list [`SCENARIOS`]: `lab list`, `lab run`, the tests against real servers, the rows of the
//! score. `script/new-cause` adds a scenario from `template.rs`.

mod accept_bottleneck;
mod acl_cache_contention;
mod auto_increment_lock;
mod checkpoint_stall;
mod cluster_partition;
mod commit_delay_set;
mod commit_sync_bound;
mod concurrency_queue;
mod connection_churn;
mod connections_exhausted;
mod cpu_saturated;
mod cpu_throttled;
mod deadlock_storm;
mod dictionary_stall;
mod disk_full;
mod during;
mod file_extension_stall;
mod four_clients;
mod free_page_wait;
mod galera_flow_control;
mod global_lock_pileup;
mod healthy;
mod index_dive_waste;
mod index_lock;
mod large_commit;
mod log_cache_pressure;
mod logins_refused;
mod metadata_lock_pileup;
mod monitoring_overload;
mod near_misses;
mod noisy_neighbour;
mod old_versions;
mod onset;
mod plan_change;
mod plan_change_parameter;
mod plan_change_statistics;
mod prepared_statements_exhausted;
mod prepared_xa_left;
mod purge_lag;
mod query_cache_contention;
mod quota_blind_spin;
mod read_io_bound;
mod replica_lag;
mod rollback_running;
mod row_lock_mild;
mod row_lock_pileup;
mod rows_read_waste;
mod run;
mod semi_sync_wait;
mod server_frozen;
mod server_stopped;
mod shared_disk;
mod spin_burn;
mod statement_log_contention;
mod statements_refused;
mod statistics_stall;
mod storage_in_turns;
mod storage_stalled;
mod swapping;
pub(crate) mod symptom;
mod table_cache_contention;
mod table_lock_pileup;
#[cfg(test)]
mod template;
mod temporary_table_spill;
mod thread_cache_miss;
mod thread_pool_starved;
mod unnamed_wait;
mod user_lock_pileup;
mod write_io_bound;

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use spindoctor_model::Flavor;

use crate::cgroup::Limits;
use crate::error::Result;
use crate::load::disk_writers::DiskWriters;
use crate::load::held_storage::HeldStorage;
use crate::load::neighbour::Neighbour;
use crate::load::sessions::Sessions;
use crate::load::swap::Swap;
use crate::load::{Load, LoadReport, LoadSpec, Tables};
use crate::server::{Data, Server, ServerSpec};

pub use during::{during, through};
pub use onset::{Calm, Onset, Suffered};
pub use run::{RunOptions, RunOutcome, run};

/// Every scenario, the healthy one first, then in the order of the catalogue of causes.
pub const SCENARIOS: &[&Scenario] = &[
    &healthy::SCENARIO,
    &four_clients::SCENARIO,
    &quota_blind_spin::SCENARIO,
    &cpu_throttled::SCENARIO,
    &spin_burn::SCENARIO,
    &cpu_saturated::SCENARIO,
    &noisy_neighbour::SCENARIO,
    &concurrency_queue::SCENARIO,
    &thread_pool_starved::SCENARIO,
    &index_lock::SCENARIO,
    &row_lock_pileup::SCENARIO,
    &row_lock_mild::SCENARIO,
    &prepared_xa_left::SCENARIO,
    &rollback_running::SCENARIO,
    &auto_increment_lock::SCENARIO,
    &deadlock_storm::SCENARIO,
    &metadata_lock_pileup::SCENARIO,
    &acl_cache_contention::SCENARIO,
    &table_lock_pileup::SCENARIO,
    &user_lock_pileup::SCENARIO,
    &query_cache_contention::SCENARIO,
    &statement_log_contention::SCENARIO,
    &global_lock_pileup::SCENARIO,
    &dictionary_stall::SCENARIO,
    &file_extension_stall::SCENARIO,
    &statistics_stall::SCENARIO,
    &checkpoint_stall::SCENARIO,
    &purge_lag::SCENARIO,
    &old_versions::SCENARIO,
    &commit_sync_bound::SCENARIO,
    &shared_disk::SCENARIO,
    &large_commit::SCENARIO,
    &commit_delay_set::SCENARIO,
    &semi_sync_wait::SCENARIO,
    &galera_flow_control::SCENARIO,
    &cluster_partition::SCENARIO,
    &storage_stalled::SCENARIO,
    &storage_in_turns::SCENARIO,
    &disk_full::SCENARIO,
    &read_io_bound::SCENARIO,
    &write_io_bound::SCENARIO,
    &free_page_wait::SCENARIO,
    &swapping::SCENARIO,
    &log_cache_pressure::SCENARIO,
    &table_cache_contention::SCENARIO,
    &accept_bottleneck::SCENARIO,
    &thread_cache_miss::SCENARIO,
    &connection_churn::SCENARIO,
    &connections_exhausted::SCENARIO,
    &prepared_statements_exhausted::SCENARIO,
    &logins_refused::SCENARIO,
    &statements_refused::SCENARIO,
    &index_dive_waste::SCENARIO,
    &rows_read_waste::SCENARIO,
    &plan_change::SCENARIO,
    &plan_change_statistics::SCENARIO,
    &plan_change_parameter::SCENARIO,
    &monitoring_overload::SCENARIO,
    &temporary_table_spill::SCENARIO,
    &replica_lag::SCENARIO,
    &server_stopped::SCENARIO,
    &server_frozen::SCENARIO,
    &unnamed_wait::SCENARIO,
];

/// Servers that look as if they suffered, and do not: the score has them, and nothing above a note may be found.
pub const NEAR_MISSES: &[&Scenario] = near_misses::NEAR_MISSES;

/// A labelled way to make a real server suffer one cause.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called: the cause's name, or a variant of it.
    pub name: &'static str,
    /// The cause that a diagnosis must name first; None where it must find nothing above a note.
    pub label: Option<&'static str>,
    /// What is done to the server and how it is seen to suffer, in a paragraph.
    pub story: &'static str,
    /// The servers that it can be made on.
    pub flavors: &'static [Flavor],
    /// What it needs of the machine besides the server; empty where nothing.
    pub needs: &'static str,
    /// True where the server does nothing but wait: several such scenarios can run at once and none disturbs another.
    pub is_calm: bool,
    /// The server that it needs; the caller fills in which.
    spec: fn(Flavor) -> ServerSpec,
    /// Makes the server suffer.
    begin: Begin,
    /// Looks once whether it suffers: what was seen, or None where it does not (yet).
    symptom: Symptom,
    /// How a calm server comes to suffer so, for `record`; None where the scenario has no calm beginning.
    pub onset: Option<Onset>,
}

impl Scenario {
    /// What most scenarios have: they can be made on every server, on any machine, and not beside others. Each has a name, a story,
    /// a way to make the server suffer and a symptom of its own.
    const USUAL: Self = Self {
        name: "",
        label: None,
        story: "",
        flavors: ALL,
        needs: "",
        is_calm: false,
        spec: |_| ServerSpec::default(),
        begin: |_| Box::pin(async { Ok(Suffering::by(Sessions::default())) }),
        symptom: |_, _| Box::pin(async { Ok(None) }),
        onset: None,
    };
}

type Begin = for<'a> fn(&'a Server) -> Pin<Box<dyn Future<Output = Result<Suffering>> + 'a>>;
type Symptom =
    for<'a> fn(&'a Server, &'a Suffering) -> Pin<Box<dyn Future<Output = Result<Option<String>>> + 'a>>;

/// MySQL and those made from it, and MariaDB.
const ALL: &[Flavor] = &[Flavor::Mysql, Flavor::Mariadb, Flavor::Percona];
/// MySQL and those made from it.
const MYSQL: &[Flavor] = &[Flavor::Mysql, Flavor::Percona];

/// Options of a server whose commits wait for the syncs of both logs, and which times these.
const DURABLE_COMMITS: [&str; 4] = [
    "--log-bin=binlog",
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
    // Off by default on MariaDB. A limit of the control group holds writes back before they reach the disk:
    // /proc/diskstats, the other place that has a sync's time, shows none.
    "--performance-schema=ON",
];

/// The tables that most scenarios work on.
const TABLES: Tables = Tables { count: 4, rows: 10_000 };

/// A server with these tables, and nothing else out of the ordinary.
fn with_tables(_: Flavor) -> ServerSpec {
    ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }
}

/// A server on a disk that does as many writes, or reads, a second as the scenario then lets it (`Server::limit_writes`,
/// `Server::limit_reads`).
fn on_slow_disk() -> ServerSpec {
    ServerSpec {
        data: Data::Disk,
        limits: Limits { writes: true, ..Limits::default() },
        ..ServerSpec::default()
    }
}

/// What makes the server suffer: it ends when this is dropped.
#[derive(Debug)]
struct Suffering {
    load: Option<Load>,
    sessions: Sessions,
    neighbour: Option<Neighbour>,
    swap: Option<Swap>,
    storage: Option<HeldStorage>,
    disk_writers: Option<DiskWriters>,
    began: Instant,
    /// A scenario's own reading of the server before it suffered.
    baseline: f64,
}

impl Suffering {
    /// By the clients of sysbench.
    fn by_load(server: &Server, spec: LoadSpec) -> Result<Self> {
        let in_text = server.draw().is_sysbench_in_text();
        // Clients that do as much as they can are few or many; those with a rate make the trouble by that rate.
        let drawn = |threads: u32| server.draw().count("clients", threads, threads.div_ceil(2)..=threads * 2);
        let threads = if spec.rate.is_none() { drawn(spec.threads) } else { spec.threads };
        let spec = LoadSpec { threads, ..spec };
        let start = if in_text { Load::start_in_text } else { Load::start };
        Ok(Self { load: Some(start(server.socket(), spec)?), ..Self::by(Sessions::default()) })
    }

    /// By sessions of the lab's own.
    fn by(sessions: Sessions) -> Self {
        Self {
            load: None,
            sessions,
            neighbour: None,
            swap: None,
            storage: None,
            disk_writers: None,
            began: Instant::now(),
            baseline: 0.0,
        }
    }

    /// What the clients reported since an instant.
    fn load_since(&self, start: Instant) -> Option<LoadReport> {
        self.load.as_ref()?.since(start)
    }
}

/// The scenarios that begin with a calm server.
pub fn with_onset() -> impl Iterator<Item = &'static Scenario> {
    SCENARIOS.iter().copied().filter(|scenario| scenario.onset.is_some())
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().chain(NEAR_MISSES).find(|scenario| scenario.name == name).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spindoctor_rules::CAUSES;

    use super::*;

    /// Causes that no machine of two CPUs can make: on one, MySQL 9.7 commits no fewer updates with no spin at all. A latch that is kept for seconds: it is a defect of some
    /// version, or a disk that hangs, which storage-stalled makes. Queues for a lock of the kernel and for a mutex or latch of InnoDB's
    /// want more CPUs. Two memory nodes; and a control group that makes a server wait for memory, and neither swaps nor ends
    /// it, on every kernel.
    const WITHOUT_A_SCENARIO: &[&str] = &[
        "spin-too-short",
        "latch-pileup",
        "kernel-contention",
        "adaptive-hash-contention",
        "rollback-segment-contention",
        "transaction-system-contention",
        "buffer-pool-latch-contention",
        "numa-imbalance",
        "memory-pressure",
    ];

    #[test]
    fn every_cause_has_a_scenario_and_no_two_scenarios_have_the_same_name() {
        let labels: BTreeSet<&str> = SCENARIOS.iter().filter_map(|scenario| scenario.label).collect();
        for cause in CAUSES.iter().filter(|cause| !WITHOUT_A_SCENARIO.contains(&cause.name)) {
            assert!(labels.contains(cause.name), "{} has no scenario", cause.name);
        }
        let names: BTreeSet<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), SCENARIOS.len());
    }

    #[test]
    fn the_template_is_a_scenario() {
        assert_eq!(template::SCENARIO.flavors, ALL);
    }

    #[test]
    fn scenarios_stand_in_the_order_of_the_catalogue() {
        let places: Vec<usize> = SCENARIOS
            .iter()
            .filter_map(|scenario| CAUSES.iter().position(|cause| Some(cause.name) == scenario.label))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}
