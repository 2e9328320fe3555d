//! `sys.session` and `sys.processlist`: a process list that has the ages of transactions and the times of statements.
//!
//! ```text
//!                thd_id: 91
//!               conn_id: 52
//!                  user: app@10.0.0.4
//!               command: Sleep
//!                  time: 4320
//!     current_statement: NULL
//!        last_statement: UPDATE stock SET n = n - 1 WHERE id = 7
//!           trx_latency: 1.20 h
//!             trx_state: ACTIVE
//!        trx_autocommit: NO
//! ```
//!
//! A session that rests shows its last transaction, too: one that is COMMITTED or ROLLED BACK is over.

use spindoctor_collect::mysql::Rows;
use spindoctor_collect::mysql::rows::Row;
use spindoctor_model::mysql::Transaction;
use spindoctor_model::number;

use crate::amounts::seconds;

/// A session that rests for as long within its transaction has forgotten it, seconds: an application's rests for milliseconds between two
/// statements. By judgement.
const FORGOTTEN_S: f64 = 60.0;
/// A statement that has waited for as long for locks is worth a word, seconds. By judgement.
const LOCKED_S: f64 = 1.0;
/// Rows that a statement has read, from which on it is worth a word that it scans: a CPU reads them in a fifth of a second. By judgement.
const MANY_ROWS: f64 = 1e6;
/// Characters of a statement that are shown.
const SHOWN: usize = 160;
/// Sessions that are named.
const MOST: usize = 3;

/// True for a list of that kind, which has no column for the host.
pub(crate) fn is_of_sys(columns: &[String]) -> bool {
    columns.iter().any(|name| name.eq_ignore_ascii_case("conn_id") || name.eq_ignore_ascii_case("thd_id"))
}

/// `app@10.0.0.4` as the user and the host; a thread of the server's own stands there by its name, `sql/replica_sql`.
pub(crate) fn account(user: &str) -> (&str, &str) {
    match user.rsplit_once('@') {
        Some(account) => account,
        None if user == "sql/event_scheduler" => ("event_scheduler", ""),
        None if user.contains('/') => ("system user", ""),
        None => (user, ""),
    }
}

/// `1.20 h`, `4.3 ms`; a number alone is one of picoseconds, as `sys.x$session` has them.
pub(crate) fn latency(text: &str) -> Option<f64> {
    seconds(text, 1e-12)
}

fn connection(row: &Row<'_>) -> Option<u64> {
    ["conn_id", "processlist_id", "id"].iter().find_map(|column| row.number(column))
}

/// The last statement of each connection that runs none.
pub(crate) fn last_statements(rows: &Rows) -> impl Iterator<Item = (u64, String)> {
    rows.iter().filter(|row| row.text("current_statement").is_none()).filter_map(|row| {
        let statement = row.text("last_statement").filter(|text| !text.is_empty())?;
        Some((connection(&row)?, statement.to_owned()))
    })
}

/// A transaction that is open, and whether its session rests.
struct Open<'r> {
    row: Row<'r>,
    connection: u64,
    age_s: f64,
    rests: bool,
}

fn open(rows: &Rows) -> impl Iterator<Item = Open<'_>> {
    let is_active =
        |row: &Row<'_>| row.text("trx_state").is_some_and(|state| state.eq_ignore_ascii_case("ACTIVE"));
    rows.iter().filter(is_active).filter_map(|row| {
        let age_s = row.text("trx_latency").and_then(latency).unwrap_or(0.0);
        let rests = row.text("command").is_some_and(|command| command.eq_ignore_ascii_case("Sleep"));
        Some(Open { row, connection: connection(&row)?, age_s, rests })
    })
}

/// The transactions that are open. performance_schema has no InnoDB id of them, and not what they have changed.
pub(crate) fn transactions(rows: &Rows) -> Vec<Transaction> {
    open(rows)
        .map(|open| Transaction {
            connection_id: Some(open.connection),
            state: "RUNNING".to_owned(),
            age_s: open.age_s,
            statement: open.row.text("current_statement").map(str::to_owned),
            ..Transaction::default()
        })
        .collect()
}

