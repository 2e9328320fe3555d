//! Summaries of performance_schema whose columns somebody's own query computed, or gave other names: the query above says which column is
//! which, and what a time was divided by.
//!
//! ```text
//! SELECT DIGEST_TEXT, COUNT_STAR, ROUND(SUM_TIMER_WAIT/1e12, 2) s FROM performance_schema.events_statements_summary_by_digest
//! | DIGEST_TEXT | COUNT_STAR | s |
//! ```

use crate::rows::{is_name, row_number};

/// Lines that are looked at, and the bytes of each.
const LOOKED_AT: usize = 2_000;
const LONGEST: usize = 4_000;
/// Lines of one query.
const MOST_LINES: usize = 40;
/// Queries of a text.
const MOST_QUERIES: usize = 50;

/// Picoseconds, as performance_schema counts, of a second and of a millisecond.
const SECOND_PS: f64 = 1e12;
const MILLISECOND_PS: f64 = 1e9;

/// Columns that a summary is read by, beside those that are counts and sums.
const COLUMNS: [&str; 16] = [
    "digest_text",
    "digest",
    "schema_name",
    "event_name",
    "object_schema",
    "object_name",
    "table_schema",
    "table_name",
    "file_name",
    "query",
    "exec_count",
    "total_latency",
    "rows_examined",
    "rows_sent",
    "current_alloc",
    "current_number_of_bytes_used",
];
/// How the others begin.
const SUMS: [&str; 5] = ["sum_", "count_", "avg_", "min_", "max_"];

/// A column of a query: how the client prints its name, and the server's own name of what it is, where that is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    title: String,
    column: Option<String>,
}

/// The lines of a text, where the heads of such summaries have the server's names again.
pub(crate) fn with_names(lines: Vec<String>) -> Vec<String> {
    let queries = queries(&lines);
    if queries.is_empty() {
        return lines;
    }
    let has_rows = lines.iter().any(|line| row_number(line).is_some());
    let named = |line: String| {
        let plain = queries
            .iter()
            .find_map(|items| head(&line, items).or_else(|| field(&line, items).filter(|_| has_rows)));
        plain.unwrap_or(line)
    };
    lines.into_iter().map(named).collect()
}

/// The columns of the queries of a text that select from a summary and rename or compute one of them.
fn queries(lines: &[String]) -> Vec<Vec<Item>> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate().take(LOOKED_AT) {
        if found.len() >= MOST_QUERIES || !starts_with_select(without_prompt(line)) {
            continue;
        }
        let below = lines[at..].iter().take(MOST_LINES).map(|line| without_prompt(line));
        let text: Vec<&str> =
            below.take_while(|line| line.len() <= LONGEST && !line.starts_with(['+', '|'])).collect();
        let text = text.join(" ");
        let Some((items, from)) = select_list(&text) else { continue };
        let items: Vec<Item> = items.into_iter().map(item).collect();
        if is_summary(from) && items.iter().any(|item| item.column.is_some()) {
            found.push(items);
        }
    }
    found
}

/// A line without the prompt of a client.
fn without_prompt(line: &str) -> &str {
    let line = line.trim();
    let behind = line.split_once("> ").filter(|(prompt, _)| {
        ["mysql", "mariadb", "root@", "-"]
            .iter()
            .any(|begins| prompt.to_ascii_lowercase().starts_with(begins))
    });
    behind.map_or(line, |(_, rest)| rest.trim_start())
}

fn starts_with_select(line: &str) -> bool {
    line.get(..SELECT.len()).is_some_and(|word| word.eq_ignore_ascii_case(SELECT))
}

const SELECT: &str = "select ";

/// True of a table that sums up: what stands behind FROM.
fn is_summary(from: &str) -> bool {
    let table = from.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    ["summary_", "performance_schema", "sys.", "`sys`"].iter().any(|sign| table.contains(sign))
}

