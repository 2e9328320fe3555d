//! The account by the process list: what there is of a server that is somewhere else.

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
        let in_lock_wait = in_lock_wait(sample);
        let for_a_counter = for_a_counter(sample);
        for thread in at_work(threads) {
            if is_sleeping(&thread.state) {
                account.sleeping += 1.0;
                continue;
            }
            account.see(class(thread, &in_lock_wait, &for_a_counter), KnownBy::List, &thread.state);
        }
    }
    account
}

/// True for the state of a session that sleeps on purpose.
pub(super) fn is_sleeping(state: &str) -> bool {
    tables::SLEEPING.iter().any(|sleeping| state.eq_ignore_ascii_case(sleeping))
}

fn class(thread: &ServerThread, in_lock_wait: &BTreeSet<u64>, for_a_counter: &BTreeSet<u64>) -> TimeClass {
    if thread.command == "Connect" {
        return TimeClass::Login;
    }
    if thread.connection_id.is_some_and(|id| for_a_counter.contains(&id)) {
        return TimeClass::AutoIncrementLock;
    }
    let waits_for_a_row = thread.connection_id.is_some_and(|id| in_lock_wait.contains(&id));
    match of_state(&thread.state) {
        // InnoDB's waits have no state: the server says `updating`, or what it did before.
        None | Some(TimeClass::TableCache) if waits_for_a_row => TimeClass::RowLock,
        Some(class) => class,
        None => TimeClass::Running,
    }
}

/// Connections whose transaction waits for a lock of InnoDB.
fn in_lock_wait(sample: &Sample) -> BTreeSet<u64> {
    let transactions = sample.server.transactions.value().into_iter().flatten();
    transactions.filter(|one| one.state == "LOCK WAIT").filter_map(|one| one.connection_id).collect()
}

/// Connections that wait for the lock of a table's AUTO_INCREMENT counter, a table lock of InnoDB.
fn for_a_counter(sample: &Sample) -> BTreeSet<u64> {
    let waits = sample.server.row_lock_waits.value().into_iter().flatten();
    waits
        .filter(|wait| wait.mode.starts_with("AUTO_INC"))
        .filter_map(|wait| wait.waiting_connection_id)
        .collect()
}
