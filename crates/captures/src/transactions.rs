//! `information_schema.INNODB_TRX` as somebody listed it: ages by its times, and who has the lock that others wait for.

use spindoctor_collect::mysql::{Rows, innodb_trx};
use spindoctor_model::mysql::{RowLockWait, Transaction};

use crate::clock;

/// The transactions of a list. Where it has times and no ages, the latest of the times stands for that of the list, so that ages are
/// no longer than they were.
pub(crate) fn transactions(rows: &Rows) -> Vec<Transaction> {
    let mut transactions = innodb_trx::transactions(rows);
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
        transaction.waited_s = transaction.waited_s.or_else(|| since(wait_started));
    }
    transactions
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
    fn the_only_one_who_can_have_the_lock_has_it() {
        let holder = "11,RUNNING,2024-05-02 08:00:11,NULL,33,DELETE FROM options,900\n";
        let late = "13,LOCK WAIT,2024-05-02 08:01:59,2024-05-02 08:01:59,35,UPDATE options SET a = 1,1\n";
        let list = listed(&format!("{holder}{WAITER}{late}"));
        assert_eq!((list[0].age_s, list[1].waited_s, list[2].waited_s), (108.0, Some(18.0), Some(0.0)));
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
