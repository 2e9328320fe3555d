//! What each thread waits for, in a few words: from the server's state text, its row locks and its transactions.

use std::collections::HashSet;

use spindoctor_model::Window;
use spindoctor_model::mysql::ServerThread;

use crate::common::wait_states::wait_of_state;

/// What a thread does that waits for nothing that the server reports.
pub const RUNNING: &str = "running";

/// Who waits for what, of one window's newest lists.
pub struct Waiting {
    row_lock_waiters: HashSet<u64>,
}

impl Waiting {
    /// The row locks of a window's newest sample.
    pub fn from_window(window: &Window) -> Self {
        let waits = window.latest(|s| &s.server.row_lock_waits).into_iter().flatten();
        let transactions = window.latest(|s| &s.server.transactions).into_iter().flatten();
        let row_lock_waiters = waits
            .filter_map(|wait| wait.waiting_connection_id)
            .chain(transactions.filter(|t| t.state == "LOCK WAIT").filter_map(|t| t.connection_id))
            .collect();
        Self { row_lock_waiters }
    }

    /// What a thread waits for; [`RUNNING`] where the server reports no wait, and nothing where it rests.
    pub fn word(&self, thread: &ServerThread) -> &'static str {
        if !is_at_work(thread) {
            return "";
        }
        if thread.connection_id.is_some_and(|id| self.row_lock_waiters.contains(&id)) {
            return "row lock";
        }
        wait_of_state(&thread.state).unwrap_or(RUNNING)
    }
}

/// True for a client's session that runs or waits for something.
pub fn is_at_work(thread: &ServerThread) -> bool {
    thread.is_at_work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_both_servers_are_shown_in_the_words_of_their_locks() {
        let nothing = Waiting { row_lock_waiters: HashSet::from([7]) };
        let word = |id, command: &str, state: &str| {
            nothing.word(&ServerThread {
                connection_id: Some(id),
                is_connection: true,
                command: command.to_owned(),
                state: state.to_owned(),
                ..ServerThread::default()
            })
        };
        assert_eq!(word(1, "Query", "Waiting for table metadata lock"), "metadata lock");
        assert_eq!(word(1, "Query", "waiting for handler commit"), "commit");
        assert_eq!(word(1, "Query", "Waiting for prior transaction to commit"), "commit");
        assert_eq!(word(1, "Query", "Creating sort index"), "sorting");
        assert_eq!(word(1, "Query", "executing"), RUNNING);
        assert_eq!(word(1, "Query", "Waiting for something new"), "other");
        assert_eq!(word(7, "Query", "updating"), "row lock");
        assert_eq!(word(1, "Sleep", ""), "");
    }
}
