//! The columns that a statement compares with something, by which an index can find its rows.

use crate::mode::Mode;
use crate::tokens::{Kind, Token, lex};

/// Words behind which conditions stand, and words that end them.
const BEGIN: &[&str] = &["where", "on"];
const END: &[&str] =
    &["select", "group", "order", "having", "limit", "window", "union", "for", "set", "duplicate"];

/// Words that compare what stands before them.
const COMPARE: &[&str] = &["in", "between", "like", "is", "regexp", "rlike"];

/// Words beside a comparison that are no column.
const NO_COLUMN: &[&str] = &[
    "and", "or", "not", "xor", "where", "on", "null", "true", "false", "unknown", "interval", "binary",
    "case", "when", "then", "else", "end", "all", "any", "some", "exists", "select", "escape", "row",
    "default", "div", "mod",
];

/// The columns that the statement's conditions (WHERE, ON, USING) compare, without their tables, each once, in the order of the text.
/// Of a column within an expression or a function nothing is known, and it is not among them.
///
/// ```
/// let text = "SELECT `c` FROM `orders` WHERE `customer` = ? AND `o` . `state` IN (...) ORDER BY `id`";
/// assert_eq!(spindoctor_sql::compared_columns(text), ["customer", "state"]);
/// ```
pub fn compared_columns(statement: &str) -> Vec<String> {
    let lexed = lex(statement, Mode::UNKNOWN);
    let tokens: Vec<&Token<'_>> = lexed.code().collect();
    let mut columns: Vec<String> = Vec::new();
    let mut add = |name: String| {
        if !name.is_empty() && !columns.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            columns.push(name);
        }
    };
    let mut is_condition = false;
    for (at, token) in tokens.iter().enumerate() {
        let is_after_dot = at > 0 && tokens[at - 1].is_sign(".");
        if is_after_dot {
            continue;
        }
        if token.is_one_of(BEGIN) {
            is_condition = true;
        } else if token.is_one_of(END) {
            is_condition = false;
        } else if token.is("using") {
            in_brackets(&tokens, at + 1).into_iter().for_each(&mut add);
        } else if is_condition && is_comparison(token) {
            before(&tokens, at).into_iter().for_each(&mut add);
            after(&tokens, at).into_iter().for_each(&mut add);
        }
    }
    columns
}

fn is_sign_of_comparison(token: &Token<'_>) -> bool {
    ["=", "<", ">", "!"].iter().any(|sign| token.is_sign(sign))
}

fn is_comparison(token: &Token<'_>) -> bool {
    is_sign_of_comparison(token) || token.is_one_of(COMPARE)
}

fn is_column(token: &Token<'_>) -> bool {
    token.is_name() && !token.is_one_of(NO_COLUMN) && !token.is_one_of(COMPARE)
}

