//! What a statement is for, as far as its words say: does it want a table for itself, lock the server, look at the server.

use crate::mode::Mode;
use crate::shape::{kind, server_digest};
use crate::table::first_table;
use crate::tokens::{Kind, Token, lex};

/// True where the statement's first words are these, in any case, whatever comments stand before or between them.
///
/// ```
/// assert!(spindoctor_sql::begins_with("/* it's the app */ drop  TABLE t", &["DROP", "TABLE"]));
/// ```
pub fn begins_with(statement: &str, words: &[&str]) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    let mut code = lexed.code();
    words.iter().all(|word| code.next().is_some_and(|token| token.is(word)))
}

/// True for a statement that wants a table for itself.
pub fn wants_a_table(statement: &str) -> bool {
    const VERBS: [&str; 10] =
        ["ALTER", "DROP", "TRUNCATE", "RENAME", "CREATE", "OPTIMIZE", "LOCK", "ANALYZE", "REPAIR", "FLUSH"];
    VERBS.contains(&kind(statement).as_str())
}

/// True for a statement that locks the whole server.
pub fn locks_the_server(statement: &str) -> bool {
    const BEGINNINGS: [&[&str]; 8] = [
        &["flush", "table"],
        &["flush", "tables"],
        &["flush", "local", "table"],
        &["flush", "local", "tables"],
        &["flush", "no_write_to_binlog", "table"],
        &["flush", "no_write_to_binlog", "tables"],
        &["lock", "instance"],
        &["backup", "stage"],
    ];
    BEGINNINGS.iter().any(|words| begins_with(statement, words)) || makes_read_only(statement)
}

/// True for `SET GLOBAL read_only = ON` and its like, which take the global read lock and then that of commits until it is done
/// (sql/sys_vars.cc, fix_read_only); to switch it off takes none, but that an expression decides which it is.
fn makes_read_only(statement: &str) -> bool {
    const OFF: [&str; 3] = ["off", "0", "false"];
    let lower = statement.to_ascii_lowercase();
    let Some((before, after)) = lower.split_once("read_only") else { return false };
    let is_set = before.trim_start().starts_with("set ");
    let is_global = before.contains("global");
    let is_variable = before.ends_with([' ', '.', '_', '`', '\t'])
        && !before.ends_with("innodb_")
        && !before.ends_with("transaction_");
    let value =
        after.trim_start_matches(['`', ' ', ':', '=']).split([' ', ',', ';']).next().unwrap_or_default();
    is_set && is_global && is_variable && !OFF.contains(&value)
}

/// True for a statement that a dump runs: mysqldump, mariadb-dump and mydumper read each table by one that begins so.
///
/// ```
/// assert!(spindoctor_sql::is_of_dump("SELECT /*!40001 SQL_NO_CACHE */ * FROM `orders`"));
/// ```
pub fn is_of_dump(statement: &str) -> bool {
    statement.contains("/*!40001 SQL_NO_CACHE */")
}

/// True for a statement that changes rows, or locks those that it reads (`FOR UPDATE`, `FOR SHARE`, `LOCK IN SHARE MODE`) as if it
/// did. A stored function that a SELECT calls may do so, too, and cannot be seen here; nor can a SERIALIZABLE transaction.
///
/// ```
/// assert!(spindoctor_sql::locks_rows("SELECT id FROM jobs LIMIT 1 FOR UPDATE SKIP LOCKED"));
/// assert!(!spindoctor_sql::locks_rows("DO SLEEP(100)"));
/// ```
pub fn locks_rows(statement: &str) -> bool {
    const SHOWS: [&str; 5] = ["SHOW", "EXPLAIN", "DESCRIBE", "DESC", "KILL"];
    const READS: [&str; 7] = ["SELECT", "WITH", "TABLE", "VALUES", "SET", "DO", "USE"];
    const LOCKS: [[&str; 2]; 3] = [["for", "update"], ["for", "share"], ["share", "mode"]];
    let kind = kind(statement);
    if SHOWS.contains(&kind.as_str()) {
        return false;
    }
    if !READS.contains(&kind.as_str()) {
        return true;
    }
    let names: Vec<String> = names(statement).collect();
    let changes = kind == "WITH" && names.iter().any(|name| ["update", "delete"].contains(&name.as_str()));
    changes || names.windows(2).any(|two| LOCKS.iter().any(|lock| two == lock))
}

/// True for a statement that deletes a table's file.
pub fn deletes_a_table(statement: &str) -> bool {
    const DROPPED: [&str; 6] = ["temporary", "table", "tables", "database", "schema", "tablespace"];
    begins_with(statement, &["truncate"])
        || DROPPED.iter().any(|what| begins_with(statement, &["drop", what]))
}

