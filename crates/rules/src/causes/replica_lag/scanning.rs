//! An applier that reads a table whole for each row that changed.

use spindoctor_model::mysql::{MetadataLock, ReplicaChannel, ServerThread};
use spindoctor_model::stack::{Observation, Profile};
use spindoctor_model::{Evidence, Remedy, Window};

use super::LISTED_BEHIND_S;
use crate::{applier_scans, replica};

/// The part of an applier's stacks that must lie in a scan before its table is said to have no key. Chosen.
const LEAST: f64 = 0.5;

/// Stacks of an applier that are too few to say anything.
const STACKS: usize = 5;

/// The variable of MySQL 5.6 to 8.0 that lets one scan serve all rows of an event.
const ALGORITHMS: &str = "slave_rows_search_algorithms";

/// What the stacks of the appliers show.
pub(super) struct Scan {
    /// Of the appliers' stacks, the part that lies in a scan, 0 to 1.
    share: f64,
    /// The table that they have open, where a list of locks names one alone.
    table: Option<String>,
}

impl Scan {
    pub(super) fn from_window(window: &Window) -> Option<Self> {
        let share = scanning(window).filter(|&share| share >= LEAST)?;
        Some(Self { share, table: table(window) })
    }

    /// The end of a headline.
    pub(super) fn headline(&self) -> String {
        format!("it reads {} whole to find the rows that changed", self.table.as_deref().unwrap_or("a table"))
    }

    pub(super) fn why(&self) -> &'static str {
        "The source sends the rows that it changed, and the applier looks for each by the primary key or another unique one. This table has \
         none here that serves, so that it is read whole, once for each row or for each event of rows."
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence::new("appliers' stacks in a scan", self.share, "ratio", "stacks").expected("0")
    }

    pub(super) fn remedies(&self, window: &Window) -> Vec<Remedy> {
        let list = "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_ROWS FROM information_schema.TABLES t LEFT JOIN \
                    information_schema.TABLE_CONSTRAINTS c ON c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME AND \
                    c.CONSTRAINT_TYPE IN ('PRIMARY KEY', 'UNIQUE') WHERE c.CONSTRAINT_NAME IS NULL AND t.TABLE_TYPE = 'BASE TABLE' AND \
                    t.TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY t.TABLE_ROWS DESC";
        let key = Remedy {
            statement: match &self.table {
                Some(table) => format!("SHOW CREATE TABLE {table}; then a primary key for it, on the source"),
                None => format!("{list}; then a primary key for the one that changes, on the source"),
            },
            why: "With a key the applier finds each row at once.".into(),
            dynamic: true,
            risk: "The first part only reads. A new key copies the table, here and on the source; an index on the replica alone helps as \
                   well until then."
                .into(),
            undo: String::new(),
        };
        [Some(key), one_scan_for_all(window)].into_iter().flatten().collect()
    }
}

/// Of the appliers' stacks, the part that lies in a scan, 0 to 1; None where they are too few.
fn scanning(window: &Window) -> Option<f64> {
    let profile = window.profile.value()?;
    let applying = || observations(profile).filter(|seen| applier_scans::applies(profile, seen));
    let all = applying().count();
    let scanning = applying().filter(|seen| applier_scans::scans(profile, seen)).count();
    (all >= STACKS).then(|| scanning as f64 / all as f64)
}

/// What MariaDB's state of an applier says where no stacks were read: ``Delete_rows_log_event::find_row(-1) on table `visit` ``
/// (sql/log_event_server.cc). It is seen there for long where each row is looked for in the whole table.
pub(super) struct Suspect {
    state: String,
    /// Without its schema, which the state has not.
    table: Option<String>,
}

impl Suspect {
    /// None of another state, of a lag that one large event explains, and where stacks say whether it scans.
    pub(super) fn from_channel(window: &Window, channel: &ReplicaChannel) -> Option<Self> {
        const EVENTS: [&str; 2] = ["delete_rows_log_event", "update_rows_log_event"];
        let state = channel.applier_state.to_ascii_lowercase();
        let is_such = EVENTS.iter().any(|event| state.starts_with(event));
        let is_behind = channel.behind_s.is_some_and(|behind_s| behind_s >= LISTED_BEHIND_S);
        let table = channel.applier_state.split_once("on table `").and_then(|(_, rest)| rest.split_once('`'));
        // It stands in a statement that somebody is to run.
        let is_word = |table: &&str| {
            !table.is_empty() && table.chars().all(|letter| letter.is_alphanumeric() || "_$".contains(letter))
        };
        (is_such && is_behind && scanning(window).is_none()).then(|| Self {
            state: channel.applier_state.clone(),
            table: table.map(|(table, _)| table).filter(is_word).map(str::to_owned),
        })
    }

    fn named(&self) -> String {
        self.table.as_ref().map_or_else(|| "a table".to_owned(), |table| format!("the table {table}"))
    }

    /// The end of a headline.
    pub(super) fn headline(&self) -> String {
        format!("its applier changes rows of {}, which may have no primary key", self.named())
    }

