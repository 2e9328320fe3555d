//! `information_schema.INNODB_TRX` as somebody listed it: ages by its times, and who has the lock that others wait for.

use std::collections::BTreeSet;

use spindoctor_collect::mysql::rows::Row;
use spindoctor_collect::mysql::{Rows, innodb_trx};
use spindoctor_model::mysql::{RowLockWait, ServerThread, Transaction};
use spindoctor_model::number;

use crate::events::OLD_S;
use crate::{clock, locks, threads};

/// How people's own queries call the age of a transaction: seconds, or a clock.
const AGES: [&str; 20] = [
    "age",
    "age_secs",
    "age_seconds",
    "trx_age",
    "trx_age_s",
    "trx_age_sec",
    "trx_age_seconds",
    "dur_sec",
    "duration",
    "duration_s",
    "duration_sec",
    "duration_seconds",
    "trx_duration",
    "seconds",
    "elapsed",
    "runtime",
    "run_time",
    "running_time",
    "running_seconds",
    "hold_seconds",
];

/// The transactions of a list. Where it has times and no ages, the latest of the times stands for that of the list, so that ages are
/// no longer than they were.
pub(crate) fn transactions(rows: &Rows) -> Vec<Transaction> {
    let mut transactions = innodb_trx::transactions(rows);
    for (transaction, row) in transactions.iter_mut().zip(rows.iter()) {
        // Where a process list was joined, its id is that of the connection.
        let id = ["id", "processlist_id", "conn_id"].iter().find_map(|name| row.number(name));
        transaction.connection_id = transaction.connection_id.or(id);
        if transaction.id.is_empty() {
            transaction.id = transaction.connection_id.map_or_else(String::new, |id| id.to_string());
        }
        let age_s = AGES.iter().find_map(|name| row.text(name).and_then(locks::clock));
        if transaction.age_s == 0.0 {
            transaction.age_s = age_s.unwrap_or(0.0).max(0.0);
        }
    }
    let times: Vec<_> = rows
        .iter()
        .map(|row| ["trx_started", "trx_wait_started"].map(|name| row.text(name).and_then(clock::time)))
        .collect();
    let Some(latest) = times.iter().flatten().flatten().max() else { return transactions };
    for (transaction, [started, wait_started]) in transactions.iter_mut().zip(&times) {
        let since = |time: &Option<_>| time.map(|time| clock::seconds(time, *latest));
        if transaction.age_s == 0.0 {
            transaction.age_s = since(started).unwrap_or(0.0);
        }
        // Where the latest time is that at which it began to wait, nothing says for how long.
        let waited_s = since(wait_started).filter(|waited_s| *waited_s > 0.0);
        transaction.waited_s = transaction.waited_s.or(waited_s);
    }
    transactions
}

/// The transactions, each at least as old as what its session does, or as its rest: it was open before.
pub(crate) fn as_old_as(sessions: &[ServerThread], mut transactions: Vec<Transaction>) -> Vec<Transaction> {
    for transaction in &mut transactions {
        let of = |session: &&ServerThread| {
            session.connection_id.is_some() && session.connection_id == transaction.connection_id
        };
        let time_s = sessions.iter().find(of).map_or(0.0, |session| session.time_s);
        transaction.age_s = transaction.age_s.max(time_s);
    }
    transactions
}

/// The oldest of the transactions of a list, where it is old.
pub(crate) fn old_sentence(rows: &Rows, transactions: &[Transaction]) -> Option<String> {
    let old = transactions.iter().filter(|one| one.age_s > OLD_S);
    let oldest = old.max_by(|one, other| one.age_s.total_cmp(&other.age_s))?;
    Some(format!(
        "the oldest transaction has been open for {}: {} (purge keeps the old versions of rows that it may still read)",
        number::duration(oldest.age_s),
        whose(rows, oldest)
    ))
}

/// The transaction of a list that has changed the most rows, where they are many: of a list without ages it is all that stands out.
pub(crate) fn large_sentence(rows: &Rows, transactions: &[Transaction]) -> Option<String> {
    /// Some seconds of work, and of taking it back. Chosen, not derived.
    const MANY: u64 = 100_000;
    let largest = transactions.iter().max_by_key(|one| one.rows_modified)?;
    let changed = Some(largest.rows_modified).filter(|&changed| changed >= MANY)?;
    let end = match largest.state == "ROLLING BACK" {
        true => {
            "it is being rolled back, which takes about as long as the changes did: a KILL, or a restart, makes it no shorter"
        }
        false => "a KILL rolls it back, which takes about as long as the changes did",
    };
    Some(format!(
        "the largest transaction has changed {}: {} ({end})",
        number::counted(changed, "row", "rows"),
        whose(rows, largest)
    ))
}

