//! The first table that a statement names.

use crate::mode::Mode;
use crate::tokens::{Kind, Token, lex};

/// Words behind which a table stands.
const BEFORE_TABLE: &[&str] = &["from", "into", "update", "join", "table"];

/// Words that may stand between: `INSERT IGNORE INTO`, `UPDATE LOW_PRIORITY t`, `DROP TABLE IF EXISTS t`.
const FILLERS: &[&str] = &["ignore", "low_priority", "if", "exists", "not", "only", "table", "lateral"];

/// Words behind INTO that are no table: `INTO OUTFILE 'x'`.
const NO_TABLE: &[&str] = &["outfile", "dumpfile", "select", "set", "values", "of", "skip", "nowait"];

/// Functions with a FROM of their own: `TRIM(BOTH 'x' FROM c)`, `EXTRACT(YEAR FROM d)`.
const WITH_FROM: &[&str] = &["trim", "extract", "substring", "substr", "mid", "overlay", "trim_oracle"];

/// The first table that a statement names, without its database and its quotes: the name after FROM, INTO, UPDATE, JOIN or TABLE.
///
/// ```
/// assert_eq!(spindoctor_sql::first_table("UPDATE `shop`.`orders` SET n = 1").as_deref(), Some("orders"));
/// ```
pub fn first_table(statement: &str) -> Option<String> {
    qualified_table(statement).map(|(_, table)| table)
}

/// The same with its database, where the statement names that.
///
/// ```
/// let named = spindoctor_sql::qualified_table("SELECT ? FROM `shop` . `orders`").unwrap();
/// assert_eq!(named, (Some("shop".to_owned()), "orders".to_owned()));
/// ```
pub fn qualified_table(statement: &str) -> Option<(Option<String>, String)> {
    let lexed = lex(statement, Mode::UNKNOWN);
    let tokens: Vec<&Token<'_>> = lexed.code().collect();
    let mut calls: Vec<bool> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at];
        at += 1;
        if token.is_sign("(") {
            calls.push(at >= 2 && tokens[at - 2].is_one_of(WITH_FROM));
        } else if token.is_sign(")") {
            calls.pop();
        }
        let is_after_dot = at >= 2 && tokens[at - 2].is_sign(".");
        let is_of_function = token.is("from") && calls.last() == Some(&true);
        if !token.is_one_of(BEFORE_TABLE) || is_after_dot || is_of_function {
            continue;
        }
        while tokens.get(at).is_some_and(|next| next.is_one_of(FILLERS)) {
            at += 1;
        }
        let first = tokens.get(at)?;
        if !first.is_name() || first.is_one_of(NO_TABLE) {
            continue; // a subquery, `ON DUPLICATE KEY UPDATE`'s expression
        }
        let (mut named, mut schema) = (first, None);
        at += 1;
        // The servers' digests have blanks around the dot.
        while tokens.get(at).is_some_and(|next| next.is_sign(".")) {
            schema = Some(named.name());
            named = tokens.get(at + 1).filter(|next| next.is_name() || next.kind == Kind::Number)?;
            at += 2;
        }
        let name = named.name();
        return (!name.is_empty() && named.is_name()).then_some((schema, name));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_table_is_known_where_it_is_named() {
        let schema = |statement: &str| qualified_table(statement).map(|(schema, _)| schema);
        assert_eq!(schema("SELECT ? FROM `shop` . `orders`"), Some(Some("shop".to_owned())));
        assert_eq!(schema("UPDATE orders SET a = ?"), Some(None));
        assert_eq!(schema("COMMIT"), None);
    }

    #[test]
    fn the_first_table_is_found_in_every_kind_of_statement() {
        for (statement, table) in [
            ("SELECT c FROM sbtest1 WHERE id=5", Some("sbtest1")),
            ("insert ignore into `shop`.`order lines` values (1)", Some("order lines")),
            ("UPDATE LOW_PRIORITY a.b SET x = 1", Some("b")),
            ("DROP TABLE IF EXISTS t1", Some("t1")),
            ("UPDATE `shop` . `orders` SET `c` = ?", Some("orders")),
            ("SELECT ? FROM `shop` .", None),
            ("/* from nowhere */ DELETE FROM t;", Some("t")),
            ("/* it's from nowhere */ DELETE FROM t;", Some("t")),
            ("SELECT 'from x' FROM t", Some("t")),
            ("SELECT TRIM(BOTH 'x' FROM c) FROM t", Some("t")),
            ("SELECT EXTRACT(YEAR FROM d), (SELECT 1 FROM u) FROM t", Some("u")),
            ("SELECT 1 FROM (SELECT 2 FROM inner_one) d", Some("inner_one")),
            ("SELECT ? FROM `sbtest1` WHERE `id` = ?", Some("sbtest1")),
            ("SELECT a INTO OUTFILE '/x' FROM t", Some("t")),
            ("SELECT a INTO @x FROM t", Some("t")),
            ("SELECT x.from FROM 2024_orders", Some("2024_orders")),
            ("SELECT 1 FOR UPDATE", None),
            ("COMMIT", None),
            ("SELECT * FROM", None),
            ("", None),
            ("SELECT '\u{1b}' FROM ü", Some("ü")),
            ("SELECT * FROM `cut", None),
        ] {
            assert_eq!(first_table(statement).as_deref(), table, "{statement}");
        }
    }
}