/// The column before a comparison, or those of a row: `(a, b) IN (...)`.
fn before(tokens: &[&Token<'_>], at: usize) -> Vec<String> {
    let mut last = at;
    while last > 0 && tokens[last - 1].is("not") {
        last -= 1;
    }
    let Some(end) = last.checked_sub(1) else { return Vec::new() };
    if is_column(tokens[end]) {
        let is_part = is_arithmetic(first_of_name(tokens, end).checked_sub(1).and_then(|at| tokens.get(at)));
        return if is_part { Vec::new() } else { vec![tokens[end].name()] };
    }
    if !tokens[end].is_sign(")") {
        return Vec::new();
    }
    let mut depth = 0usize;
    for start in (0..=end).rev() {
        match tokens[start] {
            token if token.is_sign(")") => depth += 1,
            token if token.is_sign("(") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let is_call = start > 0 && is_column(tokens[start - 1]);
            return if is_call { Vec::new() } else { in_brackets(tokens, start) };
        }
    }
    Vec::new()
}

/// The column behind a comparison: `a.id = b.customer`.
fn after(tokens: &[&Token<'_>], at: usize) -> Vec<String> {
    let mut first = at + 1;
    if !is_sign_of_comparison(tokens[at]) {
        return Vec::new();
    }
    while tokens.get(first).is_some_and(|token| is_sign_of_comparison(token)) {
        first += 1;
    }
    if !tokens.get(first).is_some_and(|token| is_column(token)) {
        return Vec::new();
    }
    let mut last = first;
    while tokens.get(last + 1).is_some_and(|next| next.is_sign("."))
        && tokens.get(last + 2).is_some_and(|next| next.is_name())
    {
        last += 2;
    }
    let behind = tokens.get(last + 1);
    let is_part = is_arithmetic(behind) || behind.is_some_and(|next| next.is_sign("("));
    if is_part { Vec::new() } else { vec![tokens[last].name()] }
}

/// Where a name begins whose last part stands there: `a` of `a.b.c`.
fn first_of_name(tokens: &[&Token<'_>], last: usize) -> usize {
    let mut first = last;
    while first >= 2 && tokens[first - 1].is_sign(".") && tokens[first - 2].is_name() {
        first -= 2;
    }
    first
}

fn is_arithmetic(token: Option<&&Token<'_>>) -> bool {
    token.is_some_and(|token| {
        token.kind == Kind::Sign && ["+", "-", "*", "/", "%", "|", "&", "^"].contains(&token.text)
    })
}

/// The names in the brackets that open there, each alone between commas; none where anything else stands in them.
fn in_brackets(tokens: &[&Token<'_>], open: usize) -> Vec<String> {
    if !tokens.get(open).is_some_and(|token| token.is_sign("(")) {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut at = open + 1;
    loop {
        let Some(token) = tokens.get(at).filter(|token| is_column(token)) else { return Vec::new() };
        let mut last = *token;
        at += 1;
        while tokens.get(at).is_some_and(|next| next.is_sign(".")) {
            let Some(next) = tokens.get(at + 1).filter(|next| next.is_name()) else { return Vec::new() };
            last = *next;
            at += 2;
        }
        names.push(last.name());
        match tokens.get(at) {
            Some(next) if next.is_sign(",") => at += 1,
            Some(next) if next.is_sign(")") => return names,
            _ => return Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_that_an_index_could_find_rows_by_are_named() {
        let cases: &[(&str, &[&str])] = &[
            ("SELECT `c` FROM `orders` WHERE `k` = ?", &["k"]),
            ("SELECT c FROM orders WHERE ? = k AND NOT (a = ?)", &["k", "a"]),
            (
                "SELECT c FROM t WHERE a BETWEEN ? AND ? AND b NOT IN (...) OR c LIKE ? OR d IS NULL",
                &["a", "b", "c", "d"],
            ),
            ("SELECT c FROM t WHERE a <= ? AND b <> ? AND c != ? AND d <=> ?", &["a", "b", "c", "d"]),
            (
                "SELECT 1 FROM `a` JOIN `b` ON `a` . `id` = `b` . `a_id` WHERE `b` . `x` > ?",
                &["id", "a_id", "x"],
            ),
            ("SELECT 1 FROM a JOIN b USING (id, `part`) WHERE (x, y) IN (...)", &["id", "part", "x", "y"]),
            ("UPDATE `t` SET `a` = ? WHERE `id` = ? AND `ID` > ? LIMIT ?", &["id"]),
            ("DELETE FROM t WHERE id IN (SELECT x FROM u WHERE y = ?) AND z = ?", &["id", "y", "z"]),
            ("SELECT c FROM t WHERE t.order = ? ORDER BY a = ?", &["order"]),
            ("SELECT a = ? FROM t", &[]),
            (
                "SELECT c FROM t WHERE LOWER(a) = ? AND b + ? = ? AND ? = c * ? AND d = LOWER(e) AND ? - f > ?",
                &["d"],
            ),
            ("INSERT INTO t VALUES (...) ON DUPLICATE KEY UPDATE a = ?", &[]),
            ("SELECT c FROM t WHERE (LOWER(a), b) = (...) AND = AND (", &[]),
            ("WHERE", &[]),
            ("", &[]),
        ];
        for (statement, columns) in cases {
            assert_eq!(compared_columns(statement), *columns, "{statement}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn no_text_makes_it_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..16)) {
            compared_columns(&pieces.concat());
        }
    }

    const PIECES: &[&str] = &[
        "WHERE ", "ON ", "USING ", "(", ")", ",", ".", "a", "`b`", "= ", "< ", "IN ", "NOT ", "?", "+", "'",
        " ", "IS ", "ü",
    ];
}
