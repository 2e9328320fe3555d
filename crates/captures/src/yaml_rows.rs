//! Rows in YAML, as Ansible and other programs print what a server answered, one name below the other as a client prints them with `\G`.
//!
//! ```text
//! - Command: Query
//!   Id: 12
//!   Info: SELECT * FROM stock
//!   State: 'Waiting for table metadata lock'
//!   db: null
//! ```

use std::borrow::Cow;

use crate::rows::{STARS, is_name};
use crate::table_kind::kind;

/// Fewer names are no row, and more are none of a server's lists (that of a replica's status has some 60).
const FEW: usize = 3;
const MOST: usize = 100;

/// The text, with such rows as the server's own client prints them.
pub(crate) fn as_vertical(text: &str) -> Cow<'_, str> {
    if !text.lines().any(|line| line.trim_start().starts_with("- ")) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut rows) = (0, 0_u64);
    let mut vertical = String::with_capacity(text.len());
    while at < lines.len() {
        let row = row(&lines[at..]);
        if row.is_empty() {
            vertical.push_str(lines[at]);
            vertical.push('\n');
            at += 1;
            continue;
        }
        rows += 1;
        vertical.push_str(&format!("{STARS} {rows}. row {STARS}\n"));
        for (name, value) in &row {
            vertical.push_str(&format!("{name}: {value}\n"));
        }
        at += row.len();
    }
    if rows == 0 { Cow::Borrowed(text) } else { Cow::Owned(vertical) }
}

/// The names and values of the row that begins in the first of these lines; none where no list of a server begins there.
fn row<'t>(lines: &[&'t str]) -> Vec<(&'t str, &'t str)> {
    let Some(line) = lines.first() else { return Vec::new() };
    let indent = line.len() - line.trim_start().len();
    let Some(first) = line[indent..].strip_prefix("- ").and_then(pair) else { return Vec::new() };
    let below = lines[1..].iter().take(MOST).map_while(|line| {
        let inside = line.len() - line.trim_start().len();
        pair(line[inside..].trim_end()).filter(|_| inside == indent + "- ".len())
    });
    let row: Vec<(&str, &str)> = std::iter::once(first).chain(below).collect();
    let names: Vec<String> = row.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    if row.len() < FEW || kind(&names).is_none() { Vec::new() } else { row }
}

/// `State: 'Waiting for table metadata lock'`; what has no value is NULL.
fn pair(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let value = match value.strip_prefix(' ').unwrap_or(value).trim_end() {
        "null" | "~" => "NULL",
        quoted if quoted.len() >= 2 && quoted.starts_with(['\'', '"']) => {
            let mark = &quoted[..1];
            quoted[1..].strip_suffix(mark).unwrap_or(quoted)
        }
        plain => plain,
    };
    is_name(name).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::testing::sessions;

    #[test]
    fn rows_in_yaml_are_one_list() {
        let list = "rows:\n  - Command: Query\n    Id: 12\n    Info: SELECT n FROM stock\n    State: 'Waiting for table metadata lock'\n    \
                    Time: 812\n    db: shop\n  - Command: Sleep\n    Id: 13\n    Info: null\n    State: ''\n    Time: 9\n    db: ~\n";
        let waits = "Waiting for table metadata lock".to_owned();
        let wanted =
            [(Some(12), waits, "SELECT n FROM stock".to_owned()), (Some(13), String::new(), String::new())];
        assert_eq!(sessions(list), wanted);
    }

    #[test]
    fn other_lists_are_as_they_were() {
        for text in [
            "- name: db\n  image: mysql\n  ports: 3306\n",
            "- Id: 12\n",
            "- a\n- b: c\n",
            "- é: 1\n  b: 2\n  c: 3\n",
        ] {
            assert!(matches!(as_vertical(text), Cow::Borrowed(_)), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(- |  |Id|State|Info|Time|: |'|\"|null|é|\n){0,40}") {
            let _rows = as_vertical(&text);
        }
    }
}
