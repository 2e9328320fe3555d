//! What a statement's text tells without a parser: its first table, and its shape without literals. For servers
//! that give no digest (MariaDB without performance_schema), and for cut statements.

/// The first table that a statement names, without its database: the word after FROM, INTO, UPDATE, JOIN or TABLE.
pub(crate) fn first_table(statement: &str) -> Option<String> {
    let mut words = words(statement).peekable();
    while let Some(word) = words.next() {
        let is_before_table = ["from", "into", "update", "join", "table"]
            .iter()
            .any(|keyword| word.eq_ignore_ascii_case(keyword));
        if !is_before_table {
            continue;
        }
        // `INSERT IGNORE INTO`, `UPDATE LOW_PRIORITY t`, `DROP TABLE IF EXISTS t`
        while words.peek().is_some_and(|next| {
            ["ignore", "low_priority", "if", "exists", "not", "only", "table"]
                .iter()
                .any(|filler| next.eq_ignore_ascii_case(filler))
        }) {
            words.next();
        }
        let named = *words.peek()?;
        if !named.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '`' | '$' | '"')) {
            continue; // a subquery, `ON DUPLICATE KEY UPDATE`'s expression
        }
        words.next();
        // The server's digests have blanks around the dot.
        let named = match words.next_if_eq(&".") {
            Some(_) => words.next()?,
            None => named,
        };
        let table = unquoted_last(named);
        return (!table.is_empty()).then_some(table);
    }
    None
}

/// A statement with each number and quoted text replaced by `?`, and its white space folded.
pub(crate) fn without_literals(statement: &str) -> String {
    let mut shape = String::with_capacity(statement.len());
    let mut rest = statement.chars().peekable();
    let mut in_word = false;
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => {
                while let Some(inside) = rest.next() {
                    match inside {
                        '\\' => drop(rest.next()),
                        _ if inside == c && rest.peek() == Some(&c) => drop(rest.next()),
                        _ if inside == c => break,
                        _ => {}
                    }
                }
                shape.push('?');
            }
            _ if c.is_ascii_digit() && !in_word => {
                while rest.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '.') {
                    rest.next();
                }
                shape.push('?');
            }
            _ if c.is_whitespace() => {
                if !shape.ends_with(' ') {
                    shape.push(' ');
                }
            }
            _ => shape.push(c),
        }
        in_word = c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
    }
    shape.trim().to_owned()
}

/// Words of a statement: names with their dots and backquotes stay whole; comments are left out.
fn words(statement: &str) -> impl Iterator<Item = &str> {
    let mut rest = statement;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if let Some(comment) = rest.strip_prefix("/*") {
                rest = comment.split_once("*/").map_or("", |(_, after)| after);
                continue;
            }
            let first = rest.chars().next()?;
            let mut quoted = false;
            let is_name = |c: char, quoted: &mut bool| {
                if c == '`' {
                    *quoted = !*quoted;
                }
                *quoted || c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '`')
            };
            let end = rest
                .char_indices()
                .find(|(_, c)| !is_name(*c, &mut quoted))
                .map_or(rest.len(), |(at, _)| at)
                .max(first.len_utf8());
            let (word, after) = rest.split_at(end);
            rest = after;
            return Some(word);
        }
    })
}

/// `` `shop`.`orders` `` as `orders`.
fn unquoted_last(name: &str) -> String {
    let last = match name.strip_suffix('`') {
        Some(inside) => inside.rsplit_once('`').map_or(inside, |(_, last)| last),
        None => name.rsplit_once('.').map_or(name, |(_, last)| last),
    };
    last.trim_matches('`').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("SELECT 1 FROM (SELECT 2 FROM inner_one) d", Some("inner_one")),
            ("SELECT ? FROM `sbtest1` WHERE `id` = ?", Some("sbtest1")),
            ("COMMIT", None),
            ("SELECT * FROM", None),
            ("", None),
            ("SELECT '\u{1b}' FROM ü", Some("ü")),
        ] {
            assert_eq!(first_table(statement).as_deref(), table, "{statement}");
        }
    }

    #[test]
    fn literals_leave_only_their_place() {
        assert_eq!(
            without_literals("SELECT a1 FROM t2 WHERE b='it''s \\' x'  AND c = 0x1F\n AND d=-1.5e3"),
            "SELECT a1 FROM t2 WHERE b=? AND c = ? AND d=-?"
        );
        assert_eq!(without_literals("SELECT 'cut of"), "SELECT ?");
    }
}
