//! Values of rows in what is no statement: errors that a server reports, records that are locked, sentences about them.

/// An error of a server without the values that it quotes.
///
/// Quotes in it are not escaped (`Duplicate entry 'O'Brien' for key`), and a whole statement may follow: so what is shown ends at the
/// first quote that does not stand behind a word for a name (`table 'shop.t'`). Of what follows the names of the key or the column and
/// the error's number are shown, where they stand as the server writes them. Errors of a receiver quote no values: they are shown whole.
///
/// ```
/// use spindoctor_sql::error_without_values;
/// let error = "Could not execute Write_rows event on table shop.t; Duplicate entry 'alice' for key 'PRIMARY', Error_code: 1062;";
/// let shown = "Could not execute Write_rows event on table shop.t; Duplicate entry ... for key 'PRIMARY', Error_code: 1062";
/// assert_eq!(error_without_values(error), shown);
/// ```
pub fn error_without_values(error: &str) -> String {
    if OF_RECEIVERS
        .iter()
        .any(|begin| error.get(..begin.len()).is_some_and(|of| of.eq_ignore_ascii_case(begin)))
    {
        return error.to_owned();
    }
    let mut shown = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(at) = rest.find(['\'', '"']) {
        let (before, quoted) = rest.split_at(at);
        shown.push_str(before);
        if let Some(inner) = of_statement(before, quoted) {
            shown.truncate(shown.len() - OF_STATEMENT.len());
            rest = inner;
            continue;
        }
        let length = match (is_apostrophe(before, quoted), name(&shown, quoted)) {
            (true, _) => 1,
            (false, Some(name)) => name.len() + 2,
            (false, None) => return format!("{} ...{}", shown.trim_end(), named_behind(&shown, quoted)),
        };
        shown.push_str(&quoted[..length]);
        rest = &quoted[length..];
    }
    shown + rest
}

/// How errors of a replica's receiver begin (sql/rpl_replica.cc), which quote accounts, addresses and reasons.
const OF_RECEIVERS: [&str; 3] = ["Got fatal error ", "error connecting to ", "error reconnecting to "];

/// What stands before the error of a replicated statement: `Error 'Table 'shop.t' doesn't exist' on query. Query: 'INSERT ...'`.
const OF_STATEMENT: &str = "Error ";

/// Words behind which a name stands in quotes.
const NAMED: [&str; 13] = [
    "column",
    "constraint",
    "database",
    "drop",
    "file",
    "function",
    "index",
    "key",
    "log",
    "procedure",
    "table",
    "transaction",
    "trigger",
];

/// Characters of a name at most: a table with its schema, each of 64, or the number of a transaction.
const LONGEST_NAME: usize = 192;

/// The error within that of a replicated statement, without the statement.
fn of_statement<'a>(before: &str, quoted: &'a str) -> Option<&'a str> {
    let inner = quoted.strip_prefix('\'').filter(|_| before.ends_with(OF_STATEMENT))?;
    Some(inner.split_once("' on query").map_or(inner, |(inner, _)| inner))
}

/// True for the quote in `Can't` and `the event's`.
fn is_apostrophe(before: &str, quoted: &str) -> bool {
    let behind = quoted.strip_prefix('\'').map(|rest| rest.starts_with(char::is_alphabetic));
    before.ends_with(char::is_alphabetic) && behind == Some(true)
}

/// The name in these quotes, where the words before say that it is one.
fn name<'a>(before: &str, quoted: &'a str) -> Option<&'a str> {
    let word = before.strip_suffix(' ')?.rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    // `Can't find record in 't'`, and `Unknown column 'c' in 'field list'`.
    let is_part_of_statement = before.ends_with("' in ");
    let is_named = NAMED.iter().any(|known| known.eq_ignore_ascii_case(word))
        || is_part_of_statement
        || before.ends_with("record in ");
    let name = until_quote(quoted.get(1..)?, quoted.chars().next()?).filter(|_| is_named)?;
    let is_part = |c: char| is_of_name(c) || c == ' ' && is_part_of_statement;
    name.chars().all(is_part).then_some(name)
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_$.-/#@:".contains(c)
}