    pub(super) fn why(&self) -> String {
        format!(
            "The applier was seen at an UPDATE or DELETE of rows of {}. It looks for each row by the primary key or another unique one: without \
             one it reads the table whole for each. Whether it has one is not in what was read; an event of very many rows looks the same.",
            self.named()
        )
    }

    pub(super) fn evidence(&self, status: &str) -> Evidence {
        Evidence::new("the applier", self.state.clone(), "", status)
    }

    /// To look at the table, and its key.
    pub(super) fn remedies(&self, window: &Window) -> Vec<Remedy> {
        Scan { share: 0.0, table: self.table.clone() }.remedies(window)
    }
}

/// Where the server can hash the rows of an event and read the table once for all of them, and does not.
fn one_scan_for_all(window: &Window) -> Option<Remedy> {
    let now = window.variable_word(ALGORITHMS).filter(|now| !now.contains("HASH_SCAN"))?;
    Some(Remedy {
        statement: format!("SET GLOBAL {ALGORITHMS} = 'INDEX_SCAN,HASH_SCAN'"),
        why: "The table is then read once for all rows of an event, and not once for each.".into(),
        dynamic: true,
        risk: "It counts from the next start of the applier (STOP and START SLAVE SQL_THREAD); the rows of an event are kept in memory."
            .into(),
        undo: format!("SET GLOBAL {ALGORITHMS} = '{now}'"),
    })
}

/// Snapshots and CPU samples: of an applier that is on a CPU all the time the latter are as good.
fn observations(profile: &Profile) -> impl Iterator<Item = &Observation> {
    profile.observations.iter().chain(&profile.cpu_samples)
}

/// The one table that the appliers may write to, where a list of locks was read.
fn table(window: &Window) -> Option<String> {
    let threads = window.latest(|sample| &sample.server.threads)?;
    let locks = window.latest(|sample| &sample.server.metadata_locks)?;
    let is_owner = |lock: &MetadataLock, applier: &ServerThread| {
        (lock.owner_internal_id.is_some() && lock.owner_internal_id == applier.internal_id)
            || (lock.owner_connection_id.is_some() && lock.owner_connection_id == applier.connection_id)
    };
    let of_appliers = locks.iter().filter(|lock| {
        lock.granted
            && lock.object_type == "TABLE"
            && threads.iter().filter(|thread| replica::is_applier(thread)).any(|one| is_owner(lock, one))
    });
    let mut names: Vec<String> = of_appliers.map(|lock| format!("{}.{}", lock.schema, lock.name)).collect();
    names.sort();
    names.dedup();
    match <[String; 1]>::try_from(names) {
        Ok([name]) => Some(name),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::ThreadState;

    use super::super::tests::{found, replica};
    use crate::applier_scans::APPLIES;

    const BEHIND: fn(f64) -> f64 = |at_s| 20.0 + 0.8 * at_s;

    #[test]
    fn an_applier_that_reads_a_table_for_each_row_has_a_key_as_its_remedy() {
        let mysql =
            ["row_search_mvcc", "handler::ha_rnd_next", "Rows_log_event::do_table_scan_and_update", APPLIES];
        let mariadb = ["handler::ha_rnd_next", "Rows_log_event::find_row", APPLIES];
        let hashed = ["handler::ha_rnd_next", "Rows_log_event::do_hash_scan_and_update", APPLIES];
        for frames in [&mysql[..], &mariadb, &hashed] {
            let build = replica(BEHIND).variable(super::ALGORITHMS, "TABLE_SCAN,INDEX_SCAN");
            let finding = found(&build.only_snapshots(&[(1, ThreadState::Running, frames)]).window());
            assert!(
                finding.headline.ends_with(": it reads a table whole to find the rows that changed"),
                "{finding:#?}"
            );
            assert!(finding.why.contains("primary key"), "{}", finding.why);
            let statements: Vec<&str> = finding.remedies.iter().map(|one| one.statement.as_str()).collect();
            assert!(statements[0].contains("then a primary key"), "{statements:?}");
            assert_eq!(statements[1], "SET GLOBAL slave_rows_search_algorithms = 'INDEX_SCAN,HASH_SCAN'");
            assert!(statements.iter().all(|one| !one.contains("parallel")), "{statements:?}");
        }
    }

    #[test]
    fn one_that_finds_its_rows_by_a_key_is_not() {
        let by_key = ["handler::ha_index_read_map", "Rows_log_event::do_index_scan_and_update", APPLIES];
        // One that hashes the rows of an event reads a secondary index where the table has one.
        let hashed = ["handler::ha_index_next", "Rows_log_event::do_hash_scan_and_update", APPLIES];
        for frames in [&by_key[..], &hashed] {
            let build = replica(BEHIND).only_snapshots(&[(1, ThreadState::Running, frames)]);
            let finding = found(&build.window());
            assert!(!finding.headline.contains("whole"), "{}", finding.headline);
        }
    }
}