/// Who rests within a transaction, and whose statement has waited for locks.
pub(crate) fn sentences(rows: &Rows) -> Vec<String> {
    let mut idle: Vec<Open<'_>> = open(rows).filter(|open| open.rests && open.age_s >= FORGOTTEN_S).collect();
    idle.sort_by(|one, other| other.age_s.total_cmp(&one.age_s));
    let forgotten = idle.iter().take(MOST).map(|open| {
        let user = open.row.text("user").map_or_else(String::new, |user| format!(" ({user})"));
        let last = open.row.text("last_statement").filter(|text| !text.is_empty());
        let last = last.map_or_else(String::new, |text| {
            format!("; its last statement: {}", spindoctor_sql::digest(text))
        });
        format!(
            "connection {0}{user} rests in a transaction that has been open for {1}: its locks are kept until COMMIT, ROLLBACK or KILL {0}, \
             and so are all old versions of rows since then{last}",
            open.connection,
            number::duration(open.age_s)
        )
    });
    let locked = rows.iter().filter_map(|row| {
        let statement = row.text("current_statement").filter(|text| !text.is_empty())?;
        let locked_s = row.text("lock_latency").and_then(latency).filter(|locked_s| *locked_s >= LOCKED_S)?;
        Some(format!(
            "connection {} has waited {} for locks: {}",
            connection(&row)?,
            number::duration(locked_s),
            spindoctor_sql::digest(statement)
        ))
    });
    forgotten.chain(locked.take(MOST)).chain(reading(rows)).collect()
}

