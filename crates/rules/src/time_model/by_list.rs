//! The account by the process list, where stacks cannot be read: a server on another host.

use std::collections::BTreeSet;

use spindoctor_model::mysql::ServerThread;
use spindoctor_model::{KnownBy, Sample, TimeClass, Window};

use super::account::Account;
use super::stacks::of_state;
use super::tables;
use crate::sessions::at_work;

/// The account of the lists of a window; without an instant where there is none.
pub(super) fn account(window: &Window) -> Account {
    let mut account = Account::default();
    for sample in &window.samples {
        let Some(threads) = sample.server.threads.value() else { continue };
        account.next_instant();
        let locks = InnodbLocks::from_sample(sample);
        for thread in at_work(threads) {
            if is_sleeping(&thread.state) && !sleeps_in_trigger(thread) {
                account.sleeping += 1.0;
                continue;
            }
            account.see(class(thread, &locks), KnownBy::List, &thread.state);
        }
    }
    account
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
    match (of_state(&thread.state), of_innodb) {
        // InnoDB's waits have no state: the server says `updating`, or what it did before.
        (None | Some(TimeClass::TableCache), Some(of_innodb)) => of_innodb,
        (Some(class), _) => class,
        (None, None) => TimeClass::Running,
    }
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