/// The columns of a SELECT, and what stands behind its FROM.
fn select_list(text: &str) -> Option<(Vec<&str>, &str)> {
    const FROM: &str = "from ";
    let lower = text.to_ascii_lowercase();
    let (mut items, mut depth, mut quote, mut start) = (Vec::new(), 0_usize, None, SELECT.len());
    for (at, byte) in lower.bytes().enumerate().skip(SELECT.len()) {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            (None, b',') if depth == 0 => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            (None, b'f') if depth == 0 && lower[at..].starts_with(FROM) && lower[..at].ends_with(' ') => {
                items.push(&text[start..at]);
                return Some((items, text[at + FROM.len()..].trim_start()));
            }
            (None, _) => {}
        }
    }
    None
}

/// What a column of a query is: `SUM_TIMER_WAIT/1e12 AS s`, `count_star`.
fn item(text: &str) -> Item {
    let text = text.trim();
    let alias = text.rsplit_once(char::is_whitespace).and_then(|(before, last)| {
        let name = last.trim_matches(['`', '\'', '"']);
        let is_alias = is_name(name)
            && name.parse::<f64>().is_err()
            && !before.trim_end().ends_with(['+', '-', '*', '/', ',', '(']);
        is_alias.then_some((before, name))
    });
    let (expression, title) = match alias {
        Some((before, name)) => {
            let before = before.trim_end();
            let as_at = before.len().saturating_sub(3);
            let is_as = before.get(as_at..).is_some_and(|word| word.eq_ignore_ascii_case(" as"));
            (if is_as { &before[..as_at] } else { before }, plain(name))
        }
        None => (text, plain(text)),
    };
    let column = column(&plain(expression)).filter(|column| *column != title);
    Item { title, column }
}

/// In lower case, without blanks and quotes; a name without the table before it.
fn plain(text: &str) -> String {
    let is_kept = |c: &char| !c.is_whitespace() && !['`', '\'', '"', ';'].contains(c);
    let plain: String = text.chars().filter(is_kept).collect::<String>().to_ascii_lowercase();
    match plain.rsplit_once('.') {
        Some((_, name)) if is_name(name) && !plain.contains(['/', '(']) => name.to_owned(),
        _ => plain,
    }
}

fn is_column(name: &str) -> bool {
    COLUMNS.contains(&name) || SUMS.iter().any(|begins| name.len() > begins.len() && name.starts_with(begins))
}

/// The server's name of an expression over one column: the column itself, within a function that only formats it, or a sum of times in
/// seconds or milliseconds.
fn column(expression: &str) -> Option<String> {
    let mut names =
        expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| is_column(name));
    let name = names.next()?;
    if names.any(|other| other != name) || expression.contains(['+', '*', '%', '-']) {
        return None;
    }
    let divisors: Vec<f64> = expression.split('/').skip(1).map(number).collect::<Option<_>>()?;
    let by: f64 = divisors.iter().product();
    let is_near = |wanted: f64| (by / wanted - 1.0).abs() < 1e-9;
    match name {
        _ if divisors.is_empty() => Some(name.to_owned()),
        "sum_timer_wait" | "total_latency" if is_near(SECOND_PS) => Some("total_s".to_owned()),
        "sum_timer_wait" | "total_latency" if is_near(MILLISECOND_PS) => Some("total_ms".to_owned()),
        _ => None,
    }
}

/// A number that something is divided by: `1000000000`, `1e12`, `pow(10,12)`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches('(');
    let power = ["power(", "pow("].iter().find_map(|function| text.strip_prefix(function));
    if let Some((base, exponent)) = power.and_then(|inside| inside.split_once(')')?.0.split_once(',')) {
        return Some(base.parse::<f64>().ok()?.powf(exponent.parse().ok()?));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != 'e').unwrap_or(text.len());
    text[..end].parse().ok().filter(|number: &f64| *number > 0.0)
}

