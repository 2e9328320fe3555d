//! `information_schema.INNODB_TRX`: open transactions, the oldest first.

use spindoctor_model::mysql::Transaction;
use spindoctor_model::{ServerSample, ServerVersion, Unavailable};

use super::rows::Rows;
use super::source::{Plan, Source, Variables, note_if_cut, process_grant};
use crate::pace::Pace;
use crate::source::Cadence;

/// Transactions read at most.
const LIMIT: usize = 2000;

/// Ages are computed against the time in the zone of the system, which is the zone of `trx_started`;
/// `NOW()` would be in the session's.
const SQL: &str = "SELECT trx_id, trx_state, trx_mysql_thread_id, trx_query, trx_rows_locked, trx_rows_modified, \
    trx_requested_lock_id, trx_isolation_level, \
    TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, \
    TIMESTAMPDIFF(SECOND, trx_wait_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS waited_s \
    FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id <> CONNECTION_ID() \
    ORDER BY trx_started LIMIT 2000";

/// The source.
///
/// Cost: InnoDB copies all open transactions (and the locks that are waited for) into a cache of at
/// most 16 MiB, holding its transaction and lock system latches: about 1 ms for 1,000 transactions.
/// The copy is made at most every 0.1 s, however many ask, and INNODB_LOCKS and INNODB_LOCK_WAITS
/// (5.7, MariaDB) share it. Safe to ask every second. The copy of these servers grows with the square of the waiters: it is
/// not asked for where too many wait.
pub const SOURCE: Source = Source {
    name: "information_schema.INNODB_TRX",
    help: "open transactions: age, what they wait for, rows they changed",
    cost: "copies the open transactions under InnoDB's lock latches, about 1 ms for 1,000",
    grant: process_grant,
    install: "",
    cadence: Cadence::EverySample,
    pace: Pace::server(1, 30),
    plan,
    parse: |rows, answer, sample| {
        note_if_cut("information_schema.INNODB_TRX", rows, LIMIT, sample);
        sample.transactions = answer.reading(transactions(rows));
    },
    reading: ServerSample::field("transactions"),
};

/// Transactions that wait for row locks, from which on MariaDB and MySQL to 5.7 are not asked: their copy has, of n that
/// wait for one row, n(n+1)/2 pairs. That is 56 ms under InnoDB's latches for 500 (MariaDB 10.11), 20 ms for 300.
const MOST_WAITING: f64 = 300.0;

fn plan(version: ServerVersion, _: Variables<'_>) -> Plan {
    if version.mysql_at_least(8, 0, 0) {
        Plan::Ask(SQL)
    } else if version.mysql_at_least(5, 5, 0) || version.mariadb_at_least(5, 5, 0) {
        Plan::AskAbout(unless_too_many_wait)
    } else {
        Plan::Cannot(Unavailable::because(format!("{version} has no INNODB_TRX (5.5 and later do)")))
    }
}

fn unless_too_many_wait(sample: &ServerSample) -> Result<Option<String>, Unavailable> {
    let gauge = sample.status.value().and_then(|status| status.number(CURRENT_WAITS));
    // It went below zero and wrapped around in some versions: then it says nothing.
    match gauge.filter(|&waiting| waiting < 1e6) {
        Some(waiting) if waiting > MOST_WAITING => Err(Unavailable::because(format!(
            "{waiting} transactions wait for row locks: InnoDB would hold its latches for too long to list them"
        ))),
        _ => Ok(Some(SQL.to_owned())),
    }
}

/// How many transactions wait for row locks, as `SHOW GLOBAL STATUS` names it.
pub(crate) const CURRENT_WAITS: &str = "Innodb_row_lock_current_waits";

/// The column of what a transaction has changed.
const MODIFIED: &str = "trx_rows_modified";