/// The only transaction of a list that has locks of rows, where it runs nothing and the list has no one that waits: people take the list
/// because something waited, and it is gone by then (error 1205). None beside what says more of it.
pub(crate) fn resting_sentence(rows: &Rows, transactions: &[Transaction]) -> Option<String> {
    let has_statements = rows.names().iter().any(|name| name.eq_ignore_ascii_case("trx_query"));
    let mut with_locks = transactions
        .iter()
        .filter(|one| one.state == "LOCK WAIT" || one.rows_locked > 0 || one.rows_modified > 0);
    let only = with_locks.next().filter(|_| with_locks.next().is_none())?;
    let rests = has_statements && only.statement.is_none() && only.state == "RUNNING";
    rests.then(|| {
        format!(
            "one transaction has rows locked: {}. Who waits for one of these rows waits until it ends; where it is still there in some \
             seconds, its client has left it open",
            whose(rows, only)
        )
    })
}

/// Whose a transaction is, and whether it rests.
fn whose(rows: &Rows, transaction: &Transaction) -> String {
    let has_statements = rows.names().iter().any(|name| name.eq_ignore_ascii_case("trx_query"));
    let rests = if has_statements && transaction.statement.is_none() { ", which runs nothing" } else { "" };
    match transaction.connection_id {
        Some(id) => format!("that of connection {id}{rests}"),
        None => format!("transaction {}{rests}", transaction.id),
    }
}

/// The sessions of a list of transactions that somebody joined with a process list; empty where the list has no more than
/// INNODB_TRX has.
pub(crate) fn sessions(rows: &Rows) -> Vec<ServerThread> {
    const OF_LIST: [&str; 4] = ["command", "state", "processlist_command", "processlist_state"];
    let mut names: Vec<String> = rows.names().iter().map(|name| name.to_ascii_lowercase()).collect();
    if !names.iter().any(|name| OF_LIST.contains(&name.as_str())) {
        return Vec::new();
    }
    // People leave out what stands in the other table, too.
    for (plain, same, others) in [
        ("id", ["processlist_id", "conn_id"], ["trx_mysql_thread_id", "thread_id"]),
        ("info", ["processlist_info", "query"], ["trx_query", "sql_text"]),
    ] {
        if !names.iter().any(|name| name == plain || same.contains(&name.as_str()))
            && let Some(at) = names.iter().position(|name| others.contains(&name.as_str()))
        {
            plain.clone_into(&mut names[at]);
        }
    }
    let cells_of = |row: Row<'_>| -> Vec<Option<String>> {
        (0..names.len()).map(|at| row.at(at).map(str::to_owned)).collect()
    };
    let cells = rows.iter().map(cells_of).collect();
    let mut sessions = threads::others(&Rows::new(names, cells));
    let mut seen = BTreeSet::new();
    sessions.retain(|session| session.connection_id.is_some_and(|id| seen.insert(id)));
    sessions
}

