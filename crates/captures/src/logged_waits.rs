//! What Percona Server logs of a statement that gave up its wait for a row's lock (`innodb_print_lock_wait_timeout_info`): who waited, and
//! who had the lock.
//!
//! ```text
//! 2024-05-02T08:01:40.213401Z 5 [Note] InnoDB: Lock wait timeout info:
//! Requested thread id: 5
//! Requested query: DELETE FROM stock WHERE id = 1
//! Blocking thread id: 4
//! ```

use spindoctor_model::number;

/// Characters of a statement that are shown.
const SHOWN: usize = 160;
/// Connections that are named.
const NAMED: usize = 3;

/// One of them.
#[derive(Debug, Clone, Default)]
struct LoggedWait<'t> {
    connection: &'t str,
    statement: Option<&'t str>,
    blockers: Vec<&'t str>,
}

/// How many waits a log has, and who had the lock at the last one.
pub(crate) fn sentence(log: &str) -> Option<String> {
    let mut waits = 0_u64;
    let mut last = LoggedWait::default();
    for line in log.lines() {
        if line.trim_end().ends_with("Lock wait timeout info:") {
            waits += 1;
            last = LoggedWait::default();
        } else if let Some((name, value)) = line.split_once(": ").filter(|_| waits > 0) {
            match name.trim() {
                "Requested thread id" => last.connection = value.trim(),
                "Requested query" => last.statement = Some(value.trim()),
                "Blocking thread id" if last.blockers.len() < NAMED => last.blockers.push(value.trim()),
                _ => {}
            }
        }
    }
    if last.connection.is_empty() || last.blockers.is_empty() {
        return None;
    }
    let statement = last.statement.map(spindoctor_sql::digest).unwrap_or_default();
    let statement: String = statement.chars().take(SHOWN).collect();
    let statement = if statement.is_empty() { statement } else { format!(" ({statement})") };
    Some(format!(
        "{} for a row's lock ended without it: the last was that of connection {}{statement} for a lock of connection {}",
        number::counted(waits, "wait", "waits"),
        last.connection,
        last.blockers.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_the_lock_of_the_last_wait_is_said() {
        let wait = |id: u32, blocker: u32| {
            format!(
                "2024-05-02T08:01:40.213401Z {id} [Note] InnoDB: Lock wait timeout info:\nRequested thread id: {id}\nRequested trx id: 1289\n\
                 Requested query: DELETE FROM stock WHERE id = 17\nTotal blocking transactions count: 1\n\
                 Blocking transaction number: 1\nBlocking thread id: {blocker}\nBlocking query id: 38\n"
            )
        };
        let wanted = "2 waits for a row's lock ended without it: the last was that of connection 5 (DELETE FROM stock WHERE id = ?) for a \
                      lock of connection 4";
        let log = format!("{}{}", wait(6, 9), wait(5, 4));
        assert_eq!(sentence(&log).as_deref(), Some(wanted));
        assert!(crate::recognise("x", &log)[0].says.contains(&wanted.to_owned()));
        assert_eq!(sentence("Requested thread id: 5\nBlocking thread id: 4\n"), None);
    }
}