/// Statements that run and have read very many rows, those with the most first: how many, whether by a scan, and what they write to disk.
fn reading(rows: &Rows) -> Vec<String> {
    let mut all: Vec<(f64, Row<'_>)> = rows
        .iter()
        .filter(|row| row.text("current_statement").is_some_and(|text| !text.is_empty()))
        .filter(|row| row.text("command").is_none_or(|command| !command.eq_ignore_ascii_case("Sleep")))
        .filter_map(|row| Some((row.number::<f64>("rows_examined").filter(|rows| *rows >= MANY_ROWS)?, row)))
        .collect();
    all.sort_by(|one, other| other.0.total_cmp(&one.0));
    let sentence = |(examined, row): &(f64, Row<'_>)| {
        let connection = connection(row)?;
        let scans =
            row.text("full_scan").is_some_and(|scans| scans.eq_ignore_ascii_case("YES") || scans == "*");
        let spilled = row.number::<f64>("tmp_disk_tables").filter(|tables| *tables > 0.0);
        let statement: String =
            spindoctor_sql::digest(row.text("current_statement")?).chars().take(SHOWN).collect();
        Some(format!(
            "connection {connection} has read {} rows{}{}{}: {statement}. EXPLAIN FOR CONNECTION {connection} says which table, and why",
            number::whole(*examined),
            row.number::<f64>("time").map_or_else(String::new, |s| format!(" in {}", number::duration(s))),
            if scans { " by a scan without an index" } else { "" },
            spilled.map_or_else(String::new, |tables| format!(
                ", with {} on disk",
                number::counted(tables as u64, "temporary table", "temporary tables")
            ))
        ))
    };
    all.iter().filter_map(sentence).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use spindoctor_model::mysql::ServerThread;

    use super::*;
    use crate::part::{Part, Said};
    use crate::rows::STARS;
    use crate::{recognise, window};

    fn row(number: u32, cells: &[(&str, &str)]) -> String {
        let cells: String = cells.iter().map(|(name, value)| format!("{name:>23}: {value}\n")).collect();
        format!("{STARS} {number}. row {STARS}\n{cells}")
    }

    /// A session that rests within its transaction, one that rests after it, a DDL and a statement that wait.
    fn list() -> String {
        let waits = |number: u32, id: &'static str, statement: &'static str, latency: &'static str| {
            row(
                number,
                &[
                    ("thd_id", "95"),
                    ("conn_id", id),
                    ("user", "app@10.0.0.5"),
                    ("db", "shop"),
                    ("command", "Query"),
                    ("state", "Waiting for table metadata lock"),
                    ("time", "205"),
                    ("current_statement", statement),
                    ("statement_latency", latency),
                    ("lock_latency", "3.42 min"),
                    ("last_statement", "NULL"),
                    ("trx_latency", "NULL"),
                    ("trx_state", "NULL"),
                    ("trx_autocommit", "NULL"),
                ],
            )
        };
        let rests = |number: u32, id: &'static str, latency: &'static str, state: &'static str| {
            row(
                number,
                &[
                    ("thd_id", "91"),
                    ("conn_id", id),
                    ("user", "report@10.0.0.9"),
                    ("db", "shop"),
                    ("command", "Sleep"),
                    ("state", "NULL"),
                    ("time", "4320"),
                    ("current_statement", "NULL"),
                    ("statement_latency", "NULL"),
                    ("lock_latency", "1.20 ms"),
                    ("last_statement", "SELECT n FROM stock WHERE id = 8123"),
                    ("trx_latency", latency),
                    ("trx_state", state),
                    ("trx_autocommit", "NO"),
                ],
            )
        };
        [
            rests(1, "52", "1.20 h", "ACTIVE"),
            rests(2, "53", "2.50 h", "COMMITTED"),
            waits(3, "71", "ALTER TABLE stock ADD c INT", "3.42 min"),
            waits(4, "72", "SELECT n FROM stock WHERE id = 5", "3.40 min"),
        ]
        .concat()
    }

    #[test]
    fn a_session_that_rests_in_its_transaction_is_named_with_its_age() {
        let says: Vec<String> =
            recognise("x", &list()).into_iter().flat_map(|part: Part| part.says).collect();
        let forgotten = "connection 52 (report@10.0.0.9) rests in a transaction that has been open for 72 min 0 s: its locks are kept until \
                         COMMIT, ROLLBACK or KILL 52, and so are all old versions of rows since then; its last statement: SELECT n FROM stock \
                         WHERE id = ?";
        assert!(says.contains(&forgotten.to_owned()), "{says:#?}");
        assert!(!says.concat().contains("connection 53"), "its transaction is over: {says:#?}");
        assert!(
            says.contains(
                &"connection 71 has waited 3 min 25 s for locks: ALTER TABLE stock ADD c INT".to_owned()
            ),
            "{says:#?}"
        );
    }

    #[test]
    fn who_rests_in_a_transaction_is_the_likely_holder_of_a_table() {
        let window = window(&recognise("x", &list()));
        let findings = spindoctor_rules::diagnose(&window).findings;
        assert_eq!(findings[0].cause, "metadata-lock-pileup", "{findings:#?}");
        let root = findings[0].root.as_ref().and_then(|root| root.connection_id);
        assert_eq!(root, Some(52), "{findings:#?}");
        // What it has changed is not known.
        assert!(
            findings[0].remedies.iter().all(|remedy| !remedy.risk.contains("changed no row")),
            "{findings:#?}"
        );
    }

    #[test]
    fn accounts_are_users_and_hosts_and_threads_of_the_server_are_no_clients() {
        let list = "conn_id\tuser\tcommand\tstate\tcurrent_statement\tstatement_latency\n\
                    7\tapp@10.0.0.5\tQuery\tSending data\tSELECT a FROM b\t1.50 min\n8\tsql/replica_sql\tConnect\tReplica has read all relay log\tNULL\tNULL\n\
                    9\tsql/event_scheduler\tDaemon\tWaiting on empty queue\tNULL\tNULL\n";
        let parts = recognise("x", list);
        let Some(Said::Threads(threads)) = parts[0].moments[0].said.first() else { panic!("{parts:?}") };
        assert_eq!(
            (threads[0].user.as_str(), threads[0].host.as_str(), threads[0].time_s, threads[0].connection_id),
            ("app", "10.0.0.5", 90.0, Some(7))
        );
        assert_eq!(threads.iter().map(ServerThread::is_at_work).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn a_statement_that_has_read_very_many_rows_is_said_with_its_scan() {
        let text = "| thd_id | conn_id | user | command | state | time | current_statement | rows_examined | tmp_disk_tables | full_scan |\n\
                    | 71 | 31 | rep@10.0.0.4 | Query | executing | 900 | SELECT a, COUNT(*) FROM visits GROUP BY a | 450000000 | 2 | YES |\n\
                    | 72 | 32 | app@10.0.0.5 | Query | update | 1 | INSERT INTO visits VALUES (7) | 0 | 0 | NO |\n";
        let says: Vec<String> = crate::recognise("x", text).into_iter().flat_map(|part| part.says).collect();
        let said =
            says.iter().find(|said| said.starts_with("connection 31 has read 450,000,000 rows in 15 min"));
        let said = said.unwrap_or_else(|| panic!("{says:?}"));
        assert!(
            said.contains("by a scan without an index, with 2 temporary tables on disk: SELECT"),
            "{said}"
        );
        assert!(!says.iter().any(|said| said.contains("connection 32")), "{says:?}");
    }

    #[test]
    fn a_latency_has_a_unit_or_is_in_picoseconds() {
        for (text, wanted) in [
            ("1.20 h", Some(4_320.0)),
            ("3.42 min", Some(205.2)),
            ("500.00 ms", Some(0.5)),
            ("4320000000000000", Some(4_320.0)),
            ("", None),
            ("soon", None),
            ("1 fortnight", None),
        ] {
            let found = latency(text);
            assert!(
                found.zip(wanted).is_none_or(|(found, wanted)| (found - wanted).abs() < 1e-6),
                "{text}: {found:?}"
            );
            assert_eq!(found.is_some(), wanted.is_some(), "{text}");
        }
    }
}