/// True for a statement about the server and not about its data: spindoctor's own, and those of other monitors. `schema` is the
/// database that it runs in, empty where that is not known; the text may be a server's digest.
pub fn is_about_the_server(schema: &str, statement: &str) -> bool {
    const SCHEMAS: [&str; 2] = ["performance_schema", "information_schema"];
    let is_one = |name: &str| SCHEMAS.iter().any(|schema| name.eq_ignore_ascii_case(schema));
    if is_one(schema) || schema.eq_ignore_ascii_case("sys") {
        return true;
    }
    let lexed = lex(server_digest(statement), Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    code.first().is_some_and(|first| first.is("show"))
        || code.iter().enumerate().any(|(at, token)| {
            let is_qualifier = || code.get(at + 1).is_some_and(|next| next.is_sign("."));
            token.is_name()
                && (is_one(&token.name()) || (token.name().eq_ignore_ascii_case("sys") && is_qualifier()))
        })
}

/// True for a statement that may have a table of somebody's open: it names one, changes rows, or runs what cannot be seen here. Not one
/// of functions alone, one that only asks about the server, nor one that administers it.
///
/// ```
/// assert!(spindoctor_sql::may_use_a_table("UPDATE stock SET n = SLEEP(1)"));
/// assert!(!spindoctor_sql::may_use_a_table("SELECT SLEEP(86400)"));
/// ```
pub fn may_use_a_table(statement: &str) -> bool {
    const USES: [&str; 12] = [
        "INSERT", "REPLACE", "UPDATE", "DELETE", "LOAD", "CALL", "EXECUTE", "HANDLER", "TRUNCATE", "ALTER",
        "CREATE", "DROP",
    ];
    // Behind their FROM stands an account.
    const ADMINISTERS: [&str; 2] = ["CLONE", "REVOKE"];
    let kind = kind(statement);
    if USES.contains(&kind.as_str()) {
        return true;
    }
    let is_only_asked = || is_about_the_server("", statement) && !locks_rows(statement);
    !ADMINISTERS.contains(&kind.as_str())
        && first_table(statement).is_some_and(|table| !table.eq_ignore_ascii_case("dual"))
        && !is_only_asked()
}

/// True for a statement whose work is to read many rows and return few: it counts, sums, or groups.
pub fn aggregates(statement: &str) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    let code: Vec<&Token<'_>> = lexed.code().collect();
    code.iter().enumerate().any(|(at, token)| {
        let next = code.get(at + 1);
        token.is_one_of(&["distinct", "distinctrow"])
            || (token.is("group") && next.is_some_and(|next| next.is("by")))
            || (token.is_one_of(&["count", "sum", "avg", "min", "max"])
                && next.is_some_and(|next| next.is_sign("(")))
    })
}

/// True for an INSERT or REPLACE of values that the client gave: it reads no rows by itself, so that those that are counted for it were
/// read by a trigger, a stored function, or the check of a foreign key.
pub fn inserts_values(statement: &str) -> bool {
    let lexed = lex(server_digest(statement), Mode::UNKNOWN);
    let mut code = lexed.code();
    code.next().is_some_and(|first| first.is_one_of(&["insert", "replace"]))
        && !code.any(|token| token.is_one_of(&["select", "table", "with"]))
}

/// Whatever may be a name in it, in lower case and without quotes: its words, its quoted names, and what stands in double quotes,
/// which is a name to a server in ANSI mode. To be compared with names that are known, never to be shown.
pub fn names(statement: &str) -> impl Iterator<Item = String> {
    let lexed = lex(statement, Mode::UNKNOWN);
    let name = |token: &Token<'_>| match token.kind {
        Kind::Word | Kind::Name => Some(token.name().to_lowercase()),
        Kind::Text => Some(token.text.strip_prefix('"')?.strip_suffix('"')?.to_lowercase()),
        _ => None,
    };
    let names: Vec<String> = lexed.code().filter_map(name).collect();
    names.into_iter()
}

/// True for a statement that changes rows and has no `SLEEP` of its own: where its session sleeps, a trigger or a stored function that
/// it runs does.
pub fn changes_without_sleep(statement: &str) -> bool {
    ["UPDATE", "INSERT", "REPLACE", "DELETE"].iter().any(|change| begins_with(statement, &[change]))
        && names(statement).all(|name| name != "sleep")
}

