//! phpMyAdmin's pages of a server's status and variables, as the lists that they were made from.
//!
//! ```text
//! Begin Threads Variable       Value   Description
//! Threads_running      1       The number of threads that are not sleeping.
//! Key_blocks_unused    14 k    The number of unused blocks in the key cache. You can use this value to determine ...
//!
//! Variable     Session value / Global value
//! innodb buffer pool size      8,388,608
//! (Global value)       33,554,432
//! ```
//!
//! Tabs part the cells, with blanks around them. Later versions write the names of the status with blanks, too. Large numbers of the
//! status are rounded to thousands (`14 k`), which for a counter is exact enough.

use std::borrow::Cow;

use crate::named;
use crate::rows::{header_of, is_name};

/// Rows with a description that show a page whose head was not copied: fewer may be anything.
const FEW: usize = 3;
/// Rows of a page that are read: a server has some two thousand names.
const MOST: usize = 10_000;

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Status,
    Variables,
}

/// The text, with such pages as lists of names and values; one without a page is as it was.
pub(crate) fn as_lists(text: &str) -> Cow<'_, str> {
    let has_few =
        |is_one: fn(&str) -> bool| text.lines().filter(|line| is_one(line)).take(FEW).count() == FEW;
    let has_head = || text.lines().any(|line| head(line).is_some());
    if !(has_few(is_described) || has_head() && has_few(is_of_server)) {
        return Cow::Borrowed(text);
    }
    let mut status: Vec<(String, String)> = Vec::new();
    let mut variables: Vec<(String, String)> = Vec::new();
    let mut others = String::with_capacity(text.len());
    let mut place = None;
    let mut now = None;
    for line in text.lines() {
        if let Some(page) = head(line) {
            now = Some(page);
            place.get_or_insert(others.len());
            continue;
        }
        if header_of(line).is_some() {
            now = None;
        }
        let page = now.or_else(|| is_described(line).then_some(Page::Status));
        let list = match page {
            Some(Page::Status) => &mut status,
            Some(Page::Variables) => &mut variables,
            None => {
                push(&mut others, line);
                continue;
            }
        };
        if list.len() >= MOST || !take(line, list) {
            push(&mut others, line);
            continue;
        }
        place.get_or_insert(others.len());
    }
    let mut lists = String::new();
    for list in [status, variables].into_iter().filter(|list| !list.is_empty()) {
        push(&mut lists, "Variable_name\tValue");
        list.iter().for_each(|(name, value)| push(&mut lists, &format!("{name}\t{value}")));
    }
    if lists.is_empty() {
        return Cow::Borrowed(text);
    }
    others.insert_str(place.unwrap_or(0), &lists);
    Cow::Owned(others)
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// The cells of a row, of which the first is a name.
fn cells(line: &str) -> Vec<&str> {
    line.split('\t').map(str::trim).collect()
}

/// The page that has these names of columns.
fn head(line: &str) -> Option<Page> {
    if !line.contains("Variable") {
        return None;
    }
    match cells(line)[..] {
        [name, "Value", "Description"] if name.ends_with("Variable") => Some(Page::Status),
        ["Variable", value] if value.starts_with("Session value") => Some(Page::Variables),
        _ => None,
    }
}

/// True for a row with the name of a variable.
fn is_of_server(line: &str) -> bool {
    let [name, _, ..] = cells(line)[..] else { return false };
    let name = name.replace(' ', "_");
    is_name(&name) && named::is_known(&name)
}

/// True for a row of the status with a sentence about the variable behind its value.
fn is_described(line: &str) -> bool {
    if line.matches('\t').count() != 2 {
        return false;
    }
    let [_, value, sentence] = cells(line)[..] else { return false };
    is_of_server(line)
        && value.starts_with(|c: char| c.is_ascii_digit())
        && sentence.contains(' ')
        && sentence.ends_with(['.', ')'])
}

