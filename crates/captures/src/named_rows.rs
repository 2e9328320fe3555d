//! Rows that mycli prints one name below the other, as a client prints them with `\G`.
//!
//! ```text
//! ***************************[ 1. row ]***************************
//! ENGINE                | INNODB
//! ENGINE_TRANSACTION_ID | 12960072
//! INDEX_NAME            | <null>
//! 1 row in set
//! Time: 0.014s
//! ```

use std::borrow::Cow;

use crate::heads::is_number;
use crate::rows::{STARS, is_name};

/// The text, with such rows as the server's own client prints them.
pub(crate) fn as_vertical(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| row_number(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut vertical = String::with_capacity(text.len());
    let mut in_row = false;
    for line in text.lines() {
        if let Some(number) = row_number(line) {
            vertical.push_str(&format!("{STARS} {number}. row {STARS}\n"));
            in_row = true;
            continue;
        }
        if is_time(line) {
            in_row = false;
            continue;
        }
        if is_foot(line) {
            vertical.push_str(&format!("{line} (0.00 sec)\n"));
            in_row = false;
            continue;
        }
        in_row &= !line.trim().is_empty();
        match value(line).filter(|_| in_row) {
            Some((name, value)) => vertical.push_str(&format!("{name}: {value}")),
            None => vertical.push_str(line),
        }
        vertical.push('\n');
    }
    Cow::Owned(vertical)
}

/// `***************************[ 2. row ]***************************`
fn row_number(line: &str) -> Option<u64> {
    let stars = line.trim();
    let inside = stars.trim_matches('*').strip_prefix("[ ")?.strip_suffix(". row ]")?;
    inside.parse().ok().filter(|_| stars.starts_with("***") && stars.ends_with("***"))
}

/// `1 row in set`, behind which a server's own client prints the time.
fn is_foot(line: &str) -> bool {
    let count = line.strip_suffix(" rows in set").or_else(|| line.strip_suffix(" row in set"));
    count.is_some_and(is_number)
}

/// `Time: 0.014s`, which would be a session's time.
fn is_time(line: &str) -> bool {
    let time = line.strip_prefix("Time: ").and_then(|time| time.strip_suffix('s'));
    time.is_some_and(|time| time.parse::<f64>().is_ok())
}

/// The name and the value of a line; None for one of a value of several lines.
fn value(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" |")?;
    let name = name.trim();
    let value = value.strip_prefix(' ').or(Some(value).filter(|value| value.is_empty()))?;
    is_name(name).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;
    use crate::threads::testing::sessions;

    #[test]
    fn rows_with_bars_behind_their_names_are_read() {
        let list = "***************************[ 1. row ]***************************\nId      | 7\nUser    | app\nHost    | h:1\n\
                    db      | <null>\nCommand | Query\nTime    | 90\nState   | updating\nInfo    | UPDATE a\n\
                    ***************************[ 2. row ]***************************\nId      | 8\nUser    | app\nHost    | h:2\n\
                    db      | shop\nCommand | Sleep\nTime    | 9\nState   |\nInfo    | <null>\n2 rows in set\nTime: 0.014s\n";
        let updates = (Some(7), "updating".to_owned(), "UPDATE a".to_owned());
        assert_eq!(sessions(list), [updates, (Some(8), String::new(), String::new())]);
        assert!(!as_vertical(list).contains("0.014s"), "{}", as_vertical(list));
        assert_eq!(value("SET b = 1 | 2"), None, "a line of a statement");
        let locks = "***************************[ 1. row ]***************************\nREQUESTING_ENGINE_TRANSACTION_ID | 71\n\
                     REQUESTING_THREAD_ID             | 57\nBLOCKING_ENGINE_TRANSACTION_ID   | 70\nBLOCKING_THREAD_ID               | 56\n";
        let kinds: Vec<Kind> = recognise("x", locks).into_iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::LockWaits]);
    }

    #[test]
    fn other_text_is_as_it_was() {
        for text in ["*** 1. row ***\nId | 7\n", "[ 1. row ]\nId | 7\n", "***[ x. row ]***\n"] {
            assert!(matches!(as_vertical(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