fn until_quote(text: &str, quote: char) -> Option<&str> {
    let (name, _) = text.split_once(quote)?;
    (!name.is_empty() && name.chars().count() <= LONGEST_NAME).then_some(name)
}

/// What an error names behind its values: the key or the column, and the number.
fn named_behind(shown: &str, rest: &str) -> String {
    let named = ["key", "column"].iter().find_map(|what| {
        let (_, behind) = rest.rsplit_once(&format!("' for {what} '"))?;
        let name = until_quote(behind, '\'').filter(|name| name.chars().all(is_of_name))?;
        let end = &behind[name.len() + 1..];
        // What was cut before its end may be within a value.
        let end = end
            .strip_prefix(" at row ")
            .map_or(end, |row| row.trim_start_matches(|c: char| c.is_ascii_digit()));
        let is_whole = end.is_empty() || end.starts_with(", Error_code: ");
        is_whole.then(|| format!(" for {what} '{name}'"))
    });
    let number = rest
        .rsplit_once("Error_code: ")
        .map(|(_, rest)| rest.chars().take(8).take_while(char::is_ascii_digit).collect::<String>())
        .filter(|number| !number.is_empty() && !shown.contains("Error_code: "));
    named.unwrap_or_default() + &number.map_or_else(String::new, |number| format!(", Error_code: {number}"))
}

/// A locked record, as InnoDB prints its values (`'alice@example.com', 5`), without its texts: each becomes a short mark that
/// differs where texts do, most of the time, so that two records stay two. Numbers stay: without them nobody finds the row.
///
/// ```
/// use spindoctor_sql::record_without_texts;
/// assert_eq!(record_without_texts("5"), "5");
/// assert!(!record_without_texts("'alice', 5").contains("alice"));
/// ```
pub fn record_without_texts(record: &str) -> String {
    let (Some(first), Some(last)) = (record.find('\''), record.rfind('\'')) else { return record.to_owned() };
    // Quotes in the texts are escaped in some versions and not in others: from the first to the last, all is one.
    let hash = record[first..=last]
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let behind = if first == last { "" } else { &record[last + 1..] };
    // 16 bits do not show which of many texts it was.
    format!("{}'#{:04x}'{behind}", &record[..first], (hash >> 16) ^ (hash & 0xffff))
}

/// A sentence about statements and rows with the texts in quotes replaced by `?`. A lone apostrophe is none.
///
/// ```
/// let sentence = "the server's DROP of 'secret' and \"secret\" waits";
/// assert_eq!(spindoctor_sql::sentence_without_quotes(sentence), "the server's DROP of ? and ? waits");
/// ```
pub fn sentence_without_quotes(sentence: &str) -> String {
    let mut text = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(at) = rest.find(['\'', '"']) {
        let quote = if rest[at..].starts_with('"') { '"' } else { '\'' };
        let is_apostrophe = quote == '\'' && rest[..at].ends_with(char::is_alphanumeric);
        text.push_str(&rest[..at]);
        let length = if is_apostrophe {
            text.push('\'');
            1
        } else {
            text.push('?');
            quoted(&rest[at..], quote)
        };
        rest = &rest[at + length..];
    }
    text + rest
}