/// The transactions of a list of `information_schema.INNODB_TRX`; ages only where the list has them.
pub fn transactions(rows: &Rows) -> Vec<Transaction> {
    let changes_unread = !rows.names().iter().any(|name| name.eq_ignore_ascii_case(MODIFIED));
    rows.iter()
        .map(|row| Transaction {
            id: row.string("trx_id"),
            connection_id: row.number("trx_mysql_thread_id").filter(|&id: &u64| id != 0),
            state: row.string("trx_state"),
            age_s: row.number("age_s").unwrap_or(0.0_f64).max(0.0),
            waited_s: row.number("waited_s").map(|s: f64| s.max(0.0)),
            rows_locked: row.number("trx_rows_locked").unwrap_or(0),
            rows_modified: row.number(MODIFIED).unwrap_or(0),
            changes_unread,
            statement: row.text("trx_query").map(str::to_owned),
            requested_lock: row.text("trx_requested_lock_id").map(str::to_owned),
            isolation: row.text("trx_isolation_level").map(str::to_owned),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn reads_a_waiter_an_idle_holder_and_a_transaction_without_a_connection() {
        let transactions = transactions(&fixture::tabbed(
            "trx_id\ttrx_state\ttrx_mysql_thread_id\ttrx_query\ttrx_rows_locked\ttrx_rows_modified\tage_s\twaited_s\n\
             23\tRUNNING\t27\tNULL\t1\t1\t61\tNULL\n\
             24\tLOCK WAIT\t28\tupdate a set v=4\t1\t0\t3\t3\n\
             25\tRUNNING\t0\tNULL\t0\t7\t-1\tNULL\n",
        ));
        assert_eq!(transactions[0].age_s, 61.0);
        assert_eq!((transactions[0].waited_s, transactions[0].statement.as_deref()), (None, None));
        assert_eq!((transactions[1].connection_id, transactions[1].waited_s), (Some(28), Some(3.0)));
        assert_eq!((transactions[2].connection_id, transactions[2].age_s), (None, 0.0));
        assert!(SQL.ends_with(&format!("LIMIT {LIMIT}")) && SQL.contains(MODIFIED));
        assert!(!transactions[0].changes_unread);
    }

    #[test]
    fn the_isolation_level_says_whether_a_view_goes_with_its_statement() {
        let listed = transactions(&fixture::tabbed(
            "trx_id\ttrx_state\ttrx_mysql_thread_id\ttrx_isolation_level\n\
             23\tRUNNING\t27\tREAD COMMITTED\n\
             24\tRUNNING\t28\tREPEATABLE READ\n",
        ));
        assert!(listed[0].has_view_of_statement() && !listed[1].has_view_of_statement());
        assert!(SQL.contains("trx_isolation_level"));
    }

    #[test]
    fn a_list_without_the_column_does_not_count_what_a_transaction_has_changed() {
        let listed =
            transactions(&fixture::tabbed("trx_id\ttrx_state\ttrx_mysql_thread_id\n23\tRUNNING\t27\n"));
        assert!(listed[0].changes_unread);
    }

    #[test]
    fn a_server_whose_copy_grows_with_the_square_of_the_waiters_is_not_asked_where_many_wait() {
        let waiting = |number: &str| ServerSample {
            status: crate::source::Answer::default().reading([(CURRENT_WAITS, number)].into_iter().collect()),
            ..ServerSample::default()
        };
        assert!(unless_too_many_wait(&waiting("301")).unwrap_err().because.starts_with("301 transactions"));
        assert!(unless_too_many_wait(&waiting("300")).unwrap().is_some());
        assert!(unless_too_many_wait(&waiting("18446744073709551615")).unwrap().is_some());
        assert!(unless_too_many_wait(&ServerSample::default()).unwrap().is_some());
        let plan = |text| (SOURCE.plan)(ServerVersion::parse(text, "").unwrap(), None);
        assert!(matches!(plan("9.7.4"), Plan::Ask(_)), "its copy has no pairs");
        assert!(matches!(plan("10.11.19-MariaDB"), Plan::AskAbout(_)));
    }
}
