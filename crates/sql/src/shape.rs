//! A statement without its literals.
//!
//! In: a text. Out: the same with `?` for each number and quoted text, one blank for each run of blanks and comments. The
//! digest-like form has `...` for a list of literals besides, as the servers' own digests have: a list's length is no part of
//! a statement's shape. It needs no grammar, so a statement that the server cut in the middle is no trouble.

use crate::mode::Mode;
use crate::tokens::{End, Kind, Token, lex};

/// A statement with `?` for each literal, without comments.
///
/// ```
/// assert_eq!(spindoctor_sql::shape("SELECT c FROM t1 WHERE id IN (1, 'x') -- web"), "SELECT c FROM t1 WHERE id IN (?, ?)");
/// ```
pub fn shape(statement: &str) -> String {
    render(statement, Mode::UNKNOWN, Lists::AsTheyAre)
}

/// The same with each list of literals as `...`, so that statements that differ in their literals alone are one.
///
/// ```
/// use spindoctor_sql::digest;
/// assert_eq!(digest("SELECT c FROM t1 WHERE id IN (1, 2) /* web */"), "SELECT c FROM t1 WHERE id IN (...)");
/// assert_eq!(digest("SELECT /* it's */ name FROM t WHERE email = 'a@b.c'"), "SELECT name FROM t WHERE email = ?");
/// ```
pub fn digest(statement: &str) -> String {
    render(statement, Mode::UNKNOWN, Lists::Collapsed)
}

/// A digest as a server gives it, of the statement that it is about: MySQL 9 puts `EXECUTE` before the digest of a prepared
/// statement's execution, older versions do not. `EXECUTE name` stays: there the name is all that is known.
///
/// ```
/// use spindoctor_sql::server_digest;
/// assert_eq!(server_digest("EXECUTE SELECT `c` FROM `t` WHERE `id` = ?"), "SELECT `c` FROM `t` WHERE `id` = ?");
/// assert_eq!(server_digest("EXECUTE `s1`"), "EXECUTE `s1`");
/// ```
pub fn server_digest(text: &str) -> &str {
    const PREPARED: &[&str] = &[
        "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "TABLE", "VALUES", "CALL", "COMMIT",
        "ROLLBACK", "BEGIN", "START", "SET", "SHOW", "DO", "ALTER", "CREATE", "DROP", "TRUNCATE", "ANALYZE",
        "OPTIMIZE", "CHECKSUM", "REPAIR", "FLUSH", "GRANT", "REVOKE", "RENAME", "KILL", "RESET", "(",
    ];
    match text.strip_prefix("EXECUTE ") {
        Some(rest) if PREPARED.iter().any(|word| rest.starts_with(word)) => rest,
        _ => text,
    }
}

/// What two texts without literals have in common where they are of one statement: a server quotes every name and puts blanks
/// where it likes.
///
/// ```
/// use spindoctor_sql::comparable;
/// assert_eq!(comparable("SELECT `c` FROM `T` WHERE `id` IN (...)"), comparable("select c from t where id in(...);"));
/// ```
pub fn comparable(digest: &str) -> String {
    let lexed = lex(server_digest(digest), Mode::UNKNOWN);
    let words: Vec<String> =
        lexed.code().filter(|token| !token.is_sign(";")).map(|token| token.name().to_lowercase()).collect();
    words.join(" ")
}

/// The first word in capitals: `SELECT`, `UPDATE`; of `(SELECT ..) UNION ..` too. Empty where the text begins with no word.
pub fn kind(statement: &str) -> String {
    let lexed = lex(statement, Mode::UNKNOWN);
    let first = lexed.code().find(|token| !token.is_sign("("));
    let word = first.filter(|token| token.kind == Kind::Word).map_or("", |token| token.text);
    let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
    word[..end].to_ascii_uppercase()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    AsTheyAre,
    Collapsed,
}

