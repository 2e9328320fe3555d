//! The statement that all servers are asked, and what keeps it from changing anything.
//!
//! Two guards stand before a statement without `--write`, because neither is enough alone:
//!
//! 1. **The session is read only** (`transaction_read_only = 1`, set and acknowledged before the statement is sent):
//!    the server itself refuses INSERT, UPDATE, DELETE, DDL, GRANT, wherever they stand: behind a WITH, in a stored
//!    function that a SELECT calls. It does not refuse SET GLOBAL, KILL, FLUSH, STOP REPLICA, SHUTDOWN, PURGE, or a
//!    SELECT that writes a file: they are no changes of a transaction.
//! 2. **The statement begins with a word that reads** ([`READING`]), and has none of what such a statement could still
//!    do: INTO OUTFILE, executable comments, administrators' functions. It alone would not see what a function does.
//!
//! Several statements in one text are refused by the server: the connection does not allow them
//! (`CLIENT_MULTI_STATEMENTS` is off), so that nothing can stand behind the one that was looked at.

use std::time::Duration;

use spindoctor_model::ServerVersion;
use thiserror::Error;

use crate::failure::{Failure, Reason};

/// Leads every statement, so that a DBA finds them in the process list and the general log.
const TAG: &str = "/* spindoctor */";

/// What a statement that reads begins with.
pub const READING: &[&str] =
    &["SELECT", "SHOW", "WITH", "TABLE", "VALUES", "DESCRIBE", "DESC", "EXPLAIN", "HELP"];

/// What a SELECT could call that changes the server and is no change of a transaction: MySQL's group replication,
/// asynchronous failover, audit log, keyring and firewall functions, MariaDB's sequences.
const ACTING: &[&str] = &[
    "GROUP_REPLICATION_",
    "ASYNCHRONOUS_CONNECTION_FAILOVER_",
    "AUDIT_LOG_",
    "KEYRING_",
    "MYSQL_FIREWALL_",
    "SET_FIREWALL_",
    "NEXTVAL",
    "SETVAL",
];

/// How long a statement that reads waits for a lock, in seconds: the least that servers accept.
const LOCK_WAIT_S: u32 = 1;

/// Why a statement needs `--write`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}; --write asks it all the same")]
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
        // Whether a backslash escapes a quote depends on the server's sql_mode: both ways of reading must be harmless.
        for backslash in [Backslash::Escapes, Backslash::IsAByte] {
            check(&bare(sql, backslash)?)?;
        }
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
            let told = |failure: Failure| {
                let error = format!("{}; --write asks it all the same", failure.error);
                Failure { error, ..failure }
            };
            return read_only(version, limit).map(Some).map_err(told);
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
        match bare(&self.sql, Backslash::Escapes) {
            Ok(bare) => bare.replace("''", "'<secret>'"),
            Err(_) => "<a statement with an executable comment>".to_owned(),
        }
    }
}

/// What makes a session of a server of this version read only, and keeps it from holding anybody up.
///
/// - read only: `transaction_read_only` since MySQL 5.7.20 and MariaDB 11.1.1, `tx_read_only` before (MySQL 5.6.5,
///   MariaDB 10.0);
/// - `autocommit`: with an `init_connect` that switches it off, a transaction would stay open;
/// - the lock waits: a statement that waits for a metadata lock lets everybody wait behind it;
/// - `max_execution_time` (MySQL 5.7.8, ms), `max_statement_time` (MariaDB 10.1.1, s): a server that is asked too
///   much does not go on after we have left.
pub(crate) fn read_only(version: &str, limit: Duration) -> Result<String, Failure> {
    let Some(parsed) = ServerVersion::parse(version, "") else {
        return Ok("SET SESSION transaction_read_only = 1, autocommit = 1".to_owned());
    };
    let maria = |major, minor, patch| parsed.mariadb_at_least(major, minor, patch);
    let mysql = |major, minor, patch| parsed.mysql_at_least(major, minor, patch);
    let limit_ms = limit.as_millis().max(1);
    let read_only = if mysql(5, 7, 20) || maria(11, 1, 1) {
        "transaction_read_only"
    } else if mysql(5, 6, 5) || maria(10, 0, 0) {
        "tx_read_only"
    } else {
        return Err(Failure::new(
            Reason::Query,
            format!("not asked: version {version} cannot make a session read only"),
        ));
    };
    let mut set = format!(
        "SET SESSION {read_only} = 1, autocommit = 1, lock_wait_timeout = {LOCK_WAIT_S}, \
         innodb_lock_wait_timeout = {LOCK_WAIT_S}"
    );
    if mysql(5, 7, 8) {
        set.push_str(&format!(", max_execution_time = {limit_ms}"));
    } else if maria(10, 1, 1) {
        set.push_str(&format!(", max_statement_time = {}.{:03}", limit_ms / 1000, limit_ms % 1000));
    }
    Ok(set)
}

/// Without the blanks around it and the semicolon behind it.
fn trimmed(sql: &str) -> &str {
    sql.trim().trim_end_matches([';', ' ', '\t', '\r', '\n'])
}

/// What a backslash within quotes means: `NO_BACKSLASH_ESCAPES` in sql_mode decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backslash {
    Escapes,
    IsAByte,
}

