//! Whether a statement only reads.
//!
//! In: a text. Out: nothing, or why it is not known to be harmless. It is an allow-list on tokens: a statement passes only if
//! it begins with a word that reads, holds none of the words that write, lock or assign, and calls no function but the
//! built-in ones of [`functions`]. Whatever is not known does not pass: stored functions, loadable functions, `/*! .. */`,
//! several statements, a variable that is set.
//!
//! Every mode that the session may have is tried ([`Mode::ALL`]): a statement must be harmless in each.
//!
//! It cannot see what a view calls, nor what a function of the allow-list's name does on a server that has no built-in one of
//! this name: [`built_in_elsewhere`] names those that only one flavour has.

pub mod functions;

use crate::mode::Mode;
use crate::tokens::{End, Kind, Lexed, Token, lex};

/// What a statement that reads begins with.
pub const READING: &[&str] =
    &["SELECT", "SHOW", "WITH", "TABLE", "VALUES", "DESCRIBE", "DESC", "EXPLAIN", "HELP"];

/// Why a statement is not known to be harmless: one clause, without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReading(pub String);

impl std::fmt::Display for NotReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotReading {}

/// Checks that a statement only reads, whichever `sql_mode` the session has.
///
/// # Errors
/// Why it is not known to.
///
/// ```
/// use spindoctor_sql::check_reads;
/// assert!(check_reads("SELECT COUNT(*) FROM t WHERE a = 'x'").is_ok());
/// assert!(check_reads("SELECT SLEEP(5)").is_err());
/// assert!(check_reads("SELECT my_function(5)").is_err());
/// ```
pub fn check_reads(text: &str) -> Result<(), NotReading> {
    let text = without_end(text);
    let mut runs_in_a_mode = false;
    for mode in Mode::ALL {
        let lexed = lex_whole(text, mode);
        match lexed.end {
            End::Ambiguous => return not("servers read a comment or a quoted text of it in two ways"),
            End::Cut if text[lexed.end_at..].starts_with("/*") => return not("a comment of it has no end"),
            // A quoted text without an end is a syntax error: in this mode the server refuses all of it.
            End::Cut => {}
            End::Whole => runs_in_a_mode = true,
        }
        check(&lexed)?;
    }
    if runs_in_a_mode { Ok(()) } else { not("a quoted text of it has no end") }
}

/// The built-in functions that a statement calls and that only one flavour has, where that is not this one: there the name
/// would be a stored or loadable function's.
pub fn built_in_elsewhere(text: &str, is_mariadb: bool) -> Option<&'static str> {
    let other = if is_mariadb { functions::MYSQL_ONLY } else { functions::MARIADB_ONLY };
    Mode::ALL.iter().find_map(|mode| {
        let lexed = lex(text, *mode);
        let tokens: Vec<&Token<'_>> = lexed.code().collect();
        tokens.windows(2).find_map(|two| {
            if !two[1].is_sign("(") { None } else { other.iter().find(|name| two[0].is(name)).copied() }
        })
    })
}

/// True where a statement that [`check_reads`] passes reads no view of a user's, whose definition may call a function that
/// writes: it names no table, or only those of `information_schema` and `performance_schema`.
///
/// ```
/// use spindoctor_sql::reading::reads_no_view;
/// assert!(reads_no_view("SELECT @@version"));
/// assert!(reads_no_view("SELECT user FROM information_schema.processlist"));
/// assert!(!reads_no_view("SELECT a FROM t"));
/// ```
pub fn reads_no_view(text: &str) -> bool {
    Mode::ALL.iter().all(|mode| names_no_view(&lex(text, *mode).code().collect::<Vec<_>>()))
}

