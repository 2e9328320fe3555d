//! What a thread waits for, by the state that the server says it is in.

/// Words of the server's states, and what a thread in such a state waits for. The first that is in the state counts.
///
/// The states are those of the MySQL manual, General Thread States and Replication Thread States, and of MariaDB's
/// Thread States.
const STATES: &[(&str, &str)] = &[
    ("metadata lock", "metadata lock"),
    ("global read lock", "global read lock"),
    ("global metadata lock", "global read lock"),
    ("backup lock", "backup lock"),
    ("backup mdl lock", "backup lock"),
    ("user lock", "user lock"),
    ("user level lock", "user lock"),
    ("table level lock", "table lock"),
    ("table flush", "table flush"),
    ("prior transaction to commit", "commit"),
    ("preceding transaction to commit", "commit"),
    ("semi-sync ack", "semi-sync ack"),
    ("handler commit", "commit"),
    ("commit", "commit"),
    // MariaDB 10.6 on: an answer that waits for the sync of the log
    ("updating status", "commit"),
    ("opening table", "opening tables"),
    ("closing table", "closing tables"),
    ("system lock", "system lock"),
    ("writing to net", "client"),
    ("sending to client", "client"),
    ("reading from net", "client"),
    ("receiving from client", "client"),
    ("user sleep", "sleep()"),
    ("rolling back", "rollback"),
    ("rollback", "rollback"),
    ("sort", "sorting"),
    ("tmp table", "temporary table"),
    ("to ondisk", "temporary table"),
    ("altering table", "altering table"),
    ("killed", "being killed"),
];

/// What a thread in this state waits for; none where the state names no wait.
pub fn wait_of_state(state: &str) -> Option<&'static str> {
    let state = state.to_lowercase();
    match STATES.iter().find(|(words, _)| state.contains(words)) {
        Some((_, word)) => Some(word),
        None => state.starts_with("waiting").then_some("other"),
    }
}