/// Who waits for whom, where only one transaction can have what the others wait for: the only one that has locks of rows, waits for
/// none, and is as old as the longest wait. Empty otherwise.
pub(crate) fn waits_inferred(transactions: &[Transaction]) -> Vec<RowLockWait> {
    let is_waiting = |transaction: &&Transaction| transaction.state == "LOCK WAIT";
    let longest_s = transactions.iter().filter(is_waiting).filter_map(|one| one.waited_s).fold(0.0, f64::max);
    let mut can = transactions
        .iter()
        .filter(|one| !is_waiting(one) && one.rows_locked > 0 && one.age_s + 1.0 >= longest_s);
    let (Some(holder), None) = (can.next(), can.next()) else { return Vec::new() };
    transactions
        .iter()
        .filter(is_waiting)
        .map(|waiter| RowLockWait {
            waiting_connection_id: waiter.connection_id,
            blocking_connection_id: holder.connection_id,
            waiting_transaction: waiter.id.clone(),
            blocking_transaction: holder.id.clone(),
            table: waiter
                .statement
                .as_deref()
                .and_then(spindoctor_sql::first_table)
                .unwrap_or_default()
                .to_owned(),
            waited_s: waiter.waited_s.unwrap_or(0.0),
            ..RowLockWait::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::tables;

    const HEAD: &str =
        "trx_id,trx_state,trx_started,trx_wait_started,trx_mysql_thread_id,trx_query,trx_rows_locked\n";
    const WAITER: &str =
        "12,LOCK WAIT,2024-05-02 08:01:40,2024-05-02 08:01:41,34,UPDATE options SET a = 1,1\n";

    fn listed(rows: &str) -> Vec<Transaction> {
        transactions(&tables(&format!("{HEAD}{rows}"))[0])
    }

    #[test]
    fn a_process_list_that_was_joined_gives_the_sessions_of_the_transactions() {
        let head = "trx_id,trx_state,trx_started,trx_mysql_thread_id,trx_query";
        let rows = tables(&format!(
            "{head},user,command,time,state\n12,RUNNING,2024-05-02 08:01:40,34,NULL,app,Sleep,930,\n\
             13,RUNNING,2024-05-02 08:01:41,35,UPDATE a SET b = 1,app,Query,800,Waiting for global read lock\n\
             13,RUNNING,2024-05-02 08:01:41,35,UPDATE a SET b = 1,app,Query,800,Waiting for global read lock\n"
        ));
        let found: Vec<_> = sessions(&rows[0])
            .into_iter()
            .map(|session| (session.connection_id, session.command, session.time_s, session.statement))
            .collect();
        let wanted = [
            (Some(34), "Sleep".to_owned(), 930.0, None),
            (Some(35), "Query".to_owned(), 800.0, Some("UPDATE a SET b = 1".to_owned())),
        ];
        assert_eq!(found, wanted);
        assert!(
            sessions(&tables(&format!("{head}\n12,RUNNING,2024-05-02 08:01:40,34,NULL\n"))[0]).is_empty()
        );
    }

    #[test]
    fn the_oldest_transaction_is_said_by_its_own_age_or_that_of_its_session() {
        let says = |list: &str| {
            crate::recognise("x", list).into_iter().flat_map(|part| part.says).collect::<Vec<_>>()
        };
        let behind = "(purge keeps the old versions of rows that it may still read)";
        let joined = "| ID | USER | TIME | STATE | trx_started | trx_state | trx_query |\n\
                      | 12 | app | 1739 | | 2024-05-02 08:01:40 | RUNNING | NULL |\n\
                      | 11 | app | 1743 | | 2024-05-02 08:01:36 | RUNNING | NULL |\n";
        let wanted = format!(
            "the oldest transaction has been open for 29 min 3 s: that of connection 11, which runs nothing {behind}"
        );
        assert_eq!(says(joined), [wanted]);
        let own = "trx_id\ttrx_state\tdur_sec\ttrx_query\n81\tRUNNING\t1203\tUPDATE a SET b = 1\n82\tRUNNING\t61\tNULL\n";
        let wanted = format!("the oldest transaction has been open for 20 min 3 s: transaction 81 {behind}");
        assert_eq!(says(own), [wanted]);
        assert!(says(&own.replace("1203", "103")).is_empty());
    }

    #[test]
    fn the_transaction_that_has_changed_many_rows_is_said_without_its_age() {
        let says = |state: &str, changed: u64| {
            let list = format!(
                "trx_id\ttrx_state\ttrx_mysql_thread_id\ttrx_query\ttrx_rows_modified\n\
                 81\t{state}\t33\tNULL\t{changed}\n82\tRUNNING\t34\tSELECT 1\t2\n"
            );
            let parts = crate::recognise("x", &list);
            parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().concat()
        };
        let found = says("RUNNING", 412_000);
        let wanted =
            "has changed 412,000 rows: that of connection 33, which runs nothing (a KILL rolls it back";
        assert!(found.contains(wanted), "{found}");
        assert!(says("ROLLING BACK", 412_000).contains("makes it no shorter"));
        assert_eq!(says("RUNNING", 412), "");
    }

    #[test]
    fn the_only_transaction_with_locks_that_runs_nothing_is_said() {
        let head = "trx_id\ttrx_state\ttrx_mysql_thread_id\ttrx_query\ttrx_rows_locked\n";
        let says = |rows: &str| {
            let parts = crate::recognise("x", &format!("{head}{rows}"));
            parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().concat()
        };
        let found = says("81\tRUNNING\t33\tNULL\t2\n82\tRUNNING\t34\tNULL\t0\n");
        assert!(
            found.starts_with("one transaction has rows locked: that of connection 33, which runs nothing."),
            "{found}"
        );
        assert_eq!(says("81\tRUNNING\t33\tUPDATE a SET b = 1\t2\n"), "");
        assert_eq!(says("81\tRUNNING\t33\tNULL\t2\n82\tRUNNING\t34\tNULL\t4\n"), "");
    }

    #[test]
    fn the_only_one_who_can_have_the_lock_has_it() {
        let holder = "11,RUNNING,2024-05-02 08:00:11,NULL,33,DELETE FROM options,900\n";
        let late = "13,LOCK WAIT,2024-05-02 08:01:59,2024-05-02 08:01:59,35,UPDATE options SET a = 1,1\n";
        let list = listed(&format!("{holder}{WAITER}{late}"));
        assert_eq!((list[0].age_s, list[1].waited_s, list[2].waited_s), (108.0, Some(18.0), None));
        let waits = waits_inferred(&list);
        let pairs: Vec<_> =
            waits.iter().map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id)).collect();
        assert_eq!(pairs, [(Some(34), Some(33)), (Some(35), Some(33))]);
        assert_eq!(waits[0].table, "options");
        let other = "14,RUNNING,2024-05-02 08:00:12,NULL,36,NULL,5\n";
        assert!(waits_inferred(&listed(&format!("{holder}{WAITER}{late}{other}"))).is_empty());
        let young = "14,RUNNING,2024-05-02 08:01:58,NULL,36,NULL,5\n";
        assert!(waits_inferred(&listed(&format!("{WAITER}{late}{young}"))).is_empty());
    }
}
