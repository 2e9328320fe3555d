//! The statement that is sent to all servers, and the guards that keep it from changing anything.
//!
//! Three guards check a statement without `--write`, because none is enough alone:
//!
//! 1. **The session is read only** (`transaction_read_only = 1`, set and acknowledged before the statement is sent):
//!    the server itself refuses INSERT, UPDATE, DELETE, DDL, GRANT, wherever they stand: behind a WITH, in a stored
//!    function that a view calls. It does not refuse SET GLOBAL, KILL, FLUSH, STOP REPLICA, SHUTDOWN, PURGE, or a
//!    SELECT that writes a file or takes a lock: they are not changes of a transaction.
//! 2. **The statement is known to read only** ([`spindoctor_sql::reading`]): it begins with a word that reads, and calls no
//!    function but built-in ones that are known to be harmless. Whatever is not known needs `--write`.
//! 3. **A function that only the other flavour has built in** is not built in on this server: the statement is not sent
//!    there.
//!
//! One gap remains: none of the three sees a loadable function that a view calls.
//!
//! Several statements in one text are refused by the server, too: the connection does not allow them
//! (`CLIENT_MULTI_STATEMENTS` is off).

use std::time::Duration;

use spindoctor_model::ServerVersion;
pub use spindoctor_sql::reading::READING;
use spindoctor_sql::{End, Kind, Mode, lex};
use thiserror::Error;

use crate::failure::{Failure, Reason};

/// Leads every statement, so that a DBA finds them in the process list and the general log.
const TAG: &str = "/* spindoctor */";

/// How long a statement that reads waits for a lock, in seconds: the least that servers accept.
const LOCK_WAIT_S: u32 = 1;

/// Why a statement needs `--write`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}; --write sends it anyway")]
pub struct NotReading(String);

/// A statement, as it goes to every server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    sql: String,
    writes: bool,
}

impl Statement {
    /// A statement that can be seen to read only.
    pub fn reading(sql: &str) -> Result<Self, NotReading> {
        let sql = trimmed(sql);
        spindoctor_sql::check_reads(sql).map_err(|why| NotReading(why.0))?;
        Ok(Self { sql: sql.to_owned(), writes: false })
    }

    /// Any statement.
    pub fn writing(sql: &str) -> Self {
        Self { sql: trimmed(sql).to_owned(), writes: true }
    }

    /// True where it may change something.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// As the user wrote it.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// As it is sent.
    pub fn tagged(&self) -> String {
        format!("{TAG} {}", self.sql)
    }

    /// What must be set and acknowledged before it is sent to a server of this version; None where nothing is.
    ///
    /// Of one that may write the lock waits alone: a statement that waits for a metadata lock lets everybody wait behind it.
    pub fn preparation(&self, version: &str, limit: Duration) -> Result<Option<String>, Failure> {
        if !self.writes {
            let is_mariadb = ServerVersion::parse(version, "").is_some_and(ServerVersion::is_mariadb);
            if let Some(name) = spindoctor_sql::reading::built_in_elsewhere(&self.sql, is_mariadb) {
                let flavour = if is_mariadb { "MariaDB" } else { "MySQL" };
                let error = format!(
                    "not asked: {}() is not a built-in function of {flavour}; --write sends it anyway",
                    name.to_ascii_uppercase()
                );
                return Err(Failure::new(Reason::Query, error));
            }
            if !can_be_read_only(version) && !spindoctor_sql::reading::reads_no_view(&self.sql) {
                let error = format!(
                    "not asked: version {version} cannot make a session read only, and where a table that is named is a view \
                     it may call a function that writes; --write sends it anyway"
                );
                return Err(Failure::new(Reason::Query, error));
            }
            return Ok(Some(read_only(version, limit)));
        }
        let knows_lock_waits = ServerVersion::parse(version, "")
            .is_some_and(|parsed| parsed.mysql_at_least(5, 5, 3) || parsed.mariadb_at_least(5, 5, 0));
        let wait_s = limit.as_millis().max(1).div_ceil(1000);
        Ok(knows_lock_waits.then(|| {
            format!("SET SESSION lock_wait_timeout = {wait_s}, innodb_lock_wait_timeout = {wait_s}")
        }))
    }