/// The head of the query's result, with the server's names; None for any other line.
fn head(line: &str, items: &[Item]) -> Option<String> {
    if line.len() > LONGEST {
        return None;
    }
    let mark = ['|', '\t'].into_iter().find(|mark| line.contains(*mark))?;
    let is_framed = line.trim_start().starts_with('|');
    let cells: Vec<&str> = line.trim().trim_matches('|').split(mark).map(str::trim).collect();
    let is_head =
        cells.len() == items.len() && cells.iter().zip(items).all(|(cell, item)| plain(cell) == item.title);
    is_head.then(|| {
        let named = |(cell, item): (&&str, &Item)| item.column.clone().unwrap_or_else(|| (*cell).to_owned());
        let cells: Vec<String> = cells.iter().zip(items).map(named).collect();
        match (mark, is_framed) {
            ('|', true) => format!("| {} |", cells.join(" | ")),
            ('|', false) => cells.join(" | "),
            _ => cells.join("\t"),
        }
    })
}

/// A line of a row one below the other, with the server's name where the query gave another; the colon stays where it was.
fn field(line: &str, items: &[Item]) -> Option<String> {
    let (name, value) = line.split_once(": ").filter(|(name, _)| name.len() <= LONGEST)?;
    let title = plain(name);
    let column = items.iter().find(|item| item.title == title)?.column.as_deref()?;
    Some(format!("{column:>width$}: {value}", width = name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::recognise;

    fn says(text: &str) -> String {
        let parts = recognise("x", text);
        assert!(parts.iter().any(|part| part.kind == Kind::Summary), "{text}: {parts:?}");
        parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn times_that_a_query_divided_are_read_by_its_text() {
        for (query, title) in [
            ("SUM_TIMER_WAIT/1e12 s", "s"),
            ("round(s.sum_timer_wait/1000000000000, 2) AS `spent`", "spent"),
            ("SUM_TIMER_WAIT / POWER(10, 12) AS t", "t"),
            ("SUM_TIMER_WAIT/1000/1000/1000/1000 in_all", "in_all"),
            ("SUM_TIMER_WAIT/1e12", "SUM_TIMER_WAIT/1e12"),
        ] {
            let text = format!(
                "mysql> select DIGEST_TEXT q, COUNT_STAR,\n    -> {query}\n    -> from performance_schema.events_statements_summary_by_digest s \
                 order by 3 desc limit 2;\n| q | COUNT_STAR | {title} |\n| SELECT * FROM `parcel` WHERE `state` = ? | 500 | 90.0 |\n\
                 | COMMIT | 100 | 10.0 |\n"
            );
            let said = says(&text);
            assert!(
                said.contains("90 % of the time") && said.contains("500 times, 180 ms each"),
                "{query}: {said}"
            );
        }
    }

    #[test]
    fn rows_below_each_other_keep_their_place() {
        let text = "SELECT EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT/1e9 AS ms FROM performance_schema.events_waits_summary_global_by_event_name\\G\n\
                    *************************** 1. row ***************************\nEVENT_NAME: wait/io/file/innodb/innodb_log_file\n\
                    COUNT_STAR: 1000\n        ms: 30000\n\
                    *************************** 2. row ***************************\nEVENT_NAME: wait/io/file/sql/binlog\n\
                    COUNT_STAR: 900\n        ms: 10000\n";
        let said = says(text);
        assert!(said.contains("innodb_log_file 75 %") && said.contains("of 40 s in all"), "{said}");
    }

    #[test]
    fn what_is_computed_otherwise_keeps_its_name() {
        for (text, column) in [
            ("SUM_TIMER_WAIT/COUNT_STAR AS each", None),
            ("SUM_TIMER_WAIT/3.6e15 AS h", None),
            ("sys.format_time(SUM_TIMER_WAIT) t", Some("sum_timer_wait")),
            ("LEFT(DIGEST_TEXT, 60) AS q", Some("digest_text")),
            ("COUNT_STAR", None),
        ] {
            assert_eq!(item(text).column.as_deref(), column, "{text}");
        }
        let other = "SELECT id AS s, name FROM shop.orders;\n| s | name |\n| 7 | a |\n".to_owned();
        let lines: Vec<String> = other.lines().map(str::to_owned).collect();
        assert_eq!(with_names(lines.clone()), lines);
    }
}