/// The length of what stands in quotes, both included; to the end where the closing one is missing.
fn quoted(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_an_error_is_shown() {
        for (error, shown) in [
            ("", ""),
            ("Got fatal error 1236", "Got fatal error 1236"),
            (
                "Error 'Duplicate entry '5' for key 'PRIMARY'' on query. Query: 'INSERT'",
                "Duplicate entry ... for key 'PRIMARY'",
            ),
            (
                "Duplicate entry 'O'Brien' for key 'k', Error_code: 1062; x",
                "Duplicate entry ... for key 'k', Error_code: 1062",
            ),
            // A value that looks like the rest of the message, and one that was cut.
            (
                "Duplicate entry 'x' for key 'alice' for key 't.k', Error_code: 1062; x",
                "Duplicate entry ... for key 't.k', Error_code: 1062",
            ),
            ("Duplicate entry 'x' for key 'alice and bob", "Duplicate entry ..."),
            (
                "Incorrect integer value: 'alice' for column 'c' at row 1, Error_code: 1366; x",
                "Incorrect integer value: ... for column 'c', Error_code: 1366",
            ),
            (
                "Error 'You have an error in your SQL syntax near 'alice' on query' on query. Query: 'x'",
                "You have an error in your SQL syntax near ...",
            ),
            ("Incorrect value in 'it''s alice'", "Incorrect value in ..."),
            ("a 'b Error_code: secret", "a ..."),
        ] {
            assert_eq!(error_without_values(error), shown);
        }
    }

    #[test]
    fn what_an_error_names_is_shown() {
        for (error, shown) in [
            (
                "Could not execute Update_rows event on table shop.t; Can't find record in 't', Error_code: 1032; handler error \
                 HA_ERR_KEY_NOT_FOUND; the event's source log b.000001, end_log_pos 9",
                "Could not execute Update_rows event on table shop.t; Can't find record in 't', Error_code: 1032; handler error \
                 HA_ERR_KEY_NOT_FOUND; the event's source log b.000001, end_log_pos 9",
            ),
            (
                "Worker 1 failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log b.000001, end_log_pos 817; \
                 Could not execute Write_rows event on table shop.t; Duplicate entry '1' for key 't.PRIMARY', Error_code: 1062; x",
                "Worker 1 failed executing transaction '3d179476-e888-11f1-9657-02fc00000001:3' at source log b.000001, end_log_pos 817; \
                 Could not execute Write_rows event on table shop.t; Duplicate entry ... for key 't.PRIMARY', Error_code: 1062",
            ),
            (
                "end_log_pos 4; Error 'Table 'shop.t' doesn't exist' on query. Default database: 'shop'. Query: 'INSERT INTO t VALUES \
                 ('alice')'",
                "end_log_pos 4; Table 'shop.t' doesn't exist",
            ),
            (
                "Error 'Unknown column 'c' in 'field list'' on query. Query: 'x'",
                "Unknown column 'c' in 'field list'",
            ),
            (
                "Got fatal error 1236 from source when reading data from binary log: 'Could not find first log file name in binary log \
                 index file'",
                "Got fatal error 1236 from source when reading data from binary log: 'Could not find first log file name in binary log \
                 index file'",
            ),
            (
                "Error connecting to source 'repl@db1:3306'. Message: Access denied for user 'repl'@'10.0.0.7' (using password: YES)",
                "Error connecting to source 'repl@db1:3306'. Message: Access denied for user 'repl'@'10.0.0.7' (using password: YES)",
            ),
        ] {
            assert_eq!(error_without_values(error), shown);
            assert_eq!(error_without_values(shown), shown, "a second time");
        }
    }

    #[test]
    fn texts_of_a_record_go_and_two_records_stay_two() {
        let shown = |record: &str| record_without_texts(record);
        assert_eq!(shown("5, 0x00FF"), "5, 0x00FF");
        assert_eq!(shown("supremum pseudo-record"), "supremum pseudo-record");
        assert_ne!(shown("'alice', 5"), shown("'bob', 5"));
        assert_ne!(shown("'alice', 5"), shown("'alice', 6"));
        assert!(!shown("'O'Brien alice', 'b', 5").contains("alice"));
        assert!(shown("1, 'alice', 5").starts_with("1, '#"));
        assert!(!shown("'cut alice").contains("alice"));
        assert_eq!(shown(&shown("5")), "5");
    }
}