    /// As it may be kept in a log: where it may hold a password, without its texts.
    pub fn without_secrets(&self) -> String {
        let upper = self.sql.to_ascii_uppercase();
        if !upper.contains("IDENTIFIED") && !upper.contains("PASSWORD") && !upper.contains("SECRET") {
            return self.sql.clone();
        }
        let lexed = lex(&self.sql, Mode::UNKNOWN);
        let mut kept = String::with_capacity(self.sql.len());
        let mut at = 0;
        for token in &lexed.tokens {
            kept.push_str(&self.sql[at..token.start]);
            kept.push_str(match token.kind {
                Kind::Text => "'<secret>'",
                Kind::Comment | Kind::Hint | Kind::Conditional => " ",
                _ => token.text,
            });
            at = token.end();
        }
        kept.push_str(&self.sql[at..lexed.end_at]);
        if lexed.end != End::Whole {
            kept.push_str("'<secret>'");
        }
        kept
    }
}

/// False for a version that has no variable for it; a version that is not understood is asked.
fn can_be_read_only(version: &str) -> bool {
    ServerVersion::parse(version, "")
        .is_none_or(|parsed| parsed.mysql_at_least(5, 6, 5) || parsed.mariadb_at_least(10, 0, 0))
}

/// What makes a session of a server of this version read only, where it can be, and keeps it from holding anybody up.
///
/// On a version that knows no such session (before MySQL 5.6.5 and MariaDB 10.0) it is the statements that only read: those that
/// are spindoctor's own, and a user's that [`spindoctor_sql::reading::reads_no_view`].
///
/// - read only: `transaction_read_only` since MySQL 5.7.20 and MariaDB 11.1.1, `tx_read_only` before (MySQL 5.6.5,
///   MariaDB 10.0);
/// - `autocommit`: with an `init_connect` that switches it off, a transaction would stay open;
/// - the lock waits: a statement that waits for a metadata lock lets everybody wait behind it;
/// - `max_execution_time` (MySQL 5.7.8, ms), `max_statement_time` (MariaDB 10.1.1, s): a server that is asked too
///   much does not go on after we have left.
pub(crate) fn read_only(version: &str, limit: Duration) -> String {
    let Some(parsed) = ServerVersion::parse(version, "") else {
        return "SET SESSION transaction_read_only = 1, autocommit = 1".to_owned();
    };
    let maria = |major, minor, patch| parsed.mariadb_at_least(major, minor, patch);
    let mysql = |major, minor, patch| parsed.mysql_at_least(major, minor, patch);
    let limit_ms = limit.as_millis().max(1);
    let mut set = "SET SESSION autocommit = 1".to_owned();
    if mysql(5, 7, 20) || maria(11, 1, 1) {
        set.push_str(", transaction_read_only = 1");
    } else if can_be_read_only(version) {
        set.push_str(", tx_read_only = 1");
    }
    if mysql(5, 5, 3) || maria(5, 5, 0) {
        set.push_str(&format!(
            ", lock_wait_timeout = {LOCK_WAIT_S}, innodb_lock_wait_timeout = {LOCK_WAIT_S}"
        ));
    }
    if mysql(5, 7, 8) {
        set.push_str(&format!(", max_execution_time = {limit_ms}"));
    } else if maria(10, 1, 1) {
        set.push_str(&format!(", max_statement_time = {}.{:03}", limit_ms / 1000, limit_ms % 1000));
    }
    set
}