/// Takes a row of a page; false for a line that is none.
fn take(line: &str, list: &mut Vec<(String, String)>) -> bool {
    let cells = cells(line);
    let [name, value, ..] = cells[..] else { return false };
    if name == "(Global value)" {
        // The row above it has the session's.
        return list.last_mut().map(|(_, above)| *above = plain(value)).is_some();
    }
    // What it reckons itself has a name of its own: `Key_buffer_fraction_%`.
    if name.ends_with("_%") {
        return true;
    }
    let name = name.replace(' ', "_");
    let is_row = is_name(&name);
    // A page's size that was rounded is another one.
    if is_row && !(name.eq_ignore_ascii_case("innodb_page_size") && value.contains(' ')) {
        list.push((name, plain(value)));
    }
    is_row
}

/// `8,388,608`, `14 k`, `17 M` in digits; any other value as it is.
fn plain(value: &str) -> String {
    let (number, scale) = match value.rsplit_once([' ', '\u{a0}']) {
        Some((number, "k")) => (number, 1e3),
        Some((number, "M")) => (number, 1e6),
        Some((number, "G")) => (number, 1e9),
        Some((number, "T")) => (number, 1e12),
        _ => (value, 1.0),
    };
    let mut groups = number.split(',');
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let is_first = groups.next().is_some_and(|first| {
        (1..=3).contains(&first.split('.').next().unwrap_or_default().len())
            && first.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    });
    let is_grouped = is_first && groups.all(|group| group.len() == 3 && is_digits(group));
    let digits = number.replace(',', "");
    match digits.parse::<f64>() {
        Ok(_) if is_grouped && scale == 1.0 => digits,
        Ok(number) if is_grouped => format!("{:.0}", number * scale),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{recognise, window};

    const THREADS: &str = "Threads_cached \t0 \tThe number of threads in the cache.\n\
                           Threads_connected \t1,204 \tThe number of connections.\n\
                           Threads_running \t7 \tThe number of threads that are not sleeping.\n";

    #[test]
    fn the_pages_of_the_status_and_of_the_variables_are_lists() {
        let page = format!(
            "Begin Threads Variable \tValue \tDescription\nShow processes Documentation\n{THREADS}\
             Threads_cache_hitrate_% \t95.65 % \t\nBegin Handler Variable \tValue \tDescription\n\
             Handler_read_rnd_next \t17 M \tThe number of requests to read the next row.\nSsl_cipher \t\t\n\n\
             Server variables and settings\nVariable \tSession value / Global value\ndatadir \t/d/\nhostname \tdb7\n\
             innodb buffer pool size \t8,388,608\n(Global value) \t33,554,432\nsql mode \tANSI_QUOTES,NO_ZERO_DATE\n"
        );
        let parts = recognise("x", &page);
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, [Kind::GlobalStatus, Kind::GlobalVariables], "{parts:?}");
        let window = window(&parts);
        assert_eq!(window.status("Threads_running"), Some(7.0));
        assert_eq!(window.status("Threads_connected"), Some(1204.0));
        assert_eq!(window.status("Handler_read_rnd_next"), Some(17e6));
        assert_eq!(window.variable("innodb_buffer_pool_size"), Some("33554432"));
        assert_eq!(window.variable("sql_mode"), Some("ANSI_QUOTES,NO_ZERO_DATE"));
    }

    #[test]
    fn a_part_of_the_page_is_known_by_its_descriptions() {
        for text in [THREADS.to_owned(), THREADS.replace('_', " ")] {
            let window = window(&recognise("x", &text));
            assert_eq!(window.status("Threads_connected"), Some(1204.0), "{text}");
        }
        for text in [
            "Threads_running \t7 \tThe number of threads.\n",
            "a\tb\tc d.\ne\tf\tg h.\ni\tj\tk l.\n",
            "Variable\tValue\tDescription\nMYSQL_USER\tapp\tThe user.\nMYSQL_PASSWORD\tx\tThe password.\nMYSQL_PORT\t7\tA port.\n",
        ] {
            assert!(matches!(as_lists(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn numbers_are_in_digits_and_words_are_as_they_were() {
        for (value, wanted) in [
            ("1,536", "1536"),
            ("14 k", "14000"),
            ("3.2 M", "3200000"),
            ("16,24", "16,24"),
            ("ON", "ON"),
            ("1,2,3", "1,2,3"),
            ("18446744073709551615", "18446744073709551615"),
            ("", ""),
            ("95.65 %", "95.65 %"),
        ] {
            assert_eq!(plain(value), wanted);
        }
    }
}
