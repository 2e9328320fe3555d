//! The account by the process list, where stacks cannot be read: a server on another host.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::innodb_status::SemaphoreWait;
use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{KnownBy, Sample, TimeClass, Window};

use super::VAGUE;
use super::account::Account;
use super::stacks::of_state;
use super::tables;
use crate::sessions::at_work;
use crate::wait_graph::{is_free, latch_named};

/// The account of the lists of a window; without an instant where there is none.
pub(super) fn account(window: &Window) -> Account {
    let mut account = Account::default();
    for sample in &window.samples {
        let Some(threads) = sample.server.threads.value() else { continue };
        account.next_instant();
        let locks = InnodbLocks::from_sample(sample);
        // Of a live server the status is read at another moment than the list: most of its waits for latches are over by then.
        let latches = if window.is_given() { wanted_latches(sample) } else { BTreeMap::new() };
        for thread in at_work(threads) {
            if is_sleeping(&thread.state) && !sleeps_in_trigger(thread) {
                account.sleeping += 1.0;
                continue;
            }
            let class = class(thread, &locks);
            match thread.connection_id.and_then(|id| latches.get(&id)) {
                Some(latch) if VAGUE.contains(&class) => account.see(TimeClass::Latch, KnownBy::List, latch),
                _ => account.see(class, KnownBy::List, &thread.state),
            }
        }
    }
    account
}

/// The latch that each connection waits for, by the section SEMAPHORES of InnoDB's status.
fn wanted_latches(sample: &Sample) -> BTreeMap<u64, String> {
    let Some(status) = sample.server.innodb_status.value() else { return BTreeMap::new() };
    let waits = status.semaphores.waiters.iter().filter(|wait| !wait.ended && !is_free(wait));
    let waits: BTreeMap<u64, &SemaphoreWait> = waits.map(|wait| (wait.pthread_id, wait)).collect();
    let listed = status.transactions.transactions.iter();
    listed.filter_map(|one| Some((one.connection_id?, latch_named(waits.get(&one.pthread_id?)?)))).collect()
}

/// True for the state of a session that sleeps on purpose.
pub(super) fn is_sleeping(state: &str) -> bool {
    tables::SLEEPING.iter().any(|sleeping| state.eq_ignore_ascii_case(sleeping))
}

/// True for a statement that changes rows, in which a trigger or a stored function sleeps: its client waits for the change, and others
/// for the rows. Who calls for a sleep gets one on purpose.
pub(super) fn sleeps_in_trigger(thread: &ServerThread) -> bool {
    is_sleeping(&thread.state)
        && thread.statement.as_deref().is_some_and(spindoctor_sql::changes_without_sleep)
}

fn class(thread: &ServerThread, locks: &InnodbLocks) -> TimeClass {
    // An event is at work under the same word, and has a statement.
    if thread.command == "Connect" && thread.statement.is_none() {
        // Who logs in says so, but where it waits for a lock.
        return of_state(&thread.state)
            .filter(|&class| class == TimeClass::PrivilegeCache)
            .unwrap_or(TimeClass::Login);
    }
    let of_innodb = thread.connection_id.and_then(|id| locks.wanted_by(id));
    let of_state = of_state(&thread.state).filter(|&class| {
        // The server shows it for as long as it opens one table after the other, and while InnoDB deletes one.
        class != TimeClass::PrivilegeCache
            || !thread.state.eq_ignore_ascii_case("checking permissions")
            || !looks_at_tables(thread.statement.as_deref().unwrap_or_default())
    });
    match (of_state, of_innodb) {
        // InnoDB's waits have no state: the server says `updating`, or what it did before.
        (None | Some(TimeClass::TableCache), Some(of_innodb)) => of_innodb,
        (Some(class), _) => class,
        // Before 8.0 a commit keeps the state in which its statement begins.
        (None, None) if commits(thread) => TimeClass::Commit,
        (None, None) => TimeClass::Running,
    }
}

/// True for a statement that does nothing but commit, in a state that says nothing.
fn commits(thread: &ServerThread) -> bool {
    const STATES: [&str; 3] = ["", "starting", "init"];
    STATES.iter().any(|state| thread.state.eq_ignore_ascii_case(state))
        && thread
            .statement
            .as_deref()
            .is_some_and(|statement| spindoctor_sql::begins_with(statement, &["COMMIT"]))
}

/// True for a statement that changes a table's definition or lists what tables there are.
fn looks_at_tables(statement: &str) -> bool {
    spindoctor_sql::wants_a_table(statement)
        || spindoctor_sql::kind(statement) == "SHOW"
        || spindoctor_sql::names(statement).any(|name| name == "information_schema")
}

/// Who waits for a lock of InnoDB in one sample.
#[derive(Debug, Default)]
pub(crate) struct InnodbLocks {
    /// Connections whose transaction waits.
    in_lock_wait: BTreeSet<u64>,
    /// Those of them that want the lock of a table's AUTO_INCREMENT counter.
    for_a_counter: BTreeSet<u64>,
}

impl InnodbLocks {
    pub(crate) fn from_sample(sample: &Sample) -> Self {
        let transactions = sample.server.transactions.value().into_iter().flatten();
        let waits = sample.server.row_lock_waits.value().into_iter().flatten();
        Self {
            in_lock_wait: transactions
                .filter(|one| one.state == "LOCK WAIT")
                .filter_map(|one| one.connection_id)
                .collect(),
            for_a_counter: waits
                .filter(|wait| wait.mode.starts_with("AUTO_INC"))
                .filter_map(|wait| wait.waiting_connection_id)
                .collect(),
        }
    }

    /// The class of the lock that a connection waits for.
    pub(crate) fn wanted_by(&self, connection_id: u64) -> Option<TimeClass> {
        match connection_id {
            id if self.for_a_counter.contains(&id) => Some(TimeClass::AutoIncrementLock),
            id if self.in_lock_wait.contains(&id) => Some(TimeClass::RowLock),
            _ => None,
        }
    }
}