/// Without the blanks around it and the semicolon behind it.
fn trimmed(sql: &str) -> &str {
    sql.trim().trim_end_matches([';', ' ', '\t', '\r', '\n'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_statement_that_is_not_known_to_read_needs_write() {
        assert!(Statement::reading("  SELECT COUNT(*) FROM t; ").is_ok());
        for sql in [
            "",
            "UPDATE t SET a = 1",
            "SELECT version_tokens_set('a=b')",
            "SELECT mine()",
            "SELECT 1 INTO @a",
        ] {
            let error = Statement::reading(sql).unwrap_err().to_string();
            assert!(error.ends_with("; --write sends it anyway"), "{error}");
        }
    }

    #[test]
    fn a_function_of_the_other_flavour_is_not_asked() {
        let limit = Duration::from_secs(1);
        let of = |sql: &str, version: &str| Statement::reading(sql).unwrap().preparation(version, limit);
        assert!(of("SELECT NVL(a, 1) FROM t", "10.11.19-MariaDB").is_ok());
        let failure = of("SELECT NVL(a, 1) FROM t", "9.7.4").unwrap_err();
        assert!(failure.error.contains("NVL() is not a built-in function of MySQL"), "{}", failure.error);
        assert!(of("SELECT GTID_SUBSET('a', 'b')", "11.4.2-MariaDB").is_err());
        assert!(Statement::writing("SELECT NVL(a, 1) FROM t").preparation("9.7.4", limit).is_ok());
    }

    #[test]
    fn each_version_is_prepared_with_what_it_knows() {
        let limit = Duration::from_millis(2500);
        let of = |version: &str| Statement::reading("SELECT 1").unwrap().preparation(version, limit);
        let mysql = of("9.7.4-2").unwrap().unwrap();
        assert!(
            mysql.contains(" transaction_read_only = 1") && mysql.ends_with("max_execution_time = 2500"),
            "{mysql}"
        );
        let maria = of("5.5.5-10.11.19-MariaDB-0+deb12u1").unwrap().unwrap();
        assert!(
            maria.contains(" tx_read_only = 1") && maria.ends_with("max_statement_time = 2.500"),
            "{maria}"
        );
        assert!(of("11.4.2-MariaDB").unwrap().unwrap().contains(" transaction_read_only = 1"));
        assert!(of("5.6.51").unwrap().unwrap().contains(" tx_read_only = 1"));
        assert!(of("some proxy").unwrap().unwrap().contains("transaction_read_only = 1"));
    }

    #[test]
    fn a_server_without_read_only_sessions_is_asked_what_reads_no_view() {
        let of = |sql: &str, version: &str| {
            Statement::reading(sql).unwrap().preparation(version, Duration::from_secs(1))
        };
        let set = of("SELECT @@version", "5.5.62").unwrap().unwrap();
        assert!(!set.contains("read_only") && set.contains("innodb_lock_wait_timeout"), "{set}");
        assert!(of("SELECT user FROM information_schema.processlist", "5.5.68-MariaDB").is_ok());
        let failure = of("SELECT a FROM t", "5.5.62").unwrap_err();
        assert_eq!(failure.reason, Reason::Query);
        assert!(failure.error.contains("--write"), "{}", failure.error);
        assert!(of("SELECT a FROM t", "5.6.51").is_ok());
    }

    #[test]
    fn a_statement_that_writes_waits_for_locks_no_longer_than_we_do() {
        let statement = Statement::writing("ALTER TABLE t ADD c INT;");
        assert_eq!(statement.tagged(), "/* spindoctor */ ALTER TABLE t ADD c INT");
        let set = statement.preparation("8.4.0", Duration::from_millis(1500)).unwrap().unwrap();
        assert_eq!(set, "SET SESSION lock_wait_timeout = 2, innodb_lock_wait_timeout = 2");
        assert_eq!(statement.preparation("5.1.73", Duration::from_secs(1)).unwrap(), None);
    }

    #[test]
    fn a_log_has_no_password() {
        let kept = |sql: &str| Statement::writing(sql).without_secrets();
        assert_eq!(kept("ALTER USER a IDENTIFIED BY 'hunter2'"), "ALTER USER a IDENTIFIED BY '<secret>'");
        assert_eq!(kept("SET GLOBAL x = 'y'"), "SET GLOBAL x = 'y'");
        assert_eq!(kept("SET PASSWORD = /* it's */ 'hunter2'"), "SET PASSWORD =   '<secret>'");
        assert_eq!(kept(r"ALTER USER a IDENTIFIED BY 'a\' hunter2"), "ALTER USER a IDENTIFIED BY '<secret>'");
        assert_eq!(kept("ALTER USER a IDENTIFIED BY 'hunter2"), "ALTER USER a IDENTIFIED BY '<secret>'");
    }

    proptest! {
        #[test]
        fn any_text_is_judged(sql in "\\PC{0,60}") {
            let _ = Statement::reading(&sql);
            let _ = Statement::reading(&format!("SELECT {sql}"));
            let _ = Statement::writing(&format!("PASSWORD {sql}")).without_secrets();
        }
    }
}