/// True where one of its quoted texts is this one. A text that holds a quote or a backslash is not found.
pub fn has_text(statement: &str, text: &str) -> bool {
    let lexed = lex(statement, Mode::UNKNOWN);
    lexed.code().any(|token| {
        token.kind == Kind::Text
            && ['\'', '"'].iter().any(|quote| token.text.split(*quote).nth(1) == Some(text))
    })
}

/// The name of the lock that a statement takes by GET_LOCK, where it is written as a whole text without quotes or backslashes in it.
pub fn user_lock(statement: &str) -> Option<String> {
    let lexed = lex(statement, Mode::UNKNOWN);
    let mut code = lexed.code().skip_while(|token| !token.is("get_lock")).skip(1);
    code.next().filter(|token| token.is_sign("("))?;
    // `_utf8mb4 'nightly'` is two tokens, without the space it is one; `x'6e'` is no text as it stands.
    let name = code.take(2).find(|token| token.kind == Kind::Text)?;
    let (before, quoted) = name.text.split_at(name.text.find(['\'', '"'])?);
    let is_text = before.is_empty() || before.starts_with('_') || before.eq_ignore_ascii_case("n");
    let quote = quoted.chars().next().filter(|_| is_text)?;
    let inner = quoted.strip_prefix(quote)?.strip_suffix(quote)?;
    (!inner.is_empty() && !inner.contains([quote, '\\'])).then(|| inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_locked_by_who_changes_them_or_says_so() {
        for statement in [
            "update t set a = 1",
            "INSERT INTO t SELECT * FROM s",
            "/* shop */ select * from t where id = 1 for update",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "SELECT * FROM t FOR SHARE OF t NOWAIT",
            "WITH old AS (SELECT id FROM t) DELETE FROM t WHERE id IN (SELECT id FROM old)",
            "SET @next = (SELECT id FROM jobs LIMIT 1 FOR UPDATE)",
            "CALL pay(17)",
            "LOAD DATA INFILE 'x' INTO TABLE t",
        ] {
            assert!(locks_rows(statement), "{statement}");
        }
        for statement in [
            "SELECT 'for update' FROM t",
            "WITH old AS (SELECT id FROM t) SELECT * FROM old",
            "do sleep(100)",
            "EXPLAIN SELECT * FROM t FOR UPDATE",
            "SHOW TABLES",
            "SET SESSION sort_buffer_size = 1",
            "USE shop",
            "KILL 12",
        ] {
            assert!(!locks_rows(statement), "{statement}");
        }
    }

    #[test]
    fn a_statement_that_names_no_table_has_none_open() {
        for statement in [
            "SELECT * FROM big",
            "/* report */ select SLEEP(1) from stock",
            "WITH a AS (SELECT 1 FROM big) SELECT * FROM a",
            "CALL nightly()",
            "truncate big",
            "OPTIMIZE TABLE big",
            "INSERT INTO audit SELECT * FROM information_schema.TABLES",
            "EXECUTE stmt",
        ] {
            assert!(may_use_a_table(statement), "{statement}");
        }
        for statement in [
            "SELECT SLEEP(9999)",
            "DO SLEEP(9999)",
            "SELECT SLEEP(9) FROM DUAL",
            "SELECT WAIT_FOR_EXECUTED_GTID_SET('a:1-9')",
            "SELECT MASTER_POS_WAIT('binlog.000001', 4)",
            "SHUTDOWN",
            "START GROUP_REPLICATION",
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'a'",
            "CLONE INSTANCE FROM donor@10.0.0.1:3306 IDENTIFIED BY 'a'",
            "SHOW TABLES FROM shop",
            "SELECT * FROM information_schema.TABLES",
            "",
        ] {
            assert!(!may_use_a_table(statement), "{statement}");
        }
    }

    #[test]
    fn a_change_sleeps_by_itself_only_where_it_says_so() {
        for statement in ["UPDATE t SET note = 'sleep' WHERE id = 1", "/* sleep */ insert into t values (1)"]
        {
            assert!(changes_without_sleep(statement), "{statement}");
        }
        for statement in
            ["UPDATE t SET k = SLEEP(1)", "SELECT wait_for_job(7)", "CALL poll()", "DO sleep (9)", ""]
        {
            assert!(!changes_without_sleep(statement), "{statement}");
        }
    }

    #[test]
    fn an_insert_of_values_reads_no_rows_by_itself() {
        for statement in [
            "INSERT INTO t VALUES (?, ?)",
            "/* app */ replace t set a = 'select'",
            "INSERT INTO `select` VALUES (1) /* , ... */",
        ] {
            assert!(inserts_values(statement), "{statement}");
        }
        for statement in ["INSERT INTO t SELECT * FROM u", "INSERT INTO t TABLE u", "UPDATE t SET a = 1", ""]
        {
            assert!(!inserts_values(statement), "{statement}");
        }
    }

    #[test]
    fn a_comment_before_a_statement_does_not_hide_what_it_is_for() {
        for before in ["", "  ", "/* it's the app */ ", "-- it's\n", "# x\n", "/*!40001 */"] {
            let of = |text: &str| format!("{before}{text}");
            assert!(wants_a_table(&of("alter TABLE t ADD c INT")) && !wants_a_table(&of("SELECT 1")));
            assert!(locks_the_server(&of("FLUSH TABLES WITH READ LOCK")));
            assert!(locks_the_server(&of("flush /* x */ local tables")));
            assert!(!locks_the_server(&of("FLUSH LOGS")) && !locks_the_server(&of("LOCK TABLES t READ")));
            assert!(deletes_a_table(&of("DROP TABLE IF EXISTS t")) && deletes_a_table(&of("truncate t")));
            assert!(!deletes_a_table(&of("DROP INDEX k ON t")));
            assert!(is_about_the_server("", &of("SHOW STATUS")));
        }
    }

    #[test]
    fn a_statement_about_the_server_names_a_schema_of_it_and_not_in_a_literal() {
        for text in [
            "SELECT * FROM performance_schema.threads",
            "SELECT * FROM `INFORMATION_SCHEMA` . `TABLES`",
            "SELECT * FROM `sys` . `processlist`",
            "EXECUTE SELECT ? FROM `performance_schema` . `threads`",
            "EXECUTE SHOW GLOBAL STATUS",
        ] {
            assert!(is_about_the_server("", text), "{text}");
        }
        assert!(is_about_the_server("SYS", "SELECT 1") && is_about_the_server("performance_schema", "x"));
        for text in
            ["SELECT 'performance_schema'", "SELECT sys FROM t", "SELECT 1 /* information_schema */", ""]
        {
            assert!(!is_about_the_server("shop", text), "{text}");
        }
    }

    #[test]
    fn what_adds_up_is_known_by_its_functions_and_not_by_names_alike() {
        for text in ["SELECT COUNT ( * ) FROM `t`", "SELECT a FROM t GROUP BY a", "SELECT DISTINCT a FROM t"]
        {
            assert!(aggregates(text), "{text}");
        }
        for text in [
            "SELECT account(a) FROM t",
            "SELECT 'sum(' FROM t",
            "SELECT `distinct` FROM t",
            "SELECT max FROM t",
        ] {
            assert!(!aggregates(text), "{text}");
        }
    }

    #[test]
    fn names_are_those_of_code() {
        let of = |text| names(text).collect::<Vec<_>>();
        let found = ["select", "a b", "c", "from", "e", "where", "f", "and", "h"];
        assert_eq!(of("SELECT `A b`.c /* d */ FROM \"E\" WHERE f = 'g' AND h = 5"), found);
    }

    #[test]
    fn the_name_of_a_user_lock_is_the_text_behind_get_lock() {
        for text in [
            "SELECT GET_LOCK('nightly', 5)",
            "do get_lock ( _utf8mb4\"nightly\" , 5 )",
            "DO GET_LOCK(_utf8mb4 'nightly', 5)",
            "DO GET_LOCK(N'nightly', 5)",
        ] {
            assert_eq!(user_lock(text).as_deref(), Some("nightly"), "{text}");
        }
        for text in [
            "SELECT RELEASE_LOCK('nightly')",
            "SELECT GET_LOCK(name, 5), 'a'",
            "SELECT GET_LOCK(?, 5)",
            "GET_LOCK('",
            "GET_LOCK('', 5)",
            "GET_LOCK(x'6e69', 5)",
            "GET_LOCK(_utf8mb4 x'6e69', 5)",
            // Cut, or with more in it than is taken as it stands.
            "SELECT GET_LOCK('night",
            "SELECT GET_LOCK('it''s', 5)",
            r"SELECT GET_LOCK('it\'s', 5)",
            r"SELECT GET_LOCK('a\\b', 5)",
        ] {
            assert_eq!(user_lock(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_is_found_in_its_quotes_alone() {
        assert!(has_text("SELECT GET_LOCK('nightly', 5)", "nightly"));
        assert!(has_text("SELECT GET_LOCK(_utf8mb4\"nightly\", 5)", "nightly"));
        assert!(!has_text("SELECT GET_LOCK('nightly2', 5)", "nightly"));
        assert!(!has_text("SELECT nightly /* 'nightly' */", "nightly"));
    }
}