fn render(statement: &str, mode: Mode, lists: Lists) -> String {
    let lexed = lex(statement, mode);
    let mut text = String::with_capacity(statement.len());
    let rest = &statement[lexed.end_at..];
    // What is hidden at the end counts as one literal, but for a comment that was cut.
    let hides = lexed.end == End::Ambiguous || (lexed.end == End::Cut && !rest.starts_with("/*"));
    let hidden = hides.then_some(Token { kind: Kind::Text, text: "", start: lexed.end_at });
    let mut before: Option<(Token<'_>, usize)> = None;
    for token in lexed.code().copied().chain(hidden) {
        if let Some((last, began)) = before {
            // The introducer of a text with a blank between: `_utf8mb4 'text'`.
            if token.kind == Kind::Text && last.kind == Kind::Word && last.text.starts_with('_') {
                text.truncate(began);
            } else if last.end() < token.start {
                text.push(' ');
            }
        }
        before = Some((token, text.len()));
        text.push_str(if token.is_literal() { "?" } else { token.text });
        if lists == Lists::Collapsed {
            collapse(&mut text);
        }
    }
    text
}

/// `?, ?` becomes `...`, and `(...), (...)` becomes `(...)`.
fn collapse(text: &mut String) {
    for (long, short) in [
        ("?, ?", "..."),
        ("?,?", "..."),
        ("..., ?", "..."),
        ("...,?", "..."),
        ("(?), (?)", "(?)"),
        ("(?),(?)", "(?)"),
        ("(...), (...)", "(...)"),
        ("(...),(...)", "(...)"),
    ] {
        if text.ends_with(long) {
            text.truncate(text.len() - long.len());
            text.push_str(short);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_comments_go_and_names_stay() {
        for (statement, expected) in [
            (
                r"SELECT c1 FROM t2 WHERE a = 'it''s' AND b = 1.5e-3 AND `k3` = 22",
                "SELECT c1 FROM t2 WHERE a = ? AND b = ? AND `k3` = ?",
            ),
            ("SELECT 'a''b', \"c\" -- tail\n FROM t", "SELECT ... FROM t"),
            ("SELECT /* user=17 */ x'1F', _utf8mb4'text', 0xFF, .5", "SELECT ..."),
            ("SELECT _utf8mb4 'text' FROM t", "SELECT ? FROM t"),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO t VALUES (...)"),
            ("INSERT INTO t VALUES (1),(2),(3)", "INSERT INTO t VALUES (?)"),
            ("UPDATE t1.t2 SET a = -5 # 42", "UPDATE t1.t2 SET a = -?"),
            ("SELECT * FROM t WHERE a = 'cut in the mid", "SELECT * FROM t WHERE a = ?"),
            ("SELECT * FROM t WHERE a = 1 /* cut in the mid", "SELECT * FROM t WHERE a = ?"),
            ("SELECT * FROM `cut in the mid", "SELECT * FROM ?"),
            ("SELECT @@x1, `1`.`2`.3a FROM db.1t", "SELECT @@x1, `1`.`2`.3a FROM db.1t"),
            ("SELECT 5--3", "SELECT ?--?"),
            (r"SELECT 'it\'s' FROM t WHERE b = 'secret'", "SELECT ?"),
            (
                "SELECT /* it's */ name FROM t WHERE email = 'alice@example.com'",
                "SELECT name FROM t WHERE email = ?",
            ),
            ("SELECT /*!40001 SQL_NO_CACHE */ * FROM t", "SELECT SQL_NO_CACHE * FROM t"),
            ("SELECT /*!80013 alice */ a FROM t", "SELECT a FROM t"),
            ("a\t\n b", "a b"),
            ("", ""),
        ] {
            assert_eq!(digest(statement), expected, "{statement}");
        }
        assert_eq!(shape("SELECT a FROM t WHERE b IN (1, 'x')"), "SELECT a FROM t WHERE b IN (?, ?)");
    }

    #[test]
    fn the_first_word_is_the_kind() {
        for (text, expected) in
            [("/* x */ select 1", "SELECT"), ("((SELECT 1))", "SELECT"), ("'x'", ""), ("", "")]
        {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