fn names_no_view(tokens: &[&Token<'_>]) -> bool {
    const BEFORE_A_TABLE: [&str; 4] = ["from", "join", "straight_join", "table"];
    const OF_THE_SERVER: [&str; 2] = ["information_schema", "performance_schema"];
    // SHOW shows what is written down of a view, and HELP reads tables of the server's own.
    if tokens.first().is_some_and(|first| first.is_one_of(&["show", "help"])) {
        return true;
    }
    let is_the_servers = |at: usize| {
        let next = |further: usize| tokens.get(at + further);
        let schema = next(1).filter(|token| token.is_name()).map(|token| token.name().to_ascii_lowercase());
        let is_schema = schema.is_some_and(|schema| OF_THE_SERVER.contains(&schema.as_str()));
        let is_subquery = next(1).is_some_and(|token| token.is_sign("("))
            && next(2).is_some_and(|token| token.is("select"));
        (is_schema && next(2).is_some_and(|token| token.is_sign("."))) || is_subquery
    };
    // A comma behind FROM may stand before a table; where it stands before a column, the answer is the careful one.
    let mut is_behind_from = false;
    tokens.iter().enumerate().all(|(at, token)| {
        is_behind_from |= token.is("from");
        let is_before_a_table = token.is_one_of(&BEFORE_A_TABLE) || (is_behind_from && token.is_sign(","));
        !token.is_one_of(&["describe", "desc", "explain"]) && (!is_before_a_table || is_the_servers(at))
    })
}

/// Without the blanks around it and the semicolons behind it.
pub fn without_end(text: &str) -> &str {
    let is_end = |c: char| c == ';' || c.is_whitespace();
    text.trim().trim_end_matches(is_end)
}

/// [`lex`], but a `/*[...]*/` of the user's own is a comment: nothing behind it is passed over.
fn lex_whole(text: &str, mode: Mode) -> Lexed<'_> {
    if text.contains(crate::CUT) {
        return Lexed { tokens: Vec::new(), end: End::Ambiguous, end_at: 0 };
    }
    lex(text, mode)
}

fn not(why: impl Into<String>) -> Result<(), NotReading> {
    Err(NotReading(why.into()))
}

fn check(lexed: &Lexed<'_>) -> Result<(), NotReading> {
    for token in &lexed.tokens {
        match token.kind {
            Kind::Executable | Kind::Conditional => {
                return not("what stands in /*! */ is executed by some servers and not by others");
            }
            Kind::Hint => check_hint(token.text)?,
            _ => {}
        }
    }
    let tokens: Vec<&Token<'_>> = lexed.code().collect();
    let Some(first) = tokens.iter().find(|token| !token.is_sign("(")) else {
        return not("there is no statement");
    };
    if !first.is_one_of(READING) {
        let name: String = first.text.chars().take(30).collect();
        return not(format!("{name} is not one of {}", READING.join(", ")));
    }
    if first.is("show") {
        check_show(&tokens)?;
    }
    if first.is_one_of(&["describe", "desc", "explain"]) {
        check_explain(&tokens)?;
    }
    check_words(&tokens)?;
    check_calls(&tokens)
}

/// Hints that choose a plan, by MySQL's manual ("Optimizer Hints") and MariaDB's.
const HINTS: &[&str] = &[
    "bka",
    "no_bka",
    "bnl",
    "no_bnl",
    "derived_condition_pushdown",
    "no_derived_condition_pushdown",
    "group_index",
    "no_group_index",
    "hash_join",
    "no_hash_join",
    "index",
    "no_index",
    "index_merge",
    "no_index_merge",
    "join_fixed_order",
    "join_index",
    "no_join_index",
    "join_order",
    "join_prefix",
    "join_suffix",
    "max_execution_time",
    "merge",
    "no_merge",
    "mrr",
    "no_mrr",
    "no_icp",
    "no_range_optimization",
    "order_index",
    "no_order_index",
    "qb_name",
    "semijoin",
    "no_semijoin",
    "skip_scan",
    "no_skip_scan",
    "subquery",
    "split_materialized",
    "no_split_materialized",
];

/// A hint that sets a variable or a resource group changes more than the plan.
fn check_hint(hint: &str) -> Result<(), NotReading> {
    let inside = hint.trim_start_matches("/*+").trim_end_matches("*/");
    let lexed = lex(inside, Mode::ALL[1]);
    if lexed.end != End::Whole {
        return not("a hint of it is not understood");
    }
    for two in lexed.tokens.windows(2) {
        if two[1].is_sign("(") && !two[0].is_one_of(HINTS) && two[0].is_name() {
            return not(format!("{} is no hint that only chooses a plan", two[0].text));
        }
    }
    Ok(())
}

