//! Values of rows in what is no statement: errors that a server reports, records that are locked, sentences about them.

/// An error of a server without the values that it quotes: what stands before the first quote, and the error's number.
///
/// Quotes in it are not escaped (`Duplicate entry 'O'Brien' for key`), and a whole statement may follow: so nothing behind the
/// first one is shown.
///
/// ```
/// use spindoctor_sql::error_without_values;
/// let error = "Could not execute Write_rows event on table shop.t; Duplicate entry 'alice' for key 'PRIMARY', Error_code: 1062;";
/// let shown = "Could not execute Write_rows event on table shop.t; Duplicate entry ..., Error_code: 1062";
/// assert_eq!(error_without_values(error), shown);
/// ```
pub fn error_without_values(error: &str) -> String {
    let Some(at) = error.find(['\'', '"']) else { return error.to_owned() };
    let head = error[..at].trim_end();
    let number = error
        .rsplit_once("Error_code: ")
        .map(|(_, rest)| rest.chars().take(8).take_while(char::is_ascii_digit).collect::<String>());
    match number.filter(|number| !number.is_empty() && !head.contains("Error_code: ")) {
        Some(number) => format!("{head} ..., Error_code: {number}"),
        None => format!("{head} ..."),
    }
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
            ("Error 'Duplicate entry '5' for key 'PRIMARY'' on query. Query: 'INSERT'", "Error ..."),
            (
                "Duplicate entry 'O'Brien' for key 'k', Error_code: 1062; x",
                "Duplicate entry ..., Error_code: 1062",
            ),
            ("a 'b Error_code: secret", "a ..."),
        ] {
            assert_eq!(error_without_values(error), shown);
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