/// The statement without comments, and with `''` for each quoted text.
fn bare(sql: &str, backslash: Backslash) -> Result<String, NotReading> {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("/*!") || rest.starts_with("/*M!") {
            return Err(NotReading(
                "what stands in /*! */ is executed by some servers and not by others".into(),
            ));
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            out.push(' ');
            rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
        } else if c == '#' || is_dashes(rest) {
            out.push(' ');
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
        } else if matches!(c, '\'' | '"' | '`') {
            out.push_str("''");
            rest = behind_quotes(&rest[1..], c, if c == '`' { Backslash::IsAByte } else { backslash });
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Ok(out)
}

/// `-- ` begins a comment, `--1` does not.
fn is_dashes(rest: &str) -> bool {
    rest.strip_prefix("--").is_some_and(|behind| {
        behind.chars().next().is_none_or(|c| c.is_ascii_whitespace() || c.is_ascii_control())
    })
}

/// What stands behind the closing quote; two quotes in a row are one in the text, and no end.
fn behind_quotes(text: &str, quote: char, backslash: Backslash) -> &str {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslash == Backslash::Escapes {
            chars.next();
        } else if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
            } else {
                return &text[at + 1..];
            }
        }
    }
    ""
}

fn check(bare: &str) -> Result<(), NotReading> {
    let upper = bare.to_ascii_uppercase();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let words: Vec<&str> = upper.split(|c: char| !is_word(c)).filter(|word| !word.is_empty()).collect();
    let first = *words.first().ok_or_else(|| NotReading("there is no statement".into()))?;
    if !READING.contains(&first)
        || !upper.trim_start_matches(|c: char| c == '(' || c.is_whitespace()).starts_with(first)
    {
        return Err(NotReading(format!("{first} is not one of {}", READING.join(", "))));
    }
    if words.windows(2).any(|pair| pair[0] == "INTO" && matches!(pair[1], "OUTFILE" | "DUMPFILE")) {
        return Err(NotReading("INTO OUTFILE writes a file on the server".into()));
    }
    if words.windows(3).any(|three| three == ["NEXT", "VALUE", "FOR"]) {
        return Err(NotReading("NEXT VALUE FOR moves a sequence".into()));
    }
    let runs = words.iter().take(4).any(|word| *word == "ANALYZE");
    if runs && words.iter().any(|word| matches!(*word, "INSERT" | "UPDATE" | "DELETE" | "REPLACE")) {
        return Err(NotReading("EXPLAIN ANALYZE runs what it explains".into()));
    }
    for (at, _) in upper.match_indices('(') {
        let name = upper[..at].trim_end().rsplit(|c: char| !is_word(c)).next().unwrap_or_default();
        if ACTING.iter().any(|acting| name.starts_with(acting)) {
            return Err(NotReading(format!("{name}() changes the server")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_that_read_pass() {
        for sql in [
            "SELECT 1",
            "  select @@read_only ;\n",
            "(SELECT 1) UNION (SELECT 2)",
            "-- why\nSHOW FULL PROCESSLIST",
            "# why\n/* and how */ show variables like 'group_replication_%'",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "TABLE t",
            "EXPLAIN ANALYZE SELECT 1",
            "SELECT 'it''s; DELETE', \"INTO OUTFILE\", `/*! x */`",
            r"SELECT 'it\'s'",
            "SELECT 1--1",
            "SELECT @@group_replication_group_name",
            "SELECT /*+ MAX_EXECUTION_TIME(10) */ 1",
            "DESC t",
        ] {
            assert!(Statement::reading(sql).is_ok(), "{sql}: {:?}", Statement::reading(sql));
        }
    }

    #[test]
    fn everything_else_needs_write() {
        for sql in [
            "",
            ";",
            "-- nothing",
            "DELETE FROM t",
            "SET GLOBAL read_only = 0",
            "KILL 7",
            "/*! DELETE FROM t */",
            "SELECT 1 /*M!100000 INTO OUTFILE 'x' */",
            "SELECT * FROM t INTO OUTFILE '/tmp/x'",
            "SELECT * FROM t INTO /* x */ DUMPFILE '/tmp/x'",
            "EXPLAIN ANALYZE DELETE FROM t",
            "ANALYZE SELECT 1",
            "CALL p()",
            "DO SLEEP(1)",
            "FLUSH TABLES",
            "SELECT group_replication_set_as_primary('x')",
            "SELECT Group_Replication_Switch_To_Multi_Primary_Mode ()",
            "SELECT NEXTVAL(s)",
            "SELECT NEXT VALUE FOR s",
            "'SELECT' 1",
            // Where backslashes escape nothing, the quote ends before the words that count.
            r"SELECT '\' INTO OUTFILE '/tmp/x",
        ] {
            assert!(Statement::reading(sql).is_err(), "{sql}");
        }
        let error = Statement::reading("UPDATE t SET a = 1").unwrap_err().to_string();
        assert!(error.starts_with("UPDATE is not one of SELECT, ") && error.contains("--write"), "{error}");
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
        assert_eq!(of("5.5.62").unwrap_err().reason, Reason::Query);
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