/// What SHOW may be followed by, by the manuals.
const SHOWN: &[&str] = &[
    "all",
    "analyze",
    "authors",
    "binary",
    "binlog",
    "character",
    "charset",
    "client_statistics",
    "collation",
    "columns",
    "contributors",
    "count",
    "create",
    "database",
    "databases",
    "engine",
    "engines",
    "error",
    "errors",
    "events",
    "explain",
    "extended",
    "fields",
    "full",
    "function",
    "global",
    "grants",
    "index",
    "index_statistics",
    "indexes",
    "keys",
    "local",
    "locales",
    "master",
    "open",
    "package",
    "plugins",
    "privileges",
    "procedure",
    "processlist",
    "profile",
    "profiles",
    "relaylog",
    "replica",
    "replicas",
    "schemas",
    "session",
    "slave",
    "status",
    "storage",
    "table",
    "table_statistics",
    "tables",
    "triggers",
    "user_statistics",
    "user_variables",
    "variables",
    "warnings",
    "wsrep_membership",
    "wsrep_status",
    "metadata_lock_info",
    "locked_tables",
    "query_response_time",
    "thread_statistics",
    "temporary",
];

fn check_show(tokens: &[&Token<'_>]) -> Result<(), NotReading> {
    match tokens.get(1) {
        Some(what) if what.is_one_of(SHOWN) => Ok(()),
        _ => not("it is no SHOW of the manuals"),
    }
}

/// EXPLAIN of a SELECT, a table or a connection. That of anything else may run parts of it, and EXPLAIN ANALYZE runs all.
fn check_explain(tokens: &[&Token<'_>]) -> Result<(), NotReading> {
    let mut rest = &tokens[1..];
    let is = |rest: &[&Token<'_>], at: usize, words: &[&str]| {
        rest.get(at).is_some_and(|token| token.is_one_of(words))
    };
    loop {
        let length = if is(rest, 0, &["analyze", "extended", "partitions"]) {
            1
        } else if (is(rest, 0, &["format"]) && rest.get(1).is_some_and(|sign| sign.is_sign("=")))
            || (is(rest, 0, &["for"]) && is(rest, 1, &["schema", "database"]))
        {
            3
        } else {
            break;
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    if is(rest, 0, &["for"]) && is(rest, 1, &["connection"]) {
        return Ok(());
    }
    let brackets = rest.iter().take_while(|token| token.is_sign("(")).count();
    if is(rest, brackets, &["select", "with", "table", "values"]) {
        return Ok(());
    }
    // `DESCRIBE t`, `EXPLAIN d.t column`, `DESC t 'a%'`
    let names = rest.iter().all(|token| token.is_name() || token.is_sign(".") || token.kind == Kind::Text);
    let is_table = rest.first().is_some_and(|first| first.is_name() && !first.is_one_of(WRITING));
    if names && is_table && rest.len() <= 4 {
        return Ok(());
    }
    not("it explains something that is no SELECT")
}

/// Words that begin a statement that changes something, all of them reserved or without a meaning within one that reads.
const WRITING: &[&str] = &[
    "alter",
    "analyze",
    "begin",
    "cache",
    "call",
    "change",
    "check",
    "checksum",
    "clone",
    "commit",
    "create",
    "deallocate",
    "delete",
    "do",
    "drop",
    "execute",
    "flush",
    "grant",
    "handler",
    "import",
    "insert",
    "install",
    "kill",
    "load",
    "lock",
    "optimize",
    "prepare",
    "purge",
    "rename",
    "repair",
    "replace",
    "reset",
    "restart",
    "revoke",
    "rollback",
    "savepoint",
    "set",
    "shutdown",
    "start",
    "stop",
    "truncate",
    "uninstall",
    "unlock",
    "update",
    "use",
    "xa",
];

fn check_words(tokens: &[&Token<'_>]) -> Result<(), NotReading> {
    let is_show = tokens.first().is_some_and(|first| first.is("show"));
    for (at, token) in tokens.iter().enumerate() {
        if token.is_sign(";") {
            return not("it is more than one statement");
        }
        if token.is_sign(":") && tokens.get(at + 1).is_some_and(|next| next.is_sign("=")) {
            return not("it sets a variable (:=)");
        }
        if token.kind == Kind::Sign && token.text.chars().any(char::is_control) {
            return not("it has control characters");
        }
        let before = at.checked_sub(1).map(|before| tokens[before]);
        let is_after_dot = before.is_some_and(|before| before.is_sign("."));
        let next_is = |words: &[&str]| tokens.get(at + 1).is_some_and(|next| next.is_one_of(words));
        // `s.nextval` is MariaDB's in Oracle mode.
        if token.is_one_of(&["nextval", "setval"]) || (token.is("next") && next_is(&["value"])) {
            return not(format!("{} moves a sequence", token.text.to_ascii_uppercase()));
        }
        if is_after_dot || token.kind != Kind::Word {
            continue;
        }
        let is_variable = before.is_some_and(|before| before.is_sign("@"));
        if is_variable {
            continue;
        }
        if token.is("into") {
            return not(if next_is(&["outfile", "dumpfile"]) {
                "INTO writes a file on the server"
            } else {
                "INTO sets a variable or writes rows"
            });
        }
        if token.is("for") && next_is(&["update", "share"]) || token.is("lock") && next_is(&["in"]) {
            return not("it locks the rows that it reads");
        }
        let is_called = tokens.get(at + 1).is_some_and(|next| next.is_sign("("));
        // `SHOW CREATE PROCEDURE p`, `SHOW PROCEDURE STATUS`, `SHOW MASTER STATUS`
        let changes = ["insert", "update", "delete", "replace", "call"];
        if !is_show && token.is_one_of(&changes) && !is_called {
            return not(format!("{} changes rows", token.text.to_ascii_uppercase()));
        }
        if !is_show && token.is("procedure") {
            return not("it calls a procedure");
        }
    }
    Ok(())
}

/// Reserved words of both flavours that stand before a bracket and call nothing, types among them.
const BEFORE_BRACKET: &[&str] = &[
    "select",
    "distinct",
    "distinctrow",
    "all",
    "from",
    "join",
    "straight_join",
    "on",
    "using",
    "where",
    "and",
    "or",
    "not",
    "xor",
    "in",
    "between",
    "like",
    "rlike",
    "regexp",
    "is",
    "exists",
    "by",
    "having",
    "when",
    "then",
    "else",
    "case",
    "div",
    "mod",
    "limit",
    "union",
    "as",
    "with",
    "interval",
    "values",
    "key",
    "index",
    "partition",
    "separator",
    "explain",
    "describe",
    "desc",
    "asc",
    "table",
    "match",
    "char",
    "varchar",
    "decimal",
    "dec",
    "numeric",
    "float",
    "double",
    "int",
    "integer",
    "bigint",
    "smallint",
    "mediumint",
    "tinyint",
    "varbinary",
    "binary",
    "varying",
    "character",
];

/// Types that are no reserved words: `CAST(a AS DATETIME(6))`.
const TYPES: &[&str] = &["nchar", "datetime", "time", "timestamp", "year", "bit", "vector"];

/// Built-in functions whose name is one only right before its bracket, unless the mode has IGNORE_SPACE: with a blank between,
/// a stored function of this name is called. By MySQL's manual, "Function Name Parsing and Resolution".
const WANT_THE_BRACKET: &[&str] = &[
    "adddate",
    "bit_and",
    "bit_or",
    "bit_xor",
    "cast",
    "count",
    "curdate",
    "curtime",
    "date_add",
    "date_sub",
    "extract",
    "group_concat",
    "max",
    "mid",
    "min",
    "now",
    "position",
    "session_user",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "subdate",
    "substr",
    "substring",
    "sum",
    "sysdate",
    "system_user",
    "trim",
    "variance",
    "var_pop",
    "var_samp",
    "json_arrayagg",
    "json_objectagg",
    "st_collect",
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
    "user",
    "median",
    "percentile_cont",
    "percentile_disc",
];

fn check_calls(tokens: &[&Token<'_>]) -> Result<(), NotReading> {
    for (at, bracket) in tokens.iter().enumerate().filter(|(_, token)| token.is_sign("(")) {
        let Some(name) = at.checked_sub(1).map(|before| tokens[before]) else { continue };
        // A quoted text before a bracket is a name in another mode, where it is looked at again.
        if !name.is_name() {
            continue;
        }
        let before = at.checked_sub(2).map(|before| tokens[before]);
        let refused = || {
            let qualified = match before {
                Some(dot) if dot.is_sign(".") => "a stored function",
                _ => "not known to be harmless",
            };
            not(format!("{}() is {qualified}", name.name().chars().take(64).collect::<String>()))
        };
        if is_list_of_columns(tokens, at) {
            continue;
        }
        if before.is_some_and(|before| before.is_sign(".")) || name.kind == Kind::Name {
            // `FROM d.t PARTITION (p0)` has a word between; `JOIN d.t (..)` is none.
            return refused();
        }
        if name.is_one_of(BEFORE_BRACKET) || is_keyword_here(name, before, tokens, at) {
            continue;
        }
        if name.is("last_insert_id") && tokens.get(at + 1).is_none_or(|next| !next.is_sign(")")) {
            return not("LAST_INSERT_ID() with a value sets it");
        }
        if !functions::is_harmless(name.text) {
            return refused();
        }
        if name.end() != bracket.start && name.is_one_of(WANT_THE_BRACKET) {
            return not(format!(
                "{} with a blank before its bracket may be a stored function",
                name.text.to_ascii_uppercase()
            ));
        }
    }
    Ok(())
}

/// Words that are keywords only at the places where the grammar wants them.
fn is_keyword_here(name: &Token<'_>, before: Option<&Token<'_>>, tokens: &[&Token<'_>], at: usize) -> bool {
    let is_behind = |sign: &str| before.is_some_and(|before| before.is_sign(sign));
    let opens_query =
        tokens.get(at + 1).is_some_and(|next| next.is_one_of(&["select", "with", "table", "values"]));
    // `a > ANY (SELECT ..)`
    (name.is_one_of(&["any", "some"]) && ["=", "<", ">"].into_iter().any(is_behind) && opens_query)
        || (name.is_one_of(&["lateral", "except", "intersect"]) && opens_query)
        || (name.is_one_of(&["against", "over"]) && is_behind(")"))
        // `ROW(1, 2)` is a constructor on every server.
        || name.is("row")
        || (name.is("of") && before.is_some_and(|before| before.is("member")))
        || (name.is("columns") && before.is_some_and(|before| before.kind == Kind::Text))
        || (name.is_one_of(TYPES) && before.is_some_and(|before| before.is("as")))
}

/// `WITH x (a, b) AS (`, `(SELECT ..) AS x (a, b)`: names alone in the brackets, and nothing that could be a call around.
fn is_list_of_columns(tokens: &[&Token<'_>], at: usize) -> bool {
    let mut end = at + 1;
    while tokens.get(end).is_some_and(|token| token.is_name() || token.is_sign(",")) {
        end += 1;
    }
    if !tokens.get(end).is_some_and(|token| token.is_sign(")")) {
        return false;
    }
    let is_as = |token: Option<&&Token<'_>>| token.is_some_and(|token| token.is("as"));
    let opens = |token: Option<&&Token<'_>>| token.is_some_and(|token| token.is_sign("("));
    let before = at.checked_sub(2).map(|before| tokens[before]);
    // No expression has `AS (` behind it, and none has AS before it.
    (is_as(tokens.get(end + 1)) && opens(tokens.get(end + 2)))
        || before.is_some_and(|before| before.is("as"))
            && at.checked_sub(3).is_some_and(|at| tokens[at].is_sign(")"))
}

#[cfg(test)]
mod tests;
